//! Layer fidelity: every layer's compute and every transfer of a step as events in a queue.
//!
//! The same service times as `step`, but the resources are watched from instant to instant: one compute stream, the link
//! up and the link down, each first in first out. While both directions are busy each runs at its shared pace, so that a
//! write-back slows just the transfers it really meets. A re-tier's fetch goes up the link and its packing takes the
//! compute stream before the step's gap; a write-back goes down in one piece a layer. Without contention (share 1)
//! `step` agrees to the picosecond, with it to the rounding of the pieces; property tests hold them to it. Rival: the
//! recursion of `pipeline`, which is as exact as long as the model stays this one; here a new resource is a new event.
//!
//! A step's events begin before the step does: its first transfers ran under the end of the step before, as soon as a
//! staging buffer was free. Write-back of a step is released at its end. Ignored: a write-back that outlasts the next
//! step meets no transfer of the one after; queries and outputs of attention on the host (part of its time) do not queue
//! behind a write-back. Integer time; ties by class, then by order of scheduling; no randomness.

mod link;
mod queue;

use std::collections::VecDeque;

use super::duplex::Share;
use super::pipeline::{LayerTimes, Passed};
use super::slice::{Slice, Track, What};
use crate::units::Ps;
use link::Flight;
use queue::{Event, LayerQueue, Ticket};

/// What one step has to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work<'a> {
    /// End of the step before.
    pub begin: Ps,
    /// Fetching promoted tokens, link time; the step waits for it.
    pub fetch: Ps,
    /// Packing after a re-tier, compute stream.
    pub pack: Ps,
    /// CPU gap.
    pub gap: Ps,
    /// Class of each layer.
    pub order: &'a [u8],
    /// Times by class.
    pub layers: &'a [LayerTimes],
    /// Output head, after the last layer.
    pub head: Ps,
    /// Write-back of this very step that it waits for (serial).
    pub down: Ps,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Fetch and packing.
    pub retier: Ps,
    /// The layers, without the head.
    pub passed: Passed,
    /// When the last write-back is down; zero if there was none.
    pub written: Ps,
}

/// The layers of one step after another, by events.
#[derive(Clone, Debug)]
pub struct LayerEvents {
    share: Share,
    /// Transfer a layer, wait, compute it: nothing overlaps.
    serial: bool,
    ends: VecDeque<Ps>,
    link_free: Ps,
    /// Write-back pieces still to go down, and when they were released.
    down: VecDeque<(Ps, Ps)>,
    queue: LayerQueue,
    handled: u64,
    drawing: bool,
    slices: Vec<Slice>,
}

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The step before is still running.
    Before,
    /// Promoted tokens wait to be fetched.
    Fetch,
    /// Fetching, packing, gap.
    Prepare,
    /// Layers and head.
    Layers,
    /// The head is done.
    Finished,
}

/// The state of one step while its events run.
struct Run<'a> {
    work: &'a Work<'a>,
    free_buffers: usize,
    stage: Stage,
    next_up: usize,
    arrived: usize,
    next_compute: usize,
    computing: bool,
    idle_since: Ps,
    up: Option<Flight>,
    downward: Option<Flight>,
    out: Worked,
}

impl LayerEvents {
    /// At rest, with staging for `depth` layers; each direction keeps `share` of its pace while both are busy.
    pub fn new(depth: u32, share: f64) -> Self {
        Self {
            share: Share::new(share),
            serial: false,
            ends: VecDeque::from(vec![Ps::ZERO; depth.max(1) as usize]),
            link_free: Ps::ZERO,
            down: VecDeque::new(),
            queue: LayerQueue::default(),
            handled: 0,
            drawing: false,
            slices: Vec::new(),
        }
    }

    /// At rest, where nothing overlaps.
    pub fn serial() -> Self {
        Self {
            serial: true,
            ..Self::new(1, 1.0)
        }
    }

    /// Events handled so far; ends that a change of pace made void do not count.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Whether to keep slices of the coming steps.
    pub(super) fn draw(&mut self, drawing: bool) {
        self.drawing = drawing;
    }

