//! What moving one cause alone does to a way's speed, the widest first.

use rayon::prelude::*;

use super::closed::Closed;
use super::scaled;
use crate::hardware::value::Z95;
use crate::plan::answer::Swing;
use crate::uncertain::Unknown;

/// A swing below this share of the figure is none.
const NONE: f64 = 1e-4;

/// The causes that move the speed of a way, each from its p5 to its p95 with all others at their best estimates. `said` is the
/// speed of the plan.
pub(in crate::plan) fn tornado(unknown: &Unknown, way: &Closed, said: Option<f64>) -> Vec<Swing> {
    let base = way.figures(unknown.base()).speed;
    let swing = |(i, cause): (usize, &crate::uncertain::Cause)| {
        let at = |z: f64| scaled(said, base, way.figures(&unknown.moved(i, z)).speed);
        Swing {
            cause: cause.name.into(),
            source: cause.source,
            output_tokens_per_s_at_p5: at(-Z95),
            output_tokens_per_s_at_p95: at(Z95),
        }
    };
    let causes: Vec<_> = unknown.causes().iter().enumerate().collect();
    let mut all: Vec<Swing> = causes.into_par_iter().map(swing).collect();
    let least = NONE * said.unwrap_or(base);
    all.retain(|s| s.width() > least);
    all.sort_by(|a, b| b.width().total_cmp(&a.width()));
    all
}
