//! Saved results as they are read back: bounded, checked against their schema, refused by name otherwise.

use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::error::{Error, Result, did_you_mean};
use crate::metrics::OUTCOME_SCHEMA;
use crate::plan::answer::PLAN_SCHEMA;
use crate::plan::solve::answer::SOLVE_SCHEMA;
use crate::report::document::source::{Saved, Source};
use crate::sweep::answer::SWEEP_SCHEMA;

/// Largest result that is read (bytes).
const MAX_BYTES: u64 = 1 << 30;

/// How to make a result.
pub(super) const MAKE_ONE: &str = "make one with `kvplan simulate --format json -o FILE`";

/// Schemas that a report takes, and the verb that makes each.
const REPORTED: [(&str, &str); 4] = [
    (PLAN_SCHEMA, "plan"),
    (OUTCOME_SCHEMA, "simulate"),
    (SWEEP_SCHEMA, "sweep"),
    (SOLVE_SCHEMA, "plan --find"),
];

/// What every result begins with.
#[derive(Deserialize)]
struct Head {
    schema: Option<Value>,
}

/// Which files are results.
pub(super) const NAME_ONE: &str = "name a result saved with --format json -o FILE";

/// The text of a result file; `help` says what to name instead.
///
/// # Errors
/// No such file (exit 2); over 1 GiB or not text (exit 3).
pub(super) fn text(path: &Path, help: &str) -> Result<String> {
    let shown = path.display().to_string();
    let unreadable = |e: std::io::Error| Error::usage(format!("{shown}: {e}")).help(help);
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if meta.is_dir() {
        return Err(
            Error::usage(format!("{shown}: is a directory")).help("name a result file in it")
        );
    }
    let bytes = super::read_bounded(path, MAX_BYTES + 1).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(foreign(&shown, "is over 1 GiB"));
    }
    String::from_utf8(bytes).map_err(|_| foreign(&shown, "is not text"))
}

/// A result that a report takes.
///
/// # Errors
/// As [`text`]; not JSON, another schema, or not what its schema promises (exit 3).
pub(super) fn source(path: &Path) -> Result<Source> {
    let text = text(path, NAME_ONE)?;
    let shown = path.display().to_string();
    let name = path
        .file_name()
        .map_or(shown.clone(), |n| n.to_string_lossy().into_owned());
    parsed(&shown, name, &text)
}

/// A result that is in memory, as if it had been read from a file of this name.
///
/// # Errors
/// Not JSON, another schema, or not what its schema promises (exit 3).
pub fn parsed(shown: &str, name: String, text: &str) -> Result<Source> {
    let cannot = |e: serde_json::Error| broken(shown, text, &e);
    if !text.trim_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text).map_err(cannot)?;
        return Err(foreign(shown, "is no JSON object"));
    }
    let head: Head = serde_json::from_str(text).map_err(cannot)?;
    let saved = match head.schema.as_ref().and_then(Value::as_str) {
        Some(PLAN_SCHEMA) => Saved::Plan(typed(shown, text)?),
        Some(OUTCOME_SCHEMA) => Saved::Outcome(typed(shown, text)?),
        Some(SWEEP_SCHEMA) => Saved::Sweep(typed(shown, text)?),
        Some(SOLVE_SCHEMA) => Saved::Solution(typed(shown, text)?),
        Some(other) => return Err(not_reported(shown, other)),
        None => return Err(foreign(shown, "has no `schema`")),
    };
    Ok(Source::of(name, text, saved))
}

fn typed<T: DeserializeOwned>(file: &str, text: &str) -> Result<Box<T>> {
    serde_json::from_str(text).map(Box::new).map_err(|e| {
        foreign(
            file,
            &format!("does not hold what its schema promises: {e}"),
        )
    })
}

/// A schema that a report does not take: a newer version of one it takes, another verb's, or an unknown one.
fn not_reported(file: &str, schema: &str) -> Error {
    let taken: Vec<String> = REPORTED
        .iter()
        .map(|(s, verb)| format!("`{s}` ({verb})"))
        .collect();
    let near = did_you_mean(schema, REPORTED.iter().map(|(s, _)| *s));
    let help = match near.and_then(|n| REPORTED.iter().find(|(s, _)| *s == n)) {
        Some((s, verb))
            if schema.rsplit_once('/').map(|p| p.0) == s.rsplit_once('/').map(|p| p.0) =>
        {
            format!(
                "it is of another version of kvplan; make it again with `kvplan {verb} --format json -o FILE`"
            )
        }
        _ => format!("a report takes {}", taken.join(", ")),
    };
    Error::data(format!("{file}: no report of schema `{schema}`")).help(help)
}

/// No result of kvplan.
pub(super) fn foreign(file: &str, why: &str) -> Error {
    Error::data(format!("{file}: not a result of kvplan: it {why}")).help(MAKE_ONE)
}

/// Not JSON: where it stops being so.
pub(super) fn broken(file: &str, text: &str, error: &serde_json::Error) -> Error {
    let start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let at = (start + error.column().saturating_sub(1)).min(text.len());
    let why = if error.is_eof() {
        "it is cut off"
    } else {
        "it is not JSON"
    };
    Error::data(format!("{file}: not a result of kvplan: {why}"))
        .at(file, text, at..at)
        .help(MAKE_ONE)
}
