//! A row a card: what it holds, how fast each way is, the best that runs today, and whether tiering pays there.

use crate::plan::answer::Row;

use super::super::cells::card;
use super::super::plan_rows::{find, speed};
use super::data::{Cell, Data};
use super::sure;

/// Ways with a column of their own: name, head.
const WAYS: [(&str, &str); 6] = [
    ("all-in-hbm", "all in HBM"),
    ("engine", "engine as it is"),
    ("stream", "spill, streamed"),
    ("staged", "spill, staged"),
    ("direct", "spill, in place"),
    ("host-attention", "spill, host attention"),
];

/// The table; `lengths` says whether requests are of one length.
pub(super) fn cards(rows: &[&Row], lengths: &str) -> Data {
    let caption = format!("Output tokens/s by card, {lengths}");
    let mut data = Data::new("cards", &caption)
        .text("card", "card")
        .figure("holds, tokens a request", "holds_tokens_per_request")
        .figure("short, GiB", "shortfall_bytes");
    for (name, head) in WAYS {
        data = data.figure(head, &format!("{name}.output_tokens_per_s"));
    }
    let mut data = data
        .figure("best that runs today", "best_runnable.output_tokens_per_s")
        .figure("p5", "best_runnable.output_tokens_per_s_p5")
        .figure("p95", "best_runnable.output_tokens_per_s_p95")
        .text("which is", "best_runnable")
        .text("tiering pays", "pays");
    for row in rows {
        data.row(one(row));
    }
    data.without_empty("direct.output_tokens_per_s")
        .without_empty("best_runnable.output_tokens_per_s_p5")
        .without_empty("best_runnable.output_tokens_per_s_p95")
}

fn one(row: &Row) -> Vec<Cell> {
    let rate = |name: &str| {
        let exact = find(row, name).and_then(|a| a.outcome.throughput.output_tokens_per_s);
        Cell::figure(exact).shown(speed(row, name))
    };
    let mut cells = vec![
        Cell::text(card(&row.hardware, row.gpus)),
        Cell::count(row.holds_tokens_per_request),
        match row.shortfall_bytes {
            0 => Cell::none(),
            short => Cell::gib(short),
        },
    ];
    cells.extend(WAYS.iter().map(|(name, _)| rate(name)));
    let best = row.verdict.best_runnable.as_deref();
    let best = best.and_then(|name| find(row, name));
    cells.push(best.map_or_else(Cell::none, |a| {
        Cell::figure(a.outcome.throughput.output_tokens_per_s)
    }));
    let range = best.and_then(|a| sure::range(&a.outcome));
    cells.push(Cell::figure(range.map(|r| r.0)));
    cells.push(Cell::figure(range.map(|r| r.1)));
    cells.push(best.map_or_else(|| Cell::instead("nothing"), |a| Cell::text(&a.label)));
    cells.push(Cell::yes(row.verdict.pays));
    cells
}

/// When streaming is free, and when it equals the best rival.
pub(super) fn pays(rows: &[&Row]) -> Data {
    let mut data = Data::new("pays", "When tiering pays")
        .text("card", "card")
        .figure("free T1 a step, GiB", "free_t1_bytes")
        .figure("link needed to be free", "breakeven_free_bytes_per_s")
        .figure(
            "link needed to equal the best",
            "breakeven_best_bytes_per_s",
        )
        .text("pays", "pays");
    for row in rows {
        data.row([
            Cell::text(card(&row.hardware, row.gpus)),
            row.free_t1_bytes.map_or_else(Cell::none, Cell::gib),
            Cell::rate(row.breakeven_free_bytes_per_s),
            Cell::rate(row.breakeven_best_bytes_per_s),
            Cell::yes(row.verdict.pays),
        ]);
    }
    data
}
