//! Where the tokens of a request live: tier occupancy at the end of the chains, and the attention each tier gets.

use super::super::cells::{figure as three, maybe_percent};
use super::data::{Cell, Data};
use super::entry::{Entry, by_card};
use super::figure::{Bar, Bars, Drawing, Figure, Group, Ink};
use crate::metrics::{TierUse, Tiers};

/// Tiers, in the order they are stacked.
const TIERS: [(&str, Ink); 4] = [
    ("T0 GPU memory", Ink::Blue),
    ("T1 host, exact", Ink::Sky),
    ("T2 host, 8 bit", Ink::Yellow),
    ("T3 destroyed", Ink::Vermilion),
];

fn each(t: &Tiers) -> [&TierUse; 4] {
    [&t.t0, &t.t1, &t.t2, &t.t3]
}

/// Whether tokens are anywhere but in T0.
pub(super) fn tiered(e: &Entry) -> bool {
    each(&e.outcome.tiers)[1..]
        .iter()
        .any(|t| t.tokens_end > 0.0 || t.tokens_mean > 0.0)
}

/// The figure, of the entries that use tiers.
pub(super) fn figure(entries: &[&Entry]) -> Figure {
    let used: Vec<&Entry> = entries.iter().copied().filter(|e| tiered(e)).collect();
    let cards = by_card(used.iter().copied());
    let group = |(name, list): &(String, Vec<&Entry>)| Group {
        name: name.clone(),
        bars: list.iter().map(|e| bar(e)).collect(),
    };
    Figure {
        title: "Tokens of a request by tier".into(),
        text: "Each bar is one request at the end of its chain, mean over the requests. Means over the run and the share \
               of attention that each tier gets are in the table; attention comes from the recorded trace."
            .into(),
        drawing: Drawing::Bars(Bars {
            scale: "tokens".into(),
            unit: 1.0,
            parts: TIERS.map(|(n, i)| (n.to_string(), i)).to_vec(),
            groups: cards.iter().map(group).collect(),
        }),
        data: table(&used),
    }
}

fn bar(e: &Entry) -> Bar {
    let pieces = each(&e.outcome.tiers).into_iter().enumerate();
    let pieces = pieces.map(|(i, t)| {
        let tip = format!(
            "{}: {} {} tokens at the end ({}), {} of the attention",
            e.name(),
            TIERS[i].0,
            three(Some(t.tokens_end)),
            t.tokens_end,
            maybe_percent(t.mass_mean)
        );
        (i, t.tokens_end, tip)
    });
    Bar {
        name: e.way.clone(),
        pieces: pieces.filter(|(_, n, _)| *n > 0.0).collect(),
        total: format!("{} in T0", three(Some(e.outcome.tiers.t0.tokens_end))),
        limit: None,
    }
}

fn table(used: &[&Entry]) -> Data {
    let mut data = Data::new("tiers", "Tokens of a request and attention by tier")
        .text("card", "card")
        .text("way", "way")
        .text("tier", "tier")
        .figure("tokens, mean", "tokens_mean")
        .figure("tokens, end", "tokens_end")
        .figure("attention, mean", "mass_mean")
        .figure("p5", "mass_low")
        .figure("p95", "mass_high");
    for e in used {
        for (t, (name, _)) in each(&e.outcome.tiers).into_iter().zip(TIERS) {
            data.row([
                Cell::text(&e.card),
                Cell::text(&e.way),
                Cell::text(name),
                Cell::figure(Some(t.tokens_mean)),
                Cell::figure(Some(t.tokens_end)),
                Cell::share(t.mass_mean),
                Cell::share(t.mass_low),
                Cell::share(t.mass_high),
            ]);
        }
    }
    data.without_empty("mass_low").without_empty("mass_high")
}
