//! What `plan --find` found as a page, and as CSV.

use crate::error::Result;
use crate::plan::solve::Find;
use crate::plan::solve::answer::{Point, Solution, Solved, SolvedIntervals};

use super::cells::{NONE, card, count, figure, size, spaced, time};
use super::csv;
use super::page::{Block, Grid, Mood, Page};

/// The page.
pub fn page(s: &Solution) -> Page {
    let mut page = Page::default();
    page.title(format!("Find {}", s.find));
    page.text(limits(s));
    let mut grid = Grid::new([
        "CARD",
        "ANSWER",
        "p5 TO p95",
        "TPOT\np99",
        "TTFT\np99",
        "HBM",
        "DDR",
        "TOKENS/s",
        "USD PER\nM TOKENS",
    ]);
    for row in &s.rows {
        let at = row.best.as_ref();
        grid.row([
            card(&row.hardware, row.gpus),
            row.answer.map_or_else(|| NONE.into(), |a| shown(s, a)),
            row.intervals.map_or_else(|| NONE.into(), |i| ends(s, i)),
            time(at.and_then(|p| p.tpot_p99_s)),
            time(at.and_then(|p| p.ttft_p99_s)),
            at.and_then(|p| p.hbm_peak_bytes)
                .map_or_else(|| NONE.into(), size),
            at.and_then(|p| p.ddr_peak_bytes)
                .map_or_else(|| NONE.into(), size),
            figure(at.and_then(|p| p.output_tokens_per_s)),
            figure(row.usd_per_million_output_tokens),
        ]);
    }
    page.grid(grid);
    for row in &s.rows {
        card_section(&mut page, s, row);
    }
    page.title("Question");
    page.facts(
        s.question
            .iter()
            .map(|q| (q.name.clone(), format!("{} ({})", spaced(&q.value), q.from))),
    );
    if !s.notes.is_empty() {
        page.title("Notes");
        page.list(s.notes.clone());
    }
    page
}

/// An answer in its unit.
pub(super) fn shown(s: &Solution, value: f64) -> String {
    let find = Find::WORDS.iter().find(|(w, _)| *w == s.find);
    find.map_or_else(|| figure(Some(value)), |(_, f)| f.shown(value))
}

/// Both ends of an answer, the unit once.
pub(super) fn ends(s: &Solution, i: SolvedIntervals) -> String {
    let end = |x: Option<f64>, none: &str| x.map_or_else(|| none.into(), |x| shown(s, x));
    let endless = i.answer_p5.is_some() && s.find == Find::MaxRate.word();
    let (low, high) = (
        end(i.answer_p5, "none"),
        end(i.answer_p95, if endless { "no end" } else { "none" }),
    );
    let number = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
    let same = low.split_once(' ').map(|x| x.1) == high.split_once(' ').map(|x| x.1);
    if low == high {
        low
    } else if same {
        format!("{} to {high}", number(&low))
    } else {
        format!("{low} to {high}")
    }
}

/// What the draws say of an answer: how far it moves, how often it keeps, and what keeps in nearly all of them.
pub(super) fn drawn(s: &Solution, row: &Solved) -> Option<String> {
    let i = row.intervals?;
    let share = figure(Some(100.0 * i.keeps_share));
    let draws = i.draws;
    if row.answer.is_none() {
        return Some(format!(
            "In {share} % of {draws} draws of what is not known exactly something keeps to the limits."
        ));
    }
    let safe = if s.find == Find::MinHbm.word() {
        i.answer_p95
    } else {
        i.answer_p5
    };
    let safe = safe.map_or_else(
        || "In more than 5 % of them nothing does.".into(),
        |x| format!("At least 95 % of them keep {}.", shown(s, x)),
    );
    Some(format!(
        "Over {draws} draws of what is not known exactly the answer is {} (5th to 95th percentile); the one above keeps to the \
         limits in {share} % of them. {safe}",
        ends(s, i)
    ))
}

