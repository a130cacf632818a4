//! How sure an answer is: p5 to p95 of its figures, in how many draws the verdict stands, and what moves it most.

use crate::metrics::{Intervals, Outcome};
use crate::plan::answer::{Alternative, InDraws, Plan, Row, Swings};
use crate::units::text::{show_seconds, significant};

use super::cells::{NONE, card, count, figure, signed_gib};
use super::page::{Grid, Page};
use super::plan_rows::find;

/// Causes shown.
const SHOWN: usize = 8;

/// The section of an answer; nothing without draws.
pub(super) fn section(page: &mut Page, plan: &Plan) {
    let Some(draws) = &plan.draws else {
        return;
    };
    page.title(format!(
        "How sure (5th to 95th percentile of {} draws of what is not known exactly)",
        count(u64::from(draws.draws))
    ));
    page.grid(speeds(plan));
    page.text(stays_best(&plan.rows.iter().collect::<Vec<_>>()));
    page.grid(memories(plan));
    if let Some((row, swings)) = shown(plan) {
        page.text(format!(
            "What moves {} on {} most, one cause alone from its p5 to its p95 (output tokens/s):",
            find(row, &swings.of).map_or(swings.of.as_str(), |a| a.label.as_str()),
            card(&row.hardware, row.gpus)
        ));
        page.grid(tornado(swings));
    }
    let other = if draws.level == "few" {
        "so few draws give rough ends, `--intervals full` takes 1,000"
    } else {
        "`--intervals few` takes 20"
    };
    page.text(format!(
        "Causes are independent and log-normal; all ways and cards share each draw; {other}. A residual is how far measurements \
         lie about a law; `kvplan validate` counts how many servers lie inside such intervals."
    ));
}

/// What the column says of these rows that the verdict does not; nothing without draws.
pub(super) fn stays_best(rows: &[&Row]) -> String {
    if rows.iter().all(|r| r.in_draws.is_none()) {
        return String::new();
    }
    let own = "STAYS BEST: draws in which no other way that runs today is faster on the same card";
    match rows {
        [_] => format!("{own}."),
        _ => {
            format!("{own}; in how many a card stays ahead of the others is said with the verdict.")
        }
    }
}

/// How fast, and in how many draws each card's best way stays it.
fn speeds(plan: &Plan) -> Grid {
    let mut grid = Grid::new([
        "CARD",
        "BEST THAT RUNS\ntoday",
        "TOKENS/S\np5 to p95",
        "PER TOKEN\np5 to p95",
        "STAYS BEST\ndraws",
        "SPILL PAYS\ndraws",
    ])
    .texts(&[0, 1]);
    for row in &plan.rows {
        let name = row.verdict.best_runnable.as_deref();
        let best = name.and_then(|n| find(row, n));
        let own = best.and_then(|a| a.outcome.intervals.as_ref());
        grid.row([
            card(&row.hardware, row.gpus),
            best.map_or_else(|| "nothing".into(), |a| a.label.clone()),
            own.map_or_else(|| NONE.into(), speed),
            own.map_or_else(|| NONE.into(), per_token),
            share(row, |d| d.best_runnable_share)
                .filter(|_| best.is_some())
                .unwrap_or_else(|| NONE.into()),
            share(row, |d| d.pays_share).unwrap_or_else(|| NONE.into()),
        ]);
    }
    grid
}

/// How much fits.
fn memories(plan: &Plan) -> Grid {
    let mut grid = Grid::new([
        "CARD",
        "HOLDS, tokens\np5 to p95",
        "BATCH THAT FITS\np5 to p95",
        "SPILL SAVES, GiB\np5 to p95",
        "ALL FITS\ndraws",
    ])
    .texts(&[0]);
    for row in &plan.rows {
        let all = row.alternatives.first();
        let all = all.and_then(|a| a.outcome.intervals.as_ref());
        let spill = find(row, "stream").and_then(|a| a.outcome.intervals.as_ref());
        grid.row([
            card(&row.hardware, row.gpus),
            all.map_or_else(|| NONE.into(), holds),
            all.map_or_else(|| NONE.into(), batch),
            spill.map_or_else(|| NONE.into(), saves),
            share(row, |d| d.fits_share).unwrap_or_else(|| NONE.into()),
        ]);
    }
    grid
}

