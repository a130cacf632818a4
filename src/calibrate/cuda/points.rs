//! Which points of the device are measured, and which of them are kept from the fit.
//!
//! The bill: a sample lasts 200 us or one operation, whichever is longer, and some of the host's time. A full run has about
//! 300 points and 17 rounds, a quick one 150 and 6. On a stand-in driver that takes as long as a card of these data sheets
//! would, a full run lasts 16 s for an H200 (55 GB/s up, 4.8 TB/s) and 44 s for a card with PCIe 3 (12 GB/s, 360 GB/s), a
//! quick one 3 s and 5 s; no real card has been timed. Both end by their budget on a card that is slower still.

use super::attend::Heads;
use super::attention::{SCORED, needs};
use super::copies::PAGEABLE;
use super::tier_loop;
use crate::calibrate::probe::{Direction, Field, Measurement, Point};

/// What there is to measure on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Device memory \[bytes\].
    pub(super) device: u64,
    /// Pinned memory \[bytes\].
    pub(super) pinned: u64,
    /// Multiprocessors.
    pub(super) sms: u32,
    /// Whether pieces can be copied in one call.
    pub(super) batch: bool,
    /// Copy engines.
    pub(super) engines: u32,
    /// Whether it is a look only.
    pub(super) quick: bool,
}

/// Mode of attention that leaves multiprocessors idle.
const SMALL: &str = "small";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All points.
pub(super) fn all(limits: &Limits) -> Vec<Point> {
    let mut out = Vec::new();
    copies(&mut out, limits);
    pieces(&mut out, limits);
    in_place(&mut out, limits);
    passes(&mut out, limits);
    attention(&mut out, limits);
    prefetch(&mut out, limits);
    tier_loop(&mut out, limits);
    out
}

/// Adds copies of some sizes that fit, then those that are held.
fn sized(out: &mut Vec<Point>, point: &Point, sizes: &[u64], held: &[u64], most: u64) {
    let fits = |b: &&u64| **b <= most;
    let of = |b: &u64| point.clone().with(Field::Bytes, *b);
    out.extend(sizes.iter().filter(fits).map(of));
    out.extend(held.iter().filter(fits).map(|b| of(b).held()));
}

fn copies(out: &mut Vec<Point>, limits: &Limits) {
    let point = |mode: &str, way| Point::new(Measurement::Copy, mode).going(way);
    let most = limits.pinned.min(limits.device) / 2;
    let step = if limits.quick { 3 } else { 1 };
    let sizes: Vec<u64> = (12..=30).step_by(step).map(|i| 1u64 << i).collect();
    for way in [Direction::Up, Direction::Down] {
        sized(
            out,
            &point("pinned", way),
            &sizes,
            &[3 * MIB, 48 * MIB],
            most,
        );
        let sizes = [64 * KIB, MIB, 16 * MIB, 64 * MIB];
        sized(
            out,
            &point("pageable", way),
            &sizes,
            &[24 * MIB],
            PAGEABLE.min(limits.pinned),
        );
        if limits.engines > 1 {
            let sizes = [16 * MIB, 64 * MIB, 256 * MIB];
            sized(out, &point("duplex", way), &sizes, &[96 * MIB], most);
        }
    }
    let sizes = [16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB];
    sized(
        out,
        &point("synchronous", Direction::Up),
        &sizes,
        &[MIB],
        most,
    );
}

fn pieces(out: &mut Vec<Point>, limits: &Limits) {
    let small: &[u64] = &[4, 8, 16];
    let wide: &[u64] = &[4, 16, 64];
    let large: &[u64] = &[32, 64, 256];
    let ways: &[(&str, &[u64], u64)] = &[
        ("loop", wide, 24),
        ("batch", small, 12),
        ("batch-large", large, 96),
        ("gather-stage", wide, 24),
        ("scatter", wide, 24),
        ("zero-copy", wide, 24),
    ];
    for (mode, sizes, held) in ways {
        if mode.starts_with("batch") && !limits.batch {
            continue;
        }
        let point = Point::new(Measurement::Pieces, mode).going(Direction::Up);
        let of = |kib: u64, n: u64| {
            point
                .clone()
                .with(Field::Bytes, kib * KIB)
                .with(Field::Pieces, n)
        };
        let counts: &[u64] = if limits.quick {
            &[32, 256]
        } else {
            &[16, 64, 256, 640]
        };
        // Twice on the device, once side by side and scattered over twice as much on the host.
        let fits = |kib: u64, n: u64| 5 * kib * KIB * n <= limits.pinned.min(limits.device);
        for kib in *sizes {
            out.extend(
                counts
                    .iter()
                    .filter(|n| fits(*kib, **n))
                    .map(|n| of(*kib, *n)),
            );
        }
        if fits(*held, 128) {
            out.push(of(*held, 128).held());
        }
    }
}

fn in_place(out: &mut Vec<Point>, limits: &Limits) {
    let all = u64::from(limits.sms);
    let counts: &[u64] = if limits.quick {
        &[1, 4, 16]
    } else {
        &[1, 2, 4, 8, 16, 32]
    };
    let counts = counts.iter().copied().filter(|n| *n < all).chain([all]);
    for threads in counts.collect::<Vec<_>>() {
        for (mode, way) in [("read", Direction::Up), ("write", Direction::Down)] {
            let point = Point::new(Measurement::ZeroCopy, mode)
                .going(way)
                .with(Field::Threads, threads);
            let most = limits.pinned.min(limits.device / 2);
            sized(out, &point, &[MIB, 4 * MIB, 16 * MIB], &[6 * MIB], most);
        }
    }
}

