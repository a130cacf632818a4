//! Sets of traces: patterns, and means with intervals over them.

use std::path::PathBuf;

use kvplan::plan::simulate;
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::stats;
use kvplan::trace::set::expand;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// The shipped traces by pattern, in the order of their paths; a plain path and a file with brackets stay as they are.
#[test]
fn patterns_expand_in_order() {
    let shipped = expand(&texts(&["traces/smol_?_t9_s[0-9].kvt"])).unwrap();
    let names = ["smol_1_t9_s5", "smol_2_t9_s5", "smol_3_t9_s5"];
    assert_eq!(
        shipped,
        names.map(|n| PathBuf::from(format!("traces/{n}.kvt")))
    );
    assert_eq!(
        expand(&texts(&["no/such/file", "smol_1_t9_s5"]))
            .unwrap()
            .len(),
        2
    );
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a[1].kvt");
    std::fs::write(&odd, "").unwrap();
    assert_eq!(expand(&texts(&[odd.to_str().unwrap()])).unwrap(), [odd]);
}

#[test]
fn patterns_that_find_nothing_exit_2() {
    for text in ["traces/*.nothing", "traces/[", "traces/***", "no_folder/*"] {
        assert_eq!(
            expand(&texts(&[text])).unwrap_err().exit_code(),
            2,
            "{text}"
        );
    }
}

fn asked(traces: &[&str]) -> Settings {
    let mut settings = Settings::defaults(Verb::Simulate);
    let pairs = [
        ("prompt", "128"),
        ("output", "400"),
        ("model", "qwen2.5-7b"),
        ("hardware", "h100-sxm"),
        ("batch", "2"),
        ("policy", "four-tier:hbm=0.3,evict=0.1,semantics=cumulative"),
    ];
    for (name, text) in pairs {
        settings.set(name, &texts(&[text]), Origin::Flag).unwrap();
    }
    settings.set("trace", &texts(traces), Origin::Flag).unwrap();
    settings
}

/// The mean over a set is the mean of its members, its interval holds it and lies within them, and n is shown; a single
/// trace has neither.
#[test]
fn a_set_has_means_with_intervals() {
    let outcome = |traces: &[&str]| simulate(&resolve::scenario(&asked(traces)).unwrap()).unwrap();
    let set = outcome(&["traces/*.kvt"]);
    let names = [
        "traces/smol_1_t9_s5.kvt",
        "traces/smol_2_t9_s5.kvt",
        "smol_1_t9_s5",
    ];
    let alone: Vec<_> = names[..2].iter().map(|n| outcome(&[n])).collect();
    assert_eq!((set.trace.n, alone[0].trace.n), (Some(3), None));
    assert_eq!(
        (
            alone[0].tiers.t1.mass_low,
            alone[0].quality.destroyed_mass_mean_high
        ),
        (None, None)
    );
    assert!(
        set.notes.iter().any(|n| n.contains("3 traces")),
        "{:?}",
        set.notes
    );
    let (t1, t3) = (&set.tiers.t1, &set.tiers.t3);
    for tier in [t1, t3] {
        let (low, mean, high) = (
            tier.mass_low.unwrap(),
            tier.mass_mean.unwrap(),
            tier.mass_high.unwrap(),
        );
        assert!(
            0.0 < low && low < mean && mean < high && high < 0.3,
            "{low} {mean} {high}"
        );
    }
    let quality = &set.quality;
    assert!(quality.destroyed_mass_mean_low < quality.destroyed_mass_mean);
    assert!(quality.destroyed_mass_mean < quality.destroyed_mass_mean_high);
    let pair = outcome(&names[..2]);
    let each: Vec<f64> = alone
        .iter()
        .map(|o| o.tiers.t1.mass_mean.unwrap())
        .collect();
    assert!((pair.tiers.t1.mass_mean.unwrap() - stats::mean(each)).abs() < 1e-12);
    // A trace of the binary goes by its name.
    assert_eq!(outcome(&names[2..]).tiers, alone[0].tiers);
}

/// Traces of several prompt lengths are refused with a way out, and the way out works, in a sweep as well.
#[test]
fn prompts_that_differ_need_one_to_be_named() {
    let words = ["traces/words/*.kvt"];
    let e = resolve::scenario(&asked_open(&words)).unwrap_err();
    assert!(e.help.unwrap().contains("--prompt N"));
    let mut settings = asked_open(&words);
    settings
        .set("prompt", &texts(&["100"]), Origin::Flag)
        .unwrap();
    let scenario = resolve::scenario(&settings).unwrap();
    assert_eq!((scenario.prompt, scenario.output), (100, 137));
    let swept = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args([
            "sweep",
            "--model",
            "llama-3.1-8b",
            "--hardware",
            "rtx-4090",
            "--trace",
        ])
        .args([words[0], "--prompt", "100", "--vary", "batch=1,2"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        swept.status.success(),
        "{}",
        String::from_utf8_lossy(&swept.stderr)
    );
}

/// `simulate` of these traces, nothing else said.
fn asked_open(traces: &[&str]) -> Settings {
    let mut settings = Settings::defaults(Verb::Simulate);
    settings.set("trace", &texts(traces), Origin::Flag).unwrap();
    settings
}
