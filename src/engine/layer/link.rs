//! The two directions of the link inside a step: who is in flight, and at which pace.
//!
//! Each direction is first in first out with one transfer in flight. Whenever one starts or ends, the work done so far is
//! taken off both at the pace they had, and their ends are scheduled anew at the pace they now have; the ends scheduled
//! before become void.

use super::queue::{Event, Ticket};
use super::{LayerEvents, Run, Stage, layer};
use crate::engine::slice::{Track, What};
use crate::units::Ps;

/// One direction's transfer in flight: work left at full pace, and the pace since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    what: What,
    began: Ps,
    left: Ps,
    since: Ps,
    ticket: Ticket,
}

impl LayerEvents {
    /// A transfer up is done.
    pub(super) fn arrived(&mut self, now: Ps, ticket: Ticket, run: &mut Run<'_>) -> bool {
        let Some(flight) = run.up.filter(|f| f.ticket == ticket) else {
            return false;
        };
        self.pace(now, run);
        run.up = None;
        self.draw_slice(Track::Up, flight.what, flight.began, now);
        if flight.what == What::Fetch {
            self.fetched(now, run);
        } else {
            run.out.passed.link += now - flight.began;
            run.arrived = run.next_up;
            self.link_free = now;
        }
        self.repace(now, run);
        true
    }

    /// A piece of write-back is down.
    pub(super) fn written(&mut self, now: Ps, ticket: Ticket, run: &mut Run<'_>) -> bool {
        let Some(flight) = run.downward.filter(|f| f.ticket == ticket) else {
            return false;
        };
        self.pace(now, run);
        run.downward = None;
        self.down.pop_front();
        run.out.written = now;
        self.draw_slice(Track::Down, flight.what, flight.began, now);
        self.repace(now, run);
        true
    }

    /// Starts the next transfer if the link and a buffer are free. Layers without one arrive by themselves.
    pub(super) fn start_up(&mut self, now: Ps, run: &mut Run<'_>) {
        if run.up.is_some() {
            return;
        }
        if run.stage == Stage::Fetch {
            run.stage = Stage::Prepare;
            self.fly_up(now, What::Fetch, run.work.fetch, run);
            return;
        }
        let layers = run.work.order.len();
        while run.next_up < layers && run.times(run.next_up).transfer == Ps::ZERO {
            run.next_up += 1;
            run.arrived = run.next_up;
        }
        let idle = run.stage == Stage::Layers && !run.computing;
        let turn = !self.serial || idle && run.next_compute == run.next_up;
        if turn && run.next_up < layers && run.free_buffers > 0 {
            run.free_buffers -= 1;
            let work = run.times(run.next_up).transfer;
            run.next_up += 1;
            self.fly_up(now, layer(run.next_up - 1), work, run);
        }
    }

    fn fly_up(&mut self, now: Ps, what: What, work: Ps, run: &mut Run<'_>) {
        self.pace(now, run);
        run.up = Some(Flight::new(now, what, work));
        self.repace(now, run);
    }

    /// Starts the next piece of write-back if the way down is free and it was released.
    pub(super) fn start_down(&mut self, now: Ps, run: &mut Run<'_>) {
        if run.downward.is_some() {
            return;
        }
        if let Some(&(released, work)) = self.down.front() {
            // All that is left was released together, at the end of the step before.
            if released <= now {
                self.pace(now, run);
                run.downward = Some(Flight::new(now, What::WriteBack, work));
                self.repace(now, run);
            }
        }
    }

    /// Takes off the work done since the pace last changed.
    fn pace(&self, now: Ps, run: &mut Run<'_>) {
        let both = run.up.is_some() && run.downward.is_some();
        for flight in [&mut run.up, &mut run.downward].into_iter().flatten() {
            let passed = now.saturating_sub(flight.since);
            let done = if both {
                self.share.slowed(passed)
            } else {
                passed
            };
            flight.left = flight.left.saturating_sub(done);
            flight.since = now;
        }
    }

    /// Schedules the ends of what is in flight anew.
    fn repace(&mut self, now: Ps, run: &mut Run<'_>) {
        let both = run.up.is_some() && run.downward.is_some();
        let share = self.share;
        let time = |left| if both { share.stretched(left) } else { left };
        if let Some(f) = &mut run.up {
            f.ticket = self.queue.schedule(now + time(f.left), Event::Arrived);
        }
        if let Some(f) = &mut run.downward {
            f.ticket = self.queue.schedule(now + time(f.left), Event::Written);
        }
    }
}

impl Flight {
    fn new(now: Ps, what: What, left: Ps) -> Self {
        Self {
            what,
            began: now,
            left,
            since: now,
            ticket: Ticket::default(),
        }
    }
}
