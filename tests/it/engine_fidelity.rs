//! `step` against `layer` through the whole engine, over random deployments.

use std::sync::Arc;

use kvplan::deploy::Fidelity;
use kvplan::error::Cause;
use kvplan::hardware::Hardware;
use kvplan::metrics::Outcome;
use kvplan::plan::simulate;
use kvplan::scenario::Scenario;
use proptest::prelude::*;

use crate::engine_support::try_scenario;
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

/// Both directions of the link, and host memory behind them, do not notice each other.
fn apart(h: &mut Hardware) {
    h.link.duplex.value = 1.0;
    h.host.ddr_read = h.host.ddr_read.scaled(100.0);
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
        let contended = |h: &mut Hardware| {
            h.link.duplex.value = duplex;
            h.link.d2h = h.link.d2h.scaled(slow);
        };
        let both = (by(Fidelity::Step, &s, contended), by(Fidelity::Layer, &s, contended));
        if let (Some(step), Some(layer)) = both {
            let off = apart_by(&step, &layer);
            std::io::Write::write_all(&mut std::io::stderr(), format!("OFF {off:e}\n").as_bytes()).unwrap();
            prop_assert!(off <= 0.02, "{} off: {:?} {:?}", off, step.throughput, layer.throughput);
        }
    }
}
