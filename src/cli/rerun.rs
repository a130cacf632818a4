//! `kvplan rerun`: a saved result, computed again from the question it holds.
//!
//! A result keeps every setting as resolved, so the same version gives the same bytes; another version gives the answer
//! of that version to the same question, which is what one compares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use clap::Args;
use serde_json::Value;

use crate::error::{Cause, Error, Result};
use crate::eval::EVAL_SCHEMA;
use crate::journal::{Mark, marks};
use crate::plan::answer::{PLAN_SCHEMA, Setting};
use crate::plan::solve::answer::{SOLVE_SCHEMA, Solution};
use crate::plan::solve::{Find, Limits, solve};
use crate::report::json;
use crate::scenario::keys::KEYS;
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, Verb, resolve};
use crate::sweep::Sweep;
use crate::sweep::answer::{Answer as SweepAnswer, SWEEP_SCHEMA};

use super::Answer;
use super::ending;
use super::explain;
use super::out::Out;
use super::same::keep;

/// Arguments of `rerun`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "A file that was read then (a trace, a machine, lengths) and has changed since is named on stderr: the answer\n\
    is then that of the file as it is now.\n\n\
    EXAMPLES:\n  kvplan rerun result.json\n  kvplan rerun result.json | cmp - result.json"
)]
pub struct RerunArgs {
    /// Result of `simulate`, `plan`, `plan --find` or `sweep` in JSON.
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// Write to FILE (.json) instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it; the answer is no where the saved one was.
///
/// # Errors
/// No such file, or a trace that is gone (exit 2); not a result of kvplan (exit 3).
pub fn run(args: &RerunArgs, out: &mut Out) -> Result<Answer> {
    let what = "the result would replace the one that it is made from";
    keep([args.result.as_path()], args.out.as_deref(), what)?;
    if let Some(path) = &args.out {
        ending::format(
            path,
            &[("json", ())],
            ": a result is computed again as JSON",
        )?;
    }
    let saved = explain::read(&args.result)?;
    changed(&saved, out)?;
    if saved["schema"] == SWEEP_SCHEMA {
        return sweep(saved, args.out.as_deref(), out);
    }
    if saved["schema"] == EVAL_SCHEMA {
        return Err(
            Error::usage("an evaluation does not hold its model and its problems")
                .help("run `kvplan eval` with them again: the same question gives the same bytes"),
        );
    }
    match saved["schema"].as_str() {
        Some(PLAN_SCHEMA) => plan(&saved, args.out.as_deref(), out),
        Some(SOLVE_SCHEMA) => solution(saved, args.out.as_deref(), out),
        _ => outcome(&saved, args.out.as_deref(), out),
    }
}

/// Says which files are no longer what they were.
fn changed(saved: &Value, out: &Out) -> Result<()> {
    let then: BTreeMap<String, Mark> =
        serde_json::from_value(saved["inputs"].clone()).unwrap_or_default();
    let now = marks(then.keys().cloned())?;
    for (name, was) in &then {
        match now.get(name) {
            Some(is) if is == was => {}
            Some(is) => out.note(&format!(
                "{name} has changed since the result was made ({} bytes then, {} now, another checksum): the answer is that of the file as it is now",
                was.bytes, is.bytes
            )),
            None => out.note(&format!(
                "{name}, which the result was made from, is no longer there"
            )),
        }
    }
    Ok(())
}

fn of_version(e: Error) -> Error {
    match e.cause {
        Cause::Usage if e.help.is_none() => {
            e.help("the result may be of another version of kvplan")
        }
        _ => e,
    }
}

fn outcome(saved: &Value, to: Option<&Path>, out: &mut Out) -> Result<Answer> {
    let held: BTreeMap<String, String> =
        serde_json::from_value(saved["scenario"].clone()).unwrap_or_default();
    // Staging was given way to where it contradicts; as a default it gives way again.
    let given = held.into_iter().map(|(name, value)| {
        let gives_way = GIVES_WAY.contains(&name.as_str());
        (name, (value, gives_way))
    });
    let settings = settings(&given.collect(), Verb::Simulate).map_err(of_version)?;
    let scenario = resolve::scenario(&settings).map_err(of_version)?;
    if let Some(path) = to {
        out.to_file(path)?;
    }
    let mut outcome = crate::plan::simulate(&scenario)?;
    // Who decided is part of the question: what a trace set was open then and is spelt out now.
    let notes: Vec<String> = serde_json::from_value(saved["notes"].clone()).unwrap_or_default();
    let of_origin = |n: &str| n.starts_with("set by the trace") || n.ends_with("has no effect");
    outcome.notes.retain(|n| !of_origin(n) || notes.contains(n));
    for (at, note) in notes.iter().enumerate() {
        if of_origin(note) && !outcome.notes.contains(note) {
            outcome
                .notes
                .insert(at.min(outcome.notes.len()), note.clone());
        }
    }
    out.result(&json::pretty(&outcome)?)?;
    Ok(Answer::of(outcome.fits))
}

fn plan(saved: &Value, to: Option<&Path>, out: &mut Out) -> Result<Answer> {
    let question = question(saved);
    let settings = settings(&by_name(&question), Verb::Plan).map_err(of_version)?;
    let asked = resolve::question(&settings).map_err(of_version)?;
    if let Some(path) = to {
        out.to_file(path)?;
    }
    let mut answer = crate::plan::plan(&asked)?;
    // Who decided each setting is part of the question, and cannot be told from its values.
    answer.question = question;
    out.result(&json::pretty(&answer)?)?;
    Ok(Answer::of(answer.runs_somewhere()))
}

/// A search again.
fn solution(saved: Value, to: Option<&Path>, out: &mut Out) -> Result<Answer> {
    let saved: Solution = serde_json::from_value(saved)
        .map_err(|e| Error::data(format!("the result is no search: {e}")))?;
    let known = Find::WORDS.iter().find(|(word, _)| *word == saved.find);
    let (_, find) = known.ok_or_else(|| {
        Error::data(format!(
            "the result is no search: `{}` is nothing to find",
            saved.find
        ))
    })?;
    let limits = [
        ("tpot_p99_s", saved.limits.tpot_p99_s),
        ("ttft_p99_s", saved.limits.ttft_p99_s),
        (
            "price_usd_per_gpu_hour",
            saved.limits.price_usd_per_gpu_hour,
        ),
    ];
    for (name, limit) in limits {
        if limit.is_some_and(|l| !l.is_finite() || l <= 0.0) {
            return Err(Error::data(format!(
                "the result is no search: limits.{name} is not over zero"
            )));
        }
    }
    let settings = settings(&by_name(&saved.question), Verb::Plan).map_err(of_version)?;
    let asked = resolve::question(&settings).map_err(of_version)?;
    if let Some(path) = to {
        out.to_file(path)?;
    }
    let mut found = solve(
        &asked,
        &settings,
        *find,
        &Limits::of(&saved.limits),
        &AtomicU64::new(0),
    )?;
    found.question = saved.question;
    out.result(&json::pretty(&found)?)?;
    Ok(Answer::of(found.any()))
}

/// A sweep again: what was a default is one again, since a trace decides what was left open.
fn sweep(saved: Value, to: Option<&std::path::Path>, out: &mut Out) -> Result<Answer> {
    let saved: SweepAnswer = serde_json::from_value(saved)
        .map_err(|e| Error::data(format!("the result is no sweep: {e}")))?;
    let again = |e: Error| match e.cause {
        Cause::Usage => e.help("the result may be of another version of kvplan"),
        _ => e,
    };
    let sweep = Sweep::of(&saved).map_err(again)?;
    if let Some(path) = to {
        out.to_file(path)?;
    }
    let cells = crate::sweep::run(&sweep, Vec::new(), &|_| Ok(()))?;
    let mut answer = sweep.answer(cells)?;
    answer.question = saved.question;
    out.result(&json::pretty(&answer)?)?;
    Ok(Answer::of(answer.any_fits()))
}

/// Settings that give way where they contradict, of a result that does not say who decided.
const GIVES_WAY: &[&str] = &["t1", "overlap", "write-back", "compact", "layout", "depth"];

/// Values by name, each with whether it is a default.
type Held = BTreeMap<String, (String, bool)>;

/// The settings that a result holds.
fn settings(held: &Held, verb: Verb) -> Result<Settings> {
    if held.is_empty() {
        return Err(Error::data("the result does not hold its question"));
    }
    let mut settings = Settings::defaults(verb);
    for key in KEYS {
        match held.get(key.name) {
            Some((text, default)) => {
                let texts: Vec<String> = text.split(", ").map(String::from).collect();
                let origin = if *default {
                    Origin::Default
                } else {
                    Origin::Flag
                };
                settings.set(key.name, &texts, origin)?;
            }
            None if key.name == "depth" || key.default(settings.verb).is_none() => {
                settings.clear(key.name);
            }
            // A setting that came after the result was made keeps its default, which is what ran then.
            None => {}
        }
    }
    Ok(settings)
}

/// The question of a plan.
fn question(saved: &Value) -> Vec<Setting> {
    serde_json::from_value(saved["question"].clone()).unwrap_or_default()
}

fn by_name(question: &[Setting]) -> Held {
    let held = |s: &Setting| (s.name.clone(), (s.value.clone(), s.from == "default"));
    question.iter().map(held).collect()
}
