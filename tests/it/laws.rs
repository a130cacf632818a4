//! The laws of the simulator over random deployments, under audit.
//!
//! What the laws say exactly:
//! * infinite link: streaming costs what everything in HBM costs and the T1 bytes once more (T1 is written, then read;
//!   a full cache reads it once). With a buffer for all of T1 (`staged`) the two are equal to the picosecond.
//! * more HBM never slows `stream` and `staged`. It may slow `host-attention`: a layer takes as long as the slower of GPU
//!   and host, so that past the balance of the two a token moved up makes the slower one slower. That is the machine.

use std::sync::Arc;

use kvplan::deploy::T1Mode;
use kvplan::engine::audit::Audit;
use kvplan::engine::{Burst, Stepper};
use kvplan::error::Cause;
use kvplan::hardware::{Duration, Hardware, Source, Value};
use kvplan::memory::Held;
use kvplan::metrics::Outcome;
use kvplan::plan::{plan, simulate};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::service::transfer;
use kvplan::units::Ps;
use proptest::prelude::*;
use proptest::sample::select;

use crate::engine_support::{Watch, World, job, scenario, try_scenario};

const MODELS: &[&str] = &[
    "llama-3.1-8b",
    "qwen2.5-7b",
    "gemma-2-27b",
    "mistral-7b-v0.1",
    "gpt-oss-20b",
    "mixtral-8x7b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "smollm2-135m",
];
const CARDS: &[&str] = &[
    "h100-sxm", "gh200", "b200-sxm", "rtx-5080", "mi300x", "h200-sxm",
];
const RUNTIMES: &[&str] = &["vllm", "ideal", "hf-eager-int8", "llama.cpp"];
const POLICIES: &[&str] = &[
    "full",
    "four-tier:hbm=fit",
    "four-tier:hbm=0.3,window=8,interval=16",
    "four-tier:hbm=0,window=1,interval=1,sinks=0",
    "four-tier:hbm=0.5,evict=0.1,semantics=per-interval,window=16,interval=16",
    "four-tier:hbm=0.5,evict=1,semantics=cumulative,window=4,interval=8",
    "four-tier:hbm=0.2,t2=0.4,window=8,interval=32",
    "four-tier:hbm=0.4,protect=sinks,preset=prototype,interval=8",
    "streaming-llm:window=40",
    "oracle:hbm=0.5,interval=16",
];

/// Flags of a random deployment; some contradict each other and are refused.
pub(crate) fn flags() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let machine = (
        select(MODELS),
        select(CARDS),
        select(vec![1u32, 2, 8]),
        select(RUNTIMES),
    );
    let load = (1u32..12, 1u32..300, 1u32..300, select(POLICIES));
    let tier = (
        select(vec!["stream", "staged", "staged:40MB", "host-attention"]),
        select(vec!["serial", "layer"]),
        select(vec![1u32, 2, 3, 12]),
        select(vec!["through", "at-demotion"]),
    );
    let rest = (
        select(vec!["layer", "token"]),
        select(vec!["retier", "none"]),
        select(vec!["lockstep", "staggered"]),
        select(vec!["seeded", "lockstep"]),
        select(vec!["fp16", "fp8", "q4_0"]),
        select(vec!["0.95", "0.3"]),
        select(vec!["step", "layer"]),
        (0u32..99, select(vec!["", "", "", "0.2", "1", "1GiB"])),
    );
    (machine, load, tier, rest).prop_map(|(m, l, t, r)| {
        let mut flags = vec![
            ("trace", "none".to_string()),
            ("model", m.0.into()),
            ("hardware", m.1.into()),
            ("gpus", m.2.to_string()),
            ("runtime", m.3.into()),
            ("weights", "int8".into()),
            ("batch", l.0.to_string()),
            ("prompt", l.1.to_string()),
            ("output", l.2.to_string()),
            ("policy", l.3.into()),
            ("occupancy", r.2.into()),
            ("phase", r.3.into()),
            ("kv", r.4.into()),
            ("memory-fraction", r.5.into()),
            ("fidelity", r.6.into()),
            ("seed", r.7.0.to_string()),
        ];
        if !r.7.1.is_empty() && (l.3 == "full" || t.0 != "host-attention") {
            flags.push(("weights-in-ddr", r.7.1.into()));
        }
        if l.3 != "full" {
            flags.extend([
                ("t1", t.0.to_string()),
                ("write-back", t.3.into()),
                ("layout", r.0.into()),
                ("compact", r.1.into()),
                ("overlap", t.1.into()),
            ]);
            if t.0 != "host-attention" && t.1 != "serial" {
                flags.push(("depth", t.2.to_string()));
            }
        }
        flags
    })
}

