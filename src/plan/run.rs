//! One scenario to one outcome: budget, timeline, run, figures.
//!
//! The order matters: `hbm=fit` first becomes tokens per request (memory ledger), then the policy is replayed at that
//! budget, and only then the engine runs, so that neither half sees the other's world. A scenario that does not fit
//! still yields an outcome, without throughput, with the changes that would make it fit, each of them checked.

use std::sync::Arc;

use crate::deploy::Deployment;
use crate::engine::audit::Audit;
use crate::engine::{Both, Engine, Job, Observer, Run, Setup, Unwatched};
use crate::error::{Cause, Error, Result};
use crate::journal::marks;
use crate::memory::Ledger;
use crate::metrics::Outcome;
use crate::policy::{self, PolicySpec};
use crate::replay::{self, Decisions};
use crate::scenario::{Occupancy, Phase, Scenario};
use crate::service::Prepared;
use crate::timeline::Timeline;
use crate::trace::TraceReader;
use crate::workload::{self, Request};

use super::recordings::{Placement, Recordings};
use super::{budget, changes, longer, outcome, placed, served, uncertain, weights};

/// A scenario made ready: laws, ledger, budget, traces.
pub(super) struct Case {
    /// The question, as it runs.
    pub scenario: Scenario,
    /// The same with answers of the asked length, where the policy lengthens them.
    pub asked: Option<Scenario>,
    /// Laws.
    pub prepared: Prepared,
    /// The same with what the policy pays for the weights of attention; equal where it looks at none, or moves nothing.
    pub scored: Prepared,
    /// Memory prices.
    pub ledger: Ledger,
    /// Policy at its resolved budget.
    pub spec: PolicySpec,
    /// One timeline a trace (or a single one from lengths); one a request where each has its own lengths.
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

/// Most decode steps of requests that take turns: a few seconds of simulation.
const MOST_TURNS: f64 = 4e6;

/// Most requests whose phases are followed one by one.
const MOST_REQUESTS: u32 = 4096;

/// Longest output of a question that is run many times over.
const MOST_OUTPUT: u32 = 1 << 20;

/// Refuses what would take minutes: many requests at phases of their own, or very long outputs run many times over.
pub(super) fn check_size(s: &Scenario, many: bool) -> Result<()> {
    if many && (s.batch > MOST_REQUESTS || s.output > MOST_OUTPUT) {
        let text = |n: u32| crate::units::text::group(&n.to_string());
        return Err(Error::usage(format!(
            "batch {} and output {} are too much to follow request by request: at most {} and {}",
            text(s.batch),
            text(s.output),
            text(MOST_REQUESTS),
            text(MOST_OUTPUT)
        ))
        .help("`kvplan simulate` with --occupancy lockstep takes more"));
    }
    Ok(())
}

/// Simulates one deployment.
///
/// # Errors
/// Usage (names, settings), data (a damaged trace), internal (a broken law under `audit`).
pub fn simulate(scenario: &Scenario) -> Result<Outcome> {
    let outcome = simulate_on(scenario, &Recordings::open(&scenario.trace)?)?;
    from_files(scenario, outcome)
}

/// As [`simulate`], with the scenario's recordings already open, so that many scenarios share what was replayed; without
/// the marks of files, which those who ask for many have once.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_on(scenario: &Scenario, traces: &Recordings) -> Result<Outcome> {
    answer(scenario, traces, None)
}

/// As [`simulate`], with somebody who watches the run (not the one with everything in HBM beside it).
///
/// # Errors
/// As [`simulate`], and those of `watcher`.
pub fn simulate_watched(scenario: &Scenario, watcher: &mut dyn Observer) -> Result<Outcome> {
    let outcome = answer(scenario, &Recordings::open(&scenario.trace)?, Some(watcher))?;
    from_files(scenario, outcome)
}

/// The outcome with the marks of the files it was made from.
fn from_files(scenario: &Scenario, mut outcome: Outcome) -> Result<Outcome> {
    outcome.inputs = marks(scenario.named.clone())?;
    Ok(outcome)
}

