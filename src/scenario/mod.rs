//! One question, resolved: a deployment, its requests, a policy and a trace, valid by construction.
//!
//! [`Settings`] is what was asked, as text, with where each text came from; [`Scenario`] is what will run. Between them
//! stand the checks, so that nothing below ever meets a batch of zero or a split head. Every setting is one line of
//! [`keys::KEYS`]: the flag, the key of a scenario file, its default, its help and its schema are the same row, which
//! is why none of them can drift. Precedence: default < scenario file < flag. Rival design: one serde struct a file
//! and one clap struct a verb; they agree on the first day only.
//!
//! What is ignored: environment variables (a result must not depend on them). Units: tokens are plain counts; sizes carry GB or GiB. Deterministic: nothing here reads a clock.

mod contradict;
pub mod file;
pub mod inputs;
pub mod keys;
mod load;
mod notes;
pub mod print;
mod read;
pub mod resolve;
pub mod schema;
pub mod settings;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::deploy::Deployment;
use crate::hardware::Hardware;
use crate::uncertain::Level;
use crate::workload::Lengths;

pub use keys::Verb;
pub use load::UnderLoad;
pub use settings::Settings;

/// Moves an error to where a setting was written.
type Placer = fn(&Settings, &str, crate::error::Error) -> crate::error::Error;

/// One deployment with its requests: what `simulate` runs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The model on the machine.
    pub deployment: Deployment,
    /// Sequences decoded together [1..=100,000].
    pub batch: u32,
    /// Prompt tokens of each request [1..=16,777,216].
    pub prompt: u32,
    /// Output tokens of each request [1..=16,777,216].
    pub output: u32,
    /// Policy as asked, `NAME:key=value,...`; it is known to parse.
    pub policy: String,
    /// Whether all requests are at the same length at once.
    pub occupancy: Occupancy,
    /// Times as many output tokens where the policy destroys tokens [1..=100]; none counts none.
    pub length_factor: Option<f64>,
    /// Lengths of each request where they differ (`occupancy` is then `Listed`): `prompt` and `output` are the largest.
    pub lengths: Option<Arc<Lengths>>,
    /// Requests over time instead of a static batch: `batch` is then the most that run together, `prompt` and `output` are
    /// the largest.
    pub load: Option<Arc<UnderLoad>>,
    /// Whether the requests re-tier in the same step.
    pub phase: Phase,
    /// Recorded attention behind mass and moves.
    pub trace: TraceRef,
    /// Seed of every random draw.
    pub seed: u64,
    /// How much is drawn of what is not known exactly.
    pub intervals: Level,
    /// Check the laws of the simulator while it runs.
    pub audit: bool,
    /// Remarks that qualify the question; they belong into the notes of its answer.
    pub notes: Vec<String>,
    /// Files that its settings name.
    pub named: Vec<String>,
    /// Every setting as resolved; kept in the result, so that it can be run again.
    pub asked: Vec<Asked>,
}

impl Scenario {
    /// The same question with all requests of its one length at once, whatever it said of occupancy.
    #[must_use]
    pub fn in_lockstep(&self) -> Self {
        Self {
            occupancy: Occupancy::Lockstep,
            lengths: None,
            load: None,
            ..self.clone()
        }
    }

    /// The same with answers `factor` times as long, rounded up; none if one is longer than is simulated.
    pub fn longer(&self, factor: f64) -> Option<Self> {
        let most = f64::from(read::MAX_TOKENS);
        #[allow(clippy::cast_possible_truncation)] // at most `most`
        let long = |n: u32| {
            let n = (f64::from(n) * factor).ceil();
            (n <= most).then_some(n as u32)
        };
        let mut out = self.clone();
        out.output = long(self.output)?;
        if let Some(load) = &mut out.load {
            for request in &mut Arc::make_mut(load).load.requests {
                request.output = long(request.output)?;
            }
        }
        Some(out)
    }

    /// Requests in all: those of the load, or of the batch.
    pub fn requests(&self) -> u32 {
        let own = self.load.as_ref().map(|l| l.load.requests.len());
        own.map_or(self.batch, |n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// Prompt and output tokens of one request at its end.
    pub fn tokens(&self) -> u64 {
        u64::from(self.prompt) + u64::from(self.output)
    }

    /// Prompt and output of request `i`.
    pub fn lengths_of(&self, i: u32) -> (u32, u32) {
        if let Some(r) = self
            .load
            .as_ref()
            .and_then(|l| l.load.requests.get(i as usize))
        {
            return (r.prompt, r.output);
        }
        let own = self.lengths.as_ref().map(|l| l.of(i));
        own.unwrap_or((self.prompt, self.output))
    }

    /// Tokens of all requests, each at its end.
    pub fn all_tokens(&self) -> u64 {
        match &self.lengths {
            None => u64::from(self.batch) * self.tokens(),
            Some(l) => (0..self.batch)
                .map(|i| u64::from(l.of(i).0) + u64::from(l.of(i).1))
                .sum(),
        }
    }
}

/// Lengths of the requests of a batch against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Occupancy {
    /// All at the same length at once: the largest peak.
    Lockstep,
    /// At independent phases, as in steady service.
    Staggered,
    /// All begin at once, each with the lengths of its line of a file.
    Listed,
}

impl Occupancy {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lockstep => "lockstep",
            Self::Staggered => "staggered",
            Self::Listed => "listed",
        }
    }
}

/// Re-tier steps of the requests of a batch against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Each request is offset by a draw from the seed; a batch of one has offset 0.
    Seeded,
    /// All re-tier in the same step: the worst burst.
    Lockstep,
}

impl Phase {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Seeded => "seeded",
            Self::Lockstep => "lockstep",
        }
    }
}

/// The recording behind mass and moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRef {
    /// None: what follows from the lengths alone.
    None,
    /// The one in the binary.
    Embedded,
    /// These files, or names of traces in the binary; request i uses file i mod n.
    Paths(Vec<PathBuf>),
}

impl TraceRef {
    /// Size of the files, for a progress bar; 0 where they cannot be asked.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Paths(paths) => paths
                .iter()
                .filter_map(|p| std::fs::metadata(p).ok())
                .map(|m| m.len())
                .sum(),
            Self::None | Self::Embedded => 0,
        }
    }
}

/// One row of `plan`: a card and how many of them.
#[derive(Clone, Debug)]
pub struct Card {
    /// The machine.
    pub hardware: Arc<Hardware>,
    /// GPUs in tensor parallel.
    pub gpus: u32,
}

/// What `plan` answers: one scenario on several cards.
#[derive(Clone, Debug)]
pub struct Question {
    /// The scenario on the first card.
    pub base: Scenario,
    /// All cards, in the order asked.
    pub cards: Vec<Card>,
    /// Every setting as resolved, in the order it is shown.
    pub settings: Vec<Asked>,
}

impl Question {
    /// The scenario on one of the cards.
    pub fn on(&self, card: &Card) -> Scenario {
        let mut scenario = self.base.clone();
        scenario.deployment.hardware = Arc::clone(&card.hardware);
        scenario.deployment.gpus = card.gpus;
        scenario
    }
}

/// One setting as resolved, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The flag without its dashes.
    pub name: &'static str,
    /// Its value as text; lists are joined by `, `.
    pub value: String,
    /// `default`, `flag`, or the scenario file.
    pub from: String,
}
