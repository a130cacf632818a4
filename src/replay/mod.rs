//! Runs policies over recorded rows and keeps what the engine needs: a timeline.
//!
//! Step `t`: attention over the tiers as they stand (row `t` is measured so), the row is added to the scores, then the
//! policy decides; its moves hold from `t + 1`. A new token is in T0. A row is decoded once for all policies, a score is
//! kept once for all that rank by it, and each policy adds up the row's mass under the bit masks of its tiers.
//!
//! Three ways to a [`Timeline`]: [`run`] replays a trace; [`by_length`] needs none and gives the tokens of each tier
//! exactly, at any length, but neither mass nor moves; [`extended`] puts a trace under a deployment that has another
//! prompt or more steps than were recorded, and says from which step on mass and moves are extrapolated.
//!
//! Teacher-forced: the rows are those of the full cache, so mass on destroyed tokens is a first-order measure. Rival
//! design: run the model under the policy (`eval` does); it needs the model. Weights are shares of one row, unitless.
//! Same rows and policies give the same bits on every CPU (see `simd`).

mod decisions;
mod extend;
mod lanes;
mod length;
pub mod npz;
mod outlook;
mod pass;
mod placement;
pub mod quality;
mod selective;
mod sequence;
mod shape;
mod tail;

pub use decisions::{Decisions, decisions};
pub use extend::{extended, extended_together};
pub use length::by_length;
pub use pass::drive;
pub use quality::Quality;
pub use selective::{selected, selected_by_length};
pub(crate) use sequence::Sequence;

use crate::error::Result;
use crate::policy::{Policy, PolicySpec};
use crate::timeline::Timeline;
use crate::trace::Rows;

/// Replays all rows under each policy, in one pass (one more for an oracle, for per-layer rows and for KV heads).
///
/// # Errors
/// Damage in the rows; usage: a policy that needs more than the trace carries; internal: `hbm` not resolved.
pub fn run(rows: &dyn Rows, policies: &[PolicySpec]) -> Result<Vec<Timeline>> {
    run_first(rows, rows.rows(), policies)
}

/// As [`run`], for the first `limit` rows only.
///
/// # Errors
/// As [`run`].
pub fn run_first(rows: &dyn Rows, limit: u32, policies: &[PolicySpec]) -> Result<Vec<Timeline>> {
    let mut built = build(policies)?;
    drive(rows, limit, &mut built)
}

fn build(policies: &[PolicySpec]) -> Result<Vec<Box<dyn Policy>>> {
    policies.iter().map(PolicySpec::build).collect()
}
