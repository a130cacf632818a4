//! Attention of one KV head, computed from recorded keys and queries: for policies that rank by single heads.
//!
//! Exact in the sense of the model: softmax of `q·k / sqrt(d)` over the positions that the policy has kept, so a query
//! sees what it would see in a cache run by that policy, given the recorded queries (hidden states do not drift). The
//! rival, recorded rows of every head, is 9 to 64 times the size of a trace; keys and queries grow linearly. Sums in
//! binary64, in order of position.

use super::Keys;

impl Keys<'_> {
    /// Key of a position.
    pub fn key(&self, position: u32) -> &[f32] {
        let at = position as usize * self.head_dim;
        &self.keys[at..at + self.head_dim]
    }

    /// Query of a head of the group at a position not before [`Keys::first_query`].
    pub fn query(&self, position: u32, head: usize) -> &[f32] {
        let at = ((position - self.first_query) as usize * self.group + head) * self.head_dim;
        &self.queries[at..at + self.head_dim]
    }

    /// Positions there are.
    pub fn length(&self) -> u32 {
        u32::try_from(self.keys.len() / self.head_dim).unwrap_or(u32::MAX)
    }

    /// Logits of a head's query at `from` on `positions`, appended to `out`.
    pub fn logits(&self, from: u32, head: usize, positions: &[u32], out: &mut Vec<f64>) {
        let query = self.query(from, head);
        let scale = (self.head_dim as f64).sqrt();
        out.extend(positions.iter().map(|p| dot(query, self.key(*p)) / scale));
    }

    /// Attention of the query at `from` on those of the ascending `positions` that it can see, summed over the group.
    pub fn attention(&self, from: u32, positions: &[u32]) -> Vec<f64> {
        let seen = &positions[..positions.partition_point(|p| *p <= from)];
        let mut sum = vec![0.0; seen.len()];
        let mut row = Vec::new();
        for head in 0..self.group {
            row.clear();
            self.logits(from, head, seen, &mut row);
            softmax(&mut row);
            add(&mut sum, &row);
        }
        sum
    }
}

/// Inner product in binary64.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| f64::from(*x) * f64::from(*y))
        .sum()
}

/// Softmax in place.
pub(super) fn softmax(row: &mut [f64]) {
    let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for x in &mut *row {
        *x = (*x - greatest).exp();
    }
    let sum: f64 = row.iter().sum();
    for x in row {
        *x /= sum;
    }
}

/// `sum[i] += row[i]`.
pub(super) fn add(sum: &mut [f64], row: &[f64]) {
    for (s, x) in sum.iter_mut().zip(row) {
        *s += x;
    }
}
