//! What the numbers rest on: every value with its interval, source and reference, once for all cards that share it.

use super::data::{Cell, Data};
use super::entry::Entry;
use crate::metrics::Assumption;

/// An assumption and where it holds.
struct Held<'a> {
    number: &'a Assumption,
    cards: Vec<String>,
}

/// The table.
pub(super) fn table(entries: &[&Entry]) -> Data {
    let mut list: Vec<Held> = Vec::new();
    for e in entries {
        for number in &e.outcome.assumptions {
            match list.iter_mut().find(|h| same(h.number, number)) {
                Some(held) if held.cards.contains(&e.card) => {}
                Some(held) => held.cards.push(e.card.clone()),
                None => list.push(Held {
                    number,
                    cards: vec![e.card.clone()],
                }),
            }
        }
    }
    list.sort_by(|a, b| a.number.name.cmp(&b.number.name));
    let mut data = Data::new("assumptions", "Numbers with their intervals and sources")
        .text("number", "name")
        .figure("value", "value")
        .figure("p5", "low")
        .figure("p95", "high")
        .text("unit", "unit")
        .text("source", "source")
        .text("cards", "cards")
        .text("reference", "reference")
        .filtered(&[5, 6]);
    for held in &list {
        data.row(row(held));
    }
    data
}

/// Equal to the bit, so that nothing is merged that differs.
fn same(a: &Assumption, b: &Assumption) -> bool {
    let bits = |n: &Assumption| [n.value, n.low, n.high].map(f64::to_bits);
    a.name == b.name && bits(a) == bits(b) && a.source == b.source && a.reference == b.reference
}

fn row(held: &Held) -> Vec<Cell> {
    let a = held.number;
    vec![
        Cell::text(&a.name),
        Cell::value(a.value, &a.unit),
        Cell::value(a.low, &a.unit),
        Cell::value(a.high, &a.unit),
        Cell::text(&a.unit),
        Cell::text(a.source.word()),
        Cell::text(held.cards.join(", ")),
        Cell::text(&a.reference),
    ]
}
