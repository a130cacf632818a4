//! Throughput against HBM: what a token/s costs in memory, card by card.

use super::super::cells::{count, figure as three, size};
use super::data::{Cell, Data};
use super::entry::{Entry, by_card, ran};
use super::figure::{Drawing, Figure, Panel, Panels, Point};
use super::sure;
use crate::units::GIB;

/// Points of a panel that are named; beyond that only their words name them.
const NAMED: usize = 12;

/// The figure.
pub(super) fn figure(entries: &[&Entry]) -> Figure {
    let runs = ran(entries);
    let cards = by_card(runs.iter().copied());
    Figure {
        title: "Tokens/s against HBM".into(),
        text: "Output tokens/s of all requests over the run, against HBM at its peak. Higher is faster, further left leaves \
               more memory free; the vertical line is what may be used on this card. Only what runs has a point; whiskers go from the 5th to the 95th \
               percentile, where the result has them."
            .into(),
        drawing: Drawing::Panels(Panels {
            across: "HBM at its peak, GiB".into(),
            unit: GIB,
            upwards: "tokens/s".into(),
            panels: cards.iter().map(panel).collect(),
        }),
        data: table(&runs),
    }
}

fn panel((card, list): &(String, Vec<&Entry>)) -> Panel {
    let usable = list.iter().find(|e| !e.aside).or(list.first());
    let usable = usable.map(|e| e.outcome.memory.hbm_capacity_bytes);
    Panel {
        name: card.clone(),
        points: points(list),
        limit: usable.map(|b| (b as f64, format!("{card}: usable {}", size(b)))),
    }
}

/// Points of a card, those that coincide as one.
fn points(list: &[&Entry]) -> Vec<Point> {
    let named = list.len() <= NAMED;
    let mut points: Vec<(Point, usize)> = Vec::new();
    for point in list.iter().map(|e| point(e, named)) {
        let place = |p: &Point| [p.x, p.y].map(f64::to_bits);
        match points.iter_mut().find(|(p, _)| place(p) == place(&point)) {
            None => points.push((point, 0)),
            Some((there, more)) => {
                *more += 1;
                there.tip = format!("{}; {}", there.tip, point.tip);
            }
        }
    }
    let with_others = |(mut point, more): (Point, usize)| {
        if more > 0 && named {
            point.name = format!("{} +{more} alike", point.name);
        }
        point
    };
    points.into_iter().map(with_others).collect()
}

fn point(e: &Entry, named: bool) -> Point {
    let (speed, bytes) = (e.speed().unwrap_or(0.0), e.outcome.memory.hbm_peak_bytes);
    Point {
        name: if named { e.way.clone() } else { String::new() },
        x: bytes as f64,
        y: speed,
        range: sure::range(e.outcome),
        standing: e.standing,
        tip: format!(
            "{}: {} tokens/s ({speed}){} at {} of HBM ({} bytes), {}",
            e.name(),
            three(Some(speed)),
            between(e),
            size(bytes),
            count(bytes),
            e.standing.word()
        ),
    }
}

/// `, p5 to p95 200 to 300`, where there were draws.
fn between(e: &Entry) -> String {
    sure::range(e.outcome).map_or_else(String::new, |(low, high)| {
        format!(", p5 to p95 {} to {}", three(Some(low)), three(Some(high)))
    })
}

fn table(runs: &[&Entry]) -> Data {
    let mut data = Data::new("throughput", "Tokens/s and HBM")
        .text("card", "card")
        .text("way", "way")
        .figure("tokens/s", "output_tokens_per_s")
        .figure("p5", "output_tokens_per_s_p5")
        .figure("p95", "output_tokens_per_s_p95")
        .figure("at the end of the chains", "at_end_tokens_per_s")
        .figure("HBM peak, GiB", "hbm_peak_bytes")
        .figure("usable, GiB", "hbm_capacity_bytes")
        .text("standing", "standing");
    for e in runs {
        data.row([
            Cell::text(&e.card),
            Cell::text(&e.way),
            Cell::figure(e.speed()),
            Cell::figure(sure::range(e.outcome).map(|r| r.0)),
            Cell::figure(sure::range(e.outcome).map(|r| r.1)),
            Cell::figure(e.outcome.throughput.at_end_tokens_per_s),
            Cell::gib(e.outcome.memory.hbm_peak_bytes),
            Cell::gib(e.outcome.memory.hbm_capacity_bytes),
            Cell::text(e.standing.word()),
        ]);
    }
    data.without_empty("output_tokens_per_s_p5")
        .without_empty("output_tokens_per_s_p95")
}
