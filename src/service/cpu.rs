//! CPU time between two steps that the GPU waits for: scheduling, inputs, sampling, detokenising.
//!
//! `G = gap + batch * gap per sequence`, by runtime (VALIDATION: `cpu_overheads`). Asynchronous scheduling hides part of
//! it; the runtime's figures are net of that.

use crate::hardware::Runtime;

/// Seconds between steps at `sequences` running.
pub fn step_gap(runtime: &Runtime, sequences: f64) -> f64 {
    runtime.step_gap.get() + sequences * runtime.step_gap_per_sequence.get()
}
