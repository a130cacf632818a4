//! Laws against a known truth, tables where they miss, the hold-out, the profile.

use kvplan::calibrate::Calibrated;
use kvplan::calibrate::fit::{Fits, judged};
use kvplan::calibrate::probe::{Direction, Field, Measurement, Part, Point};
use kvplan::calibrate::profile::stem;
use kvplan::calibrate::raw::{Raw, read as read_raw};
use kvplan::catalog;
use kvplan::hardware::{Hardware, Source, text};

use crate::calibrate_make::{attention, copy, read, run, times};

#[track_caller]
fn near(got: f64, want: f64, within: f64) {
    assert!((got / want - 1.0).abs() < within, "{got}, wanted {want}");
}

fn nothing(_: &Fits, _: &Point, _: Part) -> Option<f64> {
    None
}

fn calibrated(raw: &Raw) -> Calibrated {
    let base = catalog::hardware("rtx-5080").unwrap();
    Calibrated::of(raw, base, false, &nothing).unwrap()
}

#[test]
fn parameters_are_those_of_the_truth() {
    let fits = Fits::of(&run());
    let of = |name: &str| fits.parameter(name).unwrap_or_else(|| panic!("{name}"));
    // The noise is one-sided: at the median half a percent late.
    near(of("copy.pinned.h2d.call").value, 9e-6, 0.02);
    near(of("copy.pinned.h2d.bandwidth").value, 25e9, 0.02);
    near(of("copy.pinned.d2h.bandwidth").value, 26e9, 0.02);
    near(of("ddr_read.threads=2.bandwidth").value, 40e9, 0.02);
    near(
        of("host_attention.threads=2.group=1.head_dim=128.bandwidth").value,
        32e9,
        0.02,
    );
    near(
        of("host_attention.threads=2.group=8.head_dim=128.call").value,
        30e-6,
        0.02,
    );
    for lane in fits.lanes() {
        assert!(lane.table.is_none(), "{:?}", lane.table);
        for p in &lane.parameters {
            assert!(p.low <= p.value && p.value <= p.high, "{p:?}");
            assert!(
                p.worst_residual < 0.01 && p.samples == 9 * p.points,
                "{p:?}"
            );
        }
    }
    assert_eq!(of("copy.pinned.h2d.call").conditions, "link gen 5 x16");
    assert_eq!(of("ddr_read.threads=1.call").conditions, "");
}

/// N pieces of n bytes: 4 us + 1.5 us a piece + 20 GB/s.
#[test]
fn pieces_have_a_term_of_their_own() {
    let mut raw = Raw::default();
    for pieces in [1u64, 8, 64, 512] {
        for bytes in [4096u64, 32768, 262_144] {
            let point = Point::new(Measurement::Pieces, "batch").going(Direction::Up);
            let point = point.with(Field::Pieces, pieces).with(Field::Bytes, bytes);
            let exact = 4.0 + 1.5 * pieces as f64 + (pieces * bytes) as f64 / 20e3;
            times(&mut raw, &point, exact, 11);
        }
    }
    let fits = Fits::of(&raw);
    near(
        fits.parameter("pieces.batch.h2d.call").unwrap().value,
        4e-6,
        0.03,
    );
    near(
        fits.parameter("pieces.batch.h2d.piece").unwrap().value,
        1.5e-6,
        0.03,
    );
    near(
        fits.parameter("pieces.batch.h2d.bandwidth").unwrap().value,
        20e9,
        0.03,
    );
}

/// Copies that jump sixfold at 28 KiB, as batched ones do: a line misses, the table does not.
#[test]
fn a_table_stands_where_the_law_misses() {
    let mut raw = Raw::default();
    let cliff = |bytes: u64| bytes as f64 / if bytes < 28 << 10 { 6e3 } else { 40e3 };
    for kib in [4u64, 8, 16, 24, 28, 64, 256, 1024] {
        let bytes = kib << 10;
        times(
            &mut raw,
            &copy("pinned", Direction::Up, bytes),
            3.0 + cliff(bytes),
            11,
        );
    }
    let fits = Fits::of(&raw);
    let lane = fits.lanes().next().unwrap();
    let table = lane.table.as_ref().unwrap();
    assert_eq!(table.columns, ["bytes", "us"]);
    assert_eq!(table.rows.len(), 8);
    assert!(lane.note.as_ref().unwrap().contains("misses by up to"));
    let at = |kib: u64| {
        fits.predict(&copy("pinned", Direction::Up, kib << 10), Part::Whole)
            .unwrap()
    };
    near(at(16), 3.0 + cliff(16 << 10), 0.02);
    near(at(12), 3.0 + cliff(12 << 10), 0.05);
    near(at(512), 3.0 + cliff(512 << 10), 0.1);
}