fn answer(
    scenario: &Scenario,
    traces: &Recordings,
    watcher: Option<&mut dyn Observer>,
) -> Result<Outcome> {
    check_size(scenario, scenario.occupancy != Occupancy::Lockstep)?;
    let case = Case::new(scenario, traces)?;
    let full = Arc::new(case.run_full()?);
    let mut out = match &case.scenario.load {
        None => {
            let run = Arc::new(case.run_watched(watcher)?);
            outcome::build(&case, &Ran { run, full })
        }
        Some(load) => {
            let mut served = case.serve(load, watcher)?;
            let run = Arc::new(std::mem::take(&mut served.run));
            let ran = Ran { run, full };
            let mut out = outcome::build(&case, &ran);
            // Prompts share steps with decode tokens: they have no time of their own.
            out.throughput.prefill_s = None;
            served.run = Arc::unwrap_or_clone(ran.run);
            if out.fits {
                let mut seen = served::serving(&case, load, &served);
                seen.intervals = uncertain::of_load(scenario, traces, &seen)?;
                out.serving = Some(seen);
            }
            out
        }
    };
    out.intervals = uncertain::of_case(scenario, &case, &out)?;
    out.notes.extend(uncertain::missing(scenario));
    let lengthened = case.asked.is_some();
    out.notes
        .extend(longer::no_effect(scenario.length_factor, lengthened));
    out.scenario = scenario
        .asked
        .iter()
        .map(|a| (a.name.to_string(), a.value.clone()))
        .collect();
    if !out.fits && scenario.load.is_none() {
        out.changes = changes::that_fit(&case)?;
    }
    Ok(out)
}

/// What the replay of a scenario depends on: budgets in tokens, lengths.
///
/// # Errors
/// As [`simulate`].
pub fn placement(scenario: &Scenario) -> Result<Placement> {
    let mut scenario = scenario.clone();
    scenario.deployment = scenario.deployment.with_kernels();
    let (scenario, spec, _) = resolved(&scenario)?;
    Ok(Placement {
        spec,
        selection: scenario.deployment.t1.selection(),
        prompt: scenario.prompt,
        output: scenario.output,
    })
}

/// What policies are made equal by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// HBM at its largest, all GPUs (bytes).
    pub hbm_peak: f64,
    /// Host memory at its largest (bytes).
    pub ddr_peak: f64,
    /// Live tokens a request, mean over steps.
    pub retained: f64,
    /// Mean time per output token (s), as if it fitted; infinite where it never ends.
    pub tpot: f64,
    /// Whether it fits.
    pub fits: bool,
}

/// Measures a scenario without the rest of its outcome, whether it fits or not; with no recordings, from the lengths.
///
/// # Errors
/// As [`simulate`].
pub fn measure(scenario: &Scenario, traces: &Recordings) -> Result<Measure> {
    check_size(scenario, scenario.occupancy != Occupancy::Lockstep)?;
    let case = Case::new(scenario, traces)?;
    let run = case.run()?;
    let ledger = &case.ledger;
    let fixed = ledger.weights + ledger.activation + ledger.reserve;
    let live = |t: &Arc<Timeline>| t.tokens_mean()[..3].iter().sum::<f64>();
    let timelines = case.timelines.len().max(1) as f64;
    let hbm_peak = fixed.as_f64() + run.peak.hbm.total();
    Ok(Measure {
        hbm_peak,
        ddr_peak: ledger.ddr_in_use(run.peak.ddr),
        retained: case.timelines.iter().map(live).sum::<f64>() / timelines,
        tpot: if run.makespan.is_never() {
            f64::INFINITY
        } else {
            run.tpot_mean
        },
        fits: hbm_peak <= ledger.capacity.as_f64() && run.peak.ddr <= ledger.ddr_room(),
    })
}

