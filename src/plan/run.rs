//! One scenario to one outcome: budget, timeline, run, figures.
//!
//! The order matters: `hbm=fit` first becomes tokens per request (memory ledger), then the policy is replayed at that
//! budget, and only then the engine runs, so that neither half sees the other's world. A scenario that does not fit
//! still yields an outcome, without throughput, with the changes that would make it fit, each of them checked.

use std::sync::Arc;

use crate::deploy::Deployment;
use crate::engine::audit::Audit;
use crate::engine::{Engine, Job, Run, Setup, Unwatched};
use crate::error::{Cause, Error, Result};
use crate::memory::{Held, Ledger};
use crate::metrics::Outcome;
use crate::policy::four_tier::Hbm;
use crate::policy::{self, PolicySpec};
use crate::replay;
use crate::scenario::{Occupancy, Phase, Scenario, TraceRef};
use crate::service::Prepared;
use crate::timeline::Timeline;
use crate::trace::{self, TraceReader};
use crate::workload::{self, Request};

use super::{changes, outcome};

/// A scenario made ready: laws, ledger, budget, traces.
pub struct Case {
    /// The question.
    pub scenario: Scenario,
    /// Laws.
    pub prepared: Prepared,
    /// Memory prices.
    pub ledger: Ledger,
    /// Policy at its resolved budget.
    pub spec: PolicySpec,
    /// One timeline a trace (or a single one from lengths).
    pub timelines: Vec<Arc<Timeline>>,
    /// Recordings behind them.
    pub traces: Vec<Arc<TraceReader>>,
}

/// A run and what it is compared with.
pub struct Ran {
    /// The run itself; none if it cannot start.
    pub run: Run,
    /// The same with everything in an HBM of unlimited size.
    pub full: Arc<Run>,
}

/// Simulates one deployment.
///
/// # Errors
/// Usage (names, settings), data (a damaged trace), internal (a broken law under `audit`).
pub fn simulate(scenario: &Scenario) -> Result<Outcome> {
    let traces = open(&scenario.trace)?;
    let case = Case::new(scenario, &traces)?;
    let full = Arc::new(case.run_full()?);
    let run = case.run()?;
    let mut out = outcome::build(&case, &Ran { run, full });
    if !out.fits {
        out.changes = changes::that_fit(&case)?;
    }
    Ok(out)
}

/// Opens the recordings a scenario names.
///
/// # Errors
/// Data or usage, naming the file.
pub fn open(trace: &TraceRef) -> Result<Vec<Arc<TraceReader>>> {
    match trace {
        TraceRef::None => Ok(Vec::new()),
        TraceRef::Embedded => Ok(vec![Arc::new(trace::default_trace()?)]),
        TraceRef::Paths(paths) => paths
            .iter()
            .map(|p| TraceReader::open(p).map(Arc::new))
            .collect(),
    }
}

impl Case {
    /// Resolves the budget and replays.
    ///
    /// # Errors
    /// As [`simulate`].
    pub fn new(scenario: &Scenario, traces: &[Arc<TraceReader>]) -> Result<Self> {
        let prepared = Prepared::new(&scenario.deployment);
        let ledger = Ledger::new(&prepared);
        let spec = budget(
            scenario,
            &prepared,
            &ledger,
            policy::parse(&scenario.policy)?,
        )?;
        let timelines = timelines(scenario, &spec, traces)?;
        Ok(Self {
            scenario: scenario.clone(),
            prepared,
            ledger,
            spec,
            timelines,
            traces: traces.to_vec(),
        })
    }

    /// Runs it as asked.
    ///
    /// # Errors
    /// Internal, if a law is broken under `audit`.
    pub fn run(&self) -> Result<Run> {
        self.engine(
            &self.prepared,
            &self.ledger,
            &self.timelines,
            self.scenario.batch,
            false,
        )
    }

    /// Runs the engine as it is: everything in HBM, paged, at most `max_running` together.
    ///
    /// # Errors
    /// Infeasible, if not even one request fits.
    pub fn run_paged(&self, max_running: u32) -> Result<Run> {
        let full = full_timeline(&self.scenario)?;
        self.engine(&self.prepared, &self.ledger, &[full], max_running, true)
    }

    /// Runs with everything in an HBM of unlimited size.
    ///
    /// # Errors
    /// Internal, if a law is broken under `audit`.
    pub fn run_full(&self) -> Result<Run> {
        let full = full_timeline(&self.scenario)?;
        self.engine(
            &self.prepared,
            &self.ledger,
            &[full],
            self.scenario.batch,
            false,
        )
    }

    fn engine(
        &self,
        prepared: &Prepared,
        ledger: &Ledger,
        timelines: &[Arc<Timeline>],
        max: u32,
        paged: bool,
    ) -> Result<Run> {
        let s = &self.scenario;
        let interval = self.spec.interval().unwrap_or(1);
        let phases = match s.phase {
            Phase::Seeded => workload::retier_phases(s.batch, interval, s.seed),
            Phase::Lockstep => vec![0; s.batch as usize],
        };
        let jobs = requests(s)
            .into_iter()
            .zip(phases)
            .enumerate()
            .map(|(i, (request, phase))| Job {
                request,
                timeline: Arc::clone(&timelines[i % timelines.len()]),
                phase,
            })
            .collect();
        let respawn = s.occupancy == Occupancy::Staggered;
        let engine = Engine::new(Setup {
            prepared,
            ledger,
            jobs,
            max_running: max,
            paged,
            respawn,
        })?;
        if s.audit {
            engine.run(&mut Audit::default())
        } else {
            engine.run(&mut Unwatched)
        }
    }
}

