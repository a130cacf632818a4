//! A fitted run as a machine profile: measured values over those of the catalog's card.
//!
//! What was measured replaces the card's value, with source `measured`, the interval of the fit and a reference that names
//! the parameter; what was not keeps its own source, so that a profile says value by value what it rests on. Laws of kernels
//! stay the catalog's: `calibrate` times kernels of its own, and an engine runs others; their fit is told in the section
//! `[calibration]`. A host's attention rate is that of its widest group, where arithmetic binds if it binds anywhere.

use super::fit::{Fits, judged};
use super::probe::{Field, Measurement};
use super::raw::{Raw, tidy};
use crate::error::{Error, Result};
use crate::hardware::calibration::{Calibration, FittedParameter, Holdout};
use crate::hardware::{
    Bandwidth, Capacity, Count, Duration, FlopRate, Hardware, Quantity, Share, Source, Value, text,
};

/// First lines of a profile.
const HEAD: &str =
    "# Written by `kvplan calibrate`; see calibration/METHOD.md. Use it with --hardware PATH.\n";

/// Bytes, seconds and the like of a parameter.
fn value<Q: Quantity>(p: &FittedParameter) -> Value<Q> {
    let (points, samples, miss) = (p.points, p.samples, 100.0 * p.worst_residual);
    let mut told = format!(
        "calibrate: {}, {points} points, {samples} samples, worst miss {miss:.1} %",
        p.name
    );
    if !p.conditions.is_empty() {
        told = told + "; " + &p.conditions;
    }
    Value::new(p.value, p.low, p.high, Source::Measured, told)
}

/// A measured share of one rate in another, at most 1.
fn share(part: &FittedParameter, whole: &FittedParameter, told: &str) -> Value<Share> {
    let of = |a: f64, b: f64| (a / b).clamp(0.01, 1.0);
    let reference = format!("calibrate: {told} of {} and {}", part.name, whole.name);
    Value::new(
        of(part.value, whole.value),
        of(part.low, whole.high),
        of(part.high, whole.low),
        Source::Measured,
        reference,
    )
}

/// A fact that the machine states.
fn exact<Q: Quantity>(value: f64, told: &str) -> Value<Q> {
    Value::new(value, value, value, Source::Measured, told)
}

/// The name of a run's files without their ending: host, card, date.
pub fn stem(raw: &Raw) -> String {
    let card = Some(raw.of("gpu_id")).filter(|g| !g.is_empty());
    let parts = [
        (raw.of("host"), "host"),
        (card.unwrap_or_else(|| raw.of("gpu")), "card"),
        (raw.of("date"), "undated"),
    ];
    let plain = |(text, or): (&str, &str)| {
        let letter = |c: char| {
            let c = c.to_ascii_lowercase();
            if c.is_ascii_alphanumeric() { c } else { '-' }
        };
        let name: String = text.chars().map(letter).take(40).collect();
        let name = name.trim_matches('-').to_string();
        if name.is_empty() { or.into() } else { name }
    };
    parts.map(plain).join("-")
}

/// A profile: `base` under what `raw` measured.
pub fn profile(base: Hardware, raw: &Raw, fits: &Fits, holdouts: Vec<Holdout>) -> Hardware {
    let mut h = base;
    h.aliases.clear();
    let mut notes: Vec<String> = fits.lanes().filter_map(|l| l.note.clone()).collect();
    host(&mut h, raw, fits, &mut notes);
    link(&mut h, fits);
    // Less than a gigabyte is no card that serves a model.
    let memory = raw.of("gpu.memory_bytes").parse::<f64>().ok();
    if let Some(memory) = memory.filter(|n| *n >= 1e9) {
        h.gpu.memory = exact::<Capacity>(memory, "calibrate: as the driver states it");
    }
    let device = fits.parameter("copy.pinned.h2d.bandwidth");
    let kernels = raw
        .points()
        .iter()
        .any(|p| p.measurement == Measurement::Attention);
    h.calibrated = device.filter(|_| kernels).map(|_| {
        let told = [raw.of("date"), raw.of("host"), raw.of("gpu")];
        tidy(&told.join(", "))
    });
    if device.is_none() {
        let card = &h.id;
        notes.push(format!(
            "the GPU and its link were not measured: they are the catalog's {card}"
        ));
    } else if !kernels {
        let card = &h.id;
        notes.push(format!(
            "the GPU itself was not measured: its memory and kernels are the catalog's {card}"
        ));
    }
    if fits.lanes().all(|l| l.parameters.is_empty()) {
        notes.push("nothing was fitted: no point has a law and is not held out".into());
    }
    notes.extend(noted(raw));
    notes.extend(verdict(&holdouts));
    h.calibration = Some(Calibration {
        raw: format!("raw/{}.csv", stem(raw)),
        conditions: raw.head.clone(),
        notes,
        parameters: fits
            .lanes()
            .flat_map(|l| l.parameters.clone())
            .map(rounded)
            .collect(),
        tables: fits.lanes().filter_map(|l| l.table.clone()).collect(),
        holdouts: holdouts.into_iter().map(rounded_holdout).collect(),
    });
    h
}

