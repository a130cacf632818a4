//! Layer fidelity: every layer's compute and every transfer of a step as events in a queue.
//!
//! The same service times as `pipeline`, but the link is watched from instant to instant: while both directions are busy
//! each runs at its duplex share, so a write-back slows just the transfers it really meets. `step` instead spreads the
//! whole delay over the step. Without contention (duplex 1) the two agree to the picosecond, which a property test holds
//! them to; with it they differ by what `step` spreads.
//!
//! A step's events begin before the step does: its first transfers ran under the end of the step before, as soon as a
//! staging buffer was free. Write-back of a step is released at its end, one piece a layer, first in first out. Ignored:
//! a write-back that outlasts the next step meets no transfer of the one after. Events of one instant: buffers free
//! first, then arrivals, then write-back, then compute. Integer time; no randomness.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::pipeline::{LayerTimes, Passed};
use crate::units::Ps;

/// What happens inside a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A staging buffer may be written again.
    BufferFree,
    /// The transfer in flight ends, if nothing changed its pace since.
    Arrived { epoch: u64 },
    /// The write-back in flight ends, likewise.
    Written { epoch: u64 },
    /// Write-back may begin.
    Released,
    /// The step's first layer may compute.
    Begin,
    /// The layer computing is done.
    Computed,
}

impl Event {
    /// Order among events of one instant.
    fn class(self) -> u8 {
        match self {
            Self::BufferFree => 0,
            Self::Arrived { .. } => 1,
            Self::Written { .. } => 2,
            Self::Released => 3,
            Self::Begin => 4,
            Self::Computed => 5,
        }
    }
}

/// Parts of a whole pace: duplex shares are kept as this many parts, so that time stays an integer.
const PARTS: u128 = 1 << 32;

/// One direction's transfer in flight: work left at full pace, and the pace since when.
#[derive(Clone, Copy, Debug)]
struct Flight {
    left: Ps,
    since: Ps,
    epoch: u64,
}

/// The layers of one step after another, by events.
#[derive(Clone, Debug)]
pub struct LayerEvents {
    shared: u128,
    ends: VecDeque<Ps>,
    link_free: Ps,
    /// Write-back pieces still to go down, and when they were released.
    down: VecDeque<(Ps, Ps)>,
    heap: BinaryHeap<Reverse<(Ps, u8, u64, Event)>>,
    scheduled: u64,
    handled: u64,
}

/// The state of one step while its events run.
struct Run<'a> {
    order: &'a [u8],
    layers: &'a [LayerTimes],
    free_buffers: usize,
    next_up: usize,
    arrived: usize,
    next_compute: usize,
    computing: bool,
    begun: bool,
    idle_since: Ps,
    up: Option<Flight>,
    downward: Option<Flight>,
    out: Passed,
}

impl LayerEvents {
    /// At rest, with staging for `depth` layers; each direction keeps `duplex` of its pace while both are busy.
    pub fn new(depth: u32, duplex: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // a share of 2^32
        let shared = (duplex.clamp(1e-6, 1.0) * PARTS as f64) as u128;
        Self {
            shared,
            ends: VecDeque::from(vec![Ps::ZERO; depth.max(1) as usize]),
            link_free: Ps::ZERO,
            down: VecDeque::new(),
            heap: BinaryHeap::new(),
            scheduled: 0,
            handled: 0,
        }
    }

    /// Events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// A re-tier at `at` makes `share` of the prefetched T1 stale: that share of the link's lead is lost.
    pub fn drain(&mut self, share: f64, at: Ps) {
        let lead = at.saturating_sub(self.link_free);
        self.link_free += if share >= 1.0 {
            lead
        } else {
            Ps::from_secs(lead.secs() * share)
        };
    }

    /// Releases a step's write-back of `total` at `at`, in `pieces` pieces.
    pub fn write_back(&mut self, at: Ps, total: Ps, pieces: u64) {
        if total > Ps::ZERO {
            let each = Ps(total.0 / pieces.max(1));
            self.down.extend((1..pieces.max(1)).map(|_| (at, each)));
            self.down
                .push_back((at, total - each * (pieces.max(1) - 1)));
        }
    }

    /// Runs the layers `order` from `start` on; returns when they are done and the write-back released before is down.
    pub fn pass(&mut self, start: Ps, order: &[u8], layers: &[LayerTimes]) -> (Passed, Ps) {
        let mut run = Run {
            order,
            layers,
            free_buffers: 0,
            next_up: 0,
            arrived: 0,
            next_compute: 0,
            computing: false,
            begun: false,
            idle_since: start,
            up: None,
            downward: None,
            out: Passed {
                end: start,
                ..Passed::default()
            },
        };
        self.heap.clear();
        for end in self.ends.clone() {
            self.schedule(end.max(self.link_free), Event::BufferFree);
        }
        if let Some((released, _)) = self.down.front() {
            self.schedule(*released, Event::Released);
        }
        self.schedule(start, Event::Begin);
        let mut written = Ps::ZERO;
        while run.next_compute < order.len() || run.computing || !self.down.is_empty() {
            let Some(Reverse((now, _, _, event))) = self.heap.pop() else {
                break;
            };
            self.handled += 1;
            self.handle(now, event, &mut run, &mut written);
        }
        (run.out, written)
    }

