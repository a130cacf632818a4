//! How far the answer of a search moves with what is not known exactly: the search again on each machine drawn.
//!
//! The draws are those of every other interval (`crate::uncertain`). A draw's search begins at the answer, so that it costs a
//! few runs, and stops once its ends lie 4 % apart: twenty draws know their percentiles no better. Reported are p5 and p95
//! of the answers and the share of the draws in which the answer itself keeps to the limits: half, about, where the best
//! estimates are the median and a limit of time stops it. Under load a draw has its own arrivals and lengths. Rival: intervals of the answer's own figures, which do not say what to sign for.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::answer::SolvedIntervals;
use super::point::{self, Limits, Tried};
use super::search::{At, climb, search};
use super::variable::Find;
use crate::error::Result;
use crate::plan::recordings::Recordings;
use crate::plan::uncertain::{drawn, unknown};
use crate::scenario::Scenario;
use crate::stats::percentile;

/// Draws at most: each is a search.
const MOST: u32 = 100;

/// Where a search on a draw stops, as a share of its place.
const CLOSE: u32 = 25;

/// Stands for a rate without end: none is too high for so few requests, and the end of the search is no answer.
const ENDLESS: u32 = u32::MAX;

/// Draws that a scenario's answer gets.
pub(super) fn count(asked: &Scenario) -> u32 {
    asked.intervals.draws().min(MOST)
}

/// What the answer `best` becomes on machines drawn from `asked`'s; none where nothing is to be drawn.
///
/// # Errors
/// As `simulate`.
pub(super) fn of_answer(
    asked: &Scenario,
    find: Find,
    limits: &Limits,
    (traces, done): (&Recordings, &AtomicU64),
    best: Option<&At>,
) -> Result<Option<SolvedIntervals>> {
    let answer = best.map(|(n, tried)| find.value(*n, tried));
    let best = best.map(|b| b.0);
    let n = count(asked);
    if n == 0 {
        return Ok(None);
    }
    let machines = unknown(asked).draws(asked.seed, n);
    let found: Vec<(Option<At>, bool)> = machines
        .par_iter()
        .enumerate()
        .map(|(i, machine)| {
            let s = limits.within(&drawn(asked, machine, i));
            let found = on(&s, find, limits, traces, best);
            done.fetch_add(1, Ordering::Relaxed);
            found
        })
        .collect::<Result<_>>()?;
    Ok(Some(intervals(find, &found, answer)))
}

/// The answer on one machine, and whether `best` keeps to the limits there; where there is none, whether anything does.
fn on(
    s: &Scenario,
    find: Find,
    limits: &Limits,
    traces: &Recordings,
    best: Option<u32>,
) -> Result<(Option<At>, bool)> {
    let range = find.range(s);
    let place = |n: u32| {
        let k = if range.1 >= range.0 {
            n.saturating_sub(range.0)
        } else {
            range.0.saturating_sub(n)
        };
        k.min(range.0.abs_diff(range.1))
    };
    let mut at = |n: u32| -> Result<Tried> { point::run(&find.with(s, n)?, traces, limits) };
    let rises = find.rises(s, limits);
    let start = if rises {
        climb(range, &mut at)?
    } else {
        best.map_or(0, place)
    };
    let (mut found, next) = search(range, start, |k| find.apart(k / CLOSE), &mut at)?;
    if find == Find::MaxRate && next.is_none() {
        found = found.map(|(_, tried)| (ENDLESS, tried));
    }
    let keeps = match (&found, best) {
        (Some(_), Some(best)) if rises => at(best)?.ok(),
        (Some((n, _)), Some(best)) => place(*n) >= place(best),
        (Some(_), None) => true,
        (None, _) => false,
    };
    Ok((found, keeps))
}

/// Percentiles over the draws; a draw without an answer lies beyond every answer. They hold the best estimate's.
fn intervals(find: Find, found: &[(Option<At>, bool)], answer: Option<f64>) -> SolvedIntervals {
    let beyond = if find == Find::MinHbm {
        f64::INFINITY
    } else {
        f64::NEG_INFINITY
    };
    let value = |(at, _): &(Option<At>, bool)| {
        at.as_ref().map_or(beyond, |(n, tried)| match n {
            &ENDLESS => f64::INFINITY,
            n => find.value(*n, tried),
        })
    };
    let mut values: Vec<f64> = found.iter().map(value).collect();
    let drawn = [0.05, 0.95].map(|share| percentile(&mut values, share).unwrap_or(beyond));
    let ends = answer.map_or(drawn, |best| [drawn[0].min(best), drawn[1].max(best)]);
    let finite = |x: f64| x.is_finite().then_some(x);
    let keep = found.iter().filter(|f| f.1).count();
    SolvedIntervals {
        draws: u32::try_from(found.len()).unwrap_or(u32::MAX),
        answer_p5: finite(ends[0]),
        answer_p95: finite(ends[1]),
        keeps_share: keep as f64 / found.len().max(1) as f64,
    }
}
