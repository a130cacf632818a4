//! Future events in order: (time, class, sequence).
//!
//! Ties are part of the contract: at one instant a lower class goes first, and within a class the event scheduled first
//! goes first. Popping moves the clock, which never goes back: scheduling into the past is a bug and is refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::Event;
use crate::error::{Error, Result};
use crate::units::Ps;

/// The queue and its clock.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(Ps, u8, u64, Event)>>,
    scheduled: u64,
    now: Ps,
}

impl EventQueue {
    /// Schedules `event` at `at`.
    ///
    /// # Errors
    /// Internal, if `at` lies before the clock.
    pub fn schedule(&mut self, at: Ps, event: Event) -> Result<()> {
        if at < self.now {
            return Err(Error::internal(format!(
                "event {event:?} scheduled at {} ps, before the clock at {} ps",
                at.0, self.now.0
            )));
        }
        self.heap
            .push(Reverse((at, event.class(), self.scheduled, event)));
        self.scheduled += 1;
        Ok(())
    }

    /// The next event, moving the clock to it.
    pub fn pop(&mut self) -> Option<(Ps, Event)> {
        let Reverse((at, _, _, event)) = self.heap.pop()?;
        self.now = at;
        Some((at, event))
    }

    /// Whether nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Events scheduled so far.
    pub fn scheduled(&self) -> u64 {
        self.scheduled
    }
}
