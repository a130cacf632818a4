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

/// Seconds of a part where the runtime's parts were measured: `fixed + each * sequences`, longer with a worker process
/// before each of several GPUs; from four on the sampler waits for the gather of the logits. None where they were not.
pub fn part(runtime: &Runtime, part: Part, gpus: f64, sequences: f64) -> Option<f64> {
    let parts = runtime.cpu.as_ref()?;
    let of = match part {
        Part::Schedule => &parts.schedule,
        Part::Inputs => &parts.inputs,
        Part::Sampler if gpus >= 4.0 => return Some(parts.gather.get()),
        Part::Sampler => &parts.sampler,
        Part::Outputs => &parts.outputs,
    };
    let workers = if gpus > 1.0 { parts.workers.get() } else { 1.0 };
    Some(workers * (of.fixed.get() + of.each.get() * sequences))
}
