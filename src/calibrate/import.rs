//! Measurements of other tools as raw files: nvbandwidth's JSON, and a CSV of direction, bytes and GB/s.
//!
//! nvbandwidth (`nvbandwidth -j`) prints a matrix a test: rows are CPUs or GPUs, columns GPUs, cells GB/s as text or `N/A`.
//! Its copies are of 512 MiB unless told otherwise (`-b`), which the JSON does not say, so that they tell a rate and no
//! latency. Of several GPUs the first is taken, which is said; its cells, one a CPU, are samples of one point. Its bidirectional
//! tests report the one direction they name. Taken: copies by copy engine and by kernel between host and device. Left out,
//! by name: tests between devices, of latency, and what did not pass. A raw file of ours stays as it is.

use std::io::BufRead;

use serde::Deserialize;

use super::probe::{Direction, Field, Measurement, Part, Point};
use super::raw::{self, Raw, tidy};
use crate::error::{Error, Result};

/// Longest file of another tool \[bytes\].
const LONGEST: u64 = 64 << 20;

/// Bytes of nvbandwidth's copies where nobody says.
const COPY: u64 = 512 << 20;

/// Most rows of a CSV.
const MOST: usize = 100_000;

/// Fastest rate that is believed \[GB/s\].
const FASTEST: f64 = 1e5;

/// What was read, and what was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The measurements.
    pub raw: Raw,
    /// Whether it was a raw file of ours already.
    pub own: bool,
    /// Sentences about what was left out.
    pub notes: Vec<String>,
}

/// Reads any of the three, known by how it begins.
///
/// # Errors
/// Data: none of them, or damaged, with the place. Usage: it cannot be read.
pub fn read(name: &str, mut input: impl BufRead) -> Result<Read> {
    let cannot = |e: std::io::Error| Error::usage(format!("{name}: cannot be read: {e}"));
    let start = input.fill_buf().map_err(cannot)?;
    if raw::is_raw(start) {
        let raw = raw::read(name, input)?;
        return Ok(Read {
            raw,
            own: true,
            notes: Vec::new(),
        });
    }
    let mut text = String::new();
    let mut part = std::io::Read::take(input, LONGEST + 1);
    std::io::Read::read_to_string(&mut part, &mut text).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => Error::data(format!("{name}: not text")),
        _ => cannot(e),
    })?;
    if text.len() as u64 > LONGEST {
        return Err(Error::data(format!("{name}: longer than any such file")));
    }
    let (raw, notes) = if text.trim_start().starts_with('{') {
        nvbandwidth(name, &text)?
    } else {
        rates(name, &text)?
    };
    Ok(Read {
        raw,
        own: false,
        notes,
    })
}

#[derive(Deserialize)]
struct File {
    nvbandwidth: Report,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    testcases: Vec<Test>,
    #[serde(default, rename = "Driver Version", alias = "driver_version")]
    driver: Option<serde_json::Value>,
    #[serde(default, rename = "GPU Device list", alias = "gpu_device_list")]
    devices: Option<serde_json::Value>,
    #[serde(default, alias = "git_version")]
    git: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Test {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    bandwidth_matrix: Option<Vec<Vec<serde_json::Value>>>,
    #[serde(default)]
    sum: Option<serde_json::Value>,
}

/// Tests that are taken: name, mode, direction; a kernel's are `zero_copy`.
const TESTS: [(&str, Measurement, &str, Direction); 8] = {
    use Direction::{Down, Up};
    use Measurement::{Copy, ZeroCopy};
    [
        ("host_to_device_memcpy_ce", Copy, "pinned", Up),
        ("device_to_host_memcpy_ce", Copy, "pinned", Down),
        ("host_to_device_bidirectional_memcpy_ce", Copy, "duplex", Up),
        (
            "device_to_host_bidirectional_memcpy_ce",
            Copy,
            "duplex",
            Down,
        ),
        ("host_to_device_memcpy_sm", ZeroCopy, "read", Up),
        ("device_to_host_memcpy_sm", ZeroCopy, "write", Down),
        (
            "host_to_device_bidirectional_memcpy_sm",
            ZeroCopy,
            "duplex",
            Up,
        ),
        (
            "device_to_host_bidirectional_memcpy_sm",
            ZeroCopy,
            "duplex",
            Down,
        ),
    ]
};

fn nvbandwidth(name: &str, text: &str) -> Result<(Raw, Vec<String>)> {
    let file: File = serde_json::from_str(text).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        Error::data(format!(
            "{name}: line {line}, column {column}: no report of nvbandwidth: {e}"
        ))
        .help("make one with `nvbandwidth -j > report.json`")
    })?;
    let report = file.nvbandwidth;
    let mut raw = Raw::default();
    let mut left = Vec::new();
    for test in &report.testcases {
        let shown: String = tidy(&test.name).chars().take(80).collect();
        let passed = test
            .status
            .as_deref()
            .is_none_or(|s| s.eq_ignore_ascii_case("passed"));
        let known = TESTS.iter().find(|t| t.0 == test.name).filter(|_| passed);
        let rates = known.map_or(Vec::new(), |_| cells(test));
        let Some((_, measurement, mode, way)) = known.filter(|_| !rates.is_empty()) else {
            left.push(shown);
            continue;
        };
        let point = Point::new(*measurement, mode)
            .going(*way)
            .with(Field::Bytes, COPY);
        for rate in rates {
            raw.push(point.clone(), Part::Whole, COPY as f64 / (rate * 1e3));
        }
    }
    if raw.series().is_empty() {
        return Err(
            Error::data(format!("{name}: no copy between host and device in it"))
                .help("run the tests host_to_device_memcpy_ce and device_to_host_memcpy_ce"),
        );
    }
    let source = format!(
        "nvbandwidth {}",
        report.git.as_ref().map_or(String::new(), plain)
    );
    raw.head.insert("source".into(), tidy(&source));
    let told = [("driver", &report.driver), ("gpu", &report.devices)];
    for (key, value) in told {
        let text = value.as_ref().map_or(String::new(), plain);
        if !text.is_empty() {
            raw.head.insert(key.into(), text);
        }
    }
    let mut notes = Vec::new();
    if !left.is_empty() {
        let left = left.join(", ");
        notes.push(format!("left out of nvbandwidth's tests: {left}"));
    }
    let gpus = report.testcases.iter().map(gpus).max().unwrap_or(0);
    if gpus > 1 {
        notes.push(format!(
            "of {gpus} GPUs the first is taken: run `CUDA_VISIBLE_DEVICES=N nvbandwidth -j` for another"
        ));
    }
    Ok((raw, notes))
}