/// Simulates under audit; none where the flags are refused.
fn told(flags: &[(&'static str, String)]) -> Option<Outcome> {
    let refused = |e: kvplan::error::Error| {
        assert_eq!(e.cause, Cause::Usage, "{flags:?}: {e:?}");
    };
    let s = try_scenario(flags).map_err(refused).ok()?;
    simulate(&s).map_err(refused).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]
    #[test]
    fn audited_runs_break_no_law(flags in flags()) {
        let Some(out) = told(&flags) else { return Ok(()) };
        let m = &out.memory;
        prop_assert_eq!(m.hbm_peak_bytes, m.weights_bytes + m.activation_bytes + m.reserve_bytes + m.kv_t0_bytes + m.staging_bytes);
        prop_assert_eq!(out.fits, out.shortfall_bytes == 0 && m.ddr_peak_bytes <= m.ddr_capacity_bytes);
        prop_assert_eq!(out.engine.steps, u64::from(out.output_tokens), "a static or staggered batch makes batch x output tokens");
        let t = &out.tiers;
        let live = t.t0.tokens_end + t.t1.tokens_end + t.t2.tokens_end + t.t3.tokens_end;
        let all = f64::from(out.prompt_tokens + out.output_tokens);
        prop_assert!((live - all).abs() < 1e-6 * all, "{} of {}", live, all);
        if let Some(rate) = out.throughput.output_tokens_per_s {
            prop_assert!(rate.is_finite() && rate > 0.0);
            prop_assert!(out.traffic.h2d_busy_share <= 1.0 + 1e-9);
        }
    }

    #[test]
    fn two_runs_are_equal_to_the_byte(flags in flags()) {
        let json = |o: Option<Outcome>| o.map(|o| serde_json::to_string(&o).unwrap());
        prop_assert_eq!(json(told(&flags)), json(told(&flags)));
    }
}

/// The makespan of a static batch of four on this machine, under audit.
fn makespan(s: &Scenario, policy: &str, change: impl FnOnce(&mut Hardware)) -> Ps {
    let mut d = s.deployment.clone();
    change(Arc::make_mut(&mut d.hardware));
    let w = World::of(&d);
    let jobs = vec![job(policy, s.prompt, s.output); 4];
    w.run(jobs, 4, false, &mut Audit::new(&w.prepared))
        .unwrap()
        .makespan
}

const SPILLS: &str = "four-tier:hbm=0.3,window=8,interval=16";

fn static_batch(model: &str, t1: &str, overlap: &str, write_back: &str) -> Scenario {
    scenario(&format!(
        "model {model} hardware h100-sxm weights int8 prompt 200 output 300 t1 {t1} overlap {overlap} write-back {write_back}"
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn more_bandwidth_never_slows_a_static_batch(model in select(MODELS), t1 in select(vec!["stream", "staged:9MB", "host-attention"]),
        overlap in select(vec!["serial", "layer"]), back in select(vec!["through", "at-demotion"]), which in 0usize..4, start in 0.01f64..1.0, factor in 1.05f64..40.0) {
        let s = static_batch(model, t1, overlap, back);
        let at = |x: f64| makespan(&s, SPILLS, |h| match which {
            0 => h.link.h2d = h.link.h2d.scaled(x),
            1 => h.link.d2h = h.link.d2h.scaled(x),
            2 => h.host.ddr_read = h.host.ddr_read.scaled(x),
            _ => h.gpu.hbm_bandwidth = h.gpu.hbm_bandwidth.scaled(x),
        });
        prop_assert!(at(start * factor) <= at(start));
    }

    #[test]
    fn more_hbm_never_slows_streaming(model in select(vec!["llama-3.1-8b", "gemma-2-27b", "gpt-oss-20b", "deepseek-r1-distill-qwen-14b"]), t1 in select(vec!["stream", "staged"]), low in 0.25f64..0.9, more in 0.01f64..0.3) {
        let run = |share: f64| {
            let mut s = scenario(&format!("model {model} hardware h100-sxm weights int8 batch 16 prompt 200 output 1200 t1 {t1} policy four-tier:hbm=fit,window=32"));
            let w = World::of(&s.deployment);
            let fixed = (w.ledger.weights + w.ledger.activation + w.ledger.reserve).as_f64();
            let kv = 16.0 * w.ledger.sequence_bytes(1400.0);
            s.deployment.memory_fraction = (fixed + share * kv) / s.deployment.hardware.gpu.memory.get();
            simulate(&s).unwrap().throughput.makespan_s
        };
        if let (Some(small), Some(large)) = (run(low), run(low + more)) {
            prop_assert!(large <= small, "{} then {}", small, large);
        }
    }
}

/// A link and host memory without any cost.
fn infinite(h: &mut Hardware) {
    let none = || Value::<Duration>::new(0.0, 0.0, 0.0, Source::Assumed, "none");
    h.link.h2d = h.link.h2d.scaled(f64::INFINITY);
    h.link.d2h = h.link.d2h.scaled(f64::INFINITY);
    h.host.ddr_read = h.host.ddr_read.scaled(f64::INFINITY);
    (h.link.call, h.link.descriptor) = (none(), none());
    h.link.batched_piece = Some(none());
}

#[test]
fn an_infinite_link_is_everything_in_hbm() {
    for overlap in ["serial", "layer"] {
        let line = format!(
            "model llama-3.1-8b hardware h100-sxm weights int8 prompt 200 output 300 compact none overlap {overlap} t1"
        );
        let full = makespan(&scenario(&format!("{line} staged")), "full", infinite);
        assert_eq!(
            makespan(&scenario(&format!("{line} staged")), SPILLS, infinite),
            full
        );
        let s = scenario(&format!("{line} stream"));
        let streamed = makespan(&s, SPILLS, infinite);
        // T1 once more through HBM, at the rate of attention.
        let timeline = job(SPILLS, 200, 300).timeline;
        let w = World::of(&s.deployment);
        let class = &w.prepared.classes[0];
        let of = |tokens: f64| w.prepared.attention(class, 4.0, 4.0 * 4096.0 * tokens);
        let more = |t: u32| {
            let [t0, t1, ..] = timeline.tokens_at(t);
            of(t0 + 2.0 * t1) - of(t0 + t1)
        };
        let extra = 32.0 * (0..300).map(more).sum::<f64>();
        let got = (streamed - full).secs();
        assert!((got / extra - 1.0).abs() < 1e-4, "{got} {extra}");
    }
}

#[test]
fn no_t1_is_the_full_cache() {
    // A budget of the whole chain: nothing leaves HBM, whatever the mode.
    for t1 in ["stream", "staged", "host-attention"] {
        let s = static_batch("gpt-oss-20b", t1, "layer", "through");
        let full = makespan(&s, "full", |_| ());
        assert_eq!(
            makespan(&s, "four-tier:hbm=500tok,interval=16", |_| ()),
            full
        );
        assert!(makespan(&s, SPILLS, |_| ()) > full);
    }
}

#[test]
fn a_link_of_zero_bandwidth_never_finishes() {
    for t1 in ["stream", "staged:1MB", "host-attention"] {
        for overlap in ["serial", "layer"] {
            let mut s = static_batch("llama-3.1-8b", t1, overlap, "through");
            s.policy = SPILLS.into();
            let h = Arc::make_mut(&mut s.deployment.hardware);
            h.link.h2d = h.link.h2d.scaled(0.0);
            let out = simulate(&s).unwrap();
            assert!(out.fits);
            let rate = out.throughput.output_tokens_per_s.unwrap();
            assert!(rate.abs() < 1e-30 && out.throughput.makespan_s.is_none());
            assert!(makespan(&s, SPILLS, |_| ()).is_never());
            assert!(!makespan(&s, "full", |_| ()).is_never());
        }
    }
}

#[test]
fn a_step_is_the_sum_of_its_parts() {
    for (t1, overlap) in [
        ("stream", "serial"),
        ("host-attention", "serial"),
        ("stream", "layer"),
    ] {
        let mut s = static_batch("llama-3.1-8b", t1, overlap, "at-demotion");
        // 11 GB/s: 92 MB of T1 take 8 ms, the rest of the step 4 ms.
        let h = Arc::make_mut(&mut s.deployment.hardware);
        h.link.h2d = h.link.h2d.scaled(0.2);
        let w = World::of(&s.deployment);
        let mut watch = Watch::default();
        let run = w
            .run(vec![job(SPILLS, 200, 300); 4], 4, false, &mut watch)
            .unwrap();
        for t in &watch.times {
            assert_eq!(t.end, t.begin + t.gap + t.retier + t.compute + t.exposed);
        }
        let most = watch.instants.iter().map(|i| i.total()).fold(0.0, f64::max);
        assert!((run.peak.hbm.total() - most).abs() < 1e-6);
        // Serial streaming waits for every transfer; overlapped for some.
        let (busy, exposed) = (run.sums.h2d_busy, run.sums.exposed);
        match (t1, overlap) {
            ("stream", "serial") => assert!(exposed >= busy),
            ("stream", _) => assert!(exposed < busy && exposed > Ps::ZERO),
            // What comes back from the host is waited for inside its attention, not again.
            _ => assert!(exposed < run.sums.exposed_host),
        }
    }
}

#[test]
fn destroyed_tokens_ignore_hbm_and_grow_with_evict() {
    let destroyed = |hbm: f64, evict: f64| {
        let s = scenario(&format!(
            "model llama-3.1-8b batch 2 prompt 100 output 900 policy four-tier:hbm={hbm},evict={evict},semantics=cumulative,window=32"
        ));
        simulate(&s).unwrap().tiers.t3.tokens_end
    };
    let mut before = 0.0;
    for evict in [0.01, 0.05, 0.2, 0.5, 1.0] {
        let lost = destroyed(0.3, evict);
        assert!(lost > before, "{evict}");
        for hbm in [0.0, 0.5, 0.7, 1.0] {
            assert!((destroyed(hbm, evict) - lost).abs() < 1e-9, "{hbm} {evict}");
        }
        before = lost;
    }
}

#[test]
fn streamed_bytes_cost_the_same_as_kv_or_as_weights() {
    // A layer of Llama-3.1-8B in bf16 has 218,103,808 weights = 436,207,616 B, as much as the KV of 106,496 tokens at
    // 4,096 B. Streamed as KV it keeps the link for as long as a copy of those weights in as many pieces would.
    let d = scenario("model llama-3.1-8b hardware h100-sxm weights bf16").deployment;
    let w = World::of(&d);
    let model = &d.model;
    let weights: u64 = model.layers[0]
        .matrices(model.hidden)
        .iter()
        .map(|m| 2 * m.elements())
        .sum();
    assert_eq!(weights, 436_207_616);
    let held = Held {
        sequences: 8.0,
        tiers: [8000.0, 106_496.0, 0.0],
        windowed: vec![0.0],
        ..Held::default()
    };
    let mut stepper = Stepper::new(&w.prepared);
    let step = stepper.step(Ps::ZERO, 8, &held, &Burst::default(), 0.0);
    let copy = transfer::copy(&d.hardware.link, w.prepared.h2d_rate, weights as f64, 16.0);
    assert_eq!(step.h2d_busy, Ps::from_secs(copy) * 32);
    assert!((step.h2d_bytes - 32.0 * weights as f64).abs() < 1.0);
    assert!(d.t1 == T1Mode::Stream);
}

#[test]
fn any_number_of_threads_plans_the_same_bytes() {
    let mut settings = Settings::defaults(Verb::Plan);
    for (name, text) in [
        ("model", "llama-3.1-8b"),
        ("hardware", "h100-sxm,rtx-5080"),
        ("batch", "40"),
        ("output", "3000"),
    ] {
        settings
            .set(name, &[text.to_string()], Origin::Flag)
            .unwrap();
    }
    let question = resolve::question(&settings).unwrap();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        serde_json::to_string(&pool.install(|| plan(&question)).unwrap()).unwrap()
    };
    let one = with(1);
    assert_eq!(one, with(5));
    assert_eq!(one, with(2));
}

#[test]
fn staggered_requests_are_stratified_and_make_batch_times_output() {
    let requests = kvplan::workload::staggered(10, 7, 1000, 3);
    for (i, r) in (0u32..).zip(&requests) {
        assert!(
            (100 * i..100 * (i + 1)).contains(&r.generated),
            "{i}: {}",
            r.generated
        );
    }
    let s = scenario("model llama-3.1-8b batch 10 prompt 7 output 1000 occupancy staggered");
    let out = simulate(&s).unwrap();
    let t = &out.throughput;
    let decode = t.makespan_s.unwrap() - t.prefill_s.unwrap();
    let tokens = t.output_tokens_per_s.unwrap() * decode;
    assert!((tokens - 10_000.0).abs() < 0.01, "{tokens}");
}
