//! Shards of one sweep to its answer: the very bytes of one run.
//!
//! The shards may come in any order, and all of them must be there once. Refused: results of another question, of another
//! version of kvplan, two of one shard, shards of another cut. A shard that is missing is named with the command that makes
//! it, told from the question in the others. Ignored: who made a shard and where; the same question gives the same cells
//! everywhere, up to the last digits of another CPU's mathematics library, which none of the laws uses.

use crate::error::{Error, Result};

use super::answer::Answer;
use super::shard::{Part, Shard};
use super::{Frame, pareto};

/// Missing shards that are named; a sweep may lack thousands.
const TOLD: usize = 3;

/// The answer from the results of all shards, each with the name of its file.
///
/// # Errors
/// Usage: none, a foreign one, one twice, one missing. Data: their cells do not make up the sweep.
pub fn merge(mut parts: Vec<(String, Part)>) -> Result<Answer> {
    parts.sort_by_key(|(_, part)| part.shard.number);
    let Some((name, first)) = parts.first() else {
        return Err(Error::usage("there is no shard to merge"));
    };
    own_version(name, first)?;
    for (other, part) in &parts[1..] {
        same_sweep((name, first), (other, part))?;
    }
    once(&parts)?;
    complete(&parts)?;
    let keys = first.pareto.as_ref().map(|aims| {
        let keys: Vec<&str> = aims.iter().map(|a| a.key.as_str()).collect();
        keys.join(",")
    });
    let frame = Frame {
        question: first.question.clone(),
        inputs: first.sweep.files.clone(),
        vary: first.sweep.vary.clone(),
        equal: first.sweep.equal.clone(),
        pareto: keys.map(|keys| pareto::parse(&keys)).transpose()?,
    };
    frame.answer(parts.into_iter().flat_map(|(_, p)| p.cells).collect())
}

fn own_version(name: &str, part: &Part) -> Result<()> {
    let (theirs, ours) = (&part.sweep.kvplan_version, env!("CARGO_PKG_VERSION"));
    if theirs == ours {
        return Ok(());
    }
    Err(
        Error::usage(format!("{name} is of kvplan {theirs}, this is {ours}")).help(
            "merge with the kvplan that made the shards, or make all of them again with this one",
        ),
    )
}

/// Refuses what is not of the same sweep, cut alike.
fn same_sweep((name, first): (&str, &Part), (other, part): (&str, &Part)) -> Result<()> {
    let foreign = |what: String| {
        Err(
            Error::usage(format!("{other} is of another sweep than {name}: {what}"))
                .help("merge the shards of one sweep, made by one command with --shard 1/n to n/n"),
        )
    };
    if let Some(what) = part.sweep.difference(&first.sweep) {
        return foreign(what);
    }
    if part.pareto != first.pareto {
        return foreign("--pareto differs".into());
    }
    if part.question != first.question {
        return foreign("who decided its settings differs".into());
    }
    if part.shard.of != first.shard.of {
        return foreign(format!(
            "it is shard {}, the other {}",
            part.shard, first.shard
        ));
    }
    Ok(())
}

/// Refuses two results of one shard; the parts are in order.
fn once(parts: &[(String, Part)]) -> Result<()> {
    let mut pairs = parts.iter().zip(parts.iter().skip(1));
    match pairs.find(|(a, b)| a.1.shard == b.1.shard) {
        Some((a, b)) => Err(Error::usage(format!(
            "{} and {} are both shard {}",
            a.0, b.0, a.1.shard
        ))
        .help("name each shard once")),
        None => Ok(()),
    }
}

/// Refuses a set with gaps, naming the missing ones and what makes the first.
fn complete(parts: &[(String, Part)]) -> Result<()> {
    let first = &parts[0].1;
    let of = first.shard.of;
    let there = |n: &usize| parts.iter().any(|(_, p)| p.shard.number == *n);
    let missing: Vec<usize> = (1..=of).filter(|n| !there(n)).collect();
    let Some(&number) = missing.first() else {
        return Ok(());
    };
    let told = missing.iter().take(TOLD);
    let names: Vec<String> = told.map(|n| format!("{n}/{of}")).collect();
    let (noun, verb, others) = match missing.len() {
        1 => ("shard", "is", ""),
        _ => ("shards", "are", "; the others by their own numbers"),
    };
    let more = match missing.len() - names.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let names = names.join(", ");
    let (pareto, shard) = (first.pareto.as_deref(), Shard { number, of });
    let command = first.sweep.command(pareto, shard);
    Err(Error::usage(format!("{noun} {names}{more} {verb} missing"))
        .help(format!("make it with: {command}{others}")))
}