fn passes(out: &mut Vec<Point>, limits: &Limits) {
    let most = limits.device / 5;
    for mode in ["read", "copy"] {
        let point = Point::new(Measurement::Hbm, mode);
        sized(
            out,
            &point,
            &[MIB, 32 * MIB, 128 * MIB, 512 * MIB],
            &[200 * MIB],
            most,
        );
    }
    for mode in ["per-token", "per-channel"] {
        let point = |m| Point::new(m, mode).with(Field::HeadDim, 128);
        let sizes = [MIB, 16 * MIB, 64 * MIB];
        sized(out, &point(Measurement::Quant), &sizes, &[24 * MIB], most);
        sized(out, &point(Measurement::Dequant), &sizes, &[24 * MIB], most);
    }
}

/// Heads of Llama 3 8B, of Qwen2 7B with 64 numbers as in smaller models, and one query a KV head: KV heads, group, numbers.
const HEADS: [(u64, u64, u64); 3] = [(8, 4, 128), (8, 8, 64), (8, 1, 128)];

/// The same with these heads.
fn headed(point: Point, (kv, group, dim): (u64, u64, u64)) -> Point {
    point
        .with(Field::KvHeads, kv)
        .with(Field::Group, group)
        .with(Field::HeadDim, dim)
}

/// Whether a point's blocks are at least as many as multiprocessors.
fn fills(point: &Point, sms: u32) -> bool {
    let (batch, context) = (
        point.get(Field::Batch).unwrap_or(1),
        point.get(Field::Context).unwrap_or(1),
    );
    let heads = Heads::of(point);
    batch * heads.blocks() * heads.splits(sms, batch, context) >= u64::from(sms)
}

/// A grid of sequences and contexts, so that a table of it interpolates where the law misses. Shapes that leave
/// multiprocessors idle follow no law of bytes: they are a lane of their own.
fn attention(out: &mut Vec<Point>, limits: &Limits) {
    let (batches, contexts): (&[u64], &[u64]) = if limits.quick {
        (&[1, 4, 16], &[2048, 8192])
    } else {
        (&[1, 4, 16, 64], &[2048, 8192, 32768])
    };
    let lanes = if limits.quick {
        &HEADS[..1]
    } else {
        &HEADS[..]
    };
    for (heads, mode) in lanes.iter().flat_map(|h| [(h, ""), (h, SCORED)]) {
        let of = |batch: u64, context: u64| {
            let point = headed(Point::new(Measurement::Attention, mode), *heads);
            point
                .with(Field::Batch, batch)
                .with(Field::Context, context)
        };
        let fits = |p: &Point| needs(p, limits.sms) <= limits.device;
        let grid = batches
            .iter()
            .flat_map(|b| contexts.iter().map(|c| of(*b, *c)));
        let (full, mut small): (Vec<Point>, Vec<Point>) =
            grid.filter(fits).partition(|p| fills(p, limits.sms));
        small.iter_mut().for_each(|p| p.mode = SMALL.into());
        out.extend(full);
        out.extend(small.into_iter().filter(|_| mode != SCORED));
        let held = [of(3, 6000), of(24, 3000)].into_iter();
        out.extend(held.filter(fits).map(Point::held));
    }
}

/// Attention while a share comes over the link, and beside a plain copy: predicted, not fitted.
fn prefetch(out: &mut Vec<Point>, limits: &Limits) {
    let fits = |p: &Point| needs(p, limits.sms) <= limits.device;
    let shapes = [(8, 4096, 64), (8, 4096, 512), (16, 2048, 128)];
    for (batch, context, fetched) in shapes {
        let point = headed(Point::new(Measurement::AttentionPrefetch, ""), HEADS[0]);
        let point = point
            .with(Field::Batch, batch)
            .with(Field::Context, context);
        out.extend(Some(point.with(Field::Fetched, fetched).held()).filter(fits));
    }
    for (batch, context, mib) in [(8, 4096, 1), (8, 4096, 8), (16, 2048, 4)] {
        let point = headed(Point::new(Measurement::Overlap, ""), HEADS[0]);
        let point = point
            .with(Field::Batch, batch)
            .with(Field::Context, context);
        out.extend(Some(point.with(Field::Bytes, mib * MIB).held()).filter(fits));
    }
}

/// Steps of the tier loop in every mode: predicted, not fitted.
fn tier_loop(out: &mut Vec<Point>, limits: &Limits) {
    let (layers, batch, context) = if limits.quick {
        (4, 4, 4096)
    } else {
        (8, 8, 8192)
    };
    let point = |mode: &str, fetched: u64, depth: u64| {
        headed(Point::new(Measurement::TierLoop, mode), HEADS[0])
            .with(Field::Layers, layers)
            .with(Field::Batch, batch)
            .with(Field::Context, context)
            .with(Field::Fetched, fetched)
            .with(Field::Depth, depth)
            .with(Field::Pieces, 32)
            .held()
    };
    let shapes = [
        ("resident", 0, 1),
        ("stream", context / 64, 2),
        ("stream", context / 32, 2),
        ("stream", context / 8, 2),
        ("stream", context / 8, 4),
        ("staged", context / 8, 2),
        ("direct", context / 8, 1),
        ("selective", context / 16, 2),
        ("host-attention", context / 8, 1),
        ("serial", context / 8, 1),
    ];
    for (mode, fetched, depth) in shapes {
        let point = point(mode, fetched, depth);
        let fits = tier_loop::needs(&point, limits.sms);
        let fits =
            fits.is_ok_and(|(device, pinned)| device <= limits.device && pinned <= limits.pinned);
        out.extend(Some(point).filter(|_| fits));
    }
}
