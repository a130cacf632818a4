//! Runs requests through a deployment: events between steps; within one a recursion over layers (fidelity `step`) or
//! events again (fidelity `layer`), which agree.
//!
//! What is modelled: continuous batching first-come first-served, admission and preemption by KV pages (the latest
//! request is preempted and recomputed), the step of `step`, re-tier bursts, peak memory step by step. A static batch ignores
//! decode steps that share a chunk with another request's prefill (prefill stalls it instead); requests over time do not
//! ([`serve`]). The engine sees
//! only timelines: never a trace, a score or a policy. Time is integer picoseconds; two runs are equal to the bit.
//! Rival: a formula per step (max of compute and transfer), 2-48 % off where both matter.

pub mod audit;
mod batch;
mod brief;
mod deferred;
mod duplex;
mod event;
mod layer;
mod pipeline;
mod queue;
mod run;
mod running;
pub mod serve;
mod slice;
mod spill;
mod step;

pub use batch::{Engine, Job, MOST_STEPS, Setup, too_long};
pub use event::Event;
pub use layer::{LayerEvents, Work, Worked};
pub use pipeline::{LayerTimes, Passed, Pipeline};
pub use queue::EventQueue;
pub use run::{Peak, Run, Sums};
pub use slice::{Slice, Track, What};
pub use step::{Burst, StepTimes, Stepper};

use crate::error::Result;
use crate::memory::{Held, Instant};

/// One step as a fact, told to observers.
#[derive(Clone, Copy, Debug)]
pub struct StepFact<'a> {
    /// Times and bytes.
    pub times: &'a StepTimes,
    /// Who and what was live.
    pub held: &'a Held,
    /// Tokens destroyed so far, over the running sequences.
    pub destroyed: f64,
    /// Tokens appended so far, over the running sequences.
    pub appended: f64,
    /// HBM in use for KV and staging.
    pub instant: Instant,
    /// HBM at its largest so far, this step included.
    pub peak: Instant,
    /// Host memory at its largest so far (bytes).
    pub ddr: f64,
}

/// Watches a run without touching it.
pub trait Observer {
    /// After each step.
    ///
    /// # Errors
    /// Internal, if a law is broken: the run stops.
    fn step(&mut self, fact: &StepFact<'_>) -> Result<()>;

    /// Whether it looks at facts at all: peaks are then kept step by step, not stretch by stretch.
    fn watches(&self) -> bool {
        true
    }

    /// Whether it wants the slices of the coming step; only fidelity `layer` has them.
    fn draws(&self) -> bool {
        false
    }

    /// The slices of the step that [`Observer::step`] is told next, where it draws.
    ///
    /// # Errors
    /// They cannot be written: the run stops.
    fn drawn(&mut self, _slices: &[Slice]) -> Result<()> {
        Ok(())
    }
}

/// Two observers of one run.
pub struct Both<'a>(pub &'a mut dyn Observer, pub &'a mut dyn Observer);

impl Observer for Both<'_> {
    fn step(&mut self, fact: &StepFact<'_>) -> Result<()> {
        self.0.step(fact)?;
        self.1.step(fact)
    }

    fn watches(&self) -> bool {
        self.0.watches() || self.1.watches()
    }

    fn draws(&self) -> bool {
        self.0.draws() || self.1.draws()
    }

    fn drawn(&mut self, slices: &[Slice]) -> Result<()> {
        for observer in [&mut *self.0, &mut *self.1] {
            if observer.draws() {
                observer.drawn(slices)?;
            }
        }
        Ok(())
    }
}

/// Watches nothing.
pub struct Unwatched;

impl Observer for Unwatched {
    fn watches(&self) -> bool {
        false
    }

    fn step(&mut self, _: &StepFact<'_>) -> Result<()> {
        Ok(())
    }
}
