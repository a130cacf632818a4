//! What a tiering policy does to a real model: accuracy, texts, divergence, and what was destroyed on the way.
//!
//! Every problem is answered by the model with a full cache, and beside it by the model with each policy's tiered cache,
//! token for token along the *full run's* text: that gives perplexity, KL(full || policy), agreement of the likeliest
//! token, and the attention that the full cache's rows put on what the policy had destroyed. Each policy also answers
//! freely: its own text is graded. Both are needed: a weak model's accuracy moves by chance, and a divergence along
//! another's text says nothing of where a text ends up.
//!
//! A free run is the forced run up to the first token that it draws differently, so a policy whose text is the full run's
//! costs no second run. All sequences of all problems step together ([`mod@run`]), because reading the weights is what a step
//! costs. Draws depend on seed, problem and step alone; no result depends on threads, batching or interruption. Rival:
//! a harness around an engine, whose caches cannot be tiered and whose sums depend on the batch. Ignored: chat histories,
//! several draws a problem. Lengths are in tokens, logarithms natural.

pub mod answer;
pub mod compare;
pub mod figure;
pub mod grade;
mod group;
pub mod journal;
pub mod notes;
pub mod policies;
pub mod problems;
pub mod run;
mod solo;
mod sum;
pub mod tally;

pub use answer::{EVAL_SCHEMA, Evaluation};
pub use run::{Settings, Task, Words, run};
pub use sum::{Asked, evaluation};

use serde::{Deserialize, Serialize};

/// A policy on a problem: everything that a run gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index of the problem.
    pub problem: usize,
    /// Index of the policy; 0 is the full cache.
    pub policy: usize,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// The policy's own text; none where only given texts are run.
    pub own: Option<Own>,
    /// Along the full run's text, or the given one.
    pub along: Along,
}

/// A text that a policy wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: u32,
    /// Whether the model ended it; otherwise it was cut at the most tokens.
    pub ended: bool,
    /// First token that is not the full run's, from 0 (its length, where one of the two ends earlier); none if the texts
    /// are equal.
    pub differs_at: Option<u32>,
}

/// Sums over the tokens of a text that all policies run along.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Along {
    /// What was predicted.
    pub predicted: compare::Tally,
    /// Decode steps.
    pub steps: u32,
    /// Tokens destroyed at the end.
    pub destroyed: f64,
    /// Sum over steps of the full cache's attention on destroyed tokens.
    pub destroyed_mass: f64,
    /// Sum over steps of tokens in T0, T1, T2.
    pub tokens: [f64; 3],
    /// Most tokens in T0 at any step.
    pub hbm_peak: f64,
    /// Tokens moved from T1 or T2 to T0.
    pub promoted: f64,
    /// Tokens moved from T0 to T1 or T2.
    pub demoted: f64,
}

impl Along {
    /// What a timeline counted, beside what was predicted.
    pub(crate) fn of(timeline: &crate::timeline::Timeline, predicted: compare::Tally) -> Self {
        let steps = f64::from(timeline.steps);
        let mean = timeline.tokens_mean();
        Self {
            predicted,
            steps: timeline.steps,
            destroyed: timeline.tokens_end()[3],
            destroyed_mass: timeline.mass.iter().fold(0.0, |sum, m| sum + m[3]),
            tokens: [mean[0], mean[1], mean[2]].map(|m| m * steps),
            hbm_peak: timeline.t0_peak().max(f64::from(timeline.prompt)),
            promoted: timeline.total(|i| i.promoted),
            demoted: timeline.total(|i| i.demoted),
        }
    }
}
