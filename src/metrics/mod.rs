//! What a run found out: `Outcome` is the JSON that `simulate` prints (schema `kvplan/outcome/1`).
//!
//! The result struct is the schema: base units, the unit in the key, never text for a number. It holds the resolved
//! question and the seed, never argv, paths, jobs, dates or wall-clock timings: equal questions give equal bytes.
//! Values that do not exist (no throughput when nothing fits) are `null`, never 0.

pub mod perfetto;
pub mod serving;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hardware::Source;

/// Schema id of [`Outcome`].
pub const OUTCOME_SCHEMA: &str = "kvplan/outcome/1";

/// One deployment, simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Outcome {
    /// Always `kvplan/outcome/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// Model id.
    pub model: String,
    /// Hardware id.
    pub hardware: String,
    /// GPUs in tensor parallel.
    pub gpus: u32,
    /// Runtime id.
    pub runtime: String,
    /// Sequences decoded together.
    pub batch: u32,
    /// Prompt tokens per request.
    pub prompt_tokens: u32,
    /// Output tokens per request.
    pub output_tokens: u32,
    /// Weight format.
    pub weights: String,
    /// KV format.
    pub kv: String,
    /// Policy with its parameters as resolved.
    pub policy: String,
    /// How T1 takes part in attention.
    pub t1_mode: String,
    /// `serial` or `layer`.
    pub overlap: String,
    /// `lockstep` or `staggered`.
    pub occupancy: String,
    /// Random seed.
    pub seed: u64,
    /// Every setting as resolved, by the names of the flags; absent inside a plan, whose question has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scenario: BTreeMap<String, String>,
    /// Whether it fits in HBM and host memory.
    pub fits: bool,
    /// HBM missing, over all GPUs; 0 if it fits.
    pub shortfall_bytes: u64,
    /// Changes that would make it fit, each checked.
    pub changes: Vec<String>,
    /// Where the memory goes at the instant of the HBM peak, over all GPUs.
    pub memory: Memory,
    /// Speed; fields are null if it does not fit.
    pub throughput: Throughput,
    /// Tokens a request may reach with everything in HBM, all requests alike.
    pub holds_tokens_per_request: u64,
    /// T1 bytes that stream for free: link bandwidth times the step time without transfers (mean over the run).
    pub free_t1_bytes: Option<u64>,
    /// Link bandwidth at which the run's largest T1 streams for free; null without T1.
    pub breakeven_link_bytes_per_s: Option<f64>,
    /// Link traffic of the decode run.
    pub traffic: Traffic,
    /// What destroying tokens cost, from the trace (a proxy within one policy family, not accuracy).
    pub quality: Quality,
    /// What is fetched per step where only some host tokens take part (`selective`, not exact).
    #[serde(default)]
    pub fetched: Fetched,
    /// Tokens and attention mass by tier.
    pub tiers: Tiers,
    /// Moves between tiers.
    pub moves: Moves,
    /// The trace behind the fields of `depends_on_trace`.
    pub trace: TraceUse,
    /// Paths of the fields that rest on the recorded trace.
    pub depends_on_trace: Vec<String>,
    /// What bounds the decode step most of the time.
    pub bound_by: String,
    /// Where the mean decode step goes.
    pub step: StepParts,
    /// Preemptions (engine as it is), 0 otherwise.
    pub preemptions: u64,
    /// Every number that mattered, with its source.
    pub assumptions: Vec<Assumption>,
    /// Remarks that qualify the answer.
    pub notes: Vec<String>,
    /// Size of the simulation.
    pub engine: Engine,
    /// What the figures may be, from draws of what is not known exactly; absent without `--intervals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Requests over time: what clients see; absent for a static batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<serving::Serving>,
}