/// GPUs of a test.
fn gpus(test: &Test) -> usize {
    let rows = test.bandwidth_matrix.iter().flatten();
    rows.map(Vec::len).max().unwrap_or(0)
}

/// Rates of a test on the first GPU that has one, a CPU each; its sum where it has no matrix.
fn cells(test: &Test) -> Vec<f64> {
    let matrix = test.bandwidth_matrix.iter().flatten();
    let rates: Vec<f64> = matrix.filter_map(|row| row.iter().find_map(rate)).collect();
    if rates.is_empty() {
        return test.sum.as_ref().and_then(rate).into_iter().collect();
    }
    rates
}

/// A number, as one or as text; none of `N/A`, null and what cannot be.
fn rate(value: &serde_json::Value) -> Option<f64> {
    let number = match value {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|r: &f64| *r > 1e-6 && *r < FASTEST)
}

/// Text of a value, the first of a list.
fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(all) => all.first().map_or(String::new(), plain),
        serde_json::Value::String(text) => tidy(text),
        serde_json::Value::Number(n) => n.to_string(),
        _ => String::new(),
    }
}

/// Rows `direction,bytes,GB/s`, with or without a head.
fn rates(name: &str, text: &str) -> Result<(Raw, Vec<String>)> {
    let mut raw = Raw::default();
    let mut rows = 0;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || rows == 0 && is_head(line) {
            continue;
        }
        rows += 1;
        if rows > MOST {
            return Err(Error::data(format!("{name}: more than {MOST} rows")));
        }
        let (point, us) = row(line).map_err(|(column, why)| {
            Error::data(format!("{name}: line {}, column {column}: {why}", i + 1))
                .help("rows are `direction,bytes,GB/s`: `h2d,1048576,22.5`")
        })?;
        raw.push(point, Part::Whole, us);
    }
    if rows == 0 {
        return Err(Error::data(format!("{name}: nothing measured in it")).help(
            "known are a raw file of kvplan, nvbandwidth's JSON, and rows `direction,bytes,GB/s`",
        ));
    }
    raw.head
        .insert("source".into(), "rates by direction and bytes".into());
    Ok((raw, Vec::new()))
}

fn is_head(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("direction")
}

fn row(line: &str) -> std::result::Result<(Point, f64), (usize, String)> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [way, bytes, rate] = cells.as_slice() else {
        return Err((cells.len(), format!("{} cells, not 3", cells.len())));
    };
    let shown = |text: &str| text.chars().take(40).collect::<String>();
    let way = match way.to_ascii_lowercase().as_str() {
        "h2d" | "htod" | "host_to_device" | "up" => Direction::Up,
        "d2h" | "dtoh" | "device_to_host" | "down" => Direction::Down,
        other => return Err((1, format!("`{}` is no direction: h2d or d2h", shown(other)))),
    };
    let size = bytes
        .parse::<u64>()
        .ok()
        .filter(|n| (1..=1 << 50).contains(n));
    let size = size.ok_or_else(|| (2, format!("`{}` is no number of bytes", shown(bytes))))?;
    let number = rate
        .parse::<f64>()
        .ok()
        .filter(|r| *r > 1e-6 && *r < FASTEST);
    let number = number.ok_or_else(|| (3, format!("`{}` is no rate in GB/s", shown(rate))))?;
    let point = Point::new(Measurement::Copy, "pinned").going(way);
    Ok((point.with(Field::Bytes, size), size as f64 / (number * 1e3)))
}
