//! What `plan` may quote: errors by card, fitted, and those of cards predicted from others.

use std::collections::BTreeMap;

use super::answer::{Row, Run};
use super::names;
use crate::catalog;
use crate::hardware::expected::{Expected, Miss, Misses};
use crate::stats;

/// Figure of a decode step.
const STEP: &str = "step_ms_ops_only";
/// Figure of a server.
const TPOT: &str = "silicon_tpot_ms";

/// Errors by card of `fitted`, and of all cards of `left_out` (each predicted as if it had not been measured).
pub fn expected(fitted: &Run, left_out: &Run) -> Expected {
    let mut cards: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in &fitted.rows {
        let id = names::hardware(&row.gpu).and_then(|n| catalog::Shelf::Hardware.id(&n));
        if let Some(id) = id.filter(|id| catalog::measured_ids().contains(id)) {
            cards.entry(id.into()).or_default().push(row);
        }
    }
    let card = cards
        .into_iter()
        .map(|(id, rows)| (id, misses(&rows)))
        .filter(|(_, m)| *m != Misses::default())
        .collect();
    Expected {
        class: misses(&left_out.rows.iter().collect::<Vec<_>>()),
        card,
    }
}

fn misses(rows: &[&Row]) -> Misses {
    Misses {
        step: miss(rows, STEP),
        tpot: miss(rows, TPOT),
    }
}

fn miss(rows: &[&Row], metric: &str) -> Option<Miss> {
    let own = rows.iter().filter(|r| r.metric == metric);
    let mut errors: Vec<f64> = own.filter_map(|r| r.error()).map(f64::abs).collect();
    // Three digits: more would be a claim.
    let short = |x: f64| (1000.0 * x).round() / 1000.0;
    Some(Miss {
        rows: errors.len(),
        median: short(stats::percentile(&mut errors, 0.5)?),
        p90: short(stats::percentile(&mut errors, 0.9)?),
    })
}
