//! Figures as cells: GiB, GB/s, tokens/s, shares; what does not exist is a dash, never 0.

use crate::hardware::Source;
use crate::metrics::Assumption;
use crate::units::Bytes;
use crate::units::text::{group, show_bytes, show_rate, show_seconds, significant};

/// What stands where there is no figure.
pub const NONE: &str = "-";

/// Gibibytes without the unit, for a column that names it.
pub fn gib(bytes: u64) -> String {
    significant(Bytes(bytes).gib())
}

/// Signed gibibytes without the unit.
pub fn signed_gib(bytes: i64) -> String {
    let size = gib(bytes.unsigned_abs());
    if bytes < 0 { format!("-{size}") } else { size }
}

/// A capacity with its unit; TiB from 10,000 GiB on.
pub fn size(bytes: u64) -> String {
    let gib = Bytes(bytes).gib();
    if gib >= 10_000.0 {
        return format!("{} TiB", significant(gib / 1024.0));
    }
    show_bytes(Bytes(bytes))
}

/// A count in groups of three.
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

/// Three digits, or a dash.
pub fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.into(), significant)
}

/// A duration with its unit, or a dash.
pub fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| NONE.into(), show_seconds)
}

/// A bandwidth with its unit, or a dash.
pub fn rate(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(|| NONE.into(), show_rate)
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// A share in percent, or a dash.
pub fn maybe_percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.into(), percent)
}

/// A value in the unit of its quantity.
pub fn value(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => show_bytes(Bytes::ceil(value)),
        "bytes_per_s" => show_rate(value),
        "flop_per_s" => format!("{} TFLOP/s", significant(value / 1e12)),
        "s" => show_seconds(value),
        "share" => percent(value),
        "usd_per_hour" => format!("{value:.2} USD/h"),
        "count" | "" => significant(value),
        other => format!("{} {other}", significant(value)),
    }
}

/// `50 GB/s .. 57 GB/s`, or a dash for a plain setting.
fn interval(a: &Assumption) -> String {
    if (a.high - a.low).abs() <= f64::EPSILON * a.value.abs() {
        return NONE.into();
    }
    format!("{} .. {}", value(a.low, &a.unit), value(a.high, &a.unit))
}

/// An assumption in full: value, interval, source, reference.
pub fn in_full(a: &Assumption) -> String {
    let range = match interval(a) {
        none if none == NONE => String::new(),
        range => format!(" ({range})"),
    };
    format!(
        "{}{range}, {}: {}",
        value(a.value, &a.unit),
        a.source.word(),
        a.reference
    )
}

/// The letter of a source in a dense table.
pub fn letter(source: Source) -> &'static str {
    match source {
        Source::Measured => "m",
        Source::Datasheet => "d",
        Source::Published => "p",
        Source::Assumed => "a",
    }
}

/// `8 x gh200`, or just the name of a single card.
pub fn card(hardware: &str, gpus: u32) -> String {
    if gpus == 1 {
        hardware.into()
    } else {
        format!("{gpus} x {hardware}")
    }
}

/// A list of parameters that may be broken over lines: a blank after each comma.
pub fn spaced(parameters: &str) -> String {
    parameters.replace(", ", ",").replace(',', ", ")
}
