//! Which points of the host are measured, and which of them are kept from the fit.

use crate::calibrate::probe::{Field, Measurement, Pace, Point};

/// Thread counts: one, powers of two, all; a quick run takes one and all.
pub(super) fn threads(all: usize, pace: Pace) -> Vec<usize> {
    let mut out = vec![1];
    if pace != Pace::QUICK {
        let powers = (1..).map(|i| 1usize << i);
        out.extend(powers.take_while(|n| *n < all));
    }
    if all > 1 {
        out.push(all);
    }
    out
}

/// All points, on so much memory.
pub(super) fn all(threads: usize, pace: Pace, memory: u64) -> Vec<Point> {
    let counts = self::threads(threads, pace);
    let mut out = Vec::new();
    for n in counts.iter().map(|n| *n as u64) {
        passes(&mut out, n, memory);
        gathers(&mut out, n, memory);
        int8(&mut out, n, memory);
        let flops = Point::new(Measurement::MultiplyAdd, "").with(Field::Threads, n);
        for millions in [20, 80, 320] {
            out.push(flops.clone().with(Field::Pieces, millions * 1_000_000 * n));
        }
        attention(&mut out, n, memory);
    }
    scores(&mut out);
    out
}

/// Bytes of a pass a thread: about a millisecond, so that few samples are interrupted.
const PASS: u64 = 16 << 20;

/// Reads and copies of a quarter, half and all of a pass; three eighths are predicted.
fn passes(out: &mut Vec<Point>, threads: u64, memory: u64) {
    for measurement in [Measurement::DdrRead, Measurement::DdrCopy] {
        let point = Point::new(measurement, "").with(Field::Threads, threads);
        let most = (PASS * threads).min(memory / 4);
        for eighths in [2, 4, 8] {
            out.push(point.clone().with(Field::Bytes, most / 8 * eighths));
        }
        out.push(point.with(Field::Bytes, most / 8 * 3).held());
    }
}

/// Random pages into one place.
fn gathers(out: &mut Vec<Point>, threads: u64, memory: u64) {
    let point = Point::new(Measurement::DdrGather, "").with(Field::Threads, threads);
    let of = |bytes: u64, pieces: u64| {
        let point = point.clone().with(Field::Bytes, bytes);
        point.with(Field::Pieces, pieces)
    };
    for kib in [4u64, 16, 64, 256] {
        for pieces in [64, 256, 1024] {
            if kib * 1024 * pieces <= memory / 8 {
                out.push(of(kib * 1024, pieces));
            }
        }
    }
    out.push(of(32 * 1024, 384).held());
}

/// Rows of 128 numbers to bytes and back.
fn int8(out: &mut Vec<Point>, threads: u64, memory: u64) {
    for measurement in [Measurement::HostQuant, Measurement::HostDequant] {
        let point = Point::new(measurement, "per-token");
        let point = point
            .with(Field::Threads, threads)
            .with(Field::HeadDim, 128);
        for mib in [1u64, 4, 16] {
            let bytes = (mib << 20).min(memory / 8);
            out.push(point.clone().with(Field::Bytes, bytes));
        }
        out.push(point.with(Field::Bytes, 6 << 20).held());
    }
}

/// Scores of so many tokens.
fn scores(out: &mut Vec<Point>) {
    for measurement in [Measurement::Select, Measurement::Sort] {
        let point = Point::new(measurement, "").with(Field::Threads, 1);
        for pieces in [1024, 4096, 16384, 65536, 262_144] {
            out.push(point.clone().with(Field::Pieces, pieces));
        }
        out.push(point.with(Field::Pieces, 40_000).held());
    }
}

/// Attention of one and of several sequences; other contexts and another batch are predicted. Contexts are whole pages of
/// memory at both head sizes (32 tokens), as those of an engine with paged KV: where they are not, keys and values lie
/// shifted against each other within a page, which moved times by 5 to 15 % either way on the machine this was seen on.
fn attention(out: &mut Vec<Point>, threads: u64, memory: u64) {
    for head_dim in [64u64, 128] {
        for group in [1u64, 4, 8] {
            let point = Point::new(Measurement::HostAttention, "").with(Field::Threads, threads);
            let point = point.with(Field::KvHeads, 8).with(Field::Group, group);
            let point = point.with(Field::HeadDim, head_dim);
            let of = |batch: u64, context: u64| {
                let point = point.clone().with(Field::Batch, batch);
                point.with(Field::Context, context)
            };
            let all = [(1, 1024), (1, 4096), (1, 16384), (4, 2048)];
            let fits = |p: &Point| p.kv_bytes() <= memory as f64 / 4.0;
            out.extend(all.map(|(b, c)| of(b, c)).into_iter().filter(fits));
            let held = [(1, 7008), (3, 3008)].map(|(b, c)| of(b, c).held());
            out.extend(held.into_iter().filter(fits));
        }
    }
}