/// Three sizes, one time each: the line meets them, and still nobody knows how they scatter.
#[test]
fn times_without_repetitions_have_an_interval_of_five_percent() {
    let mut raw = Raw::default();
    for mib in [1u64, 64, 512] {
        let bytes = mib << 20;
        let us = 4.0 + bytes as f64 / 25e3;
        raw.push(copy("pinned", Direction::Up, bytes), Part::Whole, us);
    }
    let fits = Fits::of(&raw);
    let rate = fits.parameter("copy.pinned.h2d.bandwidth").unwrap();
    near(rate.value, 25e9, 1e-6);
    near(rate.low, 25e9 * 0.95, 1e-3);
    near(rate.high, 25e9 * 1.05, 1e-3);
}

#[test]
fn a_table_leaves_to_the_law_what_its_grid_has_not() {
    // 4 KiB of KV a token (8 heads of 128, 4 bytes) at 10 GB/s: 0.4096 us; 1,024 tokens of one sequence take twice as
    // long, which no line meets. The batch of four has one context alone.
    let mut raw = Raw::default();
    let point = |batch: u64, context: u64| {
        let point = Point::new(Measurement::HostAttention, "");
        let shape = point.with(Field::Threads, 2).with(Field::Batch, batch);
        let shape = shape.with(Field::Context, context).with(Field::KvHeads, 8);
        shape.with(Field::Group, 8).with(Field::HeadDim, 128)
    };
    for (batch, context, late) in [
        (1, 1024, 2.0),
        (1, 4096, 1.0),
        (1, 16384, 1.0),
        (4, 2048, 1.0),
    ] {
        let us = 0.4096 * (batch * context) as f64 * late;
        times(&mut raw, &point(batch, context), us, 11);
    }
    let fits = Fits::of(&raw);
    let note = fits.lanes().next().unwrap().note.as_ref().unwrap();
    assert!(note.contains("factors on the law"), "{note}");
    // 3 x 3,008 = 9,024 tokens: 3,696 us. Times between the curves would be those of 2,048 tokens, a quarter less.
    near(
        fits.predict(&point(3, 3008), Part::Whole).unwrap(),
        3696.0,
        0.1,
    );
    near(
        fits.predict(&point(1, 1024), Part::Whole).unwrap(),
        838.9,
        0.02,
    );
    near(
        fits.predict(&point(4, 2048), Part::Whole).unwrap(),
        3355.4,
        0.02,
    );
}

#[test]
fn what_was_held_out_is_predicted() {
    let raw = run();
    let held = Fits::of(&raw).holdouts(&raw, &nothing);
    assert_eq!(held.len(), 1);
    assert_eq!(
        (held[0].mode.as_str(), held[0].shape.as_str()),
        ("ddr_read", "bytes=100663296.threads=2")
    );
    assert!(held[0].error.abs() < 0.01, "{held:?}");
    let (median, worst) = judged(&held).unwrap();
    assert_eq!(median.to_bits(), worst.to_bits());
    // A held point never moves the fit, whatever it says.
    let mut other = raw.clone();
    times(&mut other, &read(2, 33).held(), 1e9, 3);
    let lanes = |raw: &Raw| {
        format!(
            "{:?}",
            Fits::of(raw)
                .lanes()
                .map(|l| l.parameters.clone())
                .collect::<Vec<_>>()
        )
    };
    assert_eq!(lanes(&raw), lanes(&other));
    let held = Fits::of(&other).holdouts(&other, &nothing);
    assert!(held[1].error < -0.99, "{held:?}");
    assert!(calibrated(&other).text.contains("not met"));
}

/// Four queries a head between one and eight: 256 MiB of KV in log-log between 32 and 12 GB/s at 2/3 of the way.
#[test]
fn lanes_that_nobody_measured_lie_between_others() {
    let fits = Fits::of(&run());
    let point = attention(2, 4, 8192);
    let [one, eight] = [32e3, 12e3].map(|rate| 30.0 + point.kv_bytes() / rate);
    let want = one * (eight / one).powf(2.0 / 3.0);
    near(fits.predict(&point, Part::Whole).unwrap(), want, 0.01);
    // Beyond what was measured there is nothing.
    assert_eq!(fits.predict(&attention(2, 16, 8192), Part::Whole), None);
    assert_eq!(
        fits.predict(&copy("pageable", Direction::Up, 4096), Part::Whole),
        None
    );
}

/// Modes of the tier loop have no law: what the caller simulates is what is compared.
#[test]
fn the_tier_loop_is_predicted_from_beyond() {
    let mut raw = Raw::default();
    let step = Point::new(Measurement::TierLoop, "stream")
        .with(Field::Context, 4096)
        .held();
    for us in [1000.0, 1010.0, 990.0] {
        raw.push(step.clone(), Part::Step, us);
        raw.push(step.clone(), Part::Exposed, 100.0);
    }
    let fits = Fits::of(&raw);
    let beyond = |_: &Fits, p: &Point, part: Part| {
        (part == Part::Step && p.get(Field::Context) == Some(4096)).then_some(1050.0)
    };
    let held = fits.holdouts(&raw, &beyond);
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].mode, "tier_loop.stream.step");
    near(held[0].error, 0.05, 1e-9);
    assert!(fits.holdouts(&raw, &nothing).is_empty());
}

