//! The queue of the events inside a step: (time, class, sequence), as between steps, in 16 bytes an event.
//!
//! The key is the event: its class says which it is and its sequence number is the ticket by which an end that a change
//! of pace made void is told from the one that replaced it. Events carry nothing else, since a step has one transfer a
//! direction and one layer computing. Why not the queue between steps: half of what this fidelity costs would be moving
//! wider entries, and here a step's first events lie before the last of the step before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Ps;

/// What happens inside a step, in the order of events of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Event {
    /// A staging buffer may be written again.
    BufferFree,
    /// The transfer up ends, if nothing changed its pace since.
    Arrived,
    /// The write-back in flight ends, likewise.
    Written,
    /// Write-back may begin.
    Released,
    /// The step before is over.
    Begin,
    /// The step's first layer may compute.
    Ready,
    /// The layer computing is done.
    Computed,
    /// The head is done.
    Finished,
}

/// All of them, by class.
const EVENTS: [Event; 8] = [
    Event::BufferFree,
    Event::Arrived,
    Event::Written,
    Event::Released,
    Event::Begin,
    Event::Ready,
    Event::Computed,
    Event::Finished,
];

/// Bits of a key's lower half that hold the sequence number; the class is above them.
const SEQUENCE: u32 = 56;

/// Which scheduled event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// Events of one step to come.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerQueue {
    heap: BinaryHeap<Reverse<(Ps, u64)>>,
    scheduled: u64,
}

impl LayerQueue {
    /// Empty, for another step.
    pub(super) fn restart(&mut self) {
        self.heap.clear();
    }

    /// Schedules `event` at `at`.
    pub(super) fn schedule(&mut self, at: Ps, event: Event) -> Ticket {
        self.scheduled += 1;
        let ticket = (event as u64) << SEQUENCE | self.scheduled;
        self.heap.push(Reverse((at, ticket)));
        Ticket(ticket)
    }

    /// The next event.
    pub(super) fn pop(&mut self) -> Option<(Ps, Event, Ticket)> {
        let Reverse((at, ticket)) = self.heap.pop()?;
        let event = EVENTS[usize::from((ticket >> SEQUENCE) as u8) % EVENTS.len()];
        Some((at, event, Ticket(ticket)))
    }
}