/// A share of the draws in percent; none without draws.
fn share(row: &Row, of: fn(&InDraws) -> f64) -> Option<String> {
    let draws = row.in_draws.as_ref();
    draws.map(|d| format!("{:.0} %", 100.0 * of(d)))
}

/// `a to b`, or one of them where they read the same.
fn range(low: String, high: &str) -> String {
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Output tokens per second from p5 to p95.
pub(super) fn speed(i: &Intervals) -> String {
    let (low, high) = (i.output_tokens_per_s_p5, i.output_tokens_per_s_p95);
    range(figure(low), &figure(high))
}

fn per_token(i: &Intervals) -> String {
    let Some((low, high)) = i.tpot_mean_s_p5.zip(i.tpot_mean_s_p95) else {
        return NONE.into();
    };
    // One unit for both ends.
    let (low, high) = (show_seconds(low), show_seconds(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((a, unit)), Some((_, other))) if unit == other => range(a.into(), &high),
        _ => range(low, &high),
    }
}

fn holds(i: &Intervals) -> String {
    range(
        count(i.holds_tokens_per_request_p5),
        &count(i.holds_tokens_per_request_p95),
    )
}

fn batch(i: &Intervals) -> String {
    range(count(i.largest_batch_p5), &count(i.largest_batch_p95))
}

fn saves(i: &Intervals) -> String {
    range(
        signed_gib(i.hbm_saved_moved_bytes_p5),
        &signed_gib(i.hbm_saved_moved_bytes_p95),
    )
}

/// The tornado that is shown: the winner's card, that is the one with the fastest best way.
fn shown(plan: &Plan) -> Option<(&Row, &Swings)> {
    let best = |r: &Row| -> f64 {
        let found = r.verdict.best_runnable.as_deref().and_then(|n| find(r, n));
        let speed = |a: &Alternative| a.outcome.throughput.output_tokens_per_s;
        found.and_then(speed).unwrap_or(0.0)
    };
    let with = plan.rows.iter().filter(|r| r.tornado.is_some());
    let row = with.max_by(|a, b| best(a).total_cmp(&best(b)))?;
    Some((row, row.tornado.as_ref()?))
}

fn tornado(swings: &Swings) -> Grid {
    let mut grid =
        Grid::new(["CAUSE", "KNOWN FROM", "AT ITS P5", "AT ITS P95", "SWING"]).texts(&[0, 1]);
    for s in swings.causes.iter().take(SHOWN) {
        grid.row([
            cause(&s.cause),
            s.source.word().into(),
            significant(s.output_tokens_per_s_at_p5),
            significant(s.output_tokens_per_s_at_p95),
            significant(s.width()),
        ]);
    }
    grid
}

/// A cause as people read it: a kernel's residual goes by its operation.
pub(super) fn cause(name: &str) -> String {
    if name.contains('.') || name == "link" {
        name.into()
    } else {
        format!("residual of {name}")
    }
}

/// The same of one deployment; nothing without draws.
pub(super) fn of_outcome(page: &mut Page, o: &Outcome) {
    let Some(i) = &o.intervals else {
        return;
    };
    page.title(format!(
        "How sure (5th to 95th percentile of {} draws of what is not known exactly)",
        count(u64::from(i.draws))
    ));
    page.facts([
        ("output tokens/s", speed(i)),
        ("per token", per_token(i)),
        ("HBM saved, GiB", saves(i)),
        ("holds, tokens a request", holds(i)),
        ("largest batch in HBM", batch(i)),
        (
            "fits",
            format!("in {:.0} % of the draws", 100.0 * i.fits_share),
        ),
    ]);
}
