//! `kvplan compare`: a plan's memory beside what an engine printed when it started.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::compare::log::{self, Start};
use crate::compare::{Comparison, compare};
use crate::error::{Error, Result};
use crate::plan::answer::{PLAN_SCHEMA, Plan};
use crate::report::{Style, compare as page, json, md, table};

use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::{explain, progress};

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan plan --model llama-3.1-8b --weights bf16 --hardware h100-sxm --format json -o plan.json\n  \
    vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.95 2>&1 | tee vllm.log\n  \
    kvplan compare plan.json --engine-log vllm.log\n  \
    docker logs vllm 2>&1 | kvplan compare plan.json --engine-log - --format json"
)]
pub struct CompareArgs {
    /// Result of `plan` in JSON.
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: PathBuf,
    /// Start-up log of vLLM or TensorRT-LLM; `-` is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    engine_log: PathBuf,
    /// Card of the plan that the log is of, where the plan has several
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,
    #[command(flatten)]
    result: ResultArgs,
}

/// Reads both and writes what they say of the same memory.
///
/// # Errors
/// No such file, another engine than the plan's, or several cards and none named (exit 2); not a plan, or no log with a KV
/// pool (exit 3).
pub fn run(args: &CompareArgs, out: &mut Out) -> Result<()> {
    for read in [&args.plan, &args.engine_log] {
        keep(read, args.result.out.as_deref())?;
    }
    let plan = plan(&args.plan)?;
    let watch = progress::watch("reading the log", 0, out.quiet());
    let (start, longer) = read(&args.engine_log)?;
    drop(watch);
    let mut answer: Comparison = compare(&plan, &start, args.hardware.as_deref())?;
    if longer {
        let most = log::MOST >> 20;
        let note = format!("only the first {most} MiB of the log were read");
        answer.notes.push(note);
    }
    args.result.open(out)?;
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::render(&page::page(&answer), style),
        Format::Json => json::pretty(&answer)?,
        Format::Csv => page::csv(&answer)?,
        Format::Md => md::render(&page::page(&answer)),
    })
}

/// The plan of a file; other results are refused by name.
fn plan(path: &Path) -> Result<Plan> {
    let value = explain::read(path)?;
    let shown = path.display();
    if value["schema"] != PLAN_SCHEMA {
        let schema = value["schema"].as_str().unwrap_or_default();
        return Err(Error::data(format!(
            "{shown}: not a plan: its schema is `{schema}`, not `{PLAN_SCHEMA}`"
        ))
        .help("make one with `kvplan plan --format json -o plan.json`"));
    }
    serde_json::from_value(value)
        .map_err(|e| Error::data(format!("{shown}: not a plan that this version reads: {e}")))
}

/// The last start in a log, and whether there is more than was read.
fn read(path: &Path) -> Result<(Start, bool)> {
    if path.as_os_str() == "-" {
        return log::read("stdin", std::io::stdin().lock());
    }
    let shown = path.display().to_string();
    let cannot = |e: std::io::Error| {
        Error::usage(format!("{shown}: cannot be read: {e}"))
            .help("name the file that the engine's output went to")
    };
    let file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(Error::usage(format!("{shown}: is a directory")).help("name a log in it"));
    }
    log::read(&shown, BufReader::with_capacity(1 << 16, file))
}

/// Refuses to write the result over what is read.
fn keep(read: &Path, result: Option<&Path>) -> Result<()> {
    let whole = |p: &Path| std::fs::canonicalize(p).ok();
    match result {
        Some(out) if whole(out).is_some() && whole(out) == whole(read) => {
            Err(Error::usage(format!(
                "{}: the result would replace a file that the run reads",
                out.display()
            ))
            .help("name another file with -o"))
        }
        _ => Ok(()),
    }
}
