//! Deployments, jobs and watchers for tests of the engine and its laws.

use std::sync::Arc;

use kvplan::deploy::Deployment;
use kvplan::engine::{Engine, Job, Observer, Run, Setup, StepFact, StepTimes};
use kvplan::error::Result;
use kvplan::memory::{Instant, Ledger};
use kvplan::policy;
use kvplan::replay;
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::service::Prepared;
use kvplan::units::{Bytes, Ps};
use kvplan::workload::Request;

/// The scenario of these flags, audited; or why there is none.
pub(crate) fn try_scenario(flags: &[(&str, String)]) -> Result<Scenario> {
    let mut settings = Settings::defaults(Verb::Simulate);
    settings.audit = true;
    for (name, text) in flags {
        settings.set(name, std::slice::from_ref(text), Origin::Flag)?;
    }
    resolve::scenario(&settings)
}

/// Settings of `name value name value ...` over the defaults.
pub(crate) fn settings(words: &str) -> Settings {
    let mut settings = Settings::defaults(Verb::Simulate);
    let words: Vec<&str> = words.split_whitespace().collect();
    for pair in words.chunks(2) {
        settings
            .set(pair[0], &[pair[1].into()], Origin::Flag)
            .unwrap();
    }
    settings
}

/// The scenario of `name value name value ...`, without a trace.
pub(crate) fn scenario(words: &str) -> Scenario {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut flags: Vec<(&str, String)> = vec![("trace", "none".into())];
    flags.extend(words.chunks(2).map(|w| (w[0], w[1].to_string())));
    try_scenario(&flags).unwrap()
}

/// Laws and ledger of a deployment.
pub(crate) struct World {
    pub(crate) prepared: Prepared,
    pub(crate) ledger: Ledger,
}

impl World {
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let prepared = Prepared::new(&deployment.clone().with_kernels());
        Self {
            ledger: Ledger::new(&prepared),
            prepared,
        }
    }

    /// The same with room for exactly so many tokens of KV.
    pub(crate) fn with_room(mut self, tokens: u32) -> Self {
        let fixed = self.ledger.weights + self.ledger.activation + self.ledger.reserve;
        let room = self.ledger.sequence_bytes(f64::from(tokens));
        self.ledger.capacity = fixed + Bytes::ceil(room);
        self
    }

    /// Runs jobs to the end.
    pub(crate) fn run(
        &self,
        jobs: Vec<Job>,
        max_running: u32,
        paged: bool,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        Engine::new(Setup {
            prepared: &self.prepared,
            ledger: &self.ledger,
            jobs,
            max_running,
            paged,
            respawn: false,
        })?
        .run(observer)
    }
}

/// A request at the start, under a policy placed by its lengths alone.
pub(crate) fn job(policy: &str, prompt: u32, output: u32) -> Job {
    let spec = policy::parse(policy).unwrap();
    let mut timeline = replay::by_length(&spec, prompt, output).unwrap();
    timeline.never_moves = spec.never_moves(prompt);
    Job {
        request: Request {
            prompt,
            output,
            arrival: Ps::ZERO,
            generated: 0,
        },
        timeline: Arc::new(timeline),
        phase: 0,
    }
}

/// Keeps every step.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) times: Vec<StepTimes>,
    pub(crate) sequences: Vec<f64>,
    pub(crate) instants: Vec<Instant>,
}

impl Observer for Watch {
    fn step(&mut self, fact: &StepFact<'_>) -> Result<()> {
        self.times.push(*fact.times);
        self.sequences.push(fact.held.sequences);
        self.instants.push(fact.instant);
        Ok(())
    }
}
