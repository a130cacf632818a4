//! What R-KV ranks by: importance of mean rows or of keys and queries, and redundancy of keys.
//!
//! Steps 2 and 3 of the rule in the module above, each one function over a list of live positions. Binary64 throughout.

use std::collections::VecDeque;

use crate::policy::Keys;
use crate::policy::attend::{add, dot, softmax};

/// Neighbours over which the importance takes its greatest value.
const KERNEL: usize = 7;
/// Cosine over which two keys count as alike.
const ALIKE: f64 = 0.5;

fn divide(sums: Vec<f64>, by: f64) -> Vec<f64> {
    sums.into_iter().map(|s| s / by).collect()
}

/// Greatest value within [`KERNEL`] neighbours.
pub(super) fn spread(values: &[f64]) -> Vec<f64> {
    let reach = KERNEL / 2;
    let near = |i: usize| i.saturating_sub(reach)..(i + reach + 1).min(values.len());
    (0..values.len())
        .map(|i| values[near(i)].iter().copied().fold(f64::MIN, f64::max))
        .collect()
}

/// Mean over the last `window` queries, up to the one at `last`, of the group's attention on `older`.
pub(super) fn importance(keys: &Keys<'_>, window: u32, last: u32, older: &[u32]) -> Vec<f64> {
    let from = (last + 1).saturating_sub(window).max(keys.first_query)..=last;
    let queries = f64::from(last + 1 - from.start());
    let mut sum = vec![0.0; older.len()];
    for query in from {
        let mut greatest = vec![f64::NEG_INFINITY; older.len()];
        for head in 0..keys.group {
            let mut logits = Vec::with_capacity(older.len());
            keys.logits(query, head, older, &mut logits);
            for (g, logit) in greatest.iter_mut().zip(logits) {
                *g = g.max(logit);
            }
        }
        softmax(&mut greatest);
        add(&mut sum, &greatest);
    }
    divide(sum, queries)
}

/// How much each key resembles the others, as a softmax over all of `live`.
pub(super) fn redundancy(keys: &Keys<'_>, live: &[u32]) -> Vec<f64> {
    let norms: Vec<f64> = live
        .iter()
        .map(|p| dot(keys.key(*p), keys.key(*p)).sqrt() + 1e-8)
        .collect();
    let n = live.len();
    let mut columns = vec![0.0; n];
    for i in 0..n {
        let mut row: Vec<f64> = (0..n)
            .map(|j| dot(keys.key(live[i]), keys.key(live[j])) / (norms[i] * norms[j]))
            .collect();
        row[i] = 0.0;
        let last = row.iter().rposition(|c| *c > ALIKE).unwrap_or(0);
        row[last] = 0.0;
        add(&mut columns, &row);
    }
    let mut means = divide(columns, n as f64);
    softmax(&mut means);
    means
}

/// Mean over the rows of each one's weights on `older`, renormalised.
pub(super) fn mean_importance(rows: &VecDeque<Vec<f64>>, older: &[u32]) -> Vec<f64> {
    let mut sum = vec![0.0; older.len()];
    for row in rows {
        let on = |p: &u32| row.get(*p as usize).copied().unwrap_or(0.0);
        let total: f64 = older.iter().map(on).sum();
        if total > 0.0 {
            for (s, p) in sum.iter_mut().zip(older) {
                *s += on(p) / total;
            }
        }
    }
    divide(sum, rows.len().max(1) as f64)
}
