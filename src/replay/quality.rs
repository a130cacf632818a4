//! What a placement risks, from the trace alone.
//!
//! Per step the *full-cache* row puts mass `eps` on destroyed tokens. With the survivors renormalised, the error of the
//! attention output is `eps * (o' - v_E)`, `v_E` being the weighted mean of the destroyed values, hence at most
//! `2 * eps * max|v|`. The bound printed in the paper (twice the destroyed weights times their own values) is false for
//! a renormalised output: two tokens of weight 1/2, destroyed value 0, kept value 1, bound 0, error 1/2.
//!
//! Under `selective` the mass on host tokens that were not fetched is left out in the same way (for that step only), so it
//! counts into what is lost, and into the bound.
//!
//! First-order and teacher-forced: hidden states do not drift here. It compares settings of one policy family; it does
//! **not** rank families (on real models `streaming-llm` loses several times the mass of four-tier and diverges less).

use crate::stats::{mean, percentile};
use crate::timeline::Timeline;

/// Distribution of a mass over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean over steps.
    pub mean: f64,
    /// Nearest-rank 99th percentile over steps.
    pub p99: f64,
    /// Worst step.
    pub max: f64,
}

/// Quality of one timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Destroyed tokens over generated tokens, at the end.
    pub destroyed_share: f64,
    /// Mass on destroyed tokens.
    pub destroyed: Spread,
    /// Mass on degraded tokens, wherever they live.
    pub degraded: Spread,
    /// Mass on host tokens that were not fetched (`selective`).
    pub residual: Spread,
    /// Both: mass on what takes no part in attention.
    pub lost: Spread,
    /// Mean of the error bound `2 * eps`, in units of the greatest value norm.
    pub error_bound_mean: f64,
    /// The error bound in the worst step, in the same units.
    pub error_bound_max: f64,
}

impl Quality {
    /// Of a timeline with mass; all masses are 0 for one from lengths alone.
    pub fn of(timeline: &Timeline) -> Self {
        let destroyed = Spread::of(timeline.mass.iter().map(|m| share(m[3], m)));
        let residual = |i: usize| timeline.selective.get(i).map_or(0.0, |f| f.residual_mass);
        let rows = || timeline.mass.iter().enumerate();
        let lost = Spread::of(rows().map(|(i, m)| share(m[3] + residual(i), m)));
        let degraded = timeline.degraded.iter().zip(&timeline.mass);
        Self {
            destroyed_share: timeline.tokens_end()[3] / f64::from(timeline.steps.max(1)),
            destroyed,
            degraded: Spread::of(degraded.map(|(d, m)| share(*d, m))),
            residual: Spread::of(rows().map(|(i, m)| share(residual(i), m))),
            lost,
            error_bound_mean: error_bound(lost.mean),
            error_bound_max: error_bound(lost.max),
        }
    }
}

/// Bound of the output error in units of the greatest value norm, for lost mass `eps` of a row that sums to 1.
pub fn error_bound(eps: f64) -> f64 {
    2.0 * eps
}

/// Part of a row's own sum (rows may miss 1 by binary16's rounding).
fn share(part: f64, mass: &[f64; 4]) -> f64 {
    let sum: f64 = mass.iter().sum();
    if sum > 0.0 { part / sum } else { 0.0 }
}

impl Spread {
    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let mut samples: Vec<f64> = samples.collect();
        Self {
            mean: mean(samples.iter().copied()),
            p99: percentile(&mut samples, 0.99).unwrap_or(0.0),
            max: percentile(&mut samples, 1.0).unwrap_or(0.0),
        }
    }
}
