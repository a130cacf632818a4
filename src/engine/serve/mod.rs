//! Requests over time through a running batch: continuous batching with chunked prefill, as vLLM v1 schedules.
//!
//! Before every step a batch is chosen: each decoding request gets its one token; what is left of the token budget goes to
//! prompts, those begun first, then waiting ones in order of arrival, a chunk each as long as there is budget, a free slot
//! and room. When the next step's pages do not fit, the latest request gives way (`preempt`): its KV is computed again later,
//! or swapped to host memory and back. All of them share one step (`Prepared::mixed`), whose decode part and tiers are
//! those of the static batch ([`Stepper`]): the same laws, timelines and ledger. The first token comes with the last chunk of
//! a prompt, so that an answer of n tokens has n - 1 decode steps. Steps in which nobody comes, ends or moves are run
//! through without looking at any request. `ahead` is asynchronous scheduling: a batch is chosen while the step before it
//! runs, so that an arrival waits for one step more and the slot of a request that ended is free one step later.
//!
//! Replicas that share experts run in step ([`together`]).
//!
//! Prompts that begin alike share their blocks (`prefix`): compute, and memory while they are together.
//!
//! Ignored: a prompt's pages are taken whole at its admission. vLLM, too, admits only what fits whole (since
//! `scheduler_reserve_full_isl`, on by default), but takes a chunk's pages at a time, so that between two chunks others may have the
//! rest, and whoever then lacks it gives way: with room to spare both are the same, with none this is the later admission.
//! Fairness, priorities, speculative tokens. Rival: queueing formulas, which have no chunks, no preemption and no tails. Ties: arrivals in the
//! order of the load; everything else is one sequence of steps. Times are integer picoseconds: two runs are equal to the bit.

mod life;
mod prefix;
mod record;
mod replicas;
mod room;
mod schedule;
mod shared;
mod watch;

use std::collections::VecDeque;

use super::brief::brief;
use super::deferred::Deferred;
use super::running::{RunningSet, charge};
use super::{Job, Observer, Run, StepTimes, Stepper, too_long};
use crate::deploy::Compact;
use crate::error::{Cause, Error, Result};
use crate::memory::{Held, Ledger};
use crate::service::Prepared;
use crate::units::Ps;

pub use life::{Life, Times};
pub use replicas::together;
pub use watch::{Means, Sample};

use prefix::PrefixCache;
use watch::Watch;

/// What happens to the request that gives way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GiveWay {
    /// Its KV is dropped and computed again.
    #[default]
    Recompute,
    /// Its KV goes to host memory and comes back, as far as there is room.
    Swap,
}

/// How the engine schedules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Requests in the batch at most.
    pub max_running: u32,
    /// Tokens of a step at most, decode tokens included.
    pub token_budget: u32,
    /// What preemption does.
    pub give_way: GiveWay,
    /// Whether a batch is chosen while the step before it runs.
    pub ahead: bool,
    /// HBM for KV and staging (bytes); infinite: nothing is refused for want of it.
    pub pool: f64,
    /// Host memory that may be pinned (bytes).
    pub ddr: f64,
}

/// What to serve.
#[derive(Clone, Debug)]
pub struct Serve<'a> {
    /// Laws.
    pub prepared: &'a Prepared,
    /// Memory prices.
    pub ledger: &'a Ledger,
    /// Requests in order of arrival.
    pub jobs: Vec<Job>,
    /// Ids of the prompt blocks of each request, for prompts that begin alike; empty if none are known.
    pub blocks: &'a [Vec<u32>],
    /// Tokens of such a block.
    pub block_tokens: u32,
    /// How.
    pub rules: Rules,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Sums, peaks and decode steps, as of any run.
    pub run: Run,
    /// Each request's times, in order of arrival.
    pub lives: Vec<Life>,
    /// Time between two tokens of a request, and how often it occurred.
    pub gaps: Vec<(Ps, u32)>,
    /// The state now and then, at most a few hundred times.
    pub samples: Vec<Sample>,
    /// Means over time.
    pub means: Means,
    /// Prompt tokens that were found in the prefix cache.
    pub cached_tokens: u64,
    /// Preemptions that swapped.
    pub swaps: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: u32,
    /// Tokens it has.
    tokens: u32,
    /// Bytes of its KV in host memory, if it was swapped.
    swapped: f64,
    /// When it came, or gave way.
    since: Ps,
}

