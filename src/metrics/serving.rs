//! What clients of a server under load see, and how full the server was.

use serde::{Deserialize, Serialize};

/// Requests over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Serving {
    /// Requests that came; all are served.
    pub requests: u64,
    /// Requests a second, from the first to the last arrival; null if all came at once.
    pub offered_requests_per_s: Option<f64>,
    /// Whether requests differ in length: `prompt_tokens` and `output_tokens` are then the largest.
    pub own_lengths: bool,
    /// Requests that run together at most.
    pub max_running: u32,
    /// Tokens of a step at most.
    pub token_budget_tokens: u32,
    /// Prompt tokens of all requests.
    pub prompt_tokens_total: u64,
    /// Output tokens of all requests.
    pub output_tokens_total: u64,
    /// Prompt tokens that were found in the prefix cache.
    pub cached_tokens_total: u64,
    /// From the first arrival to the last token at its client.
    pub makespan_s: f64,
    /// Requests a second over the makespan.
    pub requests_per_s: f64,
    /// Output tokens a second over the makespan, prefill and idle time included.
    pub output_tokens_per_s: f64,
    /// From a request's coming to its first token, the way to the server included.
    pub ttft: Spread,
    /// Time per further token, mean over each request.
    pub tpot: Spread,
    /// Between two tokens of a request, over all of them.
    pub itl: Spread,
    /// From a request's coming to its last token.
    pub e2el: Spread,
    /// Of the time to the first token: tokenising and the way through the server's processes, before the engine.
    #[serde(default)]
    pub front: Spread,
    /// Of the time to the first token: in line in the engine, until the begin of the step that takes up the prompt.
    pub queued: Spread,
    /// Of the time to the first token: from there to the first token.
    #[serde(default)]
    pub prefill: Spread,
    /// Requests a second that meet the limits asked for; null without limits.
    pub goodput_requests_per_s: Option<f64>,
    /// Share of the requests that meet them.
    pub met_share: Option<f64>,
    /// Limits asked for.
    pub slo_ttft_s: Option<f64>,
    /// Per further token.
    pub slo_tpot_s: Option<f64>,
    /// To the last token.
    pub slo_e2el_s: Option<f64>,
    /// Requests in the batch, mean over the makespan.
    pub running_mean: f64,
    /// Most.
    pub running_max: u32,
    /// Requests in line, mean over the makespan: as many a second as came, times their mean stay, unless some gave way.
    pub waiting_mean: f64,
    /// Most at once.
    pub waiting_max: u32,
    /// Requests that gave way to others, each time counted.
    pub preemptions: u64,
    /// Those whose KV was swapped to the host instead of computed again.
    pub swaps: u64,
    /// Share of the tokens in T0, mean over time, prompts counted as far as they are computed.
    pub t0_share: f64,
    /// In T1.
    pub t1_share: f64,
    /// In T2.
    pub t2_share: f64,
    /// Destroyed.
    pub t3_share: f64,
    /// KV and staging in HBM, mean over the makespan.
    pub kv_mean_bytes: u64,
    /// Room for it.
    pub kv_room_bytes: u64,
    /// What clients may see, from runs of draws of what is not known exactly; absent without `--intervals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<ServingIntervals>,
    /// Tiers that are never used, and why.
    pub unused_tiers: Vec<String>,
    /// The state over time, a few hundred instants at most.
    pub over_time: Vec<Moment>,
}

/// p5 and p95 over draws; null where a time is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ServingIntervals {
    /// Draws, each a run of the whole load.
    pub draws: u32,
    /// Output tokens a second over the makespan.
    pub output_tokens_per_s_p5: Option<f64>,
    /// The other end.
    pub output_tokens_per_s_p95: Option<f64>,
    /// From the first arrival to the last token.
    pub makespan_s_p5: Option<f64>,
    /// The other end.
    pub makespan_s_p95: Option<f64>,
    /// Mean time to the first token.
    pub ttft_mean_s_p5: Option<f64>,
    /// The other end.
    pub ttft_mean_s_p95: Option<f64>,
    /// 99th percentile of the time to the first token.
    pub ttft_p99_s_p5: Option<f64>,
    /// The other end.
    pub ttft_p99_s_p95: Option<f64>,
    /// Mean time per further token.
    pub tpot_mean_s_p5: Option<f64>,
    /// The other end.
    pub tpot_mean_s_p95: Option<f64>,
    /// 99th percentile of the time per further token.
    pub tpot_p99_s_p5: Option<f64>,
    /// The other end.
    pub tpot_p99_s_p95: Option<f64>,
}

/// A time over requests or tokens; null where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spread {
    /// Mean.
    pub mean_s: Option<f64>,
    /// Median (nearest rank, as all percentiles here).
    pub p50_s: Option<f64>,
    /// 90th percentile.
    pub p90_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// Largest.
    pub max_s: Option<f64>,
}

/// The state at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moment {
    /// Since the first arrival.
    pub at_s: f64,
    /// Requests in the batch.
    pub running: u32,
    /// Requests in line.
    pub waiting: u32,
    /// Tokens in T0: of decoding requests, and of prompts as far as they are computed.
    pub t0_tokens: u64,
    /// In T1.
    pub t1_tokens: u64,
    /// In T2.
    pub t2_tokens: u64,
    /// Destroyed.
    pub t3_tokens: u64,
    /// KV and staging in HBM.
    pub kv_bytes: u64,
    /// Host memory promised to requests.
    pub ddr_bytes: u64,
    /// Output tokens so far.
    pub output_tokens: u64,
}
