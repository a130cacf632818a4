//! The answer of `sweep` as data: one cell a combination (schema `kvplan/sweep/1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::Mark;
use crate::metrics::Outcome;
use crate::plan::answer::Setting;

/// Schema id of [`Answer`].
pub const SWEEP_SCHEMA: &str = "kvplan/sweep/1";

/// A whole sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Answer {
    /// Always `kvplan/sweep/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// What all cells share, with every default spelt out.
    pub question: Vec<Setting>,
    /// Files it was made from, as they were; absent if there was none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Mark>,
    /// The axes, the slowest first.
    pub vary: Vec<Range>,
    /// By what the policies are made equal; null if they run as they are.
    pub equal: Option<EqualBy>,
    /// Objectives of the front; null if none was asked for.
    pub pareto: Option<Vec<Aim>>,
    /// Every cell, by its index.
    pub cells: Vec<Cell>,
    /// Remarks that qualify the answer.
    pub notes: Vec<String>,
}

impl Answer {
    /// Whether any cell fits: the answer is no otherwise (exit 1).
    pub fn any_fits(&self) -> bool {
        let mut outcomes = self.cells.iter().filter_map(|c| c.outcome.as_ref());
        outcomes.any(|o| o.fits)
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Range {
    /// Setting, or `policy.` and a parameter.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// By what the policies are made equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EqualBy {
    /// `hbm-peak`, `total-bytes`, `retained` or `tpot`.
    pub by: String,
    /// Exactly what is equal, with its unit.
    pub definition: String,
    /// The value all policies are brought to; null if it is that of the first policy in each place.
    pub target: Option<f64>,
    /// Largest difference from the target that passes as equal, as a share of it.
    pub tolerance_share: f64,
}

/// An objective of the front.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Aim {
    /// The figure: a key of an outcome.
    pub key: String,
    /// `higher` or `lower`.
    pub better: String,
}

/// One cell of a grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cell {
    /// Its number, row-major.
    pub index: usize,
    /// The varied keys with their values.
    pub vary: BTreeMap<String, String>,
    /// Whether no other cell is better; null if it takes no part (it does not fit, was refused, or lacks a figure).
    pub pareto: Option<bool>,
    /// How it was made equal; null for a policy that runs as it is.
    pub equal: Option<Solved>,
    /// Why it has no outcome.
    pub refused: Option<String>,
    /// What `simulate` says of it; null if it was refused.
    pub outcome: Option<Outcome>,
}

/// A policy's budget, solved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Solved {
    /// The parameter that was solved for.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// What was to be reached, in the unit of the definition.
    pub target: f64,
    /// What it came to in the outcome.
    pub achieved: f64,
    /// `achieved / target - 1`.
    pub difference_share: f64,
}
