//! Words for the figures: who wins on a card, over all cards, and what would turn it round.

use crate::hardware::{Quantity, Value};

use super::answer::{Alternative, Draws, Row, RowVerdict, Verdict};
use crate::units::{Bytes, text};

/// A lead below this ratio lies within the expected error even where everything stays in HBM.
const CLOSE: f64 = 1.15;

/// The exact T1 modes.
pub(super) const TIERED: [&str; 4] = ["stream", "staged", "direct", "host-attention"];

/// Alternatives that keep the model, its formats and the hardware.
const SAME_FORMAT: [&str; 4] = ["all-in-hbm", "engine", "smaller-batch", "weights-in-ddr"];

/// Alternatives that change the model, the purchase or the answers: shown, never called best.
const OTHER_QUESTION: [&str; 3] = ["int4-weights", "twice-the-gpus", "selective"];

fn speed(a: &Alternative) -> f64 {
    if a.starts {
        a.outcome.throughput.comparable().unwrap_or(0.0)
    } else {
        0.0
    }
}

/// The fastest of those `keep` keeps; the earlier one on a tie.
fn fastest(row: &Row, keep: impl Fn(&Alternative) -> bool) -> Option<&Alternative> {
    let all = &row.alternatives;
    first_of(row, |i| speed(&all[i]), |i| keep(&all[i])).map(|i| &all[i])
}

/// Which is fastest by `speed` of those that `keep` keeps; the earlier one on a tie.
fn first_of(
    row: &Row,
    speed: impl Fn(usize) -> f64,
    keep: impl Fn(usize) -> bool,
) -> Option<usize> {
    (0..row.alternatives.len())
        .filter(|i| speed(*i) > 0.0 && keep(*i))
        .rev()
        .max_by(|a, b| speed(*a).total_cmp(&speed(*b)))
}

/// An alternative as a draw has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    /// Output tokens a second, 0 where it does not run.
    pub speed: f64,
    /// Whether it keeps tokens on the host, and destroys none.
    pub moves: bool,
    /// Whether software runs it today.
    pub today: bool,
}

/// The speed of an alternative in the answer; none where it does not run.
pub(super) fn said(a: &Alternative) -> Option<f64> {
    Some(speed(a)).filter(|s| *s > 0.0)
}

/// Where an alternative of this name stands.
pub(super) fn position(row: &Row, name: Option<&str>) -> Option<usize> {
    row.alternatives
        .iter()
        .position(|a| Some(a.name.as_str()) == name)
}

/// Whether tiering pays in a draw, and which is the best that runs today, by the rules of [`of_row`].
pub(super) fn choice(row: &Row, drawn: &[Drawn]) -> (bool, Option<usize>) {
    let name = |i: usize| row.alternatives[i].name.as_str();
    let best = |keep: &dyn Fn(usize) -> bool| first_of(row, |i| drawn[i].speed, keep);
    let speed = |i: Option<usize>| i.map_or(0.0, |i| drawn[i].speed);
    let tiered = best(&|i| TIERED.contains(&name(i)) && drawn[i].moves);
    let plain = best(&|i| SAME_FORMAT.contains(&name(i)));
    let runnable = best(&|i| !OTHER_QUESTION.contains(&name(i)) && drawn[i].today);
    (speed(tiered) > speed(plain), runnable)
}

/// Whether an alternative keeps tokens on the host, and destroys none: one that does is never ranked with those that
/// do not.
fn moves(a: &Alternative) -> bool {
    let t = &a.outcome.tiers;
    t.t1.tokens_end + t.t2.tokens_end > 0.0 && t.t3.tokens_end <= 0.0
}

/// Tokens per second of the best alternative without tiering at the same formats.
pub(super) fn best_same_format(row: &Row) -> Option<f64> {
    fastest(row, |a| SAME_FORMAT.contains(&a.name.as_str())).map(speed)
}

/// The verdict of a card.
pub(super) fn of_row(row: &Row) -> RowVerdict {
    let name = |a: Option<&Alternative>| a.map(|a| a.name.clone());
    let own = |a: &Alternative| !OTHER_QUESTION.contains(&a.name.as_str());
    let tiered = fastest(row, |a| TIERED.contains(&a.name.as_str()) && moves(a));
    let plain = fastest(row, |a| SAME_FORMAT.contains(&a.name.as_str()));
    let best = fastest(row, own);
    let runnable = fastest(row, |a| own(a) && !a.runs_in.is_empty());
    let pays = tiered.is_some_and(|t| speed(t) > plain.map_or(0.0, speed));
    RowVerdict {
        pays,
        sentence: sentence(row, pays, tiered, plain, runnable),
        best: name(best),
        best_runnable: name(runnable),
    }
}

fn rate(a: &Alternative) -> String {
    format!("{} ({} tokens/s)", a.label, text::significant(speed(a)))
}

/// Why no way of tiering is ranked.
fn untiered(row: &Row) -> &'static str {
    let tiered = |a: &&Alternative| TIERED.contains(&a.name.as_str()) && speed(a) > 0.0;
    let mut running = row.alternatives.iter().filter(tiered);
    if running.any(|a| a.outcome.tiers.t3.tokens_end > 0.0) {
        "tiering destroys tokens here and does not rank with what keeps them"
    } else if row.shortfall_bytes > 0 {
        "no T1 mode fits under this policy"
    } else {
        "everything fits; tiering moves nothing"
    }
}