/// p5 and p95 over draws of what is not known exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Intervals {
    /// Draws behind them.
    pub draws: u32,
    /// Share of the draws in which it fits, or runs at all where requests take turns.
    pub fits_share: f64,
    /// Output tokens per second over the draws in which it runs.
    pub output_tokens_per_s_p5: Option<f64>,
    /// The other end.
    pub output_tokens_per_s_p95: Option<f64>,
    /// Mean time per output token.
    pub tpot_mean_s_p5: Option<f64>,
    /// The other end.
    pub tpot_mean_s_p95: Option<f64>,
    /// HBM freed by moving.
    pub hbm_saved_moved_bytes_p5: i64,
    /// The other end.
    pub hbm_saved_moved_bytes_p95: i64,
    /// Tokens a request may reach with everything in HBM.
    pub holds_tokens_per_request_p5: u64,
    /// The other end.
    pub holds_tokens_per_request_p95: u64,
    /// Requests of full length that fit together with everything in HBM.
    pub largest_batch: u64,
    /// Its p5.
    pub largest_batch_p5: u64,
    /// Its p95.
    pub largest_batch_p95: u64,
}

/// Memory by part [bytes, over all GPUs].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Memory {
    /// Weights in HBM.
    pub weights_bytes: u64,
    /// KV if nothing were moved or destroyed, at its largest.
    pub kv_full_bytes: u64,
    /// KV in T0 at the HBM peak, spare pages of compaction included.
    pub kv_t0_bytes: u64,
    /// Staging of T1 at the HBM peak.
    pub staging_bytes: u64,
    /// Activations.
    pub activation_bytes: u64,
    /// Context, libraries, graphs.
    pub reserve_bytes: u64,
    /// Sum of the HBM parts at its largest.
    pub hbm_peak_bytes: u64,
    /// What may be used: usable memory less `vram_reserve`, by the memory fraction and the rule of the runtime.
    pub hbm_capacity_bytes: u64,
    /// HBM freed by moving tokens to the host, staging subtracted (negative: staging costs more than it frees).
    pub hbm_saved_moved_bytes: i64,
    /// HBM freed by destroying tokens.
    pub hbm_saved_destroyed_bytes: i64,
    /// Moved part of the saving if pages are freed only when empty (no compaction).
    pub hbm_saved_moved_whole_pages_bytes: Option<i64>,
    /// Host memory at its largest.
    pub ddr_peak_bytes: u64,
    /// Host memory that may be pinned.
    pub ddr_capacity_bytes: u64,
}

/// Speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Throughput {
    /// Output tokens per second of decode, all requests, over the whole run.
    pub output_tokens_per_s: Option<f64>,
    /// The same at the last step, when contexts are longest.
    pub at_end_tokens_per_s: Option<f64>,
    /// The same with everything in an HBM of unlimited size.
    pub full_cache_output_tokens_per_s: Option<f64>,
    /// Mean time per output token.
    pub tpot_mean_s: Option<f64>,
    /// 99th percentile over steps.
    pub tpot_p99_s: Option<f64>,
    /// Prefill of all prompts.
    pub prefill_s: Option<f64>,
    /// From the first prefill to the last token.
    pub makespan_s: Option<f64>,
}

/// Link traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Traffic {
    /// Host to device over the run.
    pub h2d_bytes: u64,
    /// Device to host over the run.
    pub d2h_bytes: u64,
    /// Busy share of the host-to-device link.
    pub h2d_busy_share: f64,
    /// Share of the run in which the GPU waits for transfers (or the host).
    pub exposed_transfer_share: f64,
}

/// Quality proxies from the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Quality {
    /// Destroyed tokens over generated tokens, at the end.
    pub destroyed_share: f64,
    /// Attention mass that the full cache would put on destroyed tokens: mean over steps.
    pub destroyed_mass_mean: Option<f64>,
    /// Bootstrap 90 % interval of that mean over traces: low end; null for a single trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroyed_mass_mean_low: Option<f64>,
    /// High end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroyed_mass_mean_high: Option<f64>,
    /// 99th percentile over steps.
    pub destroyed_mass_p99: Option<f64>,
    /// Worst step.
    pub destroyed_mass_max: Option<f64>,
    /// Attention mass on host tokens that a step does not fetch (`selective`): mean over steps; null in exact modes.
    #[serde(default)]
    pub residual_mass_mean: Option<f64>,
    /// 99th percentile over steps.
    #[serde(default)]
    pub residual_mass_p99: Option<f64>,
    /// Worst step.
    #[serde(default)]
    pub residual_mass_max: Option<f64>,
    /// Destroyed and residual mass together, step by step: mean over steps.
    #[serde(default)]
    pub lost_mass_mean: Option<f64>,
    /// 99th percentile over steps.
    #[serde(default)]
    pub lost_mass_p99: Option<f64>,
    /// Worst step.
    #[serde(default)]
    pub lost_mass_max: Option<f64>,
    /// Bound on the attention output error, in units of the largest value norm: 2 * `lost_mass_max`.
    pub output_error_bound: Option<f64>,
}