/// The requests of a scenario.
pub fn requests(s: &Scenario) -> Vec<Request> {
    match s.occupancy {
        Occupancy::Lockstep => workload::lockstep(s.batch, s.prompt, s.output),
        Occupancy::Staggered => workload::staggered(s.batch, s.prompt, s.output, s.seed),
    }
}

fn full_timeline(s: &Scenario) -> Result<Arc<Timeline>> {
    Ok(Arc::new(replay::by_length(
        &policy::parse("full")?,
        s.prompt,
        s.output,
    )?))
}

fn timelines(s: &Scenario, spec: &PolicySpec, traces: &[Arc<TraceReader>]) -> Result<Vec<Arc<Timeline>>> {
    let replayed = match traces {
        [] => vec![replay::by_length(spec, s.prompt, s.output)?],
        some => some.iter().map(|t| replay::extended(t.as_ref(), spec, s.prompt, s.output)).collect::<Result<_>>()?,
    };
    let never_moves = spec.never_moves(s.prompt);
    Ok(replayed.into_iter().map(|t| Arc::new(Timeline { never_moves, ..t })).collect())
}

/// Turns `hbm=fit` and `hbm=SIZE` into tokens per request.
fn budget(
    s: &Scenario,
    prepared: &Prepared,
    ledger: &Ledger,
    spec: PolicySpec,
) -> Result<PolicySpec> {
    match spec.hbm() {
        Some(Hbm::Fit) => fit(s, ledger, &spec),
        Some(Hbm::Bytes(size)) => {
            let each = size.as_f64() / f64::from(s.batch) / ledger.kv_token.max(1.0);
            #[allow(clippy::cast_possible_truncation)] // clamped to u32
            Ok(spec.with_hbm_tokens(each.min(f64::from(u32::MAX)) as u32))
        }
        _ => {
            let _ = prepared;
            Ok(spec)
        }
    }
}

/// The largest T0 budget that fits; everything if everything fits, the least the policy allows if nothing does.
fn fit(s: &Scenario, ledger: &Ledger, spec: &PolicySpec) -> Result<PolicySpec> {
    let whole = s.prompt.saturating_add(s.output);
    let requests = requests(s);
    let peak = |budget: u32| -> f64 {
        replay::by_length(&spec.with_hbm_tokens(budget), s.prompt, s.output)
            .map_or(f64::INFINITY, |t| peak_bytes(ledger, &t, &requests))
    };
    let least = spec.least_hbm_tokens(s.prompt);
    let budget = if peak(whole) <= ledger.pool() {
        whole
    } else {
        ledger.fit(least, whole, peak).unwrap_or(least)
    };
    Ok(spec.with_hbm_tokens(budget))
}

/// An upper bound of the HBM that KV and staging need over a run: every request at the end of its re-tier interval.
pub fn peak_bytes(ledger: &Ledger, timeline: &Timeline, requests: &[Request]) -> f64 {
    let Some(first) = requests.first() else {
        return 0.0;
    };
    let together = requests.iter().all(|r| r == first);
    let ends = interval_ends(timeline);
    if together {
        let n = requests.len() as f64;
        return ends
            .iter()
            .map(|e| instant(ledger, timeline, &[(*e, n)]))
            .fold(0.0, f64::max);
    }
    let span = timeline
        .steps
        .div_ceil(u32::try_from(ends.len()).unwrap_or(1))
        .max(1);
    (0..timeline.steps)
        .step_by(span as usize)
        .map(|s| {
            let parts: Vec<_> = requests
                .iter()
                .map(|r| {
                    (
                        end_after(&ends, (r.generated + s) % timeline.steps, span),
                        1.0,
                    )
                })
                .collect();
            instant(ledger, timeline, &parts)
        })
        .fold(0.0, f64::max)
}

/// Last step and tokens of each interval in which a step runs.
fn interval_ends(t: &Timeline) -> Vec<(u32, [f64; 4])> {
    (0..t.intervals.len())
        .filter(|i| t.steps_of(*i) > 0)
        .map(|i| {
            let last = t.intervals[i].first_step + t.steps_of(i) - 1;
            (last, t.tokens_at(last))
        })
        .collect()
}

/// The end of the interval that holds `span` steps after `step` (the last one at most).
fn end_after(ends: &[(u32, [f64; 4])], step: u32, span: u32) -> (u32, [f64; 4]) {
    let at = ends
        .partition_point(|e| e.0 < step.saturating_add(span - 1))
        .min(ends.len() - 1);
    ends[at]
}

/// HBM for KV and staging with each part's tokens, so many times.
fn instant(ledger: &Ledger, timeline: &Timeline, parts: &[((u32, [f64; 4]), f64)]) -> f64 {
    let mut held = Held {
        windowed: vec![0.0; ledger.windowed.len()],
        ..Held::default()
    };
    for ((last, tokens), n) in parts {
        held.sequences += n;
        for (sum, t) in held.tiers.iter_mut().zip(tokens) {
            *sum += n * t;
        }
        for (sum, class) in held.windowed.iter_mut().zip(&ledger.windowed) {
            let length = f64::from(timeline.prompt) + f64::from(*last) + 1.0;
            *sum += class.map_or(0.0, |(_, w)| n * length.min(f64::from(w)));
        }
    }
    ledger.instant(&held, timeline.spills()).total()
}

/// Whether a deployment cannot start at all, and why.
pub fn cannot_start(error: &Error) -> Option<String> {
    (error.cause == Cause::Infeasible).then(|| error.message.clone())
}

/// The same deployment with one thing changed.
pub fn with(scenario: &Scenario, change: impl FnOnce(&mut Deployment)) -> Scenario {
    let mut out = scenario.clone();
    change(&mut out.deployment);
    out
}
