//! Raw files with a known truth behind them.

use kvplan::calibrate::probe::{Direction, Field, Measurement, Part, Point};
use kvplan::calibrate::raw::Raw;

/// Times of a point whose exact time is known: a little late each, one in eleven twice as long.
pub(crate) fn times(raw: &mut Raw, point: &Point, exact: f64, samples: u32) {
    for i in 0..samples {
        let late = f64::from((i * 7 + 3) % 11) / 11.0;
        let spike = if i % 11 == 9 { 2.0 } else { 1.0 };
        raw.push(
            point.clone(),
            Part::Whole,
            exact * (1.0 + 0.01 * late) * spike,
        );
    }
}

/// A point of reading host memory.
pub(crate) fn read(threads: u64, mib: u64) -> Point {
    let point = Point::new(Measurement::DdrRead, "").with(Field::Threads, threads);
    point.with(Field::Bytes, mib << 20)
}

/// A copy of pinned memory.
pub(crate) fn copy(mode: &str, way: Direction, bytes: u64) -> Point {
    Point::new(Measurement::Copy, mode)
        .going(way)
        .with(Field::Bytes, bytes)
}

/// A point of host attention over 8 heads of 128.
pub(crate) fn attention(threads: u64, group: u64, context: u64) -> Point {
    let sizes = [
        (Field::Threads, threads),
        (Field::Batch, 1),
        (Field::Context, context),
        (Field::KvHeads, 8),
        (Field::Group, group),
        (Field::HeadDim, 128),
    ];
    let point = Point::new(Measurement::HostAttention, "");
    sizes.iter().fold(point, |p, (field, n)| p.with(*field, *n))
}

/// A whole small run: host and link, with a hold-out of each.
pub(crate) fn run() -> Raw {
    let mut raw = Raw::default();
    for threads in [1, 2] {
        for mib in [64, 128, 256] {
            let point = read(threads, mib);
            // 20 GB/s a thread after 5 us.
            let exact = 5.0 + point.size(Field::Bytes) / (20e3 * threads as f64);
            times(&mut raw, &point, exact, 9);
        }
    }
    let held = read(2, 96).held();
    times(&mut raw, &held, 5.0 + f64::from(96 << 20) / 40e3, 9);
    for group in [1, 8] {
        for context in [1024, 4096, 16384] {
            // 30 us and 32 GB/s of KV for one query, 12 for eight: 96 GFLOP/s.
            let rate = if group == 1 { 32e3 } else { 12e3 };
            let point = attention(2, group, context);
            let exact = 30.0 + point.kv_bytes() / rate;
            times(&mut raw, &point, exact, 9);
        }
    }
    for (way, call, rate) in [(Direction::Up, 9.0, 25e3), (Direction::Down, 8.0, 26e3)] {
        for bytes in [4096u64, 65536, 1 << 20, 16 << 20, 256 << 20] {
            times(
                &mut raw,
                &copy("pinned", way, bytes),
                call + bytes as f64 / rate,
                9,
            );
        }
        let both = copy("duplex", way, 64 << 20);
        times(&mut raw, &both, f64::from(64 << 20) / (0.8 * rate), 9);
    }
    let conditions = [
        ("host", "build-7"),
        ("gpu", "NVIDIA GeForce RTX 5080"),
        ("gpu_id", "rtx-5080"),
        ("date", "2026-11-30"),
        ("host.threads", "2"),
        ("host.memory_bytes", "68719476736"),
        ("host.processor", "Some CPU"),
        ("copy.link", "gen 5 x16"),
    ];
    for (key, value) in conditions {
        raw.head.insert(key.into(), value.into());
    }
    raw
}