    fn schedule(&mut self, at: Ps, event: Event) {
        self.heap
            .push(Reverse((at, event.class(), self.scheduled, event)));
        self.scheduled += 1;
    }

    fn handle(&mut self, now: Ps, event: Event, run: &mut Run<'_>, written: &mut Ps) {
        match event {
            Event::BufferFree => run.free_buffers += 1,
            Event::Arrived { epoch } if run.up.is_some_and(|f| f.epoch == epoch) => {
                self.pace(now, run);
                run.up = None;
                run.arrived = run.next_up;
                self.link_free = now;
                self.repace(now, run);
            }
            Event::Written { epoch } if run.downward.is_some_and(|f| f.epoch == epoch) => {
                self.pace(now, run);
                run.downward = None;
                self.down.pop_front();
                *written = now;
                self.repace(now, run);
            }
            Event::Begin => run.begun = true,
            Event::Computed => self.computed(now, run),
            Event::Released | Event::Arrived { .. } | Event::Written { .. } => {}
        }
        self.start_up(now, run);
        self.start_down(now, run);
        self.start_compute(now, run);
    }

    /// The layer computing is done: its buffer is free.
    fn computed(&mut self, now: Ps, run: &mut Run<'_>) {
        run.computing = false;
        run.idle_since = now;
        run.out.end = now;
        if run.times(run.next_compute - 1).transfer > Ps::ZERO {
            self.ends.pop_front();
            self.ends.push_back(now);
            run.free_buffers += 1;
        }
    }

    /// Starts the next layer's transfer if the link and a buffer are free. Layers without one arrive by themselves.
    fn start_up(&mut self, now: Ps, run: &mut Run<'_>) {
        if run.up.is_some() {
            return;
        }
        while run.next_up < run.order.len() && run.times(run.next_up).transfer == Ps::ZERO {
            run.next_up += 1;
            run.arrived = run.next_up;
        }
        if run.next_up < run.order.len() && run.free_buffers > 0 {
            run.free_buffers -= 1;
            self.pace(now, run);
            run.up = Some(Flight {
                left: run.times(run.next_up).transfer,
                since: now,
                epoch: 0,
            });
            run.next_up += 1;
            self.repace(now, run);
        }
    }

    /// Starts the next piece of write-back if the way down is free and it was released.
    fn start_down(&mut self, now: Ps, run: &mut Run<'_>) {
        if run.downward.is_some() {
            return;
        }
        if let Some(&(released, work)) = self.down.front() {
            // All that is left was released together, at the end of the step before.
            if released <= now {
                self.pace(now, run);
                run.downward = Some(Flight {
                    left: work,
                    since: now,
                    epoch: 0,
                });
                self.repace(now, run);
            }
        }
    }

    /// Starts the next layer's compute if the GPU is free and its T1 is there.
    fn start_compute(&mut self, now: Ps, run: &mut Run<'_>) {
        let ready = run.begun && !run.computing && run.next_compute < run.order.len();
        if ready
            && (run.arrived > run.next_compute || run.times(run.next_compute).transfer == Ps::ZERO)
        {
            let compute = run.times(run.next_compute).compute;
            run.out.waited += now - run.idle_since;
            run.out.compute += compute;
            run.computing = true;
            run.next_compute += 1;
            self.schedule(now + compute, Event::Computed);
        }
    }

    /// Takes off the work done since the pace last changed.
    fn pace(&self, now: Ps, run: &mut Run<'_>) {
        let both = run.up.is_some() && run.downward.is_some();
        for flight in [&mut run.up, &mut run.downward].into_iter().flatten() {
            let passed = now.saturating_sub(flight.since);
            let done = if both { self.slowed(passed) } else { passed };
            flight.left = flight.left.saturating_sub(done);
            flight.since = now;
        }
    }

    /// Work done in `passed` while both directions are busy.
    #[allow(clippy::cast_possible_truncation)] // a share of a u64
    fn slowed(&self, passed: Ps) -> Ps {
        Ps((u128::from(passed.0) * self.shared / PARTS) as u64)
    }

    /// Time that `left` takes while both directions are busy, rounded up.
    #[allow(clippy::cast_possible_truncation)] // duplex is at least 1e-6 and work is far below 2^44 s
    fn stretched(&self, left: Ps) -> Ps {
        Ps((u128::from(left.0) * PARTS).div_ceil(self.shared) as u64)
    }

    /// Schedules the ends of what is in flight anew.
    fn repace(&mut self, now: Ps, run: &mut Run<'_>) {
        let both = run.up.is_some() && run.downward.is_some();
        let epoch = self.scheduled + 1;
        let ends = |f: &mut Flight, stretched: Ps| {
            f.epoch = epoch;
            now + stretched
        };
        if let Some(f) = &mut run.up {
            let left = if both { self.stretched(f.left) } else { f.left };
            let at = ends(f, left);
            self.schedule(at, Event::Arrived { epoch });
        }
        if let Some(f) = &mut run.downward {
            let left = if both { self.stretched(f.left) } else { f.left };
            let at = ends(f, left);
            self.schedule(at, Event::Written { epoch });
        }
    }
}

impl Run<'_> {
    fn times(&self, layer: usize) -> LayerTimes {
        self.layers[usize::from(self.order[layer])]
    }
}
