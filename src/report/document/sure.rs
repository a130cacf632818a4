//! How sure an answer is: p5 to p95 by card, in how many draws it stands, and what moves the best way most.

use crate::metrics::Outcome;
use crate::plan::answer::{Plan, Row, Swing, Swings};

use super::super::cells::{card, figure as three};
use super::super::plan_rows::find;
use super::super::sure::cause;
use super::data::{Cell, Data};
use super::figure::{Drawing, Figure, Ranges};

/// Causes that are drawn; the table has all.
const DRAWN: usize = 8;

/// Ends of the tokens/s, where there were draws.
pub(super) fn range(o: &Outcome) -> Option<(f64, f64)> {
    let i = o.intervals.as_ref()?;
    i.output_tokens_per_s_p5.zip(i.output_tokens_per_s_p95)
}

/// How the draws were made.
pub(super) fn draws(plans: &[&Plan]) -> String {
    let draws = plans.iter().find_map(|p| p.draws.as_ref());
    draws.map_or_else(String::new, |d| {
        format!(
            "Intervals are the 5th to the 95th percentile of {} draws (seed {}) of what is not known exactly; causes are \
             independent and log-normal, all ways and cards share each draw.",
            d.draws, d.seed
        )
    })
}

/// In how many draws a card's answers stand.
pub(super) fn stands(rows: &[&Row]) -> Data {
    let mut data = Data::new(
        "draws",
        "5th and 95th percentile over draws, and the share of the draws in which it stands",
    )
    .text("card", "card")
    .text("best that runs today", "best_runnable")
    .figure("tokens/s, p5", "output_tokens_per_s_p5")
    .figure("p95", "output_tokens_per_s_p95")
    .figure("time a token, p5", "tpot_mean_s_p5")
    .figure("p95", "tpot_mean_s_p95")
    .figure("all fits", "fits_share")
    .figure("tiering pays", "pays_share")
    .figure("stays best", "best_runnable_share");
    for row in rows.iter().filter(|r| r.in_draws.is_some()) {
        let best = row
            .verdict
            .best_runnable
            .as_deref()
            .and_then(|n| find(row, n));
        let own = best.and_then(|a| a.outcome.intervals.as_ref());
        let share = |of: fn(&crate::plan::answer::InDraws) -> f64| {
            Cell::share(row.in_draws.as_ref().map(of))
        };
        data.row([
            Cell::text(card(&row.hardware, row.gpus)),
            best.map_or_else(|| Cell::instead("nothing"), |a| Cell::text(&a.label)),
            Cell::figure(own.and_then(|i| i.output_tokens_per_s_p5)),
            Cell::figure(own.and_then(|i| i.output_tokens_per_s_p95)),
            Cell::time(own.and_then(|i| i.tpot_mean_s_p5)),
            Cell::time(own.and_then(|i| i.tpot_mean_s_p95)),
            share(|d| d.fits_share),
            share(|d| d.pays_share),
            share(|d| d.best_runnable_share),
        ]);
    }
    data
}

/// What moves the best way that runs today, card by card.
pub(super) fn tornado(rows: &[&Row]) -> Figure {
    let with = || rows.iter().filter_map(|r| Some((*r, r.tornado.as_ref()?)));
    Figure {
        title: "What moves the best way most".into(),
        text: "Each bar is one input alone, from its 5th to its 95th percentile, and what that does to the output tokens/s of \
               the best way that runs today; the line is the best estimate."
            .into(),
        drawing: Drawing::Ranges(with().filter_map(|(row, swings)| ranges(row, swings)).collect()),
        data: table(with()),
    }
}

fn ranges(row: &Row, swings: &Swings) -> Option<Ranges> {
    let way = find(row, &swings.of)?;
    let name = format!("{}, {}", card(&row.hardware, row.gpus), way.label);
    let one = |s: &Swing| {
        let (low, high) = (s.output_tokens_per_s_at_p5, s.output_tokens_per_s_at_p95);
        let tip = format!(
            "{name}: {} at its p5 {} tokens/s ({low}), at its p95 {} ({high}), known from: {}",
            cause(&s.cause),
            three(Some(low)),
            three(Some(high)),
            s.source.word()
        );
        (cause(&s.cause), low, high, tip)
    };
    Some(Ranges {
        scale: "tokens/s".into(),
        base: way.outcome.throughput.output_tokens_per_s?,
        rows: swings.causes.iter().take(DRAWN).map(one).collect(),
        name,
    })
}

fn table<'a>(with: impl Iterator<Item = (&'a Row, &'a Swings)>) -> Data {
    let mut data = Data::new("causes", "Output tokens/s with one input at its ends")
        .text("card", "card")
        .text("way", "of")
        .text("input", "cause")
        .text("known from", "source")
        .figure("at its p5", "output_tokens_per_s_at_p5")
        .figure("at its p95", "output_tokens_per_s_at_p95");
    for (row, swings) in with {
        for s in &swings.causes {
            data.row([
                Cell::text(card(&row.hardware, row.gpus)),
                Cell::text(find(row, &swings.of).map_or(&swings.of, |a| &a.label)),
                Cell::text(cause(&s.cause)),
                Cell::text(s.source.word()),
                Cell::figure(Some(s.output_tokens_per_s_at_p5)),
                Cell::figure(Some(s.output_tokens_per_s_at_p95)),
            ]);
        }
    }
    data
}
