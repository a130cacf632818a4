//! Where the memory goes: HBM at its peak by part, against what may be used.

use super::super::cells::{count, gib, size};
use super::data::{Cell, Data};
use super::entry::{Entry, by_card};
use super::figure::{Bar, Bars, Drawing, Figure, Group, Ink};
use crate::metrics::Memory;
use crate::units::GIB;

/// Parts of HBM, in the order they are stacked.
const PARTS: [(&str, Ink); 5] = [
    ("weights", Ink::Blue),
    ("KV in HBM", Ink::Sky),
    ("staging of T1", Ink::Purple),
    ("activations", Ink::Dark),
    ("runtime reserve", Ink::Grey),
];

fn sizes(m: &Memory) -> [u64; 5] {
    [
        m.weights_bytes,
        m.kv_t0_bytes,
        m.staging_bytes,
        m.activation_bytes,
        m.reserve_bytes,
    ]
}

/// The figure.
pub(super) fn figure(entries: &[&Entry]) -> Figure {
    let cards = by_card(entries.iter().copied());
    let group = |(name, list): &(String, Vec<&Entry>)| Group {
        name: name.clone(),
        bars: list.iter().map(|e| bar(e)).collect(),
    };
    Figure {
        title: "HBM at its peak".into(),
        text: "Each bar is what a way to run it needs in HBM, all GPUs of a card together; the line across it is what may \
               be used. What passes the line is missing. What left HBM lies in host memory and is in the table."
            .into(),
        drawing: Drawing::Bars(Bars {
            scale: "GiB".into(),
            unit: GIB,
            parts: PARTS.map(|(n, i)| (n.to_string(), i)).to_vec(),
            groups: cards.iter().map(group).collect(),
        }),
        data: table(entries),
    }
}

fn bar(e: &Entry) -> Bar {
    let m = &e.outcome.memory;
    let pieces = sizes(m).into_iter().enumerate().map(|(i, bytes)| {
        let tip = format!(
            "{}: {} {} ({} bytes)",
            e.name(),
            PARTS[i].0,
            size(bytes),
            count(bytes)
        );
        (i, bytes as f64, tip)
    });
    Bar {
        name: e.way.clone(),
        pieces: pieces.filter(|(_, b, _)| *b > 0.0).collect(),
        total: match e.outcome.shortfall_bytes {
            0 => gib(m.hbm_peak_bytes),
            short => format!("{}, short {}", gib(m.hbm_peak_bytes), gib(short)),
        },
        limit: Some((
            m.hbm_capacity_bytes as f64,
            format!(
                "{}: usable {} ({} bytes)",
                e.name(),
                size(m.hbm_capacity_bytes),
                count(m.hbm_capacity_bytes)
            ),
        )),
    }
}

fn table(entries: &[&Entry]) -> Data {
    let mut data = Data::new("memory", "Memory at the HBM peak, GiB")
        .text("card", "card")
        .text("way", "way")
        .figure("weights", "weights_bytes")
        .figure("KV in HBM", "kv_t0_bytes")
        .figure("staging", "staging_bytes")
        .figure("activations", "activation_bytes")
        .figure("reserve", "reserve_bytes")
        .figure("peak", "hbm_peak_bytes")
        .figure("usable", "hbm_capacity_bytes")
        .figure("short by", "shortfall_bytes")
        .figure("KV if all in HBM", "kv_full_bytes")
        .figure("freed by moving", "hbm_saved_moved_bytes")
        .figure("freed by destroying", "hbm_saved_destroyed_bytes")
        .figure("host memory", "ddr_peak_bytes")
        .figure("host, may be pinned", "ddr_capacity_bytes");
    for e in entries {
        let m = &e.outcome.memory;
        let mut row = vec![Cell::text(&e.card), Cell::text(&e.way)];
        row.extend(sizes(m).map(Cell::gib));
        row.extend(
            [
                m.hbm_peak_bytes,
                m.hbm_capacity_bytes,
                e.outcome.shortfall_bytes,
                m.kv_full_bytes,
            ]
            .map(Cell::gib),
        );
        row.extend(
            [m.hbm_saved_moved_bytes, m.hbm_saved_destroyed_bytes]
                .map(|b| Cell::signed_gib(Some(b))),
        );
        row.extend([m.ddr_peak_bytes, m.ddr_capacity_bytes].map(Cell::gib));
        data.row(row);
    }
    data
}
