//! One profile of a machine beside another: what drifted, and what that does to a plan.
//!
//! Every number that both profiles have is compared by its key, and every fitted parameter by its name. Drift is new / old
//! less 1; a value drifted if that is beyond the tolerance and the intervals do not meet, else it may be noise. What only one
//! of them has is told and drifts by nothing. The plan is a question of the scenarios in the binary, on both. Rival: comparing
//! the files as texts, which calls a digit a change. Base units.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::plan::Plan;

/// Schema id of [`Drift`].
pub const SCHEMA: &str = "kvplan/drift/1";

/// Result of `kvplan compare OLD.toml NEW.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    /// `kvplan/drift/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// Ids of both machines.
    pub hardware: [String; 2],
    /// Share by which a value may drift.
    pub tolerance: f64,
    /// Whether any value drifted by more.
    pub drifted: bool,
    /// Values that differ, in the order of their keys.
    pub values: Vec<Changed>,
    /// How many are the same.
    pub same: usize,
    /// Keys that only one of them has.
    pub only: [Vec<String>; 2],
    /// The question asked of both: `default`, or `desktop` where neither runs that.
    pub question: String,
    /// Its answer on both, way by way.
    pub plan: Vec<Way>,
}

/// A value of both.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changed {
    /// `link.h2d`, or a parameter's name.
    pub key: String,
    /// Base unit.
    pub unit: String,
    /// Value, p5 and p95 before.
    pub old: [f64; 3],
    /// After.
    pub new: [f64; 3],
    /// new / old - 1; none where the old one is 0.
    pub drift: Option<f64>,
    /// Whether the intervals meet.
    pub within_intervals: bool,
    /// Whether it drifted beyond the tolerance, and the intervals are apart.
    pub beyond: bool,
}

/// A way to serve the default question, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Way {
    /// `all-in-hbm`, `stream` and so on.
    pub name: String,
    /// Output tokens per second on the old profile; none where it does not run.
    pub old_tokens_per_s: Option<f64>,
    /// On the new one.
    pub new_tokens_per_s: Option<f64>,
    /// new / old - 1.
    pub change: Option<f64>,
}

/// A number with its interval.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    unit: String,
    ends: [f64; 3],
}

/// Sets one profile beside the other; `plan` answers `question` on the old and the new machine.
///
/// # Errors
/// Internal: a profile has no JSON form (it always has).
pub fn drift(
    both: [&Hardware; 2],
    (question, plan): (&str, &Plan),
    tolerance: f64,
) -> Result<Drift> {
    let [old, new] = [numbers(both[0])?, numbers(both[1])?];
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut values = Vec::new();
    let (mut same, mut only) = (0, [Vec::new(), Vec::new()]);
    for key in keys {
        match (old.get(key), new.get(key)) {
            (Some(a), Some(b)) if a == b => same += 1,
            (Some(a), Some(b)) => values.push(changed(key, a, b, tolerance)),
            (Some(_), None) => only[0].push(key.clone()),
            _ => only[1].push(key.clone()),
        }
    }
    Ok(Drift {
        schema: SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        hardware: both.map(|h| h.id.clone()),
        tolerance,
        drifted: values.iter().any(|v| v.beyond),
        values,
        same,
        only,
        question: question.into(),
        plan: ways(plan),
    })
}

fn changed(key: &str, old: &Number, new: &Number, tolerance: f64) -> Changed {
    let drift = (old.ends[0] > 0.0).then(|| new.ends[0] / old.ends[0] - 1.0);
    // Infinite rates are equal or not.
    let drift = drift.filter(|d| d.is_finite());
    let within = old.ends[1] <= new.ends[2] && new.ends[1] <= old.ends[2];
    let equal = old.ends[0].to_bits() == new.ends[0].to_bits();
    Changed {
        key: key.into(),
        unit: new.unit.clone(),
        old: old.ends,
        new: new.ends,
        drift,
        within_intervals: within,
        beyond: !equal && !within && drift.is_none_or(|d| d.abs() > tolerance),
    }
}

/// All numbers of a profile by key: values, and parameters under their names.
fn numbers(h: &Hardware) -> Result<BTreeMap<String, Number>> {
    let bare = Hardware {
        calibration: None,
        ..h.clone()
    };
    let json = serde_json::to_value(&bare)
        .map_err(|e| Error::internal(format!("a profile has no JSON form: {e}")))?;
    let mut out = BTreeMap::new();
    walk("", &json, &mut out);
    for p in h.calibration.iter().flat_map(|c| &c.parameters) {
        let number = Number {
            unit: p.unit.clone(),
            ends: [p.value, p.low, p.high],
        };
        out.insert(format!("calibration.{}", p.name), number);
    }
    Ok(out)
}

/// Collects objects with a value, an interval and a unit.
fn walk(key: &str, json: &Value, out: &mut BTreeMap<String, Number>) {
    let Value::Object(fields) = json else { return };
    let number = |name: &str| fields.get(name).and_then(Value::as_f64);
    let ends = ["value", "low", "high"].map(number);
    let unit = fields.get("unit").and_then(Value::as_str);
    if let ([Some(value), Some(low), Some(high)], Some(unit)) = (ends, unit) {
        let number = Number {
            unit: unit.into(),
            ends: [value, low, high],
        };
        out.insert(key.into(), number);
        return;
    }
    for (name, inner) in fields {
        let key = if key.is_empty() {
            name.clone()
        } else {
            format!("{key}.{name}")
        };
        walk(&key, inner, out);
    }
}

/// Ways of both rows, by name in the order of the old one.
fn ways(plan: &Plan) -> Vec<Way> {
    let [old, new] = plan.rows.as_slice() else {
        return Vec::new();
    };
    let rate = |a: &crate::plan::answer::Alternative| {
        let rate = a.outcome.throughput.output_tokens_per_s;
        rate.filter(|_| a.starts)
    };
    let one = |a: &crate::plan::answer::Alternative| {
        let after = new.alternatives.iter().find(|b| b.name == a.name);
        let (old, new) = (rate(a), after.and_then(rate));
        Way {
            name: a.name.clone(),
            old_tokens_per_s: old,
            new_tokens_per_s: new,
            change: old
                .zip(new)
                .map(|(a, b)| b / a - 1.0)
                .filter(|c| c.is_finite()),
        }
    };
    old.alternatives.iter().map(one).collect()
}
