//! Re-tier costs that fall due later than the decision behind them.
//!
//! Sequences share a timeline, so that all of a batch decide in the same step; a server's do not. What is modelled: each
//! sequence's costs (moves, packing, the drained lead) are charged `phase` steps after the decision, while its tokens
//! move at once. What is ignored: what would fall due after the last step is never charged, and a request preempted in
//! between still pays. Why not a timeline a sequence: that is batch times the memory, and every step would be a change.
//! Units: steps of the running batch. An ordered map, because phases go up to the interval, which has no bound.

use std::collections::BTreeMap;

use super::Burst;

/// Bursts by the step in which they fall due.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferred {
    due: BTreeMap<u64, Burst>,
    /// Number of the coming step.
    step: u64,
}

impl Deferred {
    /// The burst of the coming step, which is then over.
    pub(super) fn next(&mut self) -> Burst {
        let due = match self.due.first_entry() {
            Some(first) if *first.key() == self.step => first.remove(),
            _ => Burst::default(),
        };
        self.step += 1;
        due
    }

    /// The burst that falls due `phase` steps after the coming one.
    pub(super) fn after(&mut self, phase: u32) -> &mut Burst {
        self.due.entry(self.step + u64::from(phase)).or_default()
    }
}
