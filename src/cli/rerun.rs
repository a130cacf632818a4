//! `kvplan rerun`: a saved result, computed again from the question it holds.
//!
//! A result keeps every setting as resolved, so the same version gives the same bytes; another version gives the answer
//! of that version to the same question, which is what one compares.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::error::{Cause, Error, Result};
use crate::eval::EVAL_SCHEMA;
use crate::plan::answer::PLAN_SCHEMA;
use crate::report::json;
use crate::scenario::keys::KEYS;
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, Verb, resolve};
use crate::sweep::Sweep;
use crate::sweep::answer::{Answer as SweepAnswer, SWEEP_SCHEMA};

use super::Answer;
use super::explain;
use super::out::Out;

/// Arguments of `rerun`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan rerun result.json\n  kvplan rerun result.json | cmp - result.json"
)]
pub struct RerunArgs {
    /// Result of `simulate`, `plan` or `sweep` in JSON.
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// Write to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it; the answer is no where the saved one was.
///
/// # Errors
/// No such file, or a trace that is gone (exit 2); not a result of kvplan (exit 3).
pub fn run(args: &RerunArgs, out: &mut Out) -> Result<Answer> {
    let saved = explain::read(&args.result)?;
    if saved["schema"] == SWEEP_SCHEMA {
        return sweep(saved, args.out.as_deref(), out);
    }
    if saved["schema"] == EVAL_SCHEMA {
        return Err(
            Error::usage("an evaluation does not hold its model and its problems")
                .help("run `kvplan eval` with them again: the same question gives the same bytes"),
        );
    }
    let plan = saved["schema"] == PLAN_SCHEMA;
    let settings = settings(&saved, plan)
        .map_err(|e| e.help("the result may be of another version of kvplan"))?;
    if let Some(path) = &args.out {
        out.to_file(path)?;
    }
    if plan {
        let mut answer = crate::plan::plan(&resolve::question(&settings)?)?;
        // Who decided each setting is part of the question, and cannot be told from its values.
        answer.question =
            serde_json::from_value(saved["question"].clone()).unwrap_or(answer.question);
        out.result(&json::pretty(&answer)?)?;
        return Ok(Answer::of(answer.runs_somewhere()));
    }
    let mut outcome = crate::plan::simulate(&resolve::scenario(&settings)?)?;
    // Who decided is part of the question: what a trace set was open then and is spelt out now.
    let notes: Vec<String> = serde_json::from_value(saved["notes"].clone()).unwrap_or_default();
    let of_origin = |n: &str| n.starts_with("set by the trace") || n.ends_with("has no effect");
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

/// The question inside a result, as settings.
fn settings(saved: &Value, plan: bool) -> Result<Settings> {
    let held: BTreeMap<String, String> = if plan {
        question(saved)
    } else {
        serde_json::from_value(saved["scenario"].clone()).unwrap_or_default()
    };
    if held.is_empty() {
        return Err(Error::data("the result does not hold its question"));
    }
    let mut settings = Settings::defaults(if plan { Verb::Plan } else { Verb::Simulate });
    for key in KEYS {
        match held.get(key.name) {
            Some(text) => {
                let texts: Vec<String> = text.split(", ").map(String::from).collect();
                // Staging was given way to where it contradicts; as a default it gives way again.
                let gives_way = ["t1", "overlap", "write-back", "compact", "layout", "depth"]
                    .contains(&key.name);
                settings.set(
                    key.name,
                    &texts,
                    if gives_way {
                        Origin::Default
                    } else {
                        Origin::Flag
                    },
                )?;
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

/// Settings of a plan's question by name.
fn question(saved: &Value) -> BTreeMap<String, String> {
    let list = saved["question"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .filter_map(|s| {
            Some((
                s["name"].as_str()?.to_string(),
                s["value"].as_str()?.to_string(),
            ))
        })
        .collect()
}
