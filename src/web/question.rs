//! A query as settings: the flags of the command line, without files.
//!
//! Names come from the catalog and a path is refused by its look, before anything could open it. Size is bounded too:
//! a question for the page should take milliseconds, and the command line has no such limit.

use std::path::Path;

use crate::catalog::extension;
use crate::error::{Error, Result, did_you_mean};
use crate::scenario::keys::{find, names};
use crate::scenario::settings::Origin;
use crate::scenario::{Question, Scenario, Settings, Verb};
use crate::sweep::axis::{Axis, Varied};
use crate::units::text::group;

use super::problem::Problem;

/// A setting of a query, decoded.
pub(super) type Pair = (String, String);

/// Settings that need files or run for long.
const ELSEWHERE: [&str; 6] = [
    "arrivals",
    "requests",
    "lengths",
    "token-budget",
    "preempt",
    "slo",
];
/// Most tokens of all requests together, and most output tokens of one: some seconds of simulation.
const MOST_TOKENS: u64 = 1 << 23;
const MOST_OUTPUT: u32 = 1 << 18;
/// Most requests followed one by one.
const MOST_BATCH: u32 = 4096;
/// Most cards of a plan and cells of a sweep.
const MOST_CARDS: usize = 8;
const MOST_CELLS: usize = 96;

/// The settings of a verb from a query; `vary` is left to [`axes`].
pub(super) fn settings(verb: Verb, pairs: &[Pair]) -> std::result::Result<Settings, Problem> {
    let mut settings = Settings::defaults(verb);
    for (at, (name, text)) in pairs.iter().enumerate().filter(|(_, p)| p.0 != "vary") {
        let known = find(name).ok_or_else(|| Problem::malformed(unknown(name)))?;
        if pairs[..at].iter().any(|p| p.0 == *name) {
            let error = Error::usage(format!("`{name}` is given twice"))
                .help("give it once, several values with commas between them");
            return Err(Problem::malformed(error));
        }
        if verb == Verb::Plan && known.name == "weights-in-ddr" {
            let why = "--weights-in-ddr: a plan tries weights in host memory as a way of its own";
            let help = "`kvplan simulate` takes a share or a size";
            return Err(Error::usage(why).help(help).into());
        }
        for part in text.split(',') {
            reachable(known.name, part.trim())?;
        }
        settings.set(known.name, std::slice::from_ref(text), Origin::Flag)?;
    }
    Ok(settings)
}

fn unknown(name: &str) -> Error {
    let error = Error::usage(format!("unknown setting `{name}`"));
    error.help(match did_you_mean(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "the settings are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    })
}

/// Refuses what would open a file, or what the page does not answer.
fn reachable(name: &str, text: &str) -> Result<()> {
    let path = text.contains(['/', '\\', '\0']) || Path::new(text).extension().is_some();
    let refused = match name {
        "model" | "hardware" | "runtime" => extension(text).is_some() || text.contains(['/', '\\']),
        "weights" => path,
        "trace" => text != "none",
        "occupancy" => !["lockstep", "staggered"].contains(&text),
        _ if ELSEWHERE.contains(&name) => {
            return Err(
                Error::usage(format!("--{name}: the page answers for one static batch")).help(
                    format!("`kvplan simulate` takes requests over time with --{name}"),
                ),
            );
        }
        _ => false,
    };
    if !refused {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--{name}: `{text}` may not be asked for here: the page reads no files"
    ))
    .help("give a name that `kvplan list` shows; `kvplan plan` takes files, and a trace by name"))
}

/// The axes of a sweep: parameters of the policy, the T1 mode and the KV format.
pub(super) fn axes(pairs: &[Pair]) -> Result<Vec<Axis>> {
    let varied = pairs.iter().filter(|p| p.0 == "vary");
    let axes: Vec<Axis> = varied.map(|p| Axis::parse(&p.1)).collect::<Result<_>>()?;
    for axis in &axes {
        if !matches!(axis.varied, Varied::Param(_) | Varied::Setting("t1" | "kv")) {
            let key = axis.key();
            return Err(Error::usage(format!("`{key}` does not vary here"))
                .help("the page varies t1, kv and policy.PARAMETER; `kvplan sweep` any setting"));
        }
    }
    let cells: usize = axes.iter().map(|a| a.values.len()).product();
    within(
        "cells",
        cells as u64,
        MOST_CELLS as u64,
        "vary fewer values",
    )?;
    Ok(axes)
}

/// Refuses a question of too many cards or tokens.
pub(super) fn bounded(question: &Question) -> Result<()> {
    let cards = question.cards.len() as u64;
    within(
        "cards",
        cards,
        MOST_CARDS as u64,
        "name fewer in --hardware or --gpus",
    )?;
    bounded_scenario(&question.base)
}

/// Refuses a deployment of too many tokens.
pub(super) fn bounded_scenario(s: &Scenario) -> Result<()> {
    let lower = "lower --batch or --output";
    within("requests", u64::from(s.batch), MOST_BATCH.into(), lower)?;
    within(
        "output tokens a request",
        s.output.into(),
        MOST_OUTPUT.into(),
        lower,
    )?;
    within("tokens of all requests", s.all_tokens(), MOST_TOKENS, lower)
}

fn within(what: &str, asked: u64, most: u64, way: &str) -> Result<()> {
    if asked <= most {
        return Ok(());
    }
    let text = |n: u64| group(&n.to_string());
    let message = format!(
        "{} {what} are too many for the page: at most {}",
        text(asked),
        text(most)
    );
    Err(Error::usage(message).help(format!("{way}; the command line has no such limit")))
}
