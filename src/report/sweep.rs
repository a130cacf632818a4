//! A sweep as a page: what all cells share, a row a cell with what varies first, why some have no figures.
//!
//! With a front, the table holds the front alone: the other cells are in the JSON and the CSV, each with its mark.

use std::collections::BTreeMap;

use crate::metrics::Outcome;
use crate::sweep::answer::{Answer, Cell};

use super::cells::{NONE, count, figure, gib, maybe_percent, percent, signed_gib, spaced};
use super::page::{Block, Grid, Mood, Page};
use super::sure;

/// Reasons that are listed; a grid may have thousands of refused cells.
const REASONS: usize = 12;

/// The page of a sweep.
pub fn page(answer: &Answer) -> Page {
    let mut page = Page::default();
    question(&mut page, answer);
    page.title("Answer");
    verdict(&mut page, answer);
    table(&mut page, answer);
    refused(&mut page, answer);
    if !answer.notes.is_empty() {
        page.title("Notes");
        page.list(answer.notes.clone());
    }
    page
}

fn question(page: &mut Page, answer: &Answer) {
    page.title("Question");
    let line = |default: bool| {
        let settings = answer.question.iter();
        let chosen = settings.filter(|s| (s.from == "default") == default);
        let words: Vec<String> = chosen
            .map(|s| format!("{} {}", s.name, spaced(&s.value)))
            .collect();
        words.join(", ")
    };
    let varied = answer.vary.iter().map(|a| {
        let n = count(a.values.len() as u64);
        let word = if a.values.len() == 1 {
            "value"
        } else {
            "values"
        };
        format!("{} ({n} {word})", a.name)
    });
    let mut facts = vec![("varied", varied.collect::<Vec<_>>().join(", "))];
    facts.push(("asked", line(false)));
    facts.push(("default", line(true)));
    if let Some(equal) = &answer.equal {
        let share = percent(equal.tolerance_share);
        let text = format!("{}, to within {share}", equal.definition);
        facts.push(("equal", text));
    }
    if let Some(aims) = &answer.pareto {
        let words = aims.iter().map(|a| format!("{} {}", a.key, a.better));
        facts.push(("front", words.collect::<Vec<_>>().join(", ")));
    }
    facts.retain(|(_, text)| !text.is_empty());
    page.facts(facts);
}

fn verdict(page: &mut Page, answer: &Answer) {
    let (text, mood) = said(answer);
    page.push(Block::Verdict(text, mood));
}

/// How many cells fit.
pub(super) fn said(answer: &Answer) -> (String, Mood) {
    let number = |n: usize| count(n as u64);
    let all = answer.cells.len();
    let of = |test: fn(&Cell) -> bool| answer.cells.iter().filter(|c| test(c)).count();
    let fit = of(|c| c.outcome.as_ref().is_some_and(|o| o.fits));
    let asked = match of(|c| c.refused.is_some()) {
        0 => String::new(),
        n => format!(", {} cannot be asked", number(n)),
    };
    let front = if answer.pareto.is_some() {
        let n = number(of(|c| c.pareto == Some(true)));
        format!("; {n} of them are on the front and shown")
    } else {
        String::new()
    };
    let text = format!(
        "{} of {} cells fit{asked}{front}.",
        number(fit),
        number(all)
    );
    (text, if fit > 0 { Mood::Good } else { Mood::Bad })
}

