//! Fitting the laws of kernels, and what cards get that nobody measured.

use std::path::PathBuf;

use kvplan::catalog;
use kvplan::error::Cause;
use kvplan::fit::{FittedLaw, Profiles, fit};
use kvplan::hardware::class::{self, ClassSpread, Fitted};
use kvplan::hardware::kernels::Spread;
use kvplan::validate::answer::Validation;
use kvplan::validate::validate;

#[track_caller]
fn near(got: f64, want: f64, within: f64) {
    assert!((got / want - 1.0).abs() < within, "{got}, wanted {want}");
}

/// A number in 0..1 from a counter: the fractional part of multiples of the golden ratio.
fn scatter(i: usize) -> f64 {
    (i as f64 * 0.618_033_988_75).fract()
}

/// Rows of decode attention on an L4 (300 GB/s, L2 48 MiB), made by a law written out here: 12 us + 1.5 us a doubling beyond 128
/// tokens + 0.02 us a pair, 0.8 of the bandwidth, L2 at three times the peak. Off by up to 4 % either way; one row in ten is
/// three times too slow, as where a library chose another kernel.
fn attention() -> String {
    let mut text =
        "gpu,heads_q_kv_dim_per_rank,tp,kv_dtype,framework,batch,ctx_tokens,latency_us\n"
            .to_string();
    let mut n = 0;
    for batch in [1.0, 2.0, 4.0, 8.0, 16.0, 64.0_f64] {
        for context in [128.0, 512.0, 2048.0, 4096.0, 8192.0, 16_384.0, 65_536.0_f64] {
            for heads in [2.0, 8.0_f64] {
                let bytes = batch * context * heads * 512.0;
                let rate = if bytes <= 48.0 * 1_048_576.0 {
                    900e3
                } else {
                    240e3
                };
                let floor = 12.0 + 1.5 * (1.0 + context / 128.0_f64).log2() + 0.02 * batch * heads;
                let off = 0.96 + 0.08 * scatter(n);
                let slow = if n % 10 == 7 { 3.0 } else { 1.0 };
                let us = (floor + bytes / rate) * off * slow;
                let row = format!("l4,32/{heads}/128,1,bf16,vllm,{batch},{context},{us}\n");
                text.push_str(&row);
                n += 1;
            }
        }
    }
    text
}

fn folder(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), text).unwrap();
    folder
}

fn value(law: &FittedLaw, name: &str) -> f64 {
    let p = law.parameters.iter().find(|p| p.name == name).unwrap();
    assert!(p.low <= p.value && p.value <= p.high, "{p:?}");
    p.value
}

fn fitted(profiles: &Profiles, file: &str) -> Fitted {
    toml::from_str(&profiles.files[file]).unwrap()
}

#[test]
fn a_law_is_found_again_beneath_noise_and_outliers() {
    let folder = folder("my_decode_attn.csv", &attention());
    let profiles = fit(folder.path()).unwrap();
    let [law] = &profiles.fit.laws[..] else {
        panic!("one law");
    };
    assert_eq!(
        (law.hardware.as_str(), law.law.as_str(), law.rows),
        ("l4", "attention", 84)
    );
    near(value(law, "fixed"), 12e-6, 0.1);
    near(value(law, "split"), 1.5e-6, 0.15);
    near(value(law, "share"), 0.8, 0.02);
    near(value(law, "l2"), 3.0, 0.15);
    assert!(
        law.median_abs_rel_error < 0.025,
        "{}",
        law.median_abs_rel_error
    );
    // What is written reads back as it was found, to four digits.
    let card = fitted(&profiles, "l4.toml");
    assert_eq!((card.id.as_str(), card.generation.as_str()), ("l4", "ada"));
    let read = card.attention.unwrap();
    near(read.share.get(), value(law, "share"), 1e-3);
    near(read.fixed.get(), value(law, "fixed"), 1e-3);
    // Nine rows in ten lie within 4 %; p95 is one of those that are three times as slow.
    let [low, high] = read.spread.bulk;
    assert!(low > 0.94 && low < 0.98 && high > 2.5, "{low} {high}");
    // The same rows give the same fit.
    assert_eq!(profiles, fit(folder.path()).unwrap());
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(fit(empty.path()).unwrap_err().cause, Cause::Usage);
    let few = attention().lines().take(12).collect::<Vec<_>>().join(
        "
",
    );
    let e = fit(folder("x_decode_attn.csv", &few).path()).unwrap_err();
    assert_eq!(e.cause, Cause::Usage);
    assert!(e.message.contains("20 rows"), "{}", e.message);
    let broken = attention().replace("l4,32/2/128", "l4,32/2");
    let e = fit(folder("x_decode_attn.csv", &broken).path()).unwrap_err();
    assert_eq!(e.cause, Cause::Data);
}