/// What was noticed while it ran: values of the head under `note.`.
fn noted(raw: &Raw) -> impl Iterator<Item = String> {
    let notes = raw.head.iter().filter(|(key, _)| key.starts_with("note."));
    notes.map(|(_, value)| value.clone())
}

/// The hold-out against its bars; none where nothing was held out.
pub fn verdict(holdouts: &[Holdout]) -> Option<String> {
    let (median, worst) = judged(holdouts)?;
    let met = median <= Holdout::MEDIAN && worst <= Holdout::WORST;
    let points = match holdouts.len() {
        1 => "1 point was".to_string(),
        n => format!("{n} points were"),
    };
    Some(format!(
        "{points} predicted and not fitted: median error {:.1} % (bar {:.0} %), worst {:.1} % (bar {:.0} %){}",
        100.0 * median,
        100.0 * Holdout::MEDIAN,
        100.0 * worst,
        100.0 * Holdout::WORST,
        if met { "" } else { ": not met" }
    ))
}

/// A profile's file.
///
/// # Errors
/// Internal: it cannot be written (it always can).
pub fn file(h: &Hardware, kernels: bool) -> Result<String> {
    let body = text::hardware(h, kernels);
    let body = body.map_err(|e| Error::internal(format!("the profile cannot be written: {e}")))?;
    Ok(HEAD.to_string() + &body)
}

/// Six digits are more than any measurement has.
fn digits(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

fn rounded(p: FittedParameter) -> FittedParameter {
    FittedParameter {
        value: digits(p.value),
        low: digits(p.low),
        high: digits(p.high),
        worst_residual: digits(p.worst_residual),
        ..p
    }
}

fn rounded_holdout(h: Holdout) -> Holdout {
    Holdout {
        predicted_us: digits(h.predicted_us),
        measured_us: digits(h.measured_us),
        error: digits(h.error),
        ..h
    }
}

/// The greatest parameter whose name begins and ends so.
fn greatest<'a>(fits: &'a Fits, begin: &str, end: &str) -> Option<&'a FittedParameter> {
    let all = fits.lanes().flat_map(|l| &l.parameters);
    let fits = all.filter(|p| p.name.starts_with(begin) && p.name.ends_with(end));
    fits.max_by(|a, b| a.value.total_cmp(&b.value))
}

fn host(h: &mut Hardware, raw: &Raw, fits: &Fits, notes: &mut Vec<String>) {
    let number = |key: &str| raw.of(key).parse::<f64>().ok().filter(|n| *n >= 1.0);
    let read = greatest(fits, "ddr_read.", ".bandwidth");
    if let Some(read) = read {
        h.host.ddr_read = value::<Bandwidth>(read);
    }
    if let Some(memory) = number("host.memory_bytes") {
        h.host.memory = exact::<Capacity>(memory, "calibrate: as the host states it");
        let told = "half of the memory; no limit was measured";
        let half = [0.5, 0.1, 0.95].map(|s| (memory * s).floor());
        h.host.pinned_limit = Value::new(half[0], half[1], half[2], Source::Assumed, told);
    }
    if let Some(threads) = number("host.threads") {
        h.host.cores = exact::<Count>(threads, "calibrate: threads that the process may use");
        let processor = raw.of("host.processor");
        if !processor.is_empty() {
            h.host.name = format!("{processor}, {threads} threads");
        }
    }
    attention(h, fits, read, notes);
}