fn table(page: &mut Page, answer: &Answer) {
    let mut head: Vec<String> = answer.vary.iter().map(|a| a.name.to_uppercase()).collect();
    let varied = head.len();
    if answer.equal.is_some() {
        head.extend(["SOLVED", "OFF\n%"].map(String::from));
    }
    let sure = |c: &Cell| c.outcome.as_ref().is_some_and(|o| o.intervals.is_some());
    let drawn = answer.cells.iter().any(sure);
    head.extend(["FITS", "TOKENS\n/s"].map(String::from));
    head.extend(drawn.then(|| "TOKENS/s\np5 to p95".to_string()));
    head.extend(
        [
            "TPOT\nms",
            "HBM\nGiB",
            "MOVED\nGiB",
            "GONE\nGiB",
            "GONE\nshare",
            "GONE\nmass",
        ]
        .map(String::from),
    );
    let mut texts: Vec<usize> = (0..varied).collect();
    if answer.equal.is_some() {
        texts.push(varied);
    }
    let mut grid = Grid::new(head).texts(&texts);
    let front = answer.pareto.is_some();
    for cell in answer
        .cells
        .iter()
        .filter(|c| !front || c.pareto == Some(true))
    {
        let mut row: Vec<String> = answer.vary.iter().map(|a| value(cell, &a.name)).collect();
        if answer.equal.is_some() {
            row.extend(solved(cell));
        }
        row.extend(speed(cell.outcome.as_ref(), drawn));
        row.extend(figures(cell.outcome.as_ref()));
        grid.row(row);
    }
    if !grid.rows.is_empty() {
        page.title("Cells (HBM at the peak, all GPUs; tokens/s over the whole run)");
        page.grid(grid);
    }
}

fn value(cell: &Cell, key: &str) -> String {
    let text = cell.vary.get(key).map_or(NONE, String::as_str);
    if key == "policy" {
        spaced(text)
    } else {
        text.into()
    }
}

fn solved(cell: &Cell) -> [String; 2] {
    match &cell.equal {
        Some(s) => [
            format!("{}\n{}", s.parameter, s.value),
            format!("{:+.2}", 100.0 * s.difference_share),
        ],
        None => [NONE, NONE].map(String::from),
    }
}

/// Whether it fits and how fast it is, with the ends over draws where cells have them.
fn speed(outcome: Option<&Outcome>, drawn: bool) -> Vec<String> {
    let Some(o) = outcome else {
        let none = ["refused", NONE].into_iter().chain(drawn.then_some(NONE));
        return none.map(String::from).collect();
    };
    let ends = || {
        o.intervals
            .as_ref()
            .map_or_else(|| NONE.into(), sure::speed)
    };
    let mut out = vec![
        if o.fits { "yes" } else { "no" }.into(),
        figure(o.throughput.output_tokens_per_s),
    ];
    out.extend(drawn.then(ends));
    out
}

fn figures(outcome: Option<&Outcome>) -> [String; 6] {
    let Some(o) = outcome else {
        return [NONE; 6].map(String::from);
    };
    [
        figure(o.throughput.tpot_mean_s.map(|s| s * 1e3)),
        gib(o.memory.hbm_peak_bytes),
        signed_gib(o.memory.hbm_saved_moved_bytes),
        signed_gib(o.memory.hbm_saved_destroyed_bytes),
        percent(o.quality.destroyed_share),
        maybe_percent(o.quality.destroyed_mass_mean),
    ]
}

fn refused(page: &mut Page, answer: &Answer) {
    let lines = refusals(answer);
    if !lines.is_empty() {
        page.title("Cannot be asked");
        page.list(lines);
    }
}

/// Reasons for which cells have no outcome, the most frequent first.
pub(super) fn refusals(answer: &Answer) -> Vec<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for why in answer.cells.iter().filter_map(|c| c.refused.as_deref()) {
        *reasons.entry(why).or_default() += 1;
    }
    let mut list: Vec<(&str, usize)> = reasons.into_iter().collect();
    list.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let more = list.len().saturating_sub(REASONS);
    let line = |(why, n): &(&str, usize)| match n {
        1 => format!("1 cell: {why}"),
        n => format!("{} cells: {why}", count(*n as u64)),
    };
    let mut lines: Vec<String> = list.iter().take(REASONS).map(line).collect();
    if more > 0 {
        lines.push(format!("{} more reasons", count(more as u64)));
    }
    lines
}
