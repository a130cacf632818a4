//! Room for requests: pages of HBM for the coming step, host memory for the whole life.
//!
//! HBM is taken page by page as tokens come; host memory is promised at admission, for what a request's timeline says it
//! will need at its largest, since a demotion cannot be refused half way.

use std::sync::Arc;

use super::{Serve, Server, never_fits};
use crate::deploy::WriteBack;
use crate::engine::Job;
use crate::error::{Error, Result};
use crate::memory::{Held, Ledger};
use crate::timeline::Timeline;

/// Sums of what sequences take of HBM in one step.
pub(super) struct Room<'a> {
    ledger: &'a Ledger,
    page: f64,
    held: Held,
    spills: bool,
}

impl<'a> Room<'a> {
    fn new(setup: &Serve<'a>) -> Self {
        let windowed = setup.ledger.windowed.iter();
        let any = windowed.clone().any(Option::is_some);
        Self {
            ledger: setup.ledger,
            page: f64::from(setup.prepared.deployment.runtime.page_tokens.max(1)),
            held: Held {
                windowed: if any {
                    vec![0.0; windowed.len()]
                } else {
                    Vec::new()
                },
                ..Held::default()
            },
            spills: false,
        }
    }

    /// Adds a sequence of `length` positions with so many in T0, T1, T2, whole pages.
    fn add(&mut self, tiers: [f64; 4], length: f64, spills: bool) {
        self.spills |= spills;
        self.held.sequences += 1.0;
        self.held.tiers[0] += (tiers[0] / self.page).ceil() * self.page;
        if tiers[1] + tiers[2] > 0.0 {
            self.held.tiers[1] += tiers[1];
            self.held.tiers[2] += tiers[2];
            if let Some(selection) = self.ledger.selection() {
                self.held.fetch.add(&selection.most([tiers[1], tiers[2]]));
            }
        }
        for (sum, class) in self.held.windowed.iter_mut().zip(&self.ledger.windowed) {
            *sum += class.map_or(0.0, |(_, w)| length.min(f64::from(w)));
        }
    }

    /// Adds a prompt of so many positions.
    pub(super) fn prompt(&mut self, positions: u32) {
        let n = f64::from(positions);
        self.add([n, 0.0, 0.0, 0.0], n, false);
    }

    /// Takes off so many positions that two sequences have in common.
    pub(super) fn shared(&mut self, positions: f64) {
        self.held.tiers[0] -= positions;
    }

    /// Adds a request for the step after `done` decode steps.
    pub(super) fn request(&mut self, job: &Job, done: u32) {
        let length = f64::from(job.request.prompt + done + 1);
        self.add(job.timeline.tokens_at(done), length, job.timeline.spills());
    }

    /// Bytes of KV and staging.
    pub(super) fn bytes(&self) -> f64 {
        self.ledger.instant(&self.held, self.spills).total()
    }
}

impl Server<'_> {
    /// What the running requests and those being prefilled take in the coming step.
    pub(super) fn room(&self) -> Room<'_> {
        let mut room = Room::new(&self.setup);
        for r in self.running.list() {
            let length = self.setup.jobs[r.job as usize].request.prompt + r.done + 1;
            room.add(r.tiers(), f64::from(length), r.spills());
        }
        for f in &self.filling {
            room.prompt(f.room);
        }
        room.shared(self.shared());
        room
    }

    /// Steps for which `used` bytes, growing by a token a sequence and step, surely fit.
    #[allow(clippy::cast_possible_truncation)] // clamped to u32
    pub(super) fn lasts(&self, used: f64) -> u32 {
        let ledger = self.setup.ledger;
        let windowed: f64 = ledger.windowed.iter().flatten().map(|w| w.0).sum();
        let grows = (self.running.len() as f64 * (ledger.kv_token + windowed)).max(1.0);
        let page = f64::from(self.setup.prepared.deployment.runtime.page_tokens.max(1));
        let steps = (self.setup.rules.pool - used) / grows - page;
        steps.clamp(1.0, f64::from(u32::MAX)) as u32
    }

    /// Refuses a load of which a request never fits alone.
    pub(super) fn check(&self) -> Result<()> {
        let rules = &self.setup.rules;
        let mut known: Option<(*const Timeline, u32, u32)> = None;
        for (i, job) in self.setup.jobs.iter().enumerate() {
            let (prompt, steps) = (job.request.prompt, job.request.output);
            if job.timeline.steps < steps {
                return Err(Error::internal(format!(
                    "a timeline of {} steps for a request of {steps}",
                    job.timeline.steps
                )));
            }
            let key = (Arc::as_ptr(&job.timeline), prompt, steps);
            if known == Some(key) {
                continue;
            }
            known = Some(key);
            if self.ddr_of[i] > rules.ddr {
                return Err(never_fits(i, "host memory that may be pinned is too small"));
            }
            if self.largest(job) > rules.pool {
                return Err(never_fits(i, "the KV pool is too small"));
            }
        }
        Ok(())
    }

    /// HBM that a request takes alone at its largest: its prompt, and the end of each interval.
    fn largest(&self, job: &Job) -> f64 {
        let alone = |fill: &dyn Fn(&mut Room<'_>)| {
            let mut room = Room::new(&self.setup);
            fill(&mut room);
            room.bytes()
        };
        let spills = job.timeline.spills();
        let positions = job.request.prompt + if spills { 1 } else { job.request.output + 1 };
        let mut most = alone(&|room| room.prompt(positions));
        for (i, interval) in job.timeline.intervals.iter().enumerate() {
            let last = interval.first_step + job.timeline.steps_of(i).saturating_sub(1);
            if spills && interval.first_step < job.request.output {
                let step = last.min(job.request.output - 1);
                most = most.max(alone(&|room| room.request(job, step)));
            }
        }
        most
    }
}

/// Host memory that each request may come to need (bytes).
pub(super) fn host_needs(setup: &Serve<'_>) -> Vec<f64> {
    let through = setup.prepared.deployment.write_back == WriteBack::Through;
    let mut known: Option<(*const Timeline, u32, f64)> = None;
    let need = |job: &Job| {
        let (key, steps) = (Arc::as_ptr(&job.timeline), job.request.output);
        if let Some((_, _, need)) = known.filter(|k| (k.0, k.1) == (key, steps)) {
            return need;
        }
        let need = host_need(setup.ledger, job, through);
        known = Some((key, steps, need));
        need
    };
    setup.jobs.iter().map(need).collect()
}

fn host_need(ledger: &Ledger, job: &Job, through: bool) -> f64 {
    let t = &job.timeline;
    if !t.spills() || job.request.output == 0 {
        return 0.0;
    }
    let at = |(i, interval): (usize, &crate::timeline::Interval)| {
        let last = interval.first_step + t.steps_of(i).saturating_sub(1);
        let tiers = t.tokens_at(last.min(job.request.output - 1));
        let copied = if through {
            (tiers[0] - f64::from(t.never_moves)).max(0.0)
        } else {
            0.0
        };
        ledger.kv_token * (tiers[1] + copied) + ledger.t2_token * tiers[2]
    };
    let lived = t.intervals.iter().enumerate();
    lived
        .take_while(|(_, i)| i.first_step < job.request.output)
        .map(at)
        .fold(0.0, f64::max)
}