/// The limits in a sentence.
pub(super) fn limits(s: &Solution) -> String {
    let l = &s.limits;
    let parts: Vec<String> = [
        l.tpot_p99_s
            .map(|t| format!("time per token at p99 <= {}", time(Some(t)))),
        l.ttft_p99_s
            .map(|t| format!("time to the first token at p99 <= {}", time(Some(t)))),
        l.max_hbm_bytes.map(|b| format!("HBM <= {}", size(b))),
        l.max_ddr_bytes
            .map(|b| format!("host memory <= {}", size(b))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        "Under no limit but the memory of the card.".into()
    } else {
        format!("Under {}, and the memory of the card.", parts.join(", "))
    }
}

fn card_section(page: &mut Page, s: &Solution, row: &Solved) {
    page.title(format!(
        "{}: {}",
        card(&row.hardware, row.gpus),
        row.hardware_name
    ));
    let (text, mood) = answer(s, row);
    page.push(Block::Verdict(text, mood));
    if let Some(drawn) = drawn(s, row) {
        page.text(drawn);
    }
    let mut grid = Grid::new([
        "POINT",
        "AT",
        "TPOT\np99",
        "TTFT\np99",
        "HBM",
        "DDR",
        "TOKENS/s",
        "GAVE WAY",
    ])
    .texts(&[0]);
    for (name, point) in [("answer", &row.best), ("next", &row.next)] {
        if let Some(p) = point {
            grid.row(line(s, name, p));
        }
    }
    page.grid(grid);
    let price = row
        .price_usd_per_gpu_hour
        .map(|p| format!("{p} USD per GPU and hour"));
    page.text(match price {
        Some(price) => format!("{} points were run. Price: {price}.", row.tried),
        None => format!(
            "{} points were run. No price is known for this card: give one with --price.",
            row.tried
        ),
    });
}

/// The answer of a card in a sentence.
pub(super) fn answer(s: &Solution, row: &Solved) -> (String, Mood) {
    let (by, why) = (&row.limited_by, &row.why);
    if let Some(a) = row.answer {
        let a = shown(s, a);
        (format!("{a}, limited by {by}: {why}."), Mood::Good)
    } else {
        let text = format!("Nothing keeps to the limits ({by}): {why}.");
        (text, Mood::Bad)
    }
}

fn line(s: &Solution, name: &str, p: &Point) -> [String; 8] {
    [
        name.into(),
        shown(s, p.value),
        time(p.tpot_p99_s),
        time(p.ttft_p99_s),
        p.hbm_peak_bytes.map_or_else(|| NONE.into(), size),
        p.ddr_peak_bytes.map_or_else(|| NONE.into(), size),
        figure(p.output_tokens_per_s),
        count(p.preemptions),
    ]
}

/// A row a card.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn table(s: &Solution) -> Result<String> {
    #[rustfmt::skip] // one group a line
    let columns = [
        "hardware", "gpus", "answer", "limited_by", "why", "tried", "price_usd_per_gpu_hour",
        "usd_per_million_output_tokens",
        "best.value", "best.tpot_p99_s", "best.ttft_p99_s", "best.hbm_peak_bytes", "best.ddr_peak_bytes",
        "best.output_tokens_per_s", "best.preemptions",
        "next.value", "next.tpot_p99_s", "next.ttft_p99_s", "next.hbm_peak_bytes", "next.ddr_peak_bytes",
        "next.output_tokens_per_s", "next.preemptions",
        "intervals.draws", "intervals.answer_p5", "intervals.answer_p95", "intervals.keeps_share",
    ];
    let rows: Vec<Vec<String>> = s
        .rows
        .iter()
        .map(|r| csv::row(r, &columns))
        .collect::<Result<_>>()?;
    let mut head = vec!["find", "unit"];
    head.extend(columns);
    let whole = rows.into_iter().map(|row| {
        let mut line = vec![s.find.clone(), s.unit.clone()];
        line.extend(row);
        line
    });
    csv::write(&head, whole)
}
