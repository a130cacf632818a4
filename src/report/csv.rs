//! CSV: one row a deployment, base units, the unit in the header.
//!
//! Columns are the dotted keys of the JSON, so a spreadsheet and a program name a figure alike. Lists of remarks and
//! assumptions stay in the JSON.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::sweep::answer::{Answer, Range};

/// Keys of an outcome in the order of its struct.
#[rustfmt::skip] // one group a line
pub const OUTCOME_COLUMNS: &[&str] = &[
    "schema", "kvplan_version", "model", "hardware", "gpus", "runtime", "batch", "prompt_tokens", "output_tokens",
    "weights", "kv", "policy", "t1_mode", "overlap", "occupancy", "seed", "fits", "shortfall_bytes",
    "memory.weights_bytes", "memory.kv_full_bytes", "memory.kv_t0_bytes", "memory.staging_bytes",
    "memory.activation_bytes", "memory.reserve_bytes", "memory.hbm_peak_bytes", "memory.hbm_capacity_bytes",
    "memory.hbm_saved_moved_bytes", "memory.hbm_saved_destroyed_bytes", "memory.hbm_saved_moved_whole_pages_bytes",
    "memory.ddr_peak_bytes", "memory.ddr_capacity_bytes",
    "throughput.output_tokens_per_s", "throughput.at_end_tokens_per_s", "throughput.full_cache_output_tokens_per_s",
    "throughput.tpot_mean_s", "throughput.tpot_p99_s", "throughput.prefill_s", "throughput.makespan_s",
    "holds_tokens_per_request", "free_t1_bytes", "breakeven_link_bytes_per_s",
    "traffic.h2d_bytes", "traffic.d2h_bytes", "traffic.h2d_busy_share", "traffic.exposed_transfer_share",
    "quality.destroyed_share", "quality.destroyed_mass_mean", "quality.destroyed_mass_p99",
    "quality.destroyed_mass_max", "quality.residual_mass_mean", "quality.residual_mass_p99", "quality.residual_mass_max",
    "quality.lost_mass_mean", "quality.lost_mass_p99", "quality.lost_mass_max", "quality.output_error_bound",
    "fetched.tokens_mean", "fetched.fresh_mean", "fetched.fresh_runs_mean", "fetched.tokens_max",
    "tiers.t0.tokens_mean", "tiers.t0.tokens_end", "tiers.t0.mass_mean",
    "tiers.t1.tokens_mean", "tiers.t1.tokens_end", "tiers.t1.mass_mean",
    "tiers.t2.tokens_mean", "tiers.t2.tokens_end", "tiers.t2.mass_mean",
    "tiers.t3.tokens_mean", "tiers.t3.tokens_end", "tiers.t3.mass_mean",
    "moves.retiers", "moves.promoted_per_retier", "moves.demoted_per_retier",
    "moves.promoted_total", "moves.demoted_total", "moves.destroyed_total",
    "trace.name", "trace.recorded_model", "trace.rows", "trace.synthetic_share", "bound_by",
    "step.linear_s", "step.attention_s", "step.other_s", "step.collective_s", "step.gap_s",
    "step.exposed_transfer_s", "step.exposed_host_s", "step.retier_s", "step.recompute_s",
    "preemptions", "engine.events", "engine.steps",
];

/// Keys of what clients see, behind those of the outcome where requests come over time.
#[rustfmt::skip] // one group a line
pub const SERVING_COLUMNS: &[&str] = &[
    "serving.requests", "serving.offered_requests_per_s", "serving.max_running", "serving.token_budget_tokens",
    "serving.prompt_tokens_total", "serving.output_tokens_total", "serving.cached_tokens_total", "serving.makespan_s",
    "serving.requests_per_s", "serving.output_tokens_per_s",
    "serving.ttft.mean_s", "serving.ttft.p50_s", "serving.ttft.p90_s", "serving.ttft.p99_s",
    "serving.tpot.mean_s", "serving.tpot.p50_s", "serving.tpot.p90_s", "serving.tpot.p99_s",
    "serving.itl.mean_s", "serving.itl.p50_s", "serving.itl.p90_s", "serving.itl.p99_s",
    "serving.e2el.mean_s", "serving.e2el.p50_s", "serving.e2el.p90_s", "serving.e2el.p99_s",
    "serving.front.mean_s", "serving.queued.mean_s", "serving.queued.p99_s", "serving.prefill.mean_s", "serving.goodput_requests_per_s", "serving.met_share",
    "serving.running_mean", "serving.running_max", "serving.waiting_mean", "serving.waiting_max",
    "serving.preemptions", "serving.swaps", "serving.t0_share", "serving.t1_share", "serving.t2_share",
    "serving.t3_share", "serving.kv_mean_bytes", "serving.kv_room_bytes",
];

