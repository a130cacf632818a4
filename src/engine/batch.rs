//! The running batch: who is admitted, who is preempted, what each step holds and costs.
//!
//! Preemption is vLLM's: requests run in arrival order; when the next step's pages do not fit, the latest running
//! request loses all its KV and goes to the head of the waiting line; it comes back once its whole context fits and its
//! KV is computed again, which stalls the batch for the length of that prefill.

use std::collections::VecDeque;
use std::sync::Arc;

use super::brief::brief;
use super::deferred::Deferred;
use super::running::{RunningSet, Totals, charge};
use super::{Event, EventQueue, Observer, Run, StepFact, StepTimes, Stepper};
use crate::deploy::{Compact, WriteBack};
use crate::error::{Cause, Error, Result};
use crate::memory::{Held, Ledger};
use crate::service::Prepared;
use crate::timeline::{PAGE, Timeline};
use crate::units::Ps;
use crate::workload::Request;

/// A request and where its tokens live.
#[derive(Clone, Debug)]
pub struct Job {
    /// Lengths and arrival.
    pub request: Request,
    /// Its placement, shared.
    pub timeline: Arc<Timeline>,
    /// Steps by which its re-tier costs come later than the first sequence's.
    pub phase: u32,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Laws.
    pub prepared: &'a Prepared,
    /// Memory prices.
    pub ledger: &'a Ledger,
    /// Requests, in arrival order.
    pub jobs: Vec<Job>,
    /// Sequences that may run together.
    pub max_running: u32,
    /// Whether KV is paged against the pool, preempting when it runs out; else everything given runs.
    pub paged: bool,
    /// Whether a request that ends is replaced by a fresh one, until as many tokens were made as the jobs ask for.
    pub respawn: bool,
}

/// The engine of one run.
pub struct Engine<'a> {
    setup: Setup<'a>,
    stepper: Stepper<'a>,
    queue: EventQueue,
    waiting: VecDeque<(u32, u32, bool)>,
    running: RunningSet,
    held: Held,
    deferred: Deferred,
    idle: bool,
    /// When each job's decoding began; a preempted one keeps its first beginning.
    began: Vec<Option<Ps>>,
    /// When the first step began.
    first: Option<Ps>,
    wanted: u64,
    finished: u64,
    tpot_sum: f64,
    out: Run,
}

/// Most decode steps of a run: twice the longest chain that is simulated, and what keeps a batch of a hundred thousand
/// on a card that holds one request from filling memory.
pub const MOST_STEPS: usize = 1 << 25;

