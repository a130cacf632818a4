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
use crate::memory::Ledger;
use crate::metrics::Outcome;
use crate::policy::{self, PolicySpec};
use crate::replay;
use crate::scenario::{Occupancy, Phase, Scenario, TraceRef};
use crate::service::Prepared;
use crate::timeline::Timeline;
use crate::trace::{self, TraceReader};
use crate::workload::{self, Request};

use super::{budget, changes, outcome};

/// A scenario made ready: laws, ledger, budget, traces.
pub(super) struct Case {
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
pub(super) struct Ran {
    /// The run itself.
    pub run: Arc<Run>,
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
    let run = Arc::new(case.run()?);
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
            .map(|p| trace::find(&p.to_string_lossy()).map(Arc::new))
            .collect(),
    }
}

impl Case {
    /// Resolves the budget and replays.
    ///
    /// # Errors
    /// As [`simulate`].
    pub(super) fn new(scenario: &Scenario, traces: &[Arc<TraceReader>]) -> Result<Self> {
        let mut scenario = scenario.clone();
        scenario.deployment = scenario.deployment.with_kernels();
        let (scenario, spec) = budget::resolve(&scenario, policy::parse(&scenario.policy)?);
        let prepared = Prepared::new(&scenario.deployment);
        let ledger = Ledger::new(&prepared);
        let timelines = timelines(&scenario, &spec, traces)?;
        Ok(Self {
            scenario,
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
    pub(super) fn run(&self) -> Result<Run> {
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
    pub(super) fn run_paged(&self, max_running: u32) -> Result<Run> {
        let full = full_timeline(&self.scenario)?;
        self.engine(&self.prepared, &self.ledger, &[full], max_running, true)
    }

    /// The same with `batch` requests and everything in HBM.
    ///
    /// # Errors
    /// As [`simulate`].
    pub(super) fn resized(&self, batch: u32) -> Result<Self> {
        Self::new(
            &Scenario {
                batch,
                policy: "full".into(),
                ..self.scenario.clone()
            },
            &[],
        )
    }

    /// Runs with everything in an HBM of unlimited size.
    ///
    /// # Errors
    /// Internal, if a law is broken under `audit`.
    pub(super) fn run_full(&self) -> Result<Run> {
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
pub(super) fn requests(s: &Scenario) -> Vec<Request> {
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

fn timelines(
    s: &Scenario,
    spec: &PolicySpec,
    traces: &[Arc<TraceReader>],
) -> Result<Vec<Arc<Timeline>>> {
    let replayed = match traces {
        [] => vec![replay::by_length(spec, s.prompt, s.output)?],
        some => some
            .iter()
            .map(|t| replay::extended(t.as_ref(), spec, s.prompt, s.output))
            .collect::<Result<_>>()?,
    };
    let never_moves = spec.never_moves(s.prompt);
    Ok(replayed
        .into_iter()
        .map(|t| Arc::new(Timeline { never_moves, ..t }))
        .collect())
}

/// Whether a deployment cannot start at all, and why.
pub(super) fn cannot_start(error: &Error) -> Option<String> {
    (error.cause == Cause::Infeasible).then(|| error.message.clone())
}

/// The same deployment with one thing changed.
pub(super) fn with(scenario: &Scenario, change: impl FnOnce(&mut Deployment)) -> Scenario {
    let mut out = scenario.clone();
    change(&mut out.deployment);
    out
}
