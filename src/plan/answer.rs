//! The answer of `plan` as data: one row a card, every alternative beside it (schema `kvplan/plan/1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hardware::Source;
use crate::journal::Mark;
use crate::metrics::Outcome;

/// Schema id of [`Plan`].
pub const PLAN_SCHEMA: &str = "kvplan/plan/1";

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// Always `kvplan/plan/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// The question with every default spelt out, in the order it is shown.
    pub question: Vec<Setting>,
    /// Files it was made from, as they were; absent if there was none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Mark>,
    /// One row a card and GPU count.
    pub rows: Vec<Row>,
    /// The verdict over all rows.
    pub verdict: Verdict,
    /// How the draws behind p5 and p95 were made; null without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<Draws>,
    /// What to expect of figures that no table of measurements covers.
    pub expected_error: String,
    /// How far predictions were off by card, as far as it was measured.
    #[serde(default)]
    pub expected_errors: Vec<ExpectedError>,
    /// Remarks that qualify the answer.
    pub notes: Vec<String>,
}

/// The draws behind p5 and p95 (`--intervals`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Draws {
    /// `few` or `full`.
    pub level: String,
    /// How many.
    pub draws: u32,
    /// Their seed.
    pub seed: u64,
    /// Share of the draws in which the fastest card that runs it today is the one of the verdict; null if none runs it.
    pub fastest_share: Option<f64>,
}

/// How far predictions for a card were off: |predicted / measured - 1|.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExpectedError {
    /// The card.
    pub hardware: String,
    /// `calibrated`: its file states its own laws; `fitted`: its kernels were measured; `class`: it is predicted from other
    /// cards, and the errors are those of cards predicted so.
    pub basis: String,
    /// Decode steps summed from kernels: median.
    pub step_median_abs_rel_error: Option<f64>,
    /// 90th percentile.
    pub step_p90_abs_rel_error: Option<f64>,
    /// Rows behind both.
    pub step_rows: usize,
    /// Time per token of whole servers under a constant load: median.
    pub tpot_median_abs_rel_error: Option<f64>,
    /// 90th percentile.
    pub tpot_p90_abs_rel_error: Option<f64>,
    /// Rows behind both.
    pub tpot_rows: usize,
}

impl Plan {
    /// Whether anything runs on any card: the answer is no otherwise (exit 1).
    pub fn runs_somewhere(&self) -> bool {
        let mut ways = self.rows.iter().flat_map(|r| &r.alternatives);
        ways.any(|a| a.starts && a.outcome.fits)
    }
}

/// One setting of the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Setting {
    /// Name of the flag without dashes.
    pub name: String,
    /// Value as resolved.
    pub value: String,
    /// `default`, `flag`, or the scenario file.
    pub from: String,
}

/// The verdict over all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// One sentence.
    pub sentence: String,
    /// What would change it: parameter, where the change happens, how far that is from the value used.
    pub flips_if: Vec<String>,
    /// Where the draws disagree with it, and in how many they agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_draws: Vec<String>,
}

/// One card (or several in tensor parallel).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Row {
    /// Hardware id.
    pub hardware: String,
    /// As the vendor writes it.
    pub hardware_name: String,
    /// Whether the profile was fitted to measurements on such a machine.
    pub calibrated: bool,
    /// GPUs in tensor parallel.
    pub gpus: u32,
    /// Usable HBM over all GPUs.
    pub hbm_capacity_bytes: u64,
    /// KV pool once weights, activations and reserve are in [tokens, at the asked KV format].
    pub pool_tokens: u64,
    /// Tokens that all requests need at their largest.
    pub needed_tokens: u64,
    /// Tokens a request may reach with everything in HBM.
    pub holds_tokens_per_request: u64,
    /// HBM missing to hold all of it.
    pub shortfall_bytes: u64,
    /// T1 that streams for free per step (link bandwidth times the all-in-HBM step).
    pub free_t1_bytes: Option<u64>,
    /// Link bandwidth at which the spill of this question streams for free.
    pub breakeven_free_bytes_per_s: Option<f64>,
    /// Link bandwidth at which streaming equals the best alternative; null if it does at any or at none.
    pub breakeven_best_bytes_per_s: Option<f64>,
    /// Every way to run it, in a fixed order.
    pub alternatives: Vec<Alternative>,
    /// Parameters at which `pays` turns round, and how far that is from the value used.
    pub flips_if: Vec<String>,
    /// The verdict of this row.
    pub verdict: RowVerdict,
    /// In how many draws it stands; null without draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_draws: Option<InDraws>,
    /// What moves the best way that runs today; null without draws or where nothing runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tornado: Option<Swings>,
}

/// Shares of the draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct InDraws {
    /// In which everything fits in HBM.
    pub fits_share: f64,
    /// In which tiering pays.
    pub pays_share: f64,
    /// In which the card's best way that runs today is the one of its verdict, whichever card is ahead.
    pub best_runnable_share: f64,
}

/// What moves the speed of one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Swings {
    /// The way, by name.
    pub of: String,
    /// The causes, widest first.
    pub causes: Vec<Swing>,
}

/// What one cause alone does to a speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Swing {
    /// The cause: `runtime.served`, `gpu.memory`, a kernel's residual by the operation's name.
    pub cause: String,
    /// Where its width comes from.
    pub source: Source,
    /// Output tokens per second with it at its p5 (a residual's p5 is a time shorter than the law's).
    pub output_tokens_per_s_at_p5: f64,
    /// The same at its p95.
    pub output_tokens_per_s_at_p95: f64,
}

impl Swing {
    /// How far apart its ends are (tokens/s).
    pub fn width(&self) -> f64 {
        (self.output_tokens_per_s_at_p95 - self.output_tokens_per_s_at_p5).abs()
    }
}

/// One way to run it on this card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Alternative {
    /// `all-in-hbm`, `engine`, `smaller-batch`, `fp8-kv`, `int4-weights`, `stream`, `staged`, `host-attention`.
    pub name: String,
    /// For people: `fp8 KV, preempts`.
    pub label: String,
    /// Whether it can run at all; an engine that cannot hold one request cannot start.
    pub starts: bool,
    /// Why it does not start, or what qualifies it.
    pub remark: Option<String>,
    /// The outcome in lockstep: all requests at the same length, or each at its own from a file, begun together.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The same with requests at independent phases.
    pub staggered: Option<Staggered>,
    /// Software that runs it today, with a command line; empty if none does.
    pub runs_in: Vec<RunsIn>,
}

/// An alternative with requests at independent phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Staggered {
    /// Whether it fits without preempting.
    pub fits: bool,
    /// Output tokens per second of decode.
    pub output_tokens_per_s: Option<f64>,
    /// 99th percentile of the time per output token, over steps.
    pub tpot_p99_s: Option<f64>,
    /// Preemptions while every request is replaced once.
    pub preemptions: u64,
}

/// Software that runs an alternative today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunsIn {
    /// `vLLM`.
    pub software: String,
    /// Command line to start it.
    pub command: String,
}

/// The verdict of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RowVerdict {
    /// Whether some T1 mode gives more tokens/s than the best alternative at the same weight and KV format.
    pub pays: bool,
    /// Name of the fastest alternative of all.
    pub best: Option<String>,
    /// Name of the fastest that software runs today.
    pub best_runnable: Option<String>,
    /// One sentence.
    pub sentence: String,
}
