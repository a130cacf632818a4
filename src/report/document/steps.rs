//! Where a decode step goes: the mean step of a run, part by part.

use super::super::cells::time;
use super::data::{Cell, Data};
use super::entry::{Entry, by_card, ran};
use super::figure::{Bar, Bars, Drawing, Figure, Group, Ink};
use crate::metrics::StepParts;

/// Parts of a step, in the order they are stacked; the key of each in a result.
const PARTS: [(&str, &str, Ink); 9] = [
    ("linear layers", "linear_s", Ink::Blue),
    ("attention", "attention_s", Ink::Sky),
    ("other kernels", "other_s", Ink::Dark),
    ("all-reduce", "collective_s", Ink::Yellow),
    ("CPU between steps", "gap_s", Ink::Grey),
    ("waiting for the link", "exposed_transfer_s", Ink::Vermilion),
    ("waiting for the host", "exposed_host_s", Ink::Green),
    ("re-tiering", "retier_s", Ink::Purple),
    ("prefill, recompute", "recompute_s", Ink::Orange),
];

fn sizes(s: &StepParts) -> [f64; 9] {
    [
        s.linear_s,
        s.attention_s,
        s.other_s,
        s.collective_s,
        s.gap_s,
        s.exposed_transfer_s,
        s.exposed_host_s,
        s.retier_s,
        s.recompute_s,
    ]
}

/// The figure.
pub(super) fn figure(entries: &[&Entry]) -> Figure {
    let runs = ran(entries);
    let cards = by_card(runs.iter().copied());
    let group = |(name, list): &(String, Vec<&Entry>)| Group {
        name: name.clone(),
        bars: list.iter().map(|e| bar(e)).collect(),
    };
    Figure {
        title: "The mean decode step".into(),
        text: "Each bar is one step of the whole batch, mean over the run; transfers that hide behind compute take no time \
               here. At its end stands the mean time per token of a request: longer than a step where requests take turns, as \
               an engine's do that preempts."
            .into(),
        drawing: Drawing::Bars(Bars {
            scale: "ms".into(),
            unit: 1e-3,
            parts: PARTS.map(|(n, _, i)| (n.to_string(), i)).to_vec(),
            groups: cards.iter().map(group).collect(),
        }),
        data: table(&runs),
    }
}

fn bar(e: &Entry) -> Bar {
    let pieces = sizes(&e.outcome.step).into_iter().enumerate();
    let pieces = pieces.map(|(i, s)| {
        let tip = format!("{}: {} {} ({s} s)", e.name(), PARTS[i].0, time(Some(s)));
        (i, s, tip)
    });
    Bar {
        name: e.way.clone(),
        pieces: pieces.filter(|(_, s, _)| *s > 0.0).collect(),
        total: format!("{} a token", time(e.outcome.throughput.tpot_mean_s)),
        limit: None,
    }
}

fn table(runs: &[&Entry]) -> Data {
    let mut data = Data::new("step", "Parts of the mean decode step, ms")
        .text("card", "card")
        .text("way", "way");
    for (name, key, _) in PARTS {
        data = data.figure(name, key);
    }
    let mut data = data
        .figure("time per token", "tpot_mean_s")
        .text("bound by", "bound_by");
    for e in runs {
        let mut row = vec![Cell::text(&e.card), Cell::text(&e.way)];
        row.extend(sizes(&e.outcome.step).map(|s| Cell::ms(Some(s))));
        row.push(Cell::ms(e.outcome.throughput.tpot_mean_s));
        row.push(Cell::text(&e.outcome.bound_by));
        data.row(row);
    }
    data
}
