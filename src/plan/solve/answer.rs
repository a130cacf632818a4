//! The answer of `plan --find` as data (schema `kvplan/solve/1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::Mark;
use crate::plan::answer::Setting;

/// Schema id of [`Solution`].
pub const SOLVE_SCHEMA: &str = "kvplan/solve/1";

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Solution {
    /// Always `kvplan/solve/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// `max-batch`, `max-context`, `max-rate` or `min-hbm`.
    pub find: String,
    /// Unit of the answers: `requests`, `tokens`, `requests_per_s` or `bytes`.
    pub unit: String,
    /// Limits asked for.
    pub limits: Given,
    /// The question with every default spelt out.
    pub question: Vec<Setting>,
    /// Files it was made from, as they were; absent if there was none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Mark>,
    /// One row a card and GPU count.
    pub rows: Vec<Solved>,
    /// Remarks that qualify the answer.
    pub notes: Vec<String>,
}

impl Solution {
    /// Whether some card keeps to the limits at all: the answer is no otherwise (exit 1).
    pub fn any(&self) -> bool {
        self.rows.iter().any(|r| r.answer.is_some())
    }
}

/// Limits asked for; null where none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Given {
    /// 99th percentile of the time per output token.
    pub tpot_p99_s: Option<f64>,
    /// 99th percentile of the time to the first token.
    pub ttft_p99_s: Option<f64>,
    /// HBM in use, over all GPUs.
    pub max_hbm_bytes: Option<u64>,
    /// Host memory in use.
    pub max_ddr_bytes: Option<u64>,
    /// What a GPU costs an hour, if it was given: no limit, but part of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_usd_per_gpu_hour: Option<f64>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Solved {
    /// Hardware id.
    pub hardware: String,
    /// As the vendor writes it.
    pub hardware_name: String,
    /// GPUs in tensor parallel.
    pub gpus: u32,
    /// The answer in `unit`; null if nothing keeps to the limits.
    pub answer: Option<f64>,
    /// How far the answer moves with what is not known exactly; absent where nothing was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<SolvedIntervals>,
    /// The limit that the next point breaks first: `tpot-p99`, `ttft-p99`, `max-hbm`, `max-ddr`, `hbm-capacity`,
    /// `ddr-capacity`, `cannot-run`; or `model-context`, `policy-least`, `all-requests`, `token-budget`, `search-end` where there
    /// is no next.
    pub limited_by: String,
    /// What the next point does, as it was run.
    pub why: String,
    /// The answer's point.
    pub best: Option<Point>,
    /// The next one, which breaks a limit; null if there is none.
    pub next: Option<Point>,
    /// Points that were run.
    pub tried: u32,
    /// What a GPU costs an hour, where it is known or was given.
    pub price_usd_per_gpu_hour: Option<f64>,
    /// What a million output tokens then cost at the answer.
    pub usd_per_million_output_tokens: Option<f64>,
}

/// The answer over draws of what is not known exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SolvedIntervals {
    /// Draws, each searched anew.
    pub draws: u32,
    /// 5th percentile of the answers in `unit`; null if in more draws than that nothing keeps to the limits.
    pub answer_p5: Option<f64>,
    /// 95th percentile; null also where in so many draws no rate is too high for the requests.
    pub answer_p95: Option<f64>,
    /// Share of the draws in which the answer keeps to the limits; where there is none, in which anything does.
    pub keeps_share: f64,
}

/// A point that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// What was searched, in `unit`.
    pub value: f64,
    /// Whether it keeps to all limits.
    pub keeps: bool,
    /// 99th percentile of the time per output token: over steps of a static batch, over requests under load.
    pub tpot_p99_s: Option<f64>,
    /// 99th percentile of the time to the first token.
    pub ttft_p99_s: Option<f64>,
    /// HBM at its largest, over all GPUs.
    pub hbm_peak_bytes: Option<u64>,
    /// Host memory at its largest.
    pub ddr_peak_bytes: Option<u64>,
    /// Output tokens per second over the run, prefill included.
    pub output_tokens_per_s: Option<f64>,
    /// Requests that gave way to others.
    pub preemptions: u64,
    /// Limits it breaks, in words.
    pub broken: Vec<String>,
}