    /// Slices of the last step, if they were kept.
    pub(super) fn slices_mut(&mut self) -> &mut Vec<Slice> {
        &mut self.slices
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

    /// From here on each direction keeps `share` of its pace while both are busy.
    pub fn share(&mut self, share: f64) {
        self.share = Share::new(share);
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

    /// Runs the layers `order` from `start` on; returns what they did and when the write-back released before is down.
    pub fn pass(&mut self, start: Ps, order: &[u8], layers: &[LayerTimes]) -> (Passed, Ps) {
        let worked = self.step(&Work {
            begin: start,
            order,
            layers,
            ..Work::default()
        });
        (worked.passed, worked.written)
    }

    /// Runs one step, to the end of its head and of the write-back released before.
    pub fn step(&mut self, work: &Work<'_>) -> Worked {
        let mut run = Run::new(work);
        self.slices.clear();
        self.queue.restart();
        for end in &self.ends {
            self.queue
                .schedule((*end).max(self.link_free), Event::BufferFree);
        }
        if let Some((released, _)) = self.down.front() {
            self.queue.schedule(*released, Event::Released);
        }
        self.queue.schedule(work.begin, Event::Begin);
        while !(run.stage == Stage::Finished && self.down.is_empty()) {
            let Some((now, event, ticket)) = self.queue.pop() else {
                break;
            };
            if self.handle(now, event, ticket, &mut run) {
                self.handled += 1;
                self.start_up(now, &mut run);
                self.start_down(now, &mut run);
                self.start_compute(now, &mut run);
            }
        }
        run.out
    }

    /// Handles one event; false where it is void.
    fn handle(&mut self, now: Ps, event: Event, ticket: Ticket, run: &mut Run<'_>) -> bool {
        match event {
            Event::BufferFree => run.free_buffers += 1,
            Event::Arrived => return self.arrived(now, ticket, run),
            Event::Written => return self.written(now, ticket, run),
            Event::Released => {}
            Event::Begin if run.work.fetch > Ps::ZERO => run.stage = Stage::Fetch,
            Event::Begin => self.fetched(now, run),
            Event::Ready => {
                run.stage = Stage::Layers;
                run.idle_since = now;
                run.out.passed.end = now;
            }
            Event::Computed => self.computed(now, run),
            Event::Finished => {
                run.stage = Stage::Finished;
                self.write_back(now, run.work.down, run.work.order.len() as u64);
            }
        }
        true
    }

    /// What had to be fetched is there: packing and the gap follow.
    fn fetched(&mut self, now: Ps, run: &mut Run<'_>) {
        run.stage = Stage::Prepare;
        let packed = now + run.work.pack;
        run.out.retier = packed - run.work.begin;
        self.draw_slice(Track::Compute, What::Pack, now, packed);
        let ready = packed + run.work.gap;
        self.draw_slice(Track::Gap, What::Gap, packed, ready);
        self.queue.schedule(ready, Event::Ready);
    }

    /// The layer computing is done: its buffer is free, and after the last one the head follows.
    fn computed(&mut self, now: Ps, run: &mut Run<'_>) {
        run.computing = false;
        run.idle_since = now;
        run.out.passed.end = now;
        if run.times(run.next_compute - 1).transfer > Ps::ZERO {
            self.ends.pop_front();
            self.ends.push_back(now);
            run.free_buffers += 1;
        }
        if run.next_compute == run.work.order.len() {
            let end = now + run.work.head;
            self.draw_slice(Track::Compute, What::Head, now, end);
            self.queue.schedule(end, Event::Finished);
        }
    }

    /// Starts the next layer's compute if the GPU is free and its T1 is there.
    fn start_compute(&mut self, now: Ps, run: &mut Run<'_>) {
        let next = run.next_compute;
        if run.stage != Stage::Layers || run.computing || next == run.work.order.len() {
            return;
        }
        let LayerTimes { compute, transfer } = run.times(next);
        if run.arrived > next || transfer == Ps::ZERO {
            run.out.passed.waited += now - run.idle_since;
            run.out.passed.compute += compute;
            run.computing = true;
            run.next_compute += 1;
            self.draw_slice(Track::Compute, layer(next), now, now + compute);
            self.queue.schedule(now + compute, Event::Computed);
        }
    }

    fn draw_slice(&mut self, track: Track, what: What, begin: Ps, end: Ps) {
        if self.drawing && end > begin {
            self.slices.push(Slice::new(track, what, begin, end));
        }
    }
}

/// Layer number `n` of the step.
fn layer(n: usize) -> What {
    What::Layer(u32::try_from(n).unwrap_or(u32::MAX))
}

impl<'a> Run<'a> {
    fn new(work: &'a Work<'a>) -> Self {
        Self {
            work,
            free_buffers: 0,
            stage: Stage::Before,
            next_up: 0,
            arrived: 0,
            next_compute: 0,
            computing: false,
            idle_since: work.begin,
            up: None,
            downward: None,
            out: Worked::default(),
        }
    }

    fn times(&self, layer: usize) -> LayerTimes {
        self.work.layers[usize::from(self.work.order[layer])]
    }
}