/// A request whose prompt is being prefilled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    job: u32,
    /// Tokens it had before (it was preempted).
    tokens: u32,
    /// Positions to compute.
    total: u32,
    /// Positions that take HBM once all are there: what its tiers hold elsewhere goes there as it is computed.
    room: u32,
    /// Positions that are there.
    done: u32,
    /// Positions of the coming step.
    chunk: u32,
    /// Blocks of its prompt that the prefix cache has seen.
    seen: u32,
}

/// The engine of one load.
pub struct Server<'a> {
    setup: Serve<'a>,
    stepper: Stepper<'a>,
    held: Held,
    deferred: Deferred,
    running: RunningSet,
    filling: Vec<Filling>,
    waiting: VecDeque<Waiting>,
    /// The next to arrive.
    next: usize,
    prefix: PrefixCache,
    /// Blocks of the prefix cache that each request of the batch holds; empty if no blocks are known.
    holds: Vec<Vec<u32>>,
    /// Host memory that each job may come to need, and what is promised (bytes).
    ddr_of: Vec<f64>,
    ddr: f64,
    /// Requests that ended with the step before: their slots are still taken where a batch is chosen ahead.
    lingering: u32,
    /// Requests that decode again in the coming step, whose last token is longer ago.
    back: Vec<u32>,
    /// Copies of swapped KV that the coming step waits for.
    stall: Ps,
    /// Steps for which the room is known to last.
    lasts: u32,
    last_end: Option<Ps>,
    first: Option<Ps>,
    watch: Watch,
    out: Served,
}

impl<'a> Server<'a> {
    /// An engine with its requests still to arrive.
    ///
    /// # Errors
    /// Infeasible: a request never fits alone. Usage: a budget below the batch. Internal: a timeline is too short.
    pub fn new(mut setup: Serve<'a>) -> Result<Self> {
        let rules = setup.rules;
        if rules.token_budget < rules.max_running.max(1) {
            return Err(Error::usage(format!(
                "a budget of {} tokens a step cannot hold the decode tokens of {} requests",
                rules.token_budget, rules.max_running
            ))
            .help("raise --token-budget, or lower --batch"));
        }
        let lives = setup.jobs.iter().map(|j| Life::new(&j.request)).collect();
        brief(&mut setup.jobs);
        // The first token comes with the prompt: what is left are decode steps.
        for job in &mut setup.jobs {
            job.request.output = job.request.output.saturating_sub(1);
        }
        let classes = &setup.prepared.classes;
        let windowed = if classes.iter().any(|c| c.window.is_some()) {
            vec![0.0; classes.len()]
        } else {
            Vec::new()
        };
        let server = Self {
            ddr_of: room::host_needs(&setup),
            stepper: Stepper::new(setup.prepared),
            held: Held {
                windowed,
                ..Held::default()
            },
            deferred: Deferred::default(),
            running: RunningSet::default(),
            filling: Vec::new(),
            waiting: VecDeque::new(),
            next: 0,
            prefix: PrefixCache::default(),
            holds: vec![Vec::new(); setup.blocks.len()],
            ddr: 0.0,
            lingering: 0,
            back: Vec::new(),
            stall: Ps::ZERO,
            lasts: 1,
            last_end: None,
            first: None,
            watch: Watch::default(),
            out: Served {
                lives,
                ..Served::default()
            },
            setup,
        };
        server.check()?;
        Ok(server)
    }

