//! How far predictions were off where there was something to hold them against, by card.
//!
//! Written by `kvplan validate --expected` to `models/expected.toml` and quoted by `plan`: a card whose kernels were fitted
//! has its own errors; any other has those of a card predicted from the others. In-sample: the laws were fitted on rows of
//! the same tables, though not on the sums and servers whose errors stand here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Errors by card.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Of a card whose kernels nobody measured.
    pub class: Misses,
    /// Of cards with fitted kernels, by catalog id.
    pub card: BTreeMap<String, Misses>,
}

/// Errors of two kinds of prediction; none where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Misses {
    /// A decode step as the sum of its kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Miss>,
    /// Time per token of a whole server under a constant load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<Miss>,
}

/// |predicted / measured - 1| over some rows.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Miss {
    /// Rows.
    pub rows: usize,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

impl Expected {
    /// The errors to expect of a card, and whether they are its own.
    pub fn of(&self, id: &str) -> (Misses, bool) {
        match self.card.get(id) {
            Some(own) if own.step.is_some() => (*own, true),
            _ => (self.class, false),
        }
    }
}
