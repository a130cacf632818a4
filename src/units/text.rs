//! Quantities as people write them: `141GB`, `32 GiB`, `55GB/s`, `20ms`, `16k` tokens, `0.5`, `50%`.
//!
//! A bare number of bytes is refused with a hint: guessing between GB and GiB is how planners are 7 % off.

use super::{Bytes, Ps};

/// Splits `12.5 GiB` into the number and the unit; refuses NaN, infinities and negatives.
fn split(text: &str, what: &str) -> Result<(f64, String), String> {
    let text = text.trim();
    // An `e` belongs to the number only where digits follow it.
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent = matches!(bytes[end], b'e' | b'E')
            && end > 0
            && bytes.get(end + 1).is_some_and(|c| {
                c.is_ascii_digit()
                    || matches!(c, b'+' | b'-')
                        && bytes.get(end + 2).is_some_and(u8::is_ascii_digit)
            });
        let sign_in_exponent = matches!(bytes[end], b'+' | b'-')
            && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if bytes[end].is_ascii_digit()
            || matches!(bytes[end], b'.' | b'_')
            || exponent
            || sign_in_exponent
        {
            end += 1;
        } else {
            break;
        }
    }
    let number: f64 = text[..end]
        .replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` is not {what}"))?;
    if !number.is_finite() || number < 0.0 {
        return Err(format!(
            "`{text}` is not {what}: it must be finite and not negative"
        ));
    }
    Ok((number, text[end..].trim().to_string()))
}

fn prefix(unit: &str) -> Option<f64> {
    Some(match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => (1u64 << 20) as f64,
        "Gi" => (1u64 << 30) as f64,
        "Ti" => (1u64 << 40) as f64,
        _ => return None,
    })
}

/// Bytes in hex, two digits each.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
    }
    text
}

/// Parses a capacity: `141GB`, `32 GiB`, `512 B`.
///
/// # Errors
/// A sentence naming the text: no unit, an unknown unit, not a number, over 2^63.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    let (number, unit) = split(text, "a size")?;
    let scale = unit.strip_suffix('B').and_then(prefix).ok_or_else(|| {
        if unit.is_empty() {
            format!(
                "`{text}` has no unit: write `{text}GB` (10^9 bytes) or `{text}GiB` (2^30 bytes)"
            )
        } else {
            format!("`{unit}` is not a unit of size: use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")
        }
    })?;
    let value = number * scale;
    if value > 9.2e18 {
        Err(format!("`{text}` is more than any machine holds"))
    } else {
        Ok(Bytes::ceil(value))
    }
}

/// Parses a rate in bytes per second: `55GB/s`, `4.8 TB/s`. `inf` is an infinitely fast link.
///
/// # Errors
/// As [`bytes`].
pub fn bytes_per_second(text: &str) -> Result<f64, String> {
    if text.trim() == "inf" {
        return Ok(f64::INFINITY);
    }
    let (number, unit) = split(text, "a bandwidth")?;
    let scale = unit.strip_suffix("B/s").and_then(prefix).ok_or_else(|| {
        format!("`{text}` needs a unit of bandwidth: write it like `55GB/s` (bytes, not bits)")
    })?;
    finite(number * scale, text, "a bandwidth")
}

/// Refuses what overflows: a number is finite, its product with the unit need not be.
fn finite(value: f64, text: &str, what: &str) -> Result<f64, String> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(format!("`{text}` is not {what}: it is too large"))
    }
}

/// Parses a rate in floating-point operations per second: `989 TFLOP/s`.
///
/// # Errors
/// As [`bytes`].
pub fn flops(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text, "a rate of operations")?;
    let scale = unit
        .strip_suffix("FLOP/s")
        .or_else(|| unit.strip_suffix("OP/s"))
        .and_then(prefix)
        .ok_or_else(|| format!("`{text}` needs a unit: write it like `989 TFLOP/s`"))?;
    finite(number * scale, text, "a rate of operations")
}

/// Parses a duration into seconds: `20ms`, `3.5 us`, `1.2s`.
///
/// # Errors
/// As [`bytes`].
pub fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text, "a time")?;
    let scale = match unit.as_str() {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        "" => {
            return Err(format!(
                "`{text}` has no unit: write `{text}ms` or `{text}us`"
            ));
        }
        other => {
            return Err(format!(
                "`{other}` is not a unit of time: use s, ms, us or ns"
            ));
        }
    };
    Ok(number * scale)
}

/// Parses a number of tokens: `4096`, `16k` (16,000), `16Ki` (16,384).
///
/// # Errors
/// As [`bytes`]; also over 2^31 and fractions.
#[allow(clippy::cast_possible_truncation)] // checked against 2^31 above the cast
pub fn tokens(text: &str) -> Result<u32, String> {
    let (number, unit) = split(text, "a number of tokens")?;
    let scale = prefix(&unit).ok_or_else(|| {
        format!(
            "`{unit}` is not a unit of tokens: write `16000`, `16k` (16,000) or `16Ki` (16,384)"
        )
    })?;
    let value = number * scale;
    if value.fract() > 0.0 {
        return Err(format!("`{text}` is not a whole number of tokens"));
    }
    if value > f64::from(i32::MAX) {
        return Err(format!(
            "`{text}` tokens are more than any model's context (limit 2^31)"
        ));
    }
    Ok(value as u32)
}

/// Parses a share between 0 and 1: `0.95`, `95%`.
///
/// # Errors
/// Not a number, or outside 0..=1.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text, "a share")?;
    let value = match unit.as_str() {
        "" => number,
        "%" => number / 100.0,
        other => {
            return Err(format!(
                "`{other}` is not a unit of a share: write `0.95` or `95%`"
            ));
        }
    };
    if value <= 1.0 {
        Ok(value)
    } else {
        Err(format!(
            "`{text}` is more than the whole: a share lies between 0 and 1"
        ))
    }
}

/// Digits that people are shown where nothing asks for more.
const DIGITS: u8 = 3;

/// Four significant digits at most, with a thin-space-free thousands separator: `1,024`, `271`, `27.1`, `0.033`.
pub fn significant(value: f64) -> String {
    to_digits(value, DIGITS)
}

/// So many significant digits, the whole part always in full.
fn to_digits(value: f64, digits: u8) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !value.is_finite() {
        return "never".into();
    }
    let magnitude = value.abs().log10().floor();
    #[allow(clippy::cast_possible_truncation)] // log10 of a finite f64 lies in -324..=308
    let decimals = (f64::from(digits) - 1.0 - magnitude).clamp(0.0, 9.0) as usize;
    let fixed = format!("{value:.decimals$}");
    let (whole, rest) = fixed
        .split_once('.')
        .map_or((fixed.as_str(), None), |(w, r)| (w, Some(r)));
    let grouped = group(whole);
    match rest {
        Some(r) => format!("{grouped}.{r}"),
        None => grouped,
    }
}

/// Digits in groups of three: `131072` becomes `131,072`.
pub fn group(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |d| ("-", d));
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    format!("{sign}{out}")
}

/// Two quantities with as many digits as tell them apart, if any do.
fn apart(shown: impl Fn(u8) -> (String, String)) -> (String, String) {
    let told = (DIGITS..=15).map(&shown).find(|(a, b)| a != b);
    told.unwrap_or_else(|| shown(DIGITS))
}

/// Two capacities as [`show_bytes`], with more digits where they would read alike: `90.84 GiB` and `90.83 GiB`.
pub fn show_bytes_apart(a: Bytes, b: Bytes) -> (String, String) {
    apart(|digits| (bytes_to(a, digits), bytes_to(b, digits)))
}

/// Two durations as [`show_seconds`], with more digits where they would read alike.
pub fn show_seconds_apart(a: f64, b: f64) -> (String, String) {
    apart(|digits| (seconds_to(a, digits), seconds_to(b, digits)))
}

/// A capacity for people: `67.7 GiB`, `512 MiB`.
pub fn show_bytes(bytes: Bytes) -> String {
    bytes_to(bytes, DIGITS)
}

fn bytes_to(bytes: Bytes, digits: u8) -> String {
    let b = bytes.as_f64();
    let (scale, unit) = match b {
        b if b >= (1u64 << 30) as f64 => ((1u64 << 30) as f64, "GiB"),
        b if b >= (1u64 << 20) as f64 => ((1u64 << 20) as f64, "MiB"),
        b if b >= 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "B"),
    };
    format!("{} {unit}", to_digits(b / scale, digits))
}

/// A bandwidth for people, in GB/s as vendors and nvbandwidth write it.
pub fn show_rate(bytes_per_second: f64) -> String {
    if bytes_per_second.is_infinite() {
        return "infinite".into();
    }
    if bytes_per_second >= 1e12 {
        format!("{} TB/s", significant(bytes_per_second / 1e12))
    } else {
        format!("{} GB/s", significant(bytes_per_second / 1e9))
    }
}

/// A duration for people: `27.1 ms`, `3.5 us`, `48.2 s`.
pub fn show_seconds(seconds: f64) -> String {
    seconds_to(seconds, DIGITS)
}

fn seconds_to(seconds: f64, digits: u8) -> String {
    let (scale, unit) = match seconds.abs() {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e-3, "ms"),
        s if s >= 1e-6 => (1e-6, "us"),
        _ => (1e-9, "ns"),
    };
    if seconds >= Ps::NEVER.secs() {
        "never".into()
    } else {
        format!("{} {unit}", to_digits(seconds / scale, digits))
    }
}

/// The text without what would command a terminal: control characters, and those that turn the direction of writing, become
/// U+FFFD, tabs a space, line breaks stay.
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => c,
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}