/// What `selective` fetches of one request, mean over steps (tokens); null in exact modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fetched {
    /// Host tokens that take part in a step, kept in HBM until the next.
    pub tokens_mean: Option<f64>,
    /// Those of them that cross the link in the step; without a trace all of them, which is the most there can be.
    pub fresh_mean: Option<f64>,
    /// Contiguous runs of those.
    pub fresh_runs_mean: Option<f64>,
    /// Most host tokens that take part in any step.
    pub tokens_max: Option<f64>,
}

/// By tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tiers {
    /// GPU memory.
    pub t0: TierUse,
    /// Host, full precision.
    pub t1: TierUse,
    /// Host, reduced precision.
    pub t2: TierUse,
    /// Destroyed.
    pub t3: TierUse,
}

/// One tier, per request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TierUse {
    /// Mean tokens over steps.
    pub tokens_mean: f64,
    /// Tokens at the last step.
    pub tokens_end: f64,
    /// Mean attention mass over steps; null without recorded rows.
    pub mass_mean: Option<f64>,
    /// Bootstrap 90 % interval of that mean over traces: low end; null for a single trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mass_low: Option<f64>,
    /// High end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mass_high: Option<f64>,
}

/// Moves, per request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Moves {
    /// Decisions taken, empty ones included.
    pub retiers: u32,
    /// T1 to T0, mean per decision.
    pub promoted_per_retier: f64,
    /// T0 to T1, mean per decision.
    pub demoted_per_retier: f64,
    /// All T1 to T0.
    pub promoted_total: f64,
    /// All T0 to T1.
    pub demoted_total: f64,
    /// All to T3.
    pub destroyed_total: f64,
}

/// The trace used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TraceUse {
    /// Name of the trace; null if none was needed.
    pub name: Option<String>,
    /// Model that was recorded.
    pub recorded_model: Option<String>,
    /// Traces that means are over; null for a single trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Recorded rows.
    pub rows: u32,
    /// Share of the run's steps past the recorded rows.
    pub synthetic_share: f64,
}

/// Where the mean decode step goes (s).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StepParts {
    /// Linear layers and head.
    pub linear_s: f64,
    /// Attention over T0 (and staged T1).
    pub attention_s: f64,
    /// Norms, rope, activation, launches.
    pub other_s: f64,
    /// All-reduce.
    pub collective_s: f64,
    /// CPU between steps.
    pub gap_s: f64,
    /// Waiting for transfers.
    pub exposed_transfer_s: f64,
    /// Waiting for attention on the host.
    pub exposed_host_s: f64,
    /// Re-tiering: moves, compaction.
    pub retier_s: f64,
    /// Prefill and recompute inside the run.
    pub recompute_s: f64,
}

/// A number that mattered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Assumption {
    /// What it is: `link.h2d`.
    pub name: String,
    /// Value in base units.
    pub value: f64,
    /// p5.
    pub low: f64,
    /// p95.
    pub high: f64,
    /// Base unit.
    pub unit: String,
    /// Where it comes from.
    pub source: Source,
    /// The document or reasoning.
    pub reference: String,
}

/// Size of the simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Engine {
    /// `step` (a recursion over the layers) or `layer` (every transfer an event).
    #[serde(default)]
    pub fidelity: String,
    /// Events handled.
    pub events: u64,
    /// Decode steps.
    pub steps: u64,
}