/// Single rows of an L4 in fp8 in a kernel of their own, three times as slow.
#[test]
fn a_kernel_for_single_rows_is_noticed() {
    let make = |slow: f64| {
        let mut text = "gpu,model,tp,dtype,layer,m_tokens,n,k,latency_us,source_id\n".to_string();
        for i in 1..=12_u16 {
            let n = 2048 * u32::from(i);
            for m in [1.0, 4.0, 16.0, 64.0] {
                let bytes = f64::from(n) * 4096.0;
                let own = if m > 1.5 { 1.0 } else { slow };
                let us =
                    own * (5.0 + bytes / (0.75 * 300e3)) * (0.98 + 0.04 * scatter(usize::from(i)));
                let row = format!("l4,llama-3.1-8b,1,fp8,qkv,{m},{n},4096,{us},x\n");
                text.push_str(&row);
            }
        }
        text
    };
    let law = |slow| {
        let profiles = fit(folder("x_linear_layers.csv", &make(slow)).path()).unwrap();
        fitted(&profiles, "l4.toml").linear_8bit.unwrap()
    };
    assert!(law(1.0).single.is_none());
    let own = law(3.0);
    near(own.single.unwrap().share.get(), 0.25, 0.1);
    near(own.share.get(), 0.75, 0.1);
}

const NONE: ClassSpread = ClassSpread {
    attention: Spread::NONE,
    linear: Spread::NONE,
    experts: [1.0; 2],
    prefill: Spread::NONE,
};

/// A measured card with every law scaled from the H100's.
fn card(id: &str, generation: &str, memory: &str, factor: f64) -> Fitted {
    let k = catalog::hardware("h100-sxm").unwrap().gpu.kernels;
    let mut attention = k.attention.clone();
    attention.fixed = attention.fixed.scaled(factor);
    let mut family = attention.clone();
    family.fixed = family.fixed.scaled(2.0);
    Fitted {
        id: id.into(),
        generation: generation.into(),
        memory_kind: memory.into(),
        attention: Some(attention),
        attention_8bit: None,
        attention_of: [("other".to_string(), family)].into(),
        linear: Some(k.linear),
        linear_8bit: None,
        prefill: Some(k.prefill),
    }
}

#[test]
fn an_unmeasured_card_gets_the_laws_of_the_nearest() {
    let cards = [
        card("a", "hopper", "HBM3", 1.0),
        card("b", "ada", "GDDR6", 2.0),
        card("c", "blackwell", "HBM3e", 4.0),
    ];
    let base = cards[0].attention.as_ref().unwrap().fixed.get();
    let of = |id: &str, generation: &str, memory: &str| {
        class::kernels(id, generation, memory, &cards.each_ref(), &NONE).unwrap()
    };
    let fixed = |id, generation, memory| of(id, generation, memory).attention.fixed.get() / base;
    // Itself; its generation; its kind of memory: the geometric mean of 1 and 4; GDDR of another generation.
    near(fixed("c", "blackwell", "HBM3e"), 4.0, 1e-9);
    near(fixed("x", "ada", "GDDR6X"), 2.0, 1e-9);
    near(fixed("x", "cdna3", "HBM3"), 2.0, 1e-9);
    near(fixed("x", "blackwell-rtx", "GDDR7"), 2.0, 1e-9);
    let x = of("x", "cdna3", "HBM3").attention.fixed;
    assert_eq!(x.source, kvplan::hardware::Source::Assumed);
    assert!(x.reference.contains("a, c"), "{}", x.reference);
    // The range of the cards, a quarter wider.
    near(x.low, base / 1.25, 0.2);
    near(x.high, 4.0 * base * 1.25, 0.2);
    // A family twice as slow elsewhere is twice as slow here.
    let k = of("x", "cdna3", "HBM3");
    near(
        k.attention_of["other"].fixed.get(),
        2.0 * k.attention.fixed.get(),
        1e-9,
    );
    // Formats without measurements follow the next wider ones; 4 bits stream at 0.8 of 8.
    assert_eq!(
        k.attention_8bit.fixed.get().to_bits(),
        k.attention.fixed.get().to_bits()
    );
    near(
        k.linear_4bit.share.get(),
        0.8 * k.linear_8bit.share.get(),
        1e-9,
    );
    assert!(class::kernels("x", "ada", "GDDR6", &[], &NONE).is_none());
}

