//! `step` against `layer` through the whole engine, over random deployments.

use std::sync::Arc;

use kvplan::deploy::Fidelity;
use kvplan::error::Cause;
use kvplan::hardware::Hardware;
use kvplan::metrics::Outcome;
use kvplan::plan::simulate;
use kvplan::scenario::Scenario;
use proptest::prelude::*;
use proptest::sample::select;

use crate::engine_support::{Watch, World, job, scenario, try_scenario};
use crate::laws::flags;

/// The outcome by `fidelity`, without what names it; none where it is refused.
fn by(fidelity: Fidelity, s: &Scenario, change: impl Fn(&mut Hardware)) -> Option<Outcome> {
    let mut s = s.clone();
    s.deployment.fidelity = fidelity;
    change(Arc::make_mut(&mut s.deployment.hardware));
    let mut out = simulate(&s)
        .map_err(|e| assert_eq!(e.cause, Cause::Usage, "{e:?}"))
        .ok()?;
    out.engine = kvplan::metrics::Engine::default();
    Some(out)
}

/// The directions of the link do not notice each other.
fn apart(h: &mut Hardware) {
    h.link.duplex.value = 1.0;
}

/// How far the second is from the first in tokens/s and makespan.
fn apart_by(a: &Outcome, b: &Outcome) -> f64 {
    let pair = |x: Option<f64>, y: Option<f64>| match (x, y) {
        (Some(x), Some(y)) if x > 0.0 => (y / x - 1.0).abs(),
        (x, y) => f64::from(u8::from(x != y)),
    };
    let (a, b) = (&a.throughput, &b.throughput);
    pair(a.output_tokens_per_s, b.output_tokens_per_s)
        .max(pair(a.makespan_s, b.makespan_s))
        .max(pair(a.tpot_p99_s, b.tpot_p99_s))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn equal_without_contention(flags in flags()) {
        let Ok(s) = try_scenario(&flags) else { return Ok(()) };
        prop_assert_eq!(by(Fidelity::Step, &s, apart), by(Fidelity::Layer, &s, apart));
    }

    #[test]
    fn near_with_contention(flags in flags(), duplex in 0.3f64..1.0, slow in 0.02f64..1.0) {
        let Ok(s) = try_scenario(&flags) else { return Ok(()) };
        near(&s, duplex, slow)?;
    }

    #[test]
    fn near_where_everything_moves(model in select(vec!["llama-3.1-8b", "gemma-2-27b", "qwen3-30b-a3b", "deepseek-v3"]),
        batch in 1u32..9, interval in select(vec![1u32, 4, 16]), depth in select(vec!["1", "2", "5"]),
        t1 in select(vec!["stream", "staged:2MB", "host-attention"]), back in select(vec!["through", "at-demotion"]),
        layout in select(vec!["layer", "token"]), duplex in 0.3f64..1.0, slow in 0.02f64..1.0, fast in 0.5f64..20.0) {
        let depth = if t1 == "host-attention" { String::new() } else { format!("depth {depth}") };
        let mut s = scenario(&format!(
            "model {model} weights int8 hardware h100-sxm gpus 8 batch {batch} prompt 200 output 120 {depth} t1 {t1} write-back {back} layout {layout} policy four-tier:hbm=0.2,window=4,interval={interval}"
        ));
        let h = Arc::make_mut(&mut s.deployment.hardware);
        h.link.h2d = h.link.h2d.scaled(fast);
        h.host.ddr_read = h.host.ddr_read.scaled(fast);
        near(&s, duplex, slow)?;
    }
}

/// Most that the two may differ by where both directions contend. Mostly it is a rounding of the write-back's pieces (1e-9);
/// where requests of several phases write different numbers of pieces, and with them contend by different shares, up to
/// 2.5e-4 was seen.
const BOUND: f64 = 0.02;

fn near(s: &Scenario, duplex: f64, slow: f64) -> Result<(), TestCaseError> {
    let contended = |h: &mut Hardware| {
        h.link.duplex.value = duplex;
        h.link.d2h = h.link.d2h.scaled(slow);
    };
    let both = (
        by(Fidelity::Step, s, contended),
        by(Fidelity::Layer, s, contended),
    );
    if let (Some(step), Some(layer)) = both {
        let off = apart_by(&step, &layer);
        prop_assert!(
            off <= BOUND,
            "{off} off: {:?} {:?}",
            step.throughput,
            layer.throughput
        );
    }
    Ok(())
}

#[test]
fn contention_costs_what_the_write_back_keeps_from_the_link() {
    // Link-bound streaming, all transfers back to back: a write-back of W seconds alone on the way down takes W / s of
    // them at share s, in which W goes up instead of W / s. So a step is W (1 - s) / s longer than without contention.
    for fidelity in [Fidelity::Step, Fidelity::Layer] {
        let mut s = scenario(
            "model llama-3.1-8b weights int8 hardware h100-sxm batch 4 prompt 200 output 300 t1 stream layout token policy four-tier:hbm=0,window=8,interval=16 phase lockstep",
        );
        let h = Arc::make_mut(&mut s.deployment.hardware);
        // 0.55 GB/s up; 131,072 B a token and four tokens a step in 4/16 pieces: 524,288 B / 0.055 GB/s = 9.5 ms down.
        h.link.h2d = h.link.h2d.scaled(0.01);
        h.link.d2h = h.link.d2h.scaled(0.001);
        let last = |share: f64| last_step(&s, fidelity, share);
        let down = 3.5e-6 + 524_288.0 / 0.055e9;
        let more = last(0.5) - last(1.0);
        assert!(
            (more / down - 1.0).abs() < 1e-3,
            "{fidelity:?}: {more} {down}"
        );
        let more = last(0.8) - last(1.0);
        assert!(
            (more / (down / 4.0) - 1.0).abs() < 1e-3,
            "{fidelity:?}: {more}"
        );
    }
}

/// The last step of four sequences at this duplex share (s).
fn last_step(s: &Scenario, fidelity: Fidelity, share: f64) -> f64 {
    let mut deployment = s.deployment.clone();
    deployment.fidelity = fidelity;
    let hardware = Arc::make_mut(&mut deployment.hardware);
    hardware.link.duplex.value = share;
    let (world, mut watch) = (World::of(&deployment), Watch::default());
    let jobs = vec![job(&s.policy, s.prompt, s.output); 4];
    world.run(jobs, 4, false, &mut watch).unwrap();
    let last = watch.times.last().unwrap();
    (last.end - last.begin).secs()
}
