//! What `plan --find` found: a row a card, the answer's point and the next one, which breaks a limit.

use crate::plan::solve::answer::{Point, Solution, Solved};

use super::super::cells::card;
use super::super::solve::{drawn, limits, shown};
use super::data::{Cell, Data};
use super::{Section, questions};

/// The sections.
pub(super) fn sections(s: &Solution) -> Vec<Section> {
    let mut found = Section::new("found", &format!("Find {}", s.find));
    found.text(limits(s));
    found.data(cards(s));
    for row in &s.rows {
        if let Some(drawn) = drawn(s, row) {
            found.text(format!("{}: {drawn}", card(&row.hardware, row.gpus)));
        }
    }
    let mut points = Section::new("points", "Where it stops");
    points.text("The answer, and the next point as it was run: it breaks the limit that is named.");
    points.data(both(s));
    let mut notes = Section::new("notes", "Notes");
    notes.list(s.notes.clone());
    let mut asked = Section::new("question", "The question");
    asked.folded(questions::settings(&s.question));
    [found, points, notes, asked]
        .into_iter()
        .filter(|section| !section.pieces.is_empty())
        .collect()
}

fn cards(s: &Solution) -> Data {
    let mut data = Data::new("found", "The answer by card")
        .text("card", "card")
        .figure("answer", &format!("answer_{}", s.unit))
        .figure("p5", &format!("answer_p5_{}", s.unit))
        .figure("p95", &format!("answer_p95_{}", s.unit))
        .text("limited by", "limited_by")
        .text("why", "why")
        .figure("tokens/s", "best.output_tokens_per_s")
        .figure("HBM, GiB", "best.hbm_peak_bytes")
        .figure("host, GiB", "best.ddr_peak_bytes")
        .figure("USD a GPU and hour", "price_usd_per_gpu_hour")
        .figure("USD a million tokens", "usd_per_million_output_tokens")
        .figure("points run", "tried");
    for row in &s.rows {
        let best = row.best.as_ref();
        data.row([
            Cell::text(card(&row.hardware, row.gpus)),
            answer(s, row.answer),
            answer(s, row.intervals.and_then(|i| i.answer_p5)),
            answer(s, row.intervals.and_then(|i| i.answer_p95)),
            Cell::text(&row.limited_by),
            Cell::text(&row.why),
            Cell::figure(best.and_then(|p| p.output_tokens_per_s)),
            bytes(best.and_then(|p| p.hbm_peak_bytes)),
            bytes(best.and_then(|p| p.ddr_peak_bytes)),
            Cell::figure(row.price_usd_per_gpu_hour),
            Cell::figure(row.usd_per_million_output_tokens),
            Cell::count(u64::from(row.tried)),
        ]);
    }
    data.without_empty(&format!("answer_p5_{}", s.unit))
        .without_empty(&format!("answer_p95_{}", s.unit))
        .without_empty("price_usd_per_gpu_hour")
        .without_empty("usd_per_million_output_tokens")
}

fn answer(s: &Solution, value: Option<f64>) -> Cell {
    value.map_or_else(Cell::none, |v| Cell::figure(Some(v)).shown(shown(s, v)))
}

fn bytes(bytes: Option<u64>) -> Cell {
    bytes.map_or_else(Cell::none, Cell::gib)
}

fn both(s: &Solution) -> Data {
    let mut data = Data::new("points", "The answer and the next point")
        .text("card", "card")
        .text("point", "point")
        .figure("at", &format!("value_{}", s.unit))
        .figure("time per token, p99", "tpot_p99_s")
        .figure("time to the first token, p99", "ttft_p99_s")
        .figure("HBM, GiB", "hbm_peak_bytes")
        .figure("host, GiB", "ddr_peak_bytes")
        .figure("tokens/s", "output_tokens_per_s")
        .figure("gave way", "preemptions")
        .text("breaks", "broken");
    for row in &s.rows {
        for (name, point) in [("answer", &row.best), ("next", &row.next)] {
            if let Some(p) = point {
                data.row(line(s, row, name, p));
            }
        }
    }
    data
}

fn line(s: &Solution, row: &Solved, name: &str, p: &Point) -> [Cell; 10] {
    [
        Cell::text(card(&row.hardware, row.gpus)),
        Cell::text(name),
        answer(s, Some(p.value)),
        Cell::time(p.tpot_p99_s),
        Cell::time(p.ttft_p99_s),
        bytes(p.hbm_peak_bytes),
        bytes(p.ddr_peak_bytes),
        Cell::figure(p.output_tokens_per_s),
        Cell::count(p.preemptions),
        Cell::text(p.broken.join("; ")),
    ]
}
