//! What came out: every row, and sums over the rows of a (file, metric).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::coverage::Coverage;
use super::machine::{Interval, Scope};
use crate::stats;

/// Schema id of [`Validation`].
pub const SCHEMA: &str = "kvplan/validate/1";

/// A measured figure beside the predicted one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// File name.
    pub file: String,
    /// Line in it.
    pub line: u64,
    /// Column of the figure.
    pub metric: &'static str,
    /// What the figure is of.
    pub scope: Scope,
    /// GPU as spelt in the file.
    pub gpu: String,
    /// Software or source.
    pub framework: String,
    /// Model or shape.
    pub model: String,
    /// Measured, in the file's unit.
    pub measured: f64,
    /// Predicted, in the same unit.
    pub predicted: Option<Interval>,
    /// Why not.
    pub skipped: Option<String>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The sums.
    pub answer: Validation,
}

/// How far the predictions are off: result of `kvplan validate --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Validation {
    /// `kvplan/validate/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// One entry a file and metric.
    pub files: Vec<FileMetric>,
    /// Whether intervals of servers hold as much as they claim; null where no table is of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
}

/// The rows of one figure of one file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FileMetric {
    /// File name.
    pub file: String,
    /// The figure, by its column.
    pub metric: String,
    /// Rows that state it.
    pub rows: usize,
    /// Rows predicted.
    pub predicted: usize,
    /// Median of |predicted / measured - 1|.
    pub median_abs_rel_error: Option<f64>,
    /// 90th percentile of the same.
    pub p90_abs_rel_error: Option<f64>,
    /// Mean of predicted / measured - 1.
    pub bias: Option<f64>,
    /// Median half width of the interval, as a share of the prediction.
    pub interval_half_width_median: Option<f64>,
    /// Share of the predicted rows whose measured figure lies in the interval.
    pub inside_interval_share: Option<f64>,
    /// By GPU as spelt in the file.
    pub by_gpu: Vec<ByGpu>,
    /// By software or source.
    pub by_framework: Vec<ByFramework>,
    /// By model or shape.
    pub by_model: Vec<ByModel>,
    /// Rows that were not predicted, by reason.
    pub skipped: Vec<Skipped>,
}

macro_rules! group {
    ($(#[$doc:meta])* $name:ident, $field:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        pub struct $name {
            /// What they share.
            pub $field: String,
            /// Rows.
            pub rows: usize,
            /// Rows predicted.
            pub predicted: usize,
            /// Median of |predicted / measured - 1|.
            pub median_abs_rel_error: Option<f64>,
            /// 90th percentile of the same.
            pub p90_abs_rel_error: Option<f64>,
            /// Share of the predicted rows whose measured figure lies in the interval.
            pub inside_interval_share: Option<f64>,
        }

        impl $name {
            fn of(name: &str, rows: &[&Row]) -> Self {
                let sums = Sums::of(rows);
                Self {
                    $field: name.to_string(),
                    rows: rows.len(),
                    predicted: sums.predicted,
                    median_abs_rel_error: sums.median,
                    p90_abs_rel_error: sums.p90,
                    inside_interval_share: sums.inside,
                }
            }
        }
    };
}

group!(/// The rows of one GPU.
    ByGpu, gpu);
group!(/// The rows of one software.
    ByFramework, framework);
group!(/// The rows of one model.
    ByModel, model);

/// Rows left out for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Skipped {
    /// Why.
    pub reason: String,
    /// How many.
    pub rows: usize,
}

impl Row {
    /// predicted / measured - 1.
    pub fn error(&self) -> Option<f64> {
        self.predicted.map(|p| p.value / self.measured - 1.0)
    }

    /// Whether the measured figure lies in the interval.
    pub fn inside(&self) -> Option<bool> {
        self.predicted
            .map(|p| p.low <= self.measured && self.measured <= p.high)
    }
}

impl Run {
    /// Sums the rows up.
    pub fn new(rows: Vec<Row>) -> Self {
        let mut keys: Vec<(&str, &str)> = Vec::new();
        for row in &rows {
            if !keys.contains(&(&row.file, row.metric)) {
                keys.push((&row.file, row.metric));
            }
        }
        let files = keys.iter().map(|(file, metric)| {
            let own = rows
                .iter()
                .filter(|r| r.file == *file && r.metric == *metric);
            FileMetric::of(&own.collect::<Vec<_>>())
        });
        let answer = Validation {
            schema: SCHEMA.into(),
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            files: files.collect(),
            coverage: Coverage::of(&rows),
        };
        Self { rows, answer }
    }
}

/// Statistics of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    predicted: usize,
    median: Option<f64>,
    p90: Option<f64>,
    bias: Option<f64>,
    half_width: Option<f64>,
    inside: Option<f64>,
}

impl Sums {
    fn of(rows: &[&Row]) -> Self {
        let errors: Vec<f64> = rows.iter().filter_map(|r| r.error()).collect();
        if errors.is_empty() {
            return Self::default();
        }
        let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        let widths = rows.iter().filter_map(|r| r.predicted);
        let mut widths: Vec<f64> = widths.map(|p| (p.high - p.low) / 2.0 / p.value).collect();
        let inside = rows.iter().filter_map(|r| r.inside());
        Self {
            predicted: errors.len(),
            median: stats::percentile(&mut sizes, 0.5),
            p90: stats::percentile(&mut sizes, 0.9),
            bias: Some(stats::mean(errors)),
            half_width: stats::percentile(&mut widths, 0.5),
            inside: Some(stats::mean(inside.map(|i| f64::from(u8::from(i))))),
        }
    }
}

impl FileMetric {
    fn of(rows: &[&Row]) -> Self {
        let sums = Sums::of(rows);
        Self {
            file: rows.first().map_or_else(String::new, |r| r.file.clone()),
            metric: rows.first().map_or_else(String::new, |r| r.metric.into()),
            rows: rows.len(),
            predicted: sums.predicted,
            median_abs_rel_error: sums.median,
            p90_abs_rel_error: sums.p90,
            bias: sums.bias,
            interval_half_width_median: sums.half_width,
            inside_interval_share: sums.inside,
            by_gpu: grouped(rows, |r| &r.gpu, ByGpu::of),
            by_framework: grouped(rows, |r| &r.framework, ByFramework::of),
            by_model: grouped(rows, |r| &r.model, ByModel::of),
            skipped: skipped(rows),
        }
    }
}

/// Rows by a name, names in order.
fn grouped<G>(rows: &[&Row], name: fn(&Row) -> &str, of: fn(&str, &[&Row]) -> G) -> Vec<G> {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(name(row)).or_default().push(row);
    }
    groups.iter().map(|(name, rows)| of(name, rows)).collect()
}

fn skipped(rows: &[&Row]) -> Vec<Skipped> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in rows.iter().filter_map(|r| r.skipped.as_deref()) {
        *counts.entry(reason).or_default() += 1;
    }
    let entry = |(reason, rows): (&&str, &usize)| Skipped {
        reason: (*reason).to_string(),
        rows: *rows,
    };
    counts.iter().map(entry).collect()
}