    /// Serves all requests.
    ///
    /// # Errors
    /// Internal, if `observer` finds a law broken; infeasible, if it takes more steps than are simulated.
    pub fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Result<Served> {
        let (mut now, mut seen) = (Ps::ZERO, Ps::ZERO);
        loop {
            self.arrive(seen);
            self.choose(now);
            if self.busy() {
                (now, seen) = self.steps(now, observer)?;
                continue;
            }
            // Slots of those that just ended are free once nothing runs.
            if self.lets_go() {
                continue;
            }
            // Nothing runs: whoever is there already is taken at once, else the clock goes to the next.
            match self.next_arrival() {
                _ if !self.waiting.is_empty() => {
                    return Err(Error::internal("an idle engine leaves a request waiting"));
                }
                Some(at) => {
                    now = now.max(at);
                    seen = now;
                    self.last_end = None;
                }
                None => return Ok(self.finish()),
            }
        }
    }

    /// Takes in who has come by `seen`.
    fn arrive(&mut self, seen: Ps) {
        while let Some(job) = self.setup.jobs.get(self.next) {
            if job.request.arrival > seen {
                break;
            }
            #[allow(clippy::cast_possible_truncation)] // a load has at most 2^20 requests
            let number = self.next as u32;
            let ahead = self.waiting.len() + self.running.len() + self.filling.len();
            self.out.lives[self.next].ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
            self.waiting.push_back(Waiting {
                job: number,
                tokens: 0,
                swapped: 0.0,
                since: job.request.arrival,
            });
            self.next += 1;
        }
    }

    /// Steps from `now` on until somebody has to be looked at; returns the end of the last, and the time up to which arrivals
    /// take part in the next choice.
    fn steps<O: Observer + ?Sized>(&mut self, now: Ps, observer: &mut O) -> Result<(Ps, Ps)> {
        let mut start = now + std::mem::take(&mut self.stall);
        let lingers = std::mem::take(&mut self.lingering) > 0 && !self.waiting.is_empty();
        let alone = lingers || !self.filling.is_empty() || !self.back.is_empty();
        let mut left = if alone { 1 } else { self.lasts.max(1) };
        loop {
            let times = self.step(start, observer)?;
            let seen = if self.setup.rules.ahead {
                start
            } else {
                times.end
            };
            left -= 1;
            let next = self.setup.jobs.get(self.next);
            let comes = next.is_some_and(|j| j.request.arrival <= seen);
            let last = left == 0 || comes || self.running.changes();
            self.running.advance();
            start = times.end;
            if last {
                self.sync(times.end);
                return Ok((times.end, seen));
            }
            self.out.run.events += 1;
        }
    }

    /// One step that begins at `start`.
    fn step<O: Observer + ?Sized>(&mut self, start: Ps, observer: &mut O) -> Result<StepTimes> {
        let times = self.timed(start, None)?;
        self.told(&times, observer)?;
        Ok(times)
    }

    /// The times of a step that begins at `start`; `rows` are the tokens of all replicas, where they share experts.
    fn timed(&mut self, start: Ps, rows: Option<f64>) -> Result<StepTimes> {
        if self.out.run.steps.len() >= super::MOST_STEPS {
            return Err(too_long(super::MOST_STEPS as f64));
        }
        let burst = self.deferred.next();
        let jobs = &self.setup.jobs;
        self.running
            .hold(&mut self.held, &self.setup.prepared.classes, jobs);
        let totals = *self.running.totals();
        let m = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let times = if self.filling.is_empty() && rows.is_none() {
            self.stepper
                .step(start, m, &self.held, &burst, totals.spilling)
        } else {
            let cost = self.mixed(m, rows);
            self.stepper
                .step_beside(start, cost, &self.held, &burst, totals.spilling)
        };
        self.out.run.sums.add(&times, self.stepper.cost());
        Ok(times)
    }

    /// Whether the coming step has anything to do.
    fn busy(&self) -> bool {
        self.running.len() + self.filling.len() > 0
    }

