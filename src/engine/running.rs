//! The sequences that run together, summed once and then kept up to date.
//!
//! Between two changes (a decision, an end, a full page) every sequence only appends one T0 token a step, so the sums
//! move by the batch size and no sequence is touched: a quiet step costs the same at batch 8 and at batch 800. Each
//! sequence is brought up to date (`sync`) only when one of them changes.

use super::{Burst, Job};
use crate::memory::Held;
use crate::service::Class;
use crate::timeline::{Fetch, Interval};

/// One running sequence, as of the last sync.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Its job.
    pub(super) job: u32,
    /// Decode steps done.
    pub(super) done: u32,
    /// Interval of its timeline that holds.
    at: usize,
    /// Tokens in T0..T3 for the coming step.
    tiers: [f64; 4],
    spills: bool,
}

impl Running {
    /// Tokens in T0..T3 for the coming step.
    pub(super) fn tiers(&self) -> [f64; 4] {
        self.tiers
    }

    /// Whether it ever spills.
    pub(super) fn spills(&self) -> bool {
        self.spills
    }
}

/// Sums over the running sequences for the coming step (tokens).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// In T0..T3.
    pub(super) tiers: [f64; 4],
    /// Positions, destroyed ones included.
    pub(super) length: f64,
    /// Sequences that ever spill.
    pub(super) spilling: f64,
    /// Their T0 tokens less those that never move.
    pub(super) copied: f64,
    /// Tokens that the pages of T0 have room for, where pages are not packed; else zero.
    pub(super) room: f64,
}

/// The running sequences, in the order in which they would be kept.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningSet {
    list: Vec<Running>,
    totals: Totals,
    /// Steps since the last sync.
    since: u32,
    /// Steps from the last sync to the next change.
    quiet: u32,
}

impl RunningSet {
    /// Sequences.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Sums for the coming step.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Sequences as of the last sync (call [`RunningSet::sync`] first).
    pub(super) fn list(&self) -> &[Running] {
        &self.list
    }

    /// Adds a sequence that has done `done` steps, at the end or in job order. Call [`RunningSet::settle`] after.
    pub(super) fn join(&mut self, job: u32, done: u32, jobs: &[Job], in_order: bool) {
        let timeline = &jobs[job as usize].timeline;
        let at = timeline.interval_at(done);
        let running = Running {
            job,
            done,
            at,
            tiers: timeline.tokens_at(done),
            spills: timeline.spills(),
        };
        let place = if in_order {
            self.list.partition_point(|r| r.job < job)
        } else {
            self.list.len()
        };
        self.list.insert(place, running);
    }

    /// Removes the last sequence. Call [`RunningSet::settle`] after.
    pub(super) fn pop(&mut self) -> Option<Running> {
        self.list.pop()
    }

    /// Removes and returns the sequences that are done. Call [`RunningSet::settle`] after.
    pub(super) fn take_done(&mut self, jobs: &[Job]) -> Vec<Running> {
        let over = |r: &Running| r.done >= jobs[r.job as usize].request.output;
        if !self.list.iter().any(over) {
            return Vec::new();
        }
        let (done, going) = std::mem::take(&mut self.list).into_iter().partition(over);
        self.list = going;
        done
    }

    /// Whether one of the sequences changes after the coming step, so that a sync is due.
    pub(super) fn changes(&self) -> bool {
        self.since + 1 >= self.quiet
    }

    /// Appends one token to every sequence.
    pub(super) fn advance(&mut self) {
        let n = self.list.len() as f64;
        self.totals.tiers[0] += n;
        self.totals.length += n;
        self.totals.copied += self.totals.spilling;
        self.since += 1;
    }

    /// Brings every sequence up to date, telling `moved` of each decision that now holds.
    pub(super) fn sync(&mut self, jobs: &[Job], mut moved: impl FnMut(&Job, &Interval)) {
        let since = std::mem::take(&mut self.since);
        for r in &mut self.list {
            let job = &jobs[r.job as usize];
            r.done += since;
            r.tiers[0] += f64::from(since);
            let next = job.timeline.intervals.get(r.at + 1);
            if let Some(next) =
                next.filter(|i| i.first_step == r.done && r.done < job.request.output)
            {
                r.at += 1;
                r.tiers = next.tokens;
                moved(job, next);
            }
        }
    }

    /// Sums anew after a sync, and finds how long nothing changes. `page` is the page size where pages matter;
    /// `whole_pages` says that T0 keeps every page with a T0 token in it.
    pub(super) fn settle(&mut self, jobs: &[Job], page: Option<u32>, whole_pages: bool) {
        self.totals = Totals::default();
        self.quiet = u32::MAX;
        for r in &self.list {
            let job = &jobs[r.job as usize];
            let length = job.request.prompt + r.done + 1;
            for (sum, n) in self.totals.tiers.iter_mut().zip(r.tiers) {
                *sum += n;
            }
            self.totals.length += f64::from(length);
            if whole_pages {
                self.totals.room += job.timeline.t0_room(r.at, r.done);
            }
            if r.spills {
                self.totals.spilling += 1.0;
                self.totals.copied += r.tiers[0] - f64::from(job.timeline.never_moves);
            }
            let next = job
                .timeline
                .intervals
                .get(r.at + 1)
                .map_or(u32::MAX, |i| i.first_step);
            let change = next.min(job.request.output) - r.done;
            self.quiet = self
                .quiet
                .min(change)
                .min(page.map_or(u32::MAX, |p| p - (length - 1) % p));
        }
    }

    /// What the coming step fetches, where only some host tokens take part.
    fn fetch(&self, jobs: &[Job]) -> Fetch {
        let mut all = Fetch::default();
        for r in &self.list {
            let timeline = &jobs[r.job as usize].timeline;
            match timeline.fetch_at(r.done + self.since, [r.tiers[1], r.tiers[2]]) {
                Some(fetch) => all.add(&fetch),
                None => break, // all or none of a run select
            }
        }
        all
    }

    /// Fills in what memory and step look at.
    pub(super) fn hold(&self, held: &mut Held, classes: &[Class], jobs: &[Job]) {
        held.sequences = self.list.len() as f64;
        held.tiers.copy_from_slice(&self.totals.tiers[..3]);
        held.room = self.totals.room;
        held.fetch = self.fetch(jobs);
        for (sum, class) in held.windowed.iter_mut().zip(classes) {
            if let Some(w) = class.window {
                let length =
                    |r: &Running| jobs[r.job as usize].request.prompt + r.done + self.since + 1;
                *sum = self.list.iter().map(|r| f64::from(length(r).min(w))).sum();
            }
        }
    }
}

/// Adds the moves of one sequence's decision to the burst of its step.
pub(super) fn charge(burst: &mut Burst, next: &Interval, job: &Job, compact: bool) {
    let moved = next.promoted + next.demoted + next.compressed + next.destroyed;
    burst.promoted += next.promoted;
    burst.demoted += next.demoted + next.compressed;
    burst.runs += next.moved_runs;
    burst.sequences += f64::from(u8::from(next.tokens[1] + next.tokens[2] > 0.0));
    if compact && moved > 0.0 {
        burst.compacted += (next.tokens[0] - f64::from(job.timeline.never_moves)).max(0.0);
    }
}
