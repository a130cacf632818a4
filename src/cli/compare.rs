//! `kvplan compare`: a plan's memory beside what an engine printed when it started, or one calibrated profile beside another.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::catalog;
use crate::compare::log::{self, Start};
use crate::compare::{Comparison, compare, profiles};
use crate::error::{Error, Result};
use crate::plan::answer::{PLAN_SCHEMA, Plan};
use crate::report::{Style, compare as page, drift as drifted, json, md, table};
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, Verb, file, resolve};

use super::Answer;
use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::same::keep;
use super::{explain, progress};

/// Why a result is not written.
const REPLACES: &str = "the result would replace a file that the run reads";

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan plan --model llama-3.1-8b --weights bf16 --hardware h100-sxm -o plan.json\n  \
    vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.95 2>&1 | tee vllm.log\n  \
    kvplan compare plan.json --engine-log vllm.log\n  \
    docker logs vllm 2>&1 | kvplan compare plan.json --engine-log - --format json\n  \
    kvplan compare calibration/build-7-rtx-5080-2026-11-01.toml \\\n    \
    calibration/build-7-rtx-5080-2026-11-30.toml --tolerance 0.05\n\n\
    Two profiles: exit 1 if a value drifted by more than the tolerance and its intervals are apart."
)]
pub struct CompareArgs {
    /// Result of `plan` in JSON, or the older of two profiles (.toml)
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: PathBuf,
    /// The newer profile (.toml)
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath, conflicts_with = "engine_log")]
    new: Option<PathBuf>,
    /// Start-up log of vLLM or TensorRT-LLM; `-` is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "new")]
    engine_log: Option<PathBuf>,
    /// Share by which a value of a profile may drift; for two profiles
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = tolerance, conflicts_with = "engine_log")]
    tolerance: f64,
    /// Card of the plan that the log is of, where the plan has several
    #[arg(long, value_name = "NAME", conflicts_with = "new")]
    hardware: Option<String>,
    #[command(flatten)]
    result: ResultArgs,
}

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    crate::units::text::share(text)
}

/// Reads both and writes what they say of the same memory, or of the same machine; the answer is no if a profile drifted.
///
/// # Errors
/// No such file, another engine than the plan's, or several cards and none named (exit 2); not a plan, or no log with a KV
/// pool (exit 3).
pub fn run(args: &CompareArgs, out: &mut Out) -> Result<Answer> {
    match (&args.engine_log, &args.new) {
        (_, Some(new)) => profiles(args, new, out),
        (Some(log), None) => engine(args, log, out).map(|()| Answer::Yes),
        (None, None) => Err(Error::usage("nothing to compare with").help("give --engine-log FILE")),
    }
}

/// Two profiles.
fn profiles(args: &CompareArgs, new: &Path, out: &mut Out) -> Result<Answer> {
    let paths = [args.plan.as_path(), new];
    let mut both = Vec::new();
    keep(paths, args.result.out.as_deref(), REPLACES)?;
    for path in paths {
        let name = path.display().to_string();
        if catalog::extension(&name) != Some("toml") {
            return Err(Error::usage(format!("{name}: not a profile (.toml)"))
                .help("compare two profiles, or a plan with --engine-log FILE"));
        }
        both.push((catalog::hardware(&name)?, name));
    }
    args.result.open(out)?;
    let (question, plan) = before_and_after([&both[0].1, &both[1].1])?;
    let machines = [&both[0].0, &both[1].0];
    let drift = profiles::drift(machines, (question, &plan), args.tolerance)?;
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::render(&drifted::page(&drift), style),
        Format::Json => json::pretty(&drift)?,
        Format::Csv => drifted::csv(&drift)?,
        Format::Md => md::render(&drifted::page(&drift)),
    })?;
    Ok(Answer::of(!drift.drifted))
}

/// The default question on both machines; where neither runs it, that of a desktop.
fn before_and_after(paths: [&str; 2]) -> Result<(&'static str, Plan)> {
    let asked = |question: &'static str| {
        let mut settings = Settings::defaults(Verb::Plan);
        file::load(Path::new(question), &mut settings)?;
        let cards = paths.map(String::from);
        settings.set("hardware", &cards, Origin::Flag)?;
        let plan = crate::plan::plan(&resolve::question(&settings)?)?;
        Ok::<_, Error>((question, plan))
    };
    let answer = asked("default")?;
    if answer.1.runs_somewhere() {
        return Ok(answer);
    }
    asked("desktop")
}

/// A plan and a log.
fn engine(args: &CompareArgs, engine_log: &Path, out: &mut Out) -> Result<()> {
    let inputs = [args.plan.as_path(), engine_log];
    keep(inputs, args.result.out.as_deref(), REPLACES)?;
    let plan = plan(&args.plan)?;
    let watch = progress::watch("reading the log", 0, out.quiet());
    let (start, longer) = read(engine_log)?;
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