/// Every decision of the policy over the one recording of a scenario, at its resolved budget, and what they are of.
///
/// # Errors
/// As [`simulate`]; usage, if there is no recording or more than one.
pub fn decisions(scenario: &Scenario) -> Result<(Decisions, serde_json::Value)> {
    let traces = Recordings::open(&scenario.trace)?;
    let [trace] = traces.readers() else {
        return Err(Error::usage(format!(
            "decisions are of one recording, not of {}",
            traces.readers().len()
        ))
        .help("name one with --trace"));
    };
    if scenario.deployment.t1.selection().is_some() {
        return Err(Error::usage(
            "decisions are those of a run that attends to all host tokens; selective attends to some",
        )
        .help("leave --t1 selective out"));
    }
    if scenario.prompt != trace.prompt() {
        return Err(Error::usage(format!(
            "decisions are of the recording's own prompt, {} tokens, not of {}",
            trace.prompt(),
            scenario.prompt
        ))
        .help(format!("use --trace {} without --prompt", trace.name())));
    }
    let (_, spec, _) = resolved(scenario)?;
    let meta = serde_json::json!({
        "kvplan_version": env!("CARGO_PKG_VERSION"),
        "policy": spec.to_string(),
        "lanes": format!("{:?}", spec.card().lanes).to_lowercase(),
        "trace": trace.name(),
        "recorded_model": trace.header().model,
        "tiers": ["hbm", "host", "host at reduced precision"],
    });
    Ok((replay::decisions(trace.as_ref(), &spec)?, meta))
}

impl Case {
    /// Resolves the budget and replays.
    ///
    /// # Errors
    /// As [`simulate`].
    pub(super) fn new(scenario: &Scenario, traces: &Recordings) -> Result<Self> {
        let mut scenario = scenario.clone();
        scenario.deployment = scenario.deployment.with_kernels();
        let (scenario, spec, asked) = resolved(&scenario)?;
        let prepared = Prepared::new(&scenario.deployment);
        let ledger = Ledger::new(&prepared);
        let timelines = placed::by_policy(&scenario, &spec, traces)?;
        Ok(Self {
            scored: scored(&prepared, &spec, &timelines),
            scenario,
            asked,
            prepared,
            ledger,
            spec,
            timelines,
            traces: traces.readers().to_vec(),
        })
    }

    /// The same with other placements.
    pub(super) fn placed(mut self, spec: PolicySpec, timelines: Vec<Arc<Timeline>>) -> Self {
        self.scored = scored(&self.prepared, &spec, &timelines);
        (self.spec, self.timelines) = (spec, timelines);
        self
    }

    /// Runs it as asked.
    ///
    /// # Errors
    /// Internal, if a law is broken under `audit`.
    pub(super) fn run(&self) -> Result<Run> {
        self.run_watched(None)
    }

    fn run_watched(&self, watcher: Option<&mut dyn Observer>) -> Result<Run> {
        if let Some(load) = &self.scenario.load {
            return Ok(self.serve(load, watcher)?.run);
        }
        self.engine(
            &self.scored,
            &self.ledger,
            &self.timelines,
            (self.scenario.batch, false),
            watcher,
        )
    }

    /// Refuses what would take turns for too long to simulate, before it runs: requests at their full length that the
    /// pool holds together, times their output.
    fn check_turns(&self, max_running: u32) -> Result<()> {
        let s = &self.scenario;
        let each = self
            .ledger
            .sequence_bytes(f64::from(s.prompt) + f64::from(s.output));
        let together =
            (self.ledger.pool() / each.max(1.0)).clamp(1.0, f64::from(max_running.max(1)));
        let steps = f64::from(s.batch) / together * f64::from(s.output);
        if steps > MOST_TURNS {
            Err(crate::engine::too_long(MOST_TURNS))
        } else {
            Ok(())
        }
    }