/// The host's attention, as operations a second of its widest group.
fn attention(
    h: &mut Hardware,
    fits: &Fits,
    read: Option<&FittedParameter>,
    notes: &mut Vec<String>,
) {
    let lanes = || {
        fits.lanes()
            .filter(|l| l.lane.point.measurement == Measurement::HostAttention)
    };
    let group = |l: &super::fit::Fitted| l.lane.point.get(Field::Group).unwrap_or(1);
    // A key and a value of 2 bytes a number are 4 operations a query: as many operations a byte as queries.
    let rate = |l: &super::fit::Fitted| {
        let p = l
            .parameters
            .iter()
            .find(|p| p.name.ends_with(".bandwidth"))?;
        Some((p.clone(), group(l) as f64))
    };
    let of = |wanted: u64| {
        let rates = lanes().filter(|l| group(l) == wanted).filter_map(rate);
        rates.max_by(|a, b| a.0.value.total_cmp(&b.0.value))
    };
    let Some(widest) = lanes().map(group).max() else {
        return;
    };
    let Some((p, queries)) = of(widest) else {
        return;
    };
    let told = format!(
        "{}; {queries} operations a byte",
        value::<Bandwidth>(&p).reference
    );
    h.host.attention_flops = Value::<FlopRate>::new(
        p.value * queries,
        p.low * queries,
        p.high * queries,
        Source::Measured,
        told,
    );
    let Some(read) = read else { return };
    if p.value > 0.9 * read.value {
        notes.push(format!("attention of {queries} queries a KV head is still bound by memory: its rate is a lower bound"));
    }
    if let Some((one, _)) = of(1) {
        let share = 100.0 * one.value / read.value;
        notes.push(format!(
            "attention of one query a KV head streams at {share:.0} % of the read bandwidth"
        ));
    }
}

fn link(h: &mut Hardware, fits: &Fits) {
    let of = |name: &str| fits.parameter(name);
    let (up, down) = (
        of("copy.pinned.h2d.bandwidth"),
        of("copy.pinned.d2h.bandwidth"),
    );
    let replace = |to: &mut Value<Bandwidth>, p: Option<&FittedParameter>| {
        if let Some(p) = p {
            *to = value(p);
        }
    };
    replace(&mut h.link.h2d, up);
    replace(&mut h.link.d2h, down);
    if let Some(call) = of("copy.pinned.h2d.call") {
        h.link.call = value::<Duration>(call);
    }
    let piece = of("pieces.batch.h2d.piece").or_else(|| of("pieces.loop.h2d.piece"));
    if let Some(piece) = piece {
        h.link.descriptor = value::<Duration>(piece);
    }
    // A piece that costs nothing beside its bytes is no figure to plan with.
    if let Some(piece) = of("pieces.batch-large.h2d.piece").filter(|p| p.value > 0.0) {
        h.link.batched_piece = Some(value::<Duration>(piece));
    }
    if let Some(piece) = of("pieces.zero-copy.h2d.piece") {
        h.link.gather_piece = Some(value::<Duration>(piece));
    }
    let both = [
        (up, "copy.duplex.h2d.bandwidth"),
        (down, "copy.duplex.d2h.bandwidth"),
    ];
    let shares = both.map(|(lone, name)| Some(share(of(name)?, lone?, "the share")));
    if let Some(duplex) = mean(&shares.into_iter().flatten().collect::<Vec<_>>()) {
        h.link.duplex = duplex;
    }
    let Some(up) = up else { return };
    if let Some(gather) = of("pieces.zero-copy.h2d.bandwidth") {
        h.link.gather_share = Some(share(gather, up, "the share"));
    }
    if let Some(kernel) = greatest(fits, "zero_copy.read.h2d", ".bandwidth") {
        h.link.in_place = Some(share(kernel, up, "the share"));
    }
    if let Some(pageable) = of("copy.pageable.h2d.bandwidth").filter(|p| p.value < up.value) {
        // Both rates add in series: 1 / pageable = 1 / link + 1 / staging.
        let staging = |slow: f64| 1.0 / (1.0 / slow - 1.0 / up.value).max(1e-15);
        let told = value::<Bandwidth>(pageable).reference + "; beside the link in series";
        let ends = [pageable.value, pageable.low, pageable.high].map(staging);
        h.link.staging = Some(Value::new(
            ends[0],
            ends[1],
            ends[2],
            Source::Measured,
            told,
        ));
    }
}

/// The mean of shares, with the range of their intervals.
fn mean(shares: &[Value<Share>]) -> Option<Value<Share>> {
    let first = shares.first()?;
    let values = shares.iter().map(|s| s.value);
    let low = shares.iter().map(|s| s.low).fold(1.0, f64::min);
    let high = shares.iter().map(|s| s.high).fold(0.0, f64::max);
    let mean = crate::stats::mean(values);
    Some(Value::new(
        mean,
        low.min(mean),
        high.max(mean),
        Source::Measured,
        first.reference.clone(),
    ))
}