/// Keys of its intervals, behind those of the outcome where there are any.
const INTERVAL_COLUMNS: &[&str] = &[
    "intervals.draws",
    "intervals.fits_share",
    "intervals.output_tokens_per_s_p5",
    "intervals.output_tokens_per_s_p95",
    "intervals.tpot_mean_s_p5",
    "intervals.tpot_mean_s_p95",
    "intervals.hbm_saved_moved_bytes_p5",
    "intervals.hbm_saved_moved_bytes_p95",
    "intervals.holds_tokens_per_request_p5",
    "intervals.holds_tokens_per_request_p95",
    "intervals.largest_batch",
    "intervals.largest_batch_p5",
    "intervals.largest_batch_p95",
];

/// Keys of an alternative that stand before its outcome.
const ALTERNATIVE_COLUMNS: &[&str] = &["name", "label", "starts", "remark"];

/// Keys of an alternative that stand after its outcome.
const STAGGERED_COLUMNS: &[&str] = &[
    "staggered.fits",
    "staggered.output_tokens_per_s",
    "staggered.tpot_p99_s",
    "staggered.preemptions",
];

/// Keys of a cell that stand between what varies and its outcome.
const CELL_COLUMNS: &[&str] = &[
    "pareto",
    "equal.parameter",
    "equal.value",
    "equal.target",
    "equal.achieved",
    "equal.difference_share",
    "refused",
];

/// One outcome: a header and a row.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn outcome(outcome: &Outcome) -> Result<String> {
    let value = tree(outcome)?;
    let mut columns = OUTCOME_COLUMNS.to_vec();
    if outcome.serving.is_some() {
        columns.extend(SERVING_COLUMNS);
    }
    if outcome.intervals.is_some() {
        columns.extend(INTERVAL_COLUMNS);
    }
    write(&columns, vec![cells(&value, &columns)])
}

/// An answer: a row an alternative of a card.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn plan(plan: &Plan) -> Result<String> {
    let mut columns = [ALTERNATIVE_COLUMNS, OUTCOME_COLUMNS, STAGGERED_COLUMNS].concat();
    if plan.draws.is_some() {
        columns.extend(INTERVAL_COLUMNS);
    }
    let mut rows = Vec::new();
    for alternative in plan.rows.iter().flat_map(|r| &r.alternatives) {
        let mut row = cells(&tree(alternative)?, &columns);
        let software: Vec<&str> = alternative
            .runs_in
            .iter()
            .map(|r| r.software.as_str())
            .collect();
        row.push(software.join("; "));
        rows.push(row);
    }
    let header = [columns, vec!["runs_in"]].concat();
    write(&header, rows)
}

/// A sweep: a row a cell, the varied keys first.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn sweep(answer: &Answer) -> Result<String> {
    let served =
        |c: &crate::sweep::answer::Cell| c.outcome.as_ref().is_some_and(|o| o.serving.is_some());
    let mut outcome_columns = OUTCOME_COLUMNS.to_vec();
    if answer.cells.iter().any(served) {
        outcome_columns.extend(SERVING_COLUMNS);
    }
    let drawn =
        |c: &crate::sweep::answer::Cell| c.outcome.as_ref().is_some_and(|o| o.intervals.is_some());
    if answer.cells.iter().any(drawn) {
        outcome_columns.extend(INTERVAL_COLUMNS);
    }
    let keys = answer.vary.iter().map(|a| format!("vary.{}", a.name));
    let mut header: Vec<String> = vec!["index".into()];
    header.extend(keys);
    header.extend(
        CELL_COLUMNS
            .iter()
            .chain(&outcome_columns)
            .map(|c| (*c).to_string()),
    );
    let mut rows = Vec::with_capacity(answer.cells.len());
    for cell in &answer.cells {
        let mut row = vec![cell.index.to_string()];
        let value = |a: &Range| cell.vary.get(&a.name).cloned().unwrap_or_default();
        row.extend(answer.vary.iter().map(value));
        row.extend(cells(&tree(cell)?, CELL_COLUMNS));
        row.extend(match &cell.outcome {
            Some(outcome) => cells(&tree(outcome)?, &outcome_columns),
            None => vec![String::new(); outcome_columns.len()],
        });
        rows.push(row);
    }
    write(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

fn tree(result: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(result).map_err(|e| Error::internal(format!("the result is no JSON: {e}")))
}

/// The columns of one result.
///
/// # Errors
/// A bug in the writer (exit 70).
pub(super) fn row(result: &impl serde::Serialize, columns: &[&str]) -> Result<Vec<String>> {
    Ok(cells(&tree(result)?, columns))
}

fn cells(value: &Value, columns: &[&str]) -> Vec<String> {
    columns.iter().map(|c| cell(value, c)).collect()
}

/// What a dotted key holds; empty where there is nothing.
fn cell(value: &Value, key: &str) -> String {
    let found = key.split('.').try_fold(value, |v, part| v.get(part));
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
    }
}

/// A header and rows as CSV text.
///
/// # Errors
/// A bug in the writer (exit 70).
pub(super) fn write(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let bug = |e: csv::Error| Error::internal(format!("the result is no CSV: {e}"));
    writer.write_record(header).map_err(bug)?;
    for row in rows {
        writer.write_record(row).map_err(bug)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|e| Error::internal(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Error::internal(e.to_string()))
}
