//! `plan --find`: the most of something that keeps to limits, and why no more.
//!
//! One setting is searched (batch, context, rate, or the HBM that a policy keeps) with everything else as asked: whole
//! numbers by doubling, then halving. A point is a run of the engine, static or under load; limits are the p99 of the time
//! per token (over steps of a static batch, over requests under load) and of the time to the first token, HBM and host
//! memory, and always what the card has. The answer holds the best point and its neighbour beyond, which was run too and
//! says which limit it breaks; draws of what is not known exactly say how far the answer moves (`draws`). Ignored: that a
//! worse point may lie below a better one; the neighbour proves only itself. Under load that happens (scheduling anomalies),
//! for a static batch it does not. Rival: a formula solved for the limit, which is exact for the formula.

pub mod answer;
mod draws;
mod point;
mod search;
mod variable;

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::error::Result;
use crate::journal::marks;
use crate::scenario::settings::Settings;
use crate::scenario::{Card, Question, Scenario};
use crate::units::text::group;

use super::answer::Setting;
use super::recordings::Recordings;
use answer::{Given, SOLVE_SCHEMA, Solution, Solved};
pub use point::Limits;
use point::Tried;
use search::{At, climb, search};
pub use variable::Find;

/// Searches that a question takes: one a card, and one a card and draw.
pub fn searches(question: &Question) -> u64 {
    question.cards.len() as u64 * (1 + u64::from(draws::count(&question.base)))
}

/// Requests from which on a rate is that of a service and no burst.
const MANY: usize = 1000;

/// Solves a question on all its cards; `done` counts [`searches`].
///
/// # Errors
/// Usage: what is searched needs something that the question lacks. As `simulate` otherwise.
pub fn solve(
    question: &Question,
    settings: &Settings,
    find: Find,
    limits: &Limits,
    done: &AtomicU64,
) -> Result<Solution> {
    find.check(&question.base, limits, settings)?;
    let traces = Recordings::open(&question.base.trace)?;
    let rows: Vec<Solved> = question
        .cards
        .par_iter()
        .map(|card| row(&question.on(card), card, find, limits, (&traces, done)))
        .collect::<Result<_>>()?;
    let setting = |a: &crate::scenario::Asked| Setting {
        name: a.name.into(),
        value: a.value.clone(),
        from: a.from.clone(),
    };
    Ok(Solution {
        schema: SOLVE_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        find: find.word().into(),
        unit: find.unit().into(),
        limits: Given {
            tpot_p99_s: limits.tpot_p99,
            ttft_p99_s: limits.ttft_p99,
            max_hbm_bytes: limits.max_hbm.map(|b| b.0),
            max_ddr_bytes: limits.max_ddr.map(|b| b.0),
            price_usd_per_gpu_hour: limits.price,
        },
        question: question.settings.iter().map(setting).collect(),
        inputs: marks(question.base.named.clone())?,
        notes: notes(question, find, settings),
        rows,
    })
}

fn notes(question: &Question, find: Find, settings: &Settings) -> Vec<String> {
    let mut notes = question.base.notes.clone();
    if let Some(given) = find.overridden(settings) {
        notes.push(format!(
            "{} is what is searched: `{}` has no effect on it",
            find.searched(),
            given.text()
        ));
    }
    if let Some(load) = &question.base.load {
        let all = load.load.requests.len();
        notes.push(format!(
            "under load a run is one sequence of requests: its p99 rests on the slowest {} of {}; draws have sequences of their own, unless a file gives them",
            group(&all.div_ceil(100).to_string()),
            group(&all.to_string())
        ));
        notes.push("tokens per second and cost are over the whole run, its last answers included, when few run: more --requests, less of that".into());
        if find == Find::MaxRate && all < MANY {
            notes.push(format!(
                "so few requests are a burst: the rate falls as --requests grows, ask for {} or more for a service that goes on",
                group(&MANY.to_string())
            ));
        }
    } else {
        notes.push("a static batch: p99 of the time per token is over steps; all prompts come at once, and the last to be prefilled waits longest".into());
    }
    if draws::count(&question.base) > 0 {
        notes.push("over draws an answer is searched to 4 %".into());
    }
    if find == Find::MinHbm {
        notes.push("HBM is saved by keeping fewer tokens of each request in it: the others lie in host memory".into());
    }
    notes
}

/// One card.
fn row(
    s: &Scenario,
    card: &Card,
    find: Find,
    limits: &Limits,
    (traces, done): (&Recordings, &AtomicU64),
) -> Result<Solved> {
    let (asked, s) = (s, limits.within(s));
    let range = find.range(&s);
    let mut tries = 0;
    let mut at = |n: u32| -> Result<Tried> {
        tries += 1;
        point::run(&find.with(&s, n)?, traces, limits)
    };
    let start = if find.rises(&s, limits) {
        climb(range, &mut at)?
    } else {
        0
    };
    let (best, next) = search(range, start, |_| 1, &mut at)?;
    done.fetch_add(1, Ordering::Relaxed);
    let intervals = draws::of_answer(asked, find, limits, (traces, done), best.as_ref())?;
    let price = limits.price.or(card
        .hardware
        .price
        .as_ref()
        .map(crate::hardware::Value::get));
    let cost = best.as_ref().and_then(|(_, t)| {
        let per_second = t.output_tokens_per_s.filter(|r| *r > 0.0)?;
        Some(price? * f64::from(card.gpus) / 3600.0 / per_second * 1e6)
    });
    let limited_by = match (&best, &next) {
        (_, Some((_, t))) => t.broken.first().map_or("nothing", |b| b.0).to_string(),
        (Some((_, t)), None) => find.end(&s, t).0.into(),
        (None, None) => "nothing".into(),
    };
    let shown = |(n, t): &(u32, Tried)| t.shown(find.value(*n, t));
    Ok(Solved {
        hardware: card.hardware.label().into(),
        hardware_name: card.hardware.name.clone(),
        gpus: card.gpus,
        answer: best.as_ref().map(|(n, t)| find.value(*n, t)),
        intervals,
        limited_by,
        why: why((find, limits), &s, best.as_ref(), next.as_ref()),
        best: best.as_ref().map(shown),
        next: next.as_ref().map(shown),
        tried: tries,
        price_usd_per_gpu_hour: price,
        usd_per_million_output_tokens: cost,
    })
}

fn why(
    (find, limits): (Find, &Limits),
    s: &Scenario,
    best: Option<&At>,
    next: Option<&At>,
) -> String {
    match (best, next) {
        (_, Some((n, t))) => {
            let value = find.shown(find.value(*n, t));
            let reasons: Vec<String> = t.broken.iter().map(|b| b.1.clone()).collect();
            let what = if best.is_some() { "next" } else { "already" };
            let more = if best.is_none() && find.rises(s, limits) {
                "; nor does any larger one that was tried, each twice the one before"
            } else {
                ""
            };
            format!("{what}, at {value}: {}{more}", reasons.join("; "))
        }
        (Some((n, t)), None) => {
            format!("{} is {}", find.shown(find.value(*n, t)), find.end(s, t).1)
        }
        (None, None) => "nothing to search".into(),
    }
}
