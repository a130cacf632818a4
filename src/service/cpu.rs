//! CPU time between two steps that the GPU waits for: scheduling, inputs, sampling, detokenising.
//!
//! `G = gap + batch * gap per sequence`, by runtime (VALIDATION: `cpu_overheads`). Asynchronous scheduling hides part of
//! it; the runtime's figures are net of that.

use crate::hardware::Runtime;

/// Seconds between steps at `sequences` running.
pub fn step_gap(runtime: &Runtime, sequences: f64) -> f64 {
    runtime.step_gap.get() + sequences * runtime.step_gap_per_sequence.get()
}

/// A part of the CPU time between the steps of an engine that schedules synchronously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Choosing what runs.
    Schedule,
    /// Building and copying the inputs.
    Inputs,
    /// Drawing tokens.
    Sampler,
    /// Appending tokens and freeing what ended.
    Outputs,
}

/// Seconds of a part in an engine of 2024 without asynchronous scheduling (Vidur's CPU tables, Sarathi-Serve on two
/// hosts): `fixed + per sequence * sequences`. With several GPUs each worker is a process, which takes about 1.7 times as
/// long; from four on the sampler waits for the gather of the logits.
pub fn eager(part: Part, gpus: f64, sequences: f64) -> f64 {
    let (fixed, each) = match part {
        Part::Schedule => (0.04e-3, 0.0135e-3),
        Part::Inputs => (0.18e-3, 0.0205e-3),
        Part::Sampler => (0.75e-3, 0.0070e-3),
        Part::Outputs => (0.10e-3, 0.0330e-3),
    };
    let workers = if gpus > 1.0 { 1.7 } else { 1.0 };
    match part {
        Part::Sampler if gpus >= 4.0 => 7.0e-3,
        _ => workers * (fixed + each * sequences),
    }
}
