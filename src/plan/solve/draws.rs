//! How far the answer of a search moves with what is not known exactly: the search again on each machine drawn.
//!
//! The draws are those of every other interval (`crate::uncertain`). A draw's search begins at the answer, so that it costs a
//! few runs, and stops once its ends lie 4 % apart: twenty draws know their percentiles no better. Reported are p5 and p95
//! of the answers and the share of the draws in which the answer itself keeps to the limits: half, about, where the best
//! estimates are the median and a limit of time stops it. Under load a draw has its own arrivals and lengths. Rival:
//! intervals of the answer's own figures, which do not say what to sign for.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::answer::SolvedIntervals;
use super::point::{self, Limits, Tried};
use super::search::{At, climb, place, search};
use super::variable::Find;
use crate::error::Result;
use crate::plan::recordings::Recordings;
use crate::plan::uncertain::{drawn, unknown};
use crate::scenario::Scenario;
use crate::uncertain::ends;

/// Draws at most: each is a search.
const MOST: u32 = 100;

/// Where a search on a draw stops, as a share of its place.
const CLOSE: u32 = 25;

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
    let found: Vec<(f64, bool)> = machines
        .par_iter()
        .enumerate()
        .map(|(i, machine)| {
            let s = limits.within(&drawn(asked, machine, i));
            let found = on(&s, find, limits, traces, best);
            done.fetch_add(1, Ordering::Relaxed);
            found
        })
        .collect::<Result<_>>()?;
    Ok(Some(intervals(&found, answer)))
}

/// The answer on one machine in the unit of the search, beyond every answer where there is none; and whether `best` keeps to the
/// limits there, or, without one, whether anything does.
fn on(
    s: &Scenario,
    find: Find,
    limits: &Limits,
    traces: &Recordings,
    best: Option<u32>,
) -> Result<(f64, bool)> {
    let range = find.range(s);
    let mut at = |n: u32| -> Result<Tried> { point::run(&find.with(s, n)?, traces, limits) };
    let rises = find.rises(s, limits);
    let start = if rises {
        climb(range, &mut at)?
    } else {
        best.map_or(0, |n| place(range, n))
    };
    let (found, next) = search(range, start, |k| find.apart(k / CLOSE), &mut at)?;
    let Some((n, tried)) = found else {
        let beyond = if find == Find::MinHbm {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
        return Ok((beyond, false));
    };
    let keeps = match best {
        Some(best) if rises => at(best)?.ok(),
        Some(best) => place(range, n) >= place(range, best),
        None => true,
    };
    // No rate is too high for so few requests: the end of the search is no answer.
    let endless = find == Find::MaxRate && next.is_none();
    let value = if endless {
        f64::INFINITY
    } else {
        find.value(n, &tried)
    };
    Ok((value, keeps))
}

/// Percentiles over the draws, which hold the best estimate's answer.
fn intervals(found: &[(f64, bool)], answer: Option<f64>) -> SolvedIntervals {
    let mut values: Vec<f64> = found.iter().map(|f| f.0).collect();
    // Without an answer there is none to hold: no number is less or more than NaN.
    let [low, high] = ends(answer.unwrap_or(f64::NAN), &mut values).unwrap_or([f64::NAN; 2]);
    let finite = |x: f64| x.is_finite().then_some(x);
    let keep = found.iter().filter(|f| f.1).count();
    SolvedIntervals {
        draws: u32::try_from(found.len()).unwrap_or(u32::MAX),
        answer_p5: finite(low),
        answer_p95: finite(high),
        keeps_share: keep as f64 / found.len().max(1) as f64,
    }
}