impl<'a> Engine<'a> {
    /// An engine with its jobs still to arrive.
    ///
    /// # Errors
    /// Usage, if a timeline is shorter than its request or a paged request can never fit.
    pub fn new(mut setup: Setup<'a>) -> Result<Self> {
        for job in &setup.jobs {
            check(job, &setup)?;
        }
        brief(&mut setup.jobs);
        let classes = &setup.prepared.classes;
        let windowed = if classes.iter().any(|c| c.window.is_some()) {
            vec![0.0; classes.len()]
        } else {
            Vec::new()
        };
        Ok(Self {
            stepper: Stepper::new(setup.prepared),
            queue: EventQueue::default(),
            waiting: VecDeque::new(),
            running: RunningSet::default(),
            held: Held {
                windowed,
                ..Held::default()
            },
            deferred: Deferred::default(),
            idle: true,
            began: vec![None; setup.jobs.len()],
            first: None,
            wanted: setup.jobs.iter().map(|j| u64::from(j.request.output)).sum(),
            finished: 0,
            tpot_sum: 0.0,
            out: Run::default(),
            setup,
        })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// Internal, if `observer` finds a law broken.
    pub fn run<O: Observer + ?Sized>(mut self, observer: &mut O) -> Result<Run> {
        for (i, job) in (0u32..).zip(&self.setup.jobs) {
            self.queue.schedule(job.request.arrival, Event::Arrive(i))?;
        }
        while let Some((now, event)) = self.queue.pop() {
            if let Some((at, next)) = self.handle(now, event, observer)? {
                self.queue.schedule(at, next)?;
            }
            self.out.events += 1;
        }
        self.out.events += self.stepper.events();
        // In a steady state requests wait for each other's first prefill, which is a figure of its own.
        let decode: f64 = self.out.steps.iter().map(|s| s.secs()).sum();
        self.out.tpot_mean = if self.setup.respawn {
            (decode + self.out.recompute.secs()) / self.out.steps.len().max(1) as f64
        } else {
            self.tpot_sum / self.finished.max(1) as f64
        };
        Ok(self.out)
    }

    /// Handles one event; returns what it schedules.
    fn handle<O: Observer + ?Sized>(
        &mut self,
        now: Ps,
        event: Event,
        observer: &mut O,
    ) -> Result<Option<(Ps, Event)>> {
        match event {
            Event::Arrive(job) => {
                let generated = self.setup.jobs[job as usize].request.generated;
                self.waiting.push_back((job, generated, false));
                let begin = std::mem::take(&mut self.idle);
                Ok(begin.then_some((now, Event::StepBegin)))
            }
            Event::StepBegin => {
                let start = self.turn(now);
                if self.running.len() == 0 {
                    self.idle = true;
                    return Ok(None);
                }
                let end = self.steps(start, observer)?;
                Ok((!self.over()).then_some((end, Event::StepBegin)))
            }
        }
    }

    /// Who runs from `now` on; returns when their prefill is done.
    fn turn(&mut self, now: Ps) -> Ps {
        self.preempt();
        let start = self.admit(now);
        self.running
            .settle(&self.setup.jobs, self.page(), self.whole_pages());
        start
    }

    /// Steps from `start` on until somebody changes; returns the end of the last. Quiet steps need no event of their own:
    /// only an arrival could come between, and it would find nobody admitted before the next change anyway unless the
    /// batch has room, so with requests still to arrive every step is a turn. In between T0 only grows, so the last of
    /// these steps is the one to look at for the peaks.
    fn steps<O: Observer + ?Sized>(&mut self, start: Ps, observer: &mut O) -> Result<Ps> {
        let mut end = start;
        loop {
            let times = self.step(end, observer)?;
            end = times.end;
            let last = self.running.changes() || !self.queue.is_empty() || self.over();
            if last {
                self.peaks(times.t1_bytes);
            }
            self.running.advance();
            if last {
                break;
            }
            self.out.events += 1;
        }
        self.sync(end);
        Ok(end)
    }

    /// Whether a steady state was watched for long enough.
    fn over(&self) -> bool {
        self.setup.respawn && self.out.tokens >= self.wanted
    }

    /// Page size, where pages matter.
    fn page(&self) -> Option<u32> {
        if self.whole_pages() {
            return Some(PAGE);
        }
        self.setup
            .paged
            .then(|| self.setup.prepared.deployment.runtime.page_tokens.max(1))
    }

    /// Whether T0 keeps every page with a T0 token in it.
    fn whole_pages(&self) -> bool {
        self.setup.ledger.whole_pages
    }

    /// Bytes of the pages of the coming step.
    fn used(&self) -> f64 {
        self.running
            .list()
            .iter()
            .map(|r| self.pages(r.job, r.done))
            .sum()
    }

    /// Preempts the latest running requests until the pages of the next step fit.
    fn preempt(&mut self) {
        if !self.setup.paged {
            return;
        }
        let pool = self.setup.ledger.pool();
        let mut used = self.used();
        while used > pool && self.running.len() > 1 {
            let Some(last) = self.running.pop() else {
                break;
            };
            used -= self.pages(last.job, last.done);
            self.waiting.push_front((last.job, last.done, true));
            self.out.preemptions += 1;
        }
    }

    /// Bytes of the pages that `job` needs for the step after `done` ones.
    fn pages(&self, job: u32, done: u32) -> f64 {
        let page = self.setup.prepared.deployment.runtime.page_tokens.max(1);
        let tokens = self.setup.jobs[job as usize].request.prompt + done + 1;
        self.setup
            .ledger
            .sequence_bytes(f64::from(tokens.div_ceil(page) * page))
    }

    /// Admits waiting requests in order while they fit; returns when their prefill is done.
    fn admit(&mut self, now: Ps) -> Ps {
        let mut used = if self.setup.paged { self.used() } else { 0.0 };
        let (mut fresh, mut again) = (Vec::new(), Vec::new());
        while let Some(&(job, done, preempted)) = self.waiting.front() {
            let need = if self.setup.paged {
                self.pages(job, done)
            } else {
                0.0
            };
            let full = self.running.len() >= self.setup.max_running as usize;
            if full || self.setup.paged && used + need > self.setup.ledger.pool() {
                break;
            }
            used += need;
            self.waiting.pop_front();
            let prompt = self.setup.jobs[job as usize].request.prompt;
            if preempted { &mut again } else { &mut fresh }.push((0, prompt + done));
            self.running
                .join(job, done, &self.setup.jobs, !self.setup.respawn);
        }
        self.prefill(now, &fresh, &again)
    }

    /// Prefills the newly admitted; returns when decoding may go on.
    fn prefill(&mut self, now: Ps, fresh: &[(u32, u32)], again: &[(u32, u32)]) -> Ps {
        if fresh.is_empty() && again.is_empty() {
            return now;
        }
        let first = Ps::from_secs(self.setup.prepared.prefill(fresh));
        let recompute = Ps::from_secs(self.setup.prepared.prefill(again));
        self.out.prefill += first;
        self.out.recompute += recompute;
        let start = now + first + recompute;
        for r in self.running.list() {
            self.began[r.job as usize].get_or_insert(start);
        }
        start
    }

    /// One step that begins at `start`.
    fn step<O: Observer + ?Sized>(&mut self, start: Ps, observer: &mut O) -> Result<StepTimes> {
        if self.out.steps.len() >= MOST_STEPS {
            return Err(too_long(MOST_STEPS as f64));
        }
        let burst = self.deferred.next();
        self.running.hold(
            &mut self.held,
            &self.setup.prepared.classes,
            &self.setup.jobs,
        );
        let m = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let totals = *self.running.totals();
        let draws = observer.draws();
        self.stepper.keep_slices(draws);
        let times = self
            .stepper
            .step(start, m, &self.held, &burst, totals.spilling);
        self.out.sums.add(&times, self.stepper.cost());
        let (destroyed, appended) = (totals.tiers[3], totals.length);
        let instant = self.setup.ledger.instant(&self.held, totals.spilling > 0.0);
        // What is fetched differs from step to step, and with it the room it takes.
        if observer.watches() || self.setup.ledger.selection().is_some() {
            self.peaks(times.t1_bytes);
        }
        if draws {
            observer.drawn(self.stepper.slices())?;
        }
        observer.step(&StepFact {
            times: &times,
            held: &self.held,
            destroyed,
            appended,
            instant,
            peak: self.out.peak.hbm,
            ddr: self.out.peak.ddr,
        })?;
        self.out.steps.push(times.end - start);
        self.out.tokens += u64::from(m);
        self.out.makespan = times.end;
        self.out.decoding = times.end - *self.first.get_or_insert(start);
        Ok(times)
    }

    /// Adds the step just run to the peaks.
    fn peaks(&mut self, t1_bytes: f64) {
        let totals: &Totals = self.running.totals();
        let ledger = self.setup.ledger;
        let instant = ledger.instant(&self.held, totals.spilling > 0.0);
        let peak = &mut self.out.peak;
        if instant.total() > peak.hbm.total() {
            peak.hbm = instant;
        }
        // Host memory: T1 and T2, and with write-through T0's copies of what may move.
        let copied = if self.setup.prepared.deployment.write_back == WriteBack::Through {
            totals.copied
        } else {
            0.0
        };
        let ddr = ledger.kv_token * (totals.tiers[1] + copied.max(0.0))
            + ledger.t2_token * totals.tiers[2];
        let full = ledger.kv_token * totals.length + ledger.windowed_bytes(&self.held);
        if full > peak.full {
            peak.full = full;
            peak.destroyed = ledger.kv_token * totals.tiers[3];
        }
        peak.ddr = peak.ddr.max(ddr);
        peak.t1 = peak.t1.max(t1_bytes);
    }

    /// Brings everybody up to date at `end`: decisions that now hold, and who is done.
    fn sync(&mut self, end: Ps) {
        let compact = self.setup.prepared.deployment.compact == Compact::Retier;
        let deferred = &mut self.deferred;
        self.running.sync(&self.setup.jobs, |job, next| {
            charge(deferred.after(job.phase), next, job, compact);
        });
        let m = self.running.len() as f64;
        let done = self.running.take_done(&self.setup.jobs);
        if !done.is_empty() {
            self.out.at_end = m / self.out.steps.last().map_or(f64::INFINITY, |s| s.secs());
        }
        for r in done {
            self.finish(r.job, end);
        }
    }

    fn finish(&mut self, job: u32, end: Ps) {
        let request = self.setup.jobs[job as usize].request;
        let steps = f64::from(request.output - request.generated.min(request.output - 1));
        let began = self.began[job as usize].take().unwrap_or(Ps::ZERO);
        self.tpot_sum += end.saturating_sub(began).secs() / steps;
        self.finished += 1;
        if self.setup.respawn {
            // Its successor begins at the prompt.
            self.setup.jobs[job as usize].request.generated = 0;
            self.waiting.push_back((job, 0, false));
        }
    }
}

/// A run of more steps than can be simulated.
pub fn too_long(most: f64) -> Error {
    let steps = crate::units::text::group(&format!("{most:.0}"));
    Error::new(
        Cause::Infeasible,
        format!(
            "the requests take turns for more than {steps} decode steps, the most that is simulated"
        ),
    )
    .help("a smaller --batch gives the same tokens per second")
}

/// Refuses a job that could never run.
fn check(job: &Job, setup: &Setup<'_>) -> Result<()> {
    if job.timeline.steps < job.request.output {
        return Err(Error::internal(format!(
            "a timeline of {} steps for a request of {}",
            job.timeline.steps, job.request.output
        )));
    }
    let page = setup.prepared.deployment.runtime.page_tokens.max(1);
    let longest = f64::from((job.request.prompt + job.request.output).next_multiple_of(page));
    if setup.paged && setup.ledger.sequence_bytes(longest) > setup.ledger.pool() {
        return Err(Error::new(
            Cause::Infeasible,
            "the engine cannot hold one request at its full length",
        ));
    }
    Ok(())
}