    /// Runs the engine as it is: everything in HBM, paged, at most `max_running` together.
    ///
    /// # Errors
    /// Infeasible, if not even one request fits.
    pub(super) fn run_paged(&self, max_running: u32) -> Result<Run> {
        self.check_turns(max_running)?;
        let full = placed::in_hbm(&self.scenario)?;
        self.engine(
            &self.prepared,
            &self.ledger,
            &full,
            (max_running, true),
            None,
        )
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
            &Recordings::default(),
        )
    }

    /// Runs with everything in an HBM of unlimited size.
    ///
    /// # Errors
    /// Internal, if a law is broken under `audit`.
    pub(super) fn run_full(&self) -> Result<Run> {
        let asked = self.asked.as_ref().unwrap_or(&self.scenario);
        if let Some(load) = &asked.load {
            return Ok(self.serve_in_hbm(load)?.run);
        }
        let full = placed::in_hbm(asked)?;
        self.engine_of(
            asked,
            &self.in_hbm(),
            &self.ledger,
            &full,
            (asked.batch, false),
            None,
        )
    }

    /// The laws with all weights in HBM.
    pub(super) fn in_hbm(&self) -> Prepared {
        if self.prepared.streams_weights() {
            Prepared::new(&with(&self.scenario, |d| d.host_weights = None).deployment)
        } else {
            self.prepared.clone()
        }
    }

    fn engine(
        &self,
        prepared: &Prepared,
        ledger: &Ledger,
        timelines: &[Arc<Timeline>],
        rules: (u32, bool),
        watcher: Option<&mut dyn Observer>,
    ) -> Result<Run> {
        self.engine_of(&self.scenario, prepared, ledger, timelines, rules, watcher)
    }

    fn engine_of(
        &self,
        s: &Scenario,
        prepared: &Prepared,
        ledger: &Ledger,
        timelines: &[Arc<Timeline>],
        (max_running, paged): (u32, bool),
        watcher: Option<&mut dyn Observer>,
    ) -> Result<Run> {
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
            max_running,
            paged,
            respawn,
        })?;
        match (s.audit, watcher) {
            (false, None) => engine.run(&mut Unwatched),
            (false, Some(watcher)) => engine.run(watcher),
            (true, None) => engine.run(&mut Audit::new(prepared)),
            (true, Some(watcher)) => engine.run(&mut Both(&mut Audit::new(prepared), watcher)),
        }
    }
}

/// A scenario with every budget, share and length as it runs, its policy, and the scenario with answers of the asked length
/// where they are longer.
fn resolved(scenario: &Scenario) -> Result<(Scenario, PolicySpec, Option<Scenario>)> {
    let policy = policy::parse(&scenario.policy)?;
    let (s, spec) = budget::resolve(scenario, policy);
    let Some(longer) = longer::resolve(&s, &spec)? else {
        return Ok((weights::resolve(s, &spec)?, spec, None));
    };
    let (s, spec) = budget::resolve(&longer, policy);
    let s = weights::resolve(s, &spec)?;
    let asked = Scenario {
        output: scenario.output,
        load: scenario.load.clone(),
        ..s.clone()
    };
    Ok((s, spec, Some(asked)))
}

/// The laws with what the policy pays for the weights of attention, if it looks at them and does anything.
pub(super) fn scored(
    prepared: &Prepared,
    spec: &PolicySpec,
    timelines: &[Arc<Timeline>],
) -> Prepared {
    let acts = timelines.iter().any(|t| t.spills() || t.destroys());
    if acts && spec.looks_at_weights() {
        prepared.clone().with_scores()
    } else {
        prepared.clone()
    }
}

/// The requests of a scenario.
pub(super) fn requests(s: &Scenario) -> Vec<Request> {
    if let Some(load) = &s.load {
        return load.load.requests.clone();
    }
    match s.occupancy {
        Occupancy::Lockstep => workload::lockstep(s.batch, s.prompt, s.output),
        Occupancy::Staggered => workload::staggered(s.batch, s.prompt, s.output, s.seed),
        Occupancy::Listed => match &s.lengths {
            Some(lengths) => workload::listed(s.batch, lengths),
            None => workload::lockstep(s.batch, s.prompt, s.output),
        },
    }
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
