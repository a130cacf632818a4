//! `kvplan explain`: the formula, the values and the sources behind one figure of a saved result.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::error::{Error, Result, did_you_mean};
use crate::eval::{EVAL_SCHEMA, Evaluation};
use crate::metrics::{OUTCOME_SCHEMA, Outcome};
use crate::plan::answer::{PLAN_SCHEMA, Plan};
use crate::plan::solve::answer::{SOLVE_SCHEMA, Solution};
use crate::report::{Style, explain, table};
use crate::sweep::answer::{Answer as Sweep, SWEEP_SCHEMA};
use crate::sweep::shard::SHARD_SCHEMA;

use super::out::Out;
use super::saved::{self, broken, foreign};

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan explain result.json memory.kv_full_bytes\n  \
    kvplan explain result.json throughput\n  kvplan explain answer.json 'rows[0].alternatives[5].free_t1_bytes'\n  \
    kvplan explain sweep.json 'cells[2].outcome.memory.hbm_peak_bytes'\n  \
    kvplan explain load.json serving.ttft.p99_s\n  kvplan explain found.json 'rows[0].answer'"
)]
pub struct ExplainArgs {
    /// Result of `simulate`, `plan`, `plan --find`, `sweep` or `eval` in JSON.
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// Dotted key of a figure, or of a group to see what it holds.
    #[arg(value_name = "KEY")]
    key: String,
}

/// Prints it.
///
/// # Errors
/// No such file or key (exit 2); not a result of kvplan (exit 3).
pub fn run(args: &ExplainArgs, out: &mut Out) -> Result<()> {
    let result = read(&args.result)?;
    if explain::find(&result, &args.key).is_none() {
        return Err(unknown(&args.result, &result, &args.key));
    }
    let page = explain::page(&result, &args.key);
    let style = Style { color: out.color() };
    out.result(&table::render(&page, style))
}

fn unknown(path: &Path, result: &Value, key: &str) -> Error {
    let keys = explain::keys(result);
    let near = keys.iter().find(|k| k.rsplit('.').next() == Some(key));
    let near = near
        .map(String::as_str)
        .or_else(|| did_you_mean(key, keys.iter().map(String::as_str)));
    let groups: Vec<&str> = result
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, _)| k.as_str())
        .collect();
    let error = Error::usage(format!("{}: no figure `{key}`", path.display()));
    match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("at the top stand {}", groups.join(", "))),
    }
}

/// A result of kvplan, checked against its schema.
pub(super) fn read(path: &Path) -> Result<Value> {
    let shown = path.display().to_string();
    let text = saved::text(path, saved::NAME_ONE)?;
    let value: Value = serde_json::from_str(&text).map_err(|e| broken(&shown, &text, &e))?;
    let typed = match value.get("schema").and_then(Value::as_str) {
        Some(OUTCOME_SCHEMA) => serde_json::from_str::<Outcome>(&text).map(|_| ()),
        Some(PLAN_SCHEMA) => serde_json::from_str::<Plan>(&text).map(|_| ()),
        Some(SWEEP_SCHEMA) => serde_json::from_str::<Sweep>(&text).map(|_| ()),
        Some(EVAL_SCHEMA) => serde_json::from_str::<Evaluation>(&text).map(|_| ()),
        Some(SOLVE_SCHEMA) => serde_json::from_str::<Solution>(&text).map(|_| ()),
        Some(SHARD_SCHEMA) => {
            return Err(Error::usage(format!("{shown}: is one shard of a sweep"))
                .help("join all of them first: kvplan sweep --merge FILES -o sweep.json"));
        }
        Some(other) => {
            return Err(foreign(
                &shown,
                &format!("has the unknown schema `{other}`"),
            ));
        }
        None => return Err(foreign(&shown, "has no `schema`")),
    };
    typed.map_err(|e| {
        foreign(
            &shown,
            &format!("does not hold what its schema promises: {e}"),
        )
    })?;
    Ok(value)
}