#[test]
fn the_profile_is_a_machine_that_every_verb_reads() {
    let done = calibrated(&run());
    assert_eq!(done.stem, "build-7-rtx-5080-2026-11-30");
    let h = catalog::hardware_in(&done.text, "x").unwrap();
    near(h.link.h2d.get(), 25e9, 0.02);
    near(h.link.call.get(), 9e-6, 0.02);
    near(h.link.duplex.get(), 0.8, 0.02);
    near(h.host.ddr_read.get(), 40e9, 0.02);
    near(h.host.attention_flops.get(), 96e9, 0.02);
    near(h.host.memory.get(), 68_719_476_736.0, 1e-12);
    near(h.host.cores.get(), 2.0, 1e-12);
    for source in [
        h.link.h2d.source,
        h.host.ddr_read.source,
        h.host.attention_flops.source,
    ] {
        assert_eq!(source, Source::Measured);
    }
    assert!(
        h.link
            .h2d
            .reference
            .contains("copy.pinned.h2d.bandwidth, 5 points, 45 samples")
    );
    // What was not measured keeps its own source and its kernels.
    let base = catalog::hardware("rtx-5080").unwrap();
    assert_eq!(h.gpu, base.gpu);
    assert_eq!(h.host.channels, base.host.channels);
    assert_eq!(h.calibration.as_ref().unwrap().holdouts.len(), 1);
    assert_eq!(h.calibrated, None, "its kernels were not measured");
    // Written again, it is the same text but for what wrote it.
    let again = text::hardware(&h, false).unwrap();
    assert!(done.text.ends_with(&again), "{again}");
}

#[test]
fn a_raw_file_gives_the_bytes_of_its_run() {
    let raw = run();
    let again = read_raw("x", raw.text().as_bytes()).unwrap();
    assert_eq!(calibrated(&raw).text, calibrated(&again).text);
}

/// A published rate alone: the link's bandwidth, 5 % either way, and no latency.
#[test]
fn one_figure_is_a_rate_and_no_latency() {
    let mut raw = Raw::default();
    let bytes = 512u64 << 20;
    raw.push(
        copy("pinned", Direction::Up, bytes),
        Part::Whole,
        bytes as f64 / 55e3,
    );
    let done = calibrated(&raw);
    let base = catalog::hardware("rtx-5080").unwrap();
    near(done.hardware.link.h2d.get(), 55e9, 1e-9);
    near(done.hardware.link.h2d.low, 55e9 * 0.95, 1e-9);
    assert_eq!(done.hardware.link.call, base.link.call);
    assert_eq!(done.hardware.host, base.host);
}

#[test]
fn what_makes_no_machine_is_refused() {
    let mut raw = Raw::default();
    raw.push(read(1, 64), Part::Whole, 1e-5);
    let base = catalog::hardware("rtx-5080").unwrap();
    let e = Calibrated::of(&raw, base, false, &nothing).unwrap_err();
    assert_eq!(e.exit_code(), 3);
    assert!(e.message.contains("ddr_read"), "{e}");
}

#[test]
fn names_of_files_hold_nothing_that_leads_elsewhere() {
    let mut raw = Raw::default();
    assert_eq!(stem(&raw), "host-card-undated");
    raw.head.insert("host".into(), "../../etc/Pass wd".into());
    raw.head.insert("gpu".into(), "NVIDIA \u{e9}".into());
    raw.head.insert("date".into(), "2026-11-30".into());
    assert_eq!(stem(&raw), "etc-pass-wd-nvidia-2026-11-30");
}

/// Every machine of the catalog is written as it was read, laws of kernels included.
#[test]
fn machines_are_written_as_they_are_read() {
    for id in catalog::hardware_ids() {
        let h: Hardware = catalog::hardware(id).unwrap();
        let written = text::hardware(&h, true).unwrap();
        let again = catalog::hardware_in(&written, id).unwrap();
        assert_eq!(
            again.homes.keys().collect::<Vec<_>>(),
            h.homes.keys().collect::<Vec<_>>()
        );
        near(again.link.h2d.get(), h.link.h2d.get(), 1e-5);
        near(again.gpu.memory.get(), h.gpu.memory.get(), 1e-12);
        let share = |h: &Hardware| h.gpu.kernels.linear.share.get();
        near(share(&again), share(&h), 1e-3);
        assert_eq!(again.price.is_some(), h.price.is_some());
        assert_eq!(again.link.coherent, h.link.coherent);
        assert_eq!(text::hardware(&again, true).unwrap(), written, "{id}");
    }
}
