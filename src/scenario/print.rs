//! The merged settings as a scenario file, with who decided each value: `--print-config`.
//!
//! The text is a scenario file again: laid over the defaults it gives the same scenario.

use std::fmt::Write as _;

use super::keys::{Key, Kind};
use super::settings::{Given, Origin, Settings};

/// The settings as TOML, each line with its origin as a comment.
pub fn config(settings: &Settings) -> String {
    lines(settings.iter())
}

/// Only what somebody asked for: what was left open stays so, and may depend on the verb.
pub fn asked(settings: &Settings) -> String {
    lines(
        settings
            .iter()
            .filter(|(_, given)| given.origin != Origin::Default),
    )
}

fn lines<'a>(settings: impl Iterator<Item = (&'static Key, &'a Given)>) -> String {
    let lines: Vec<(String, String)> = settings
        .map(|(key, given)| {
            (
                format!("{} = {}", key.name, value(key, given)),
                given.origin.word(),
            )
        })
        .collect();
    let width = lines
        .iter()
        .map(|(l, _)| l.chars().count())
        .filter(|w| *w <= 60)
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for (line, origin) in lines {
        writeln!(out, "{line:width$}  # {origin}").expect("a string takes any text");
    }
    out
}

fn value(key: &Key, given: &Given) -> String {
    let one = |text: &String| match key.kind {
        Kind::Number | Kind::Numbers
            if text.parse::<u64>().is_ok_and(|n| i64::try_from(n).is_ok()) =>
        {
            text.clone()
        }
        Kind::Real if text.parse::<f64>().is_ok_and(|_| text.contains('.')) => text.clone(),
        _ => quoted(text),
    };
    match given.texts.as_slice() {
        [text] => one(text),
        texts => format!("[{}]", texts.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}