fn reference() -> Option<PathBuf> {
    let shared = crate::replay_support::shared()?.join("reference");
    shared.is_dir().then_some(shared)
}

#[test]
fn the_committed_laws_are_what_the_command_finds_now() {
    let Some(folder) = reference() else {
        skip!("no ../shared/reference beside the checkout");
    };
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/kernels");
    for (name, text) in fit(&folder).unwrap().files {
        let committed = std::fs::read_to_string(models.join(&name)).unwrap();
        assert!(
            alike(&committed, &text),
            "models/kernels/{name} is stale: kvplan fit ../shared/reference --profiles models/kernels"
        );
    }
}

/// Whether two texts differ by at most 1 % in each figure: another compiler may sum in another order.
fn alike(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let word = |c: char| " \"[],\n".contains(c);
        text.split(word).map(str::to_owned).collect()
    };
    let same = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.01 * a.abs().max(b.abs()),
        _ => a == b,
    };
    let (a, b) = (words(a), words(b));
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

/// Median and p90 of a figure, pooled and the worst by GPU.
fn errors(v: &Validation, file: &str) -> [f64; 4] {
    let f = v.files.iter().find(|f| f.file.ends_with(file)).unwrap();
    let worst = |of: fn(&kvplan::validate::answer::ByGpu) -> Option<f64>| {
        f.by_gpu.iter().filter_map(of).fold(0.0, f64::max)
    };
    [
        f.median_abs_rel_error.unwrap(),
        f.p90_abs_rel_error.unwrap(),
        worst(|g| g.median_abs_rel_error),
        worst(|g| g.p90_abs_rel_error),
    ]
}

#[test]
fn predictions_hold_what_is_promised() {
    let Some(folder) = reference() else {
        skip!("no ../shared/reference beside the checkout");
    };
    let own = validate(&folder, false).unwrap().answer;
    let out = validate(&folder, true).unwrap().answer;
    // Promised: attention and linear layers 8 % and 25 %, steps 4 % and 12 %; from other cards 20 % and 15 %. By GPU one p90
    // of linear layers and one of steps lie over it (L40S and B200: kernels that a library chose otherwise); held to 30 and 13.
    let [median, p90, worst, worst_p90] = errors(&own, "decode_attn.csv");
    assert!(median < 0.08 && p90 < 0.25 && worst < 0.08 && worst_p90 < 0.25);
    let [median, p90, worst, worst_p90] = errors(&own, "linear_layers.csv");
    assert!(median < 0.08 && p90 < 0.25 && worst < 0.08 && worst_p90 < 0.30);
    let [median, p90, worst, worst_p90] = errors(&own, "decode_step_ops.csv");
    assert!(median < 0.04 && p90 < 0.12 && worst < 0.04 && worst_p90 < 0.13);
    assert!(errors(&out, "decode_attn.csv")[0] < 0.20);
    assert!(errors(&out, "linear_layers.csv")[0] < 0.20);
    assert!(errors(&out, "decode_step_ops.csv")[0] < 0.15);
    for file in [
        "decode_attn.csv",
        "linear_layers.csv",
        "decode_step_ops.csv",
    ] {
        let f = own.files.iter().find(|f| f.file.ends_with(file)).unwrap();
        let inside = f.inside_interval_share.unwrap();
        assert!((0.85..0.95).contains(&inside), "{file}: {inside}");
    }
}
