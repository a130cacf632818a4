//! What stands behind a measured profile: conditions, every parameter with its fit, tables, the hold-out.
//!
//! An optional section `[calibration]` of a machine's file, written by `kvplan calibrate` and read by people and by `kvplan
//! compare`; the simulator rests on the values above it alone, each of which names its parameter here. Base units.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A calibration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The raw measurements, relative to the profile.
    pub raw: String,
    /// What was measured on and seen meanwhile: host, driver, clocks, link.
    #[serde(default)]
    pub conditions: BTreeMap<String, String>,
    /// What qualifies it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What was fitted.
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<FittedParameter>,
    /// Measured times where a law misses by more than a tenth, or where there is none.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<MeasuredTable>,
    /// Points that were kept from the fit, predicted and measured.
    #[serde(default, rename = "holdout", skip_serializing_if = "Vec::is_empty")]
    pub holdouts: Vec<Holdout>,
}

/// Parts of a machine, by how the names of their measurements begin.
const PARTS: [(&str, &[&str]); 3] = [
    ("its GPU", &["attention", "hbm", "quant", "dequant"]),
    ("its link", &["copy", "pieces", "zero_copy"]),
    (
        "its host's memory and cores",
        &["ddr_", "host_", "multiply_add", "select", "sort"],
    ),
];

impl Calibration {
    /// Parts of the machine that were measured.
    pub fn measured(&self) -> Vec<&'static str> {
        let any = |begins: &[&str]| {
            let of = |p: &FittedParameter| begins.iter().any(|b| p.name.starts_with(b));
            self.parameters.iter().any(of)
        };
        let found = PARTS.iter().filter(|(_, begins)| any(begins));
        found.map(|(part, _)| *part).collect()
    }

    /// What no calibration says: where, and why not.
    pub fn fault(&self) -> Option<(&str, String)> {
        self.parameters
            .iter()
            .find_map(FittedParameter::fault)
            .or_else(|| self.tables.iter().find_map(MeasuredTable::fault))
            .or_else(|| self.holdouts.iter().find_map(Holdout::fault))
            .or_else(|| twice(self.parameters.iter().map(|p| p.name.as_str())))
    }
}

/// The first name that stands twice.
fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'a str, String)> {
    let mut seen = BTreeSet::new();
    let mut names = names;
    let again = names.find(|n| !seen.insert(*n))?;
    Some((again, "stands twice".into()))
}

/// A parameter of a law.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FittedParameter {
    /// Measurement, lane and term: `ddr_read.threads=2.bandwidth`.
    pub name: String,
    /// `s`, `bytes_per_s` or `flop_per_s`.
    pub unit: String,
    /// Best estimate.
    pub value: f64,
    /// p5 over resampled repetitions.
    pub low: f64,
    /// p95.
    pub high: f64,
    /// Points that its law was fitted on.
    pub points: u64,
    /// Times behind them.
    pub samples: u64,
    /// Greatest |predicted / measured - 1| of the law over them.
    pub worst_residual: f64,
    /// What was seen while its measurement ran; empty where nothing was noted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conditions: String,
}

impl FittedParameter {
    fn fault(&self) -> Option<(&str, String)> {
        let Self {
            value, low, high, ..
        } = *self;
        let sound = 0.0 <= low && low <= value && value <= high && high.is_finite();
        let unit = ["s", "bytes_per_s", "flop_per_s"].contains(&self.unit.as_str());
        let why = if !sound {
            format!("is {value} between {low} and {high}: no finite number within its own interval")
        } else if !unit {
            format!("has unit `{}`: not s, bytes_per_s or flop_per_s", self.unit)
        } else if !(0.0..=1e9).contains(&self.worst_residual) {
            format!("has a worst miss of {}", self.worst_residual)
        } else {
            return None;
        };
        Some((&self.name, why))
    }
}

/// Medians of a lane.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTable {
    /// Measurement and lane.
    pub name: String,
    /// What the numbers of a row are; the last is always `us`.
    pub columns: Vec<String>,
    /// Rows in ascending order of sizes.
    pub rows: Vec<Vec<f64>>,
}

impl MeasuredTable {
    fn fault(&self) -> Option<(&str, String)> {
        let width = self.columns.len();
        let wrong = |row: &&Vec<f64>| row.len() != width || !row.iter().all(|x| x.is_finite());
        let row = self.rows.iter().find(wrong)?;
        let why = format!("has a row {row:?}, not {width} finite numbers");
        Some((&self.name, why))
    }
}

/// A point that was not fitted.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    /// Its sizes: `threads=2.batch=3.context=3000`.
    pub shape: String,
    /// Measurement, mode and part: `tier_loop.stream.step`.
    pub mode: String,
    /// By the fitted laws.
    pub predicted_us: f64,
    /// Median of its times.
    pub measured_us: f64,
    /// predicted / measured - 1.
    pub error: f64,
}

impl Holdout {
    /// Bar of the median error.
    pub const MEDIAN: f64 = 0.05;
    /// Bar of the worst error.
    pub const WORST: f64 = 0.15;

    fn fault(&self) -> Option<(&str, String)> {
        let all = [self.predicted_us, self.measured_us, self.error];
        let sound = all.iter().all(|x| x.is_finite());
        (!sound).then(|| {
            (
                self.mode.as_str(),
                format!("has {all:?}: not finite numbers"),
            )
        })
    }
}
