//! Whether intervals hold as much as they claim: servers measured, counted inside.
//!
//! Figures of whole servers only, since they are what a plan promises, and no law was fitted on them. A 90 % interval should
//! hold nine in ten. How far from that a count may fall by chance is a binomial's if rows err apart; rows of one class (a card,
//! a software and a model) err together, so that the classes are counted too, each as one. Too few inside says that a cause of
//! error is missing from the list; all inside at any width is no success, so that the median width stands beside the count.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::Row;
use super::machine::Scope;
use crate::stats;

/// What an interval from p5 to p95 claims to hold.
pub const STATED: f64 = 0.9;

/// Standard deviations of a binomial within which a count is called as stated.
const TOLERANCE: f64 = 1.96;

/// Rows of servers inside their intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Share that the intervals claim to hold.
    pub stated_share: f64,
    /// Rows predicted.
    pub rows: usize,
    /// Rows whose measured figure lies inside.
    pub inside: usize,
    /// Inside over predicted.
    pub inside_share: f64,
    /// How far the share may lie from the stated one by chance (95 %, binomial, rows that err apart).
    pub tolerance_share: f64,
    /// Whether as much lies inside as is stated, less the tolerance.
    pub holds: bool,
    /// Median half width of the intervals, as a share of the prediction.
    pub half_width_median: f64,
    /// Classes: rows of one card, software and model.
    pub classes: usize,
    /// Mean over classes of the share inside.
    pub class_inside_share: f64,
    /// The same count by figure.
    pub by_metric: Vec<MetricCoverage>,
}

/// Rows of one figure inside their intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricCoverage {
    /// The figure, by its column.
    pub metric: String,
    /// Rows predicted.
    pub rows: usize,
    /// Rows whose measured figure lies inside.
    pub inside: usize,
    /// Median half width of the intervals, as a share of the prediction.
    pub half_width_median: f64,
}

impl Coverage {
    /// Counts the rows of servers; none where there are none.
    pub fn of(rows: &[Row]) -> Option<Self> {
        let own = |r: &&Row| r.scope == Scope::Server && r.predicted.is_some();
        let own: Vec<&Row> = rows.iter().filter(own).collect();
        if own.is_empty() {
            return None;
        }
        let (n, inside) = (own.len(), inside(&own));
        let share = inside as f64 / n as f64;
        let tolerance = TOLERANCE * (STATED * (1.0 - STATED) / n as f64).sqrt();
        let classes = grouped(&own, |r| format!("{}, {}, {}", r.gpu, r.framework, r.model));
        let of_class = classes
            .iter()
            .map(|(_, rows)| self::inside(rows) as f64 / rows.len() as f64);
        let metric = |(metric, rows): &(String, Vec<&Row>)| MetricCoverage {
            metric: metric.clone(),
            rows: rows.len(),
            inside: self::inside(rows),
            half_width_median: half_width(rows),
        };
        Some(Self {
            stated_share: STATED,
            rows: n,
            inside,
            inside_share: share,
            tolerance_share: tolerance,
            holds: share >= STATED - tolerance,
            half_width_median: half_width(&own),
            classes: classes.len(),
            class_inside_share: stats::mean(of_class),
            by_metric: grouped(&own, |r| r.metric.to_string())
                .iter()
                .map(metric)
                .collect(),
        })
    }
}

fn inside(rows: &[&Row]) -> usize {
    rows.iter().filter(|r| r.inside() == Some(true)).count()
}

fn half_width(rows: &[&Row]) -> f64 {
    let own = rows.iter().filter_map(|r| r.predicted);
    let mut all: Vec<f64> = own.map(|p| (p.high - p.low) / 2.0 / p.value).collect();
    stats::percentile(&mut all, 0.5).unwrap_or(0.0)
}

/// Rows by a name, names in order.
fn grouped<'a>(rows: &[&'a Row], name: impl Fn(&Row) -> String) -> Vec<(String, Vec<&'a Row>)> {
    let mut groups: BTreeMap<String, Vec<&'a Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(name(row)).or_default().push(row);
    }
    groups.into_iter().collect()
}
