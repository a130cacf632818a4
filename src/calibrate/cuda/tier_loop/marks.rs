//! Events around the parts of a step that is timed, and what they say.

use cudarc::driver::CudaEvent;

use super::super::rig::{between, event};
use super::run::Loop;
use crate::error::Result;

/// Events of a layer of a step that is timed: copies from and to, compute from and to.
#[derive(Debug)]
pub(super) struct Marks(pub(super) [CudaEvent; 4]);

/// Events of a step.
#[derive(Debug)]
pub(super) struct StepMarks {
    pub(super) begin: CudaEvent,
    pub(super) appended: CudaEvent,
    pub(super) end: CudaEvent,
    pub(super) layers: Vec<Marks>,
}

/// Microseconds of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepTime {
    pub(super) step: f64,
    pub(super) append: f64,
    pub(super) compute: f64,
    pub(super) transfer: f64,
}

impl Loop<'_> {
    /// Events for a step.
    pub(super) fn new_marks(&self) -> Result<StepMarks> {
        let one = || event(&self.rig.gpu);
        let layer = |_| Ok(Marks([one()?, one()?, one()?, one()?]));
        Ok(StepMarks {
            begin: one()?,
            appended: one()?,
            end: one()?,
            layers: (0..self.shape.layers).map(layer).collect::<Result<_>>()?,
        })
    }

    /// Microseconds of every step that kept marks.
    pub(super) fn times(&self) -> Result<Vec<StepTime>> {
        let copied = self.shape.mode.copied();
        let one = |(i, m): (usize, &StepMarks)| {
            // From the end of the step before: in between nothing waits for this one to begin.
            let begin = i.checked_sub(1).map_or(&m.begin, |b| &self.marks[b].end);
            let mut out = StepTime {
                step: between(begin, &m.end)?,
                append: between(&m.begin, &m.appended)?,
                ..StepTime::default()
            };
            for Marks([from, to, start, end]) in &m.layers {
                out.compute += between(start, end)?;
                out.transfer += if copied { between(from, to)? } else { 0.0 };
            }
            Ok(out)
        };
        self.marks.iter().enumerate().map(one).collect()
    }
}