    /// Tokens of the coming step.
    fn rows(&self) -> f64 {
        let chunks: f64 = self.filling.iter().map(|f| f64::from(f.chunk)).sum();
        self.running.len() as f64 + chunks
    }

    /// Frees the slots of those that ended, once nothing runs; whether somebody waits for one.
    fn lets_go(&mut self) -> bool {
        std::mem::take(&mut self.lingering) > 0 && !self.waiting.is_empty()
    }

    /// When the next request comes.
    fn next_arrival(&self) -> Option<Ps> {
        self.setup.jobs.get(self.next).map(|j| j.request.arrival)
    }

    /// Costs of `m` decode tokens beside the chunks chosen.
    fn mixed(&self, m: u32, rows: Option<f64>) -> crate::service::BatchCost {
        let chunks: Vec<(u32, u32)> = self
            .filling
            .iter()
            .filter(|f| f.chunk > 0)
            .map(|f| (f.done, f.chunk))
            .collect();
        let over = |f: &&Filling| f.chunk > 0 && f.done + f.chunk == f.total;
        let ends = u32::try_from(self.filling.iter().filter(over).count()).unwrap_or(u32::MAX);
        match rows {
            None => self.setup.prepared.mixed(m, &chunks, m + ends),
            Some(_) if chunks.is_empty() => self.setup.prepared.batch_of(m, rows),
            Some(_) => self.setup.prepared.mixed_of(m, &chunks, m + ends, rows),
        }
    }

    /// Brings everybody up to date at `end`.
    fn sync(&mut self, end: Ps) {
        let compact = self.setup.prepared.deployment.compact == Compact::Retier;
        let (deferred, jobs) = (&mut self.deferred, &self.setup.jobs);
        self.running.sync(jobs, |job, next| {
            charge(deferred.after(job.phase), next, job, compact);
        });
        for job in std::mem::take(&mut self.back) {
            let life = &mut self.out.lives[job as usize];
            self.out.gaps.push((end.saturating_sub(life.last), 1));
        }
        let m = self.running.len() as f64;
        let done = self.running.take_done(jobs);
        if let Some(step) = self.out.run.steps.last().filter(|_| !done.is_empty()) {
            self.out.run.at_end = m / step.secs();
        }
        for r in done {
            self.end(r.job, end);
        }
        self.filled(end);
        self.out.run.events += 1;
    }

    /// Books the chunks of the step that ends at `end`: prompts that are done give a token and decode from now on.
    fn filled(&mut self, end: Ps) {
        for mut f in std::mem::take(&mut self.filling) {
            f.done += std::mem::take(&mut f.chunk);
            self.keep_blocks(&mut f);
            if f.done + 1 == f.total && f.tokens > 0 {
                // What is left of one that gave way is a decode step.
                self.running
                    .join(f.job, f.tokens - 1, &self.setup.jobs, false);
                self.back.push(f.job);
                continue;
            }
            if f.done < f.total {
                self.filling.push(f);
                continue;
            }
            self.out.run.tokens += 1;
            let life = &mut self.out.lives[f.job as usize];
            if f.tokens == 0 {
                life.first = end;
            } else {
                self.out.gaps.push((end.saturating_sub(life.last), 1));
            }
            life.last = end;
            if f.tokens >= self.setup.jobs[f.job as usize].request.output {
                self.end(f.job, end);
            } else {
                self.running.join(f.job, f.tokens, &self.setup.jobs, false);
            }
        }
    }

    /// A request has all its tokens.
    fn end(&mut self, job: u32, end: Ps) {
        self.out.lives[job as usize].last = end;
        self.out.lives[job as usize].ended = true;
        self.let_go(job);
        self.ddr -= self.ddr_of[job as usize];
        if self.setup.rules.ahead {
            self.lingering += 1;
        }
    }
}

/// A load of which one request alone does not fit.
fn never_fits(job: usize, what: &str) -> Error {
    Error::new(
        Cause::Infeasible,
        format!(
            "request {} does not fit alone at its full length: {what}",
            job + 1
        ),
    )
}