fn sentence(
    row: &Row,
    pays: bool,
    tiered: Option<&Alternative>,
    plain: Option<&Alternative>,
    runnable: Option<&Alternative>,
) -> String {
    let short = || text::show_bytes(Bytes(row.shortfall_bytes));
    let first = match (tiered, plain) {
        (None, Some(p)) => format!("{}: {}", untiered(row), rate(p)),
        (Some(t), Some(p)) if pays && speed(t) < CLOSE * speed(p) => {
            format!(
                "tiering would pay by less than these figures can tell: {} against {}",
                rate(t),
                rate(p)
            )
        }
        (Some(t), Some(p)) if pays => format!("tiering pays: {} against {}", rate(t), rate(p)),
        (Some(t), Some(p)) => format!("tiering does not pay: {} against {}", rate(t), rate(p)),
        (Some(t), None) => format!("only tiering runs it: {}", rate(t)),
        (None, None) => format!("does not fit, short by {}", short()),
    };
    let second = match runnable {
        Some(r) if plain.is_none_or(|p| p.name != r.name) => {
            format!("; best that runs today: {}", rate(r))
        }
        Some(_) => String::new(),
        None => "; nothing runs it today".into(),
    };
    first + &second
}

/// The verdict over all cards.
pub(super) fn overall(rows: &[Row], draws: Option<&Draws>) -> Verdict {
    Verdict {
        sentence: overall_sentence(rows),
        flips_if: rows.iter().flat_map(|r| r.flips_if.clone()).collect(),
        in_draws: draws.map_or_else(Vec::new, |d| in_draws(rows, d)),
    }
}

/// The card and way of the verdict: the fastest that runs today.
pub(super) fn winner(rows: &[Row]) -> Option<usize> {
    let best =
        |r: &Row| fastest(r, |a| Some(&a.name) == r.verdict.best_runnable.as_ref()).map(speed);
    let speeds = rows
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, best(r)?)));
    speeds.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

/// Where the draws of a plan disagree with its verdict, and in how many they agree.
fn in_draws(rows: &[Row], draws: &Draws) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} % of the draws", 100.0 * share);
    let open = |share: f64| share > 0.0 && share < 1.0;
    let mut out = Vec::new();
    if let Some((i, share)) = winner(rows)
        .zip(draws.fastest_share)
        .filter(|_| rows.len() > 1)
    {
        out.push(format!(
            "{} stays the fastest that runs today in {:.0} % of {} draws",
            card(&rows[i]),
            100.0 * share,
            draws.draws
        ));
    }
    for row in rows {
        let (Some(d), name) = (&row.in_draws, card(row)) else {
            continue;
        };
        if open(d.fits_share) {
            out.push(format!(
                "{name}: all of it fits in HBM in {}",
                percent(d.fits_share)
            ));
        }
        if open(d.pays_share) {
            out.push(format!(
                "{name}: moving KV to the host pays in {}",
                percent(d.pays_share)
            ));
        }
        if d.best_runnable_share < 1.0
            && let Some(best) = &row.verdict.best_runnable
        {
            out.push(format!(
                "{name}: {best} stays the best that runs today in {}",
                percent(d.best_runnable_share)
            ));
        }
    }
    out
}

fn overall_sentence(rows: &[Row]) -> String {
    let best = rows
        .iter()
        .filter_map(|r| {
            fastest(r, |a| Some(&a.name) == r.verdict.best_runnable.as_ref()).map(|a| (r, a))
        })
        .max_by(|a, b| speed(a.1).total_cmp(&speed(b.1)));
    let (pays, not): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.verdict.pays);
    let names = |rows: &[&Row]| rows.iter().map(|r| card(r)).collect::<Vec<_>>().join(", ");
    let first = match best {
        Some((r, a)) => format!("Fastest that runs today: {} with {}", card(r), rate(a)),
        None => "No card asked about runs it today".into(),
    };
    let would = match pays.as_slice() {
        [] => String::new(),
        some => format!(
            "; at the asked formats, moving KV to the host would pay on {}, but no engine does it today",
            names(some)
        ),
    };
    let beaten: Vec<&Row> = pays
        .iter()
        .copied()
        .filter(|r| r.verdict.best.as_deref() == Some("fp8-kv"))
        .collect();
    let fp8 = match beaten.as_slice() {
        [] => String::new(),
        some => format!(" and fp8 KV is faster still on {}", names(some)),
    };
    let not = match not.as_slice() {
        [] => String::new(),
        some if pays.is_empty() => {
            format!("; moving KV to the host would not pay on {}", names(some))
        }
        some => format!("; it would not pay on {}", names(some)),
    };
    [first, would, fp8, not].concat()
}

/// A card as named in sentences.
fn card(row: &Row) -> String {
    if row.gpus > 1 {
        format!("{}x {}", row.gpus, row.hardware)
    } else {
        row.hardware.clone()
    }
}

/// Where a mode begins or stops to pay, in words, and whether that lies in the range the parameter may have.
pub(super) fn flip<Q: Quantity>(
    row: &Row,
    mode: &str,
    what: &str,
    at: f64,
    used: &Value<Q>,
) -> String {
    let verb = if used.get() >= at {
        "stops paying below"
    } else {
        "starts paying above"
    };
    let likely = if (used.low..=used.high).contains(&at) {
        "possible"
    } else {
        "unlikely"
    };
    let range = format!(
        "{} used, {} to {} stated",
        text::show_rate(used.get()),
        text::show_rate(used.low),
        text::show_rate(used.high)
    );
    format!(
        "{}: {mode} {verb} {what} {} ({range}: {likely})",
        card(row),
        text::show_rate(at)
    )
}
