//! The running softmax of the queries that share vectors: maxima, sums of weights, and products made into weights.
//!
//! A tile's products become weights under the greatest product so far; where that grows, which it does seldom, what was
//! gathered before shrinks by the same factor (online softmax). Lanes are by query, so nothing is summed across them until
//! the end. Rival: two passes over the keys, the first for the maximum, which reads them twice.

use super::attend::{Outs, Scores};
use super::vector::{Block, LANES, Vector};

/// How far the softmax of a query has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Greatest product so far.
    pub high: f32,
    /// Sum of weights so far, in lanes.
    lanes: Block,
}

impl Running {
    /// Before the first token.
    pub const NEW: Self = Self {
        high: f32::NEG_INFINITY,
        lanes: [0.0; LANES],
    };

    /// Sum of weights `e^(product - high)`.
    pub fn total(&self) -> f32 {
        let mut lane = self.lanes;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lane[i] += lane[i + half];
            }
        }
        lane[0]
    }
}

/// The softmax of `C` queries: lane `i` is of query `i % C`.
#[derive(Clone, Copy)]
pub(super) struct Softmax {
    pub(super) high: Block,
    pub(super) sum: Block,
}

impl Softmax {
    #[inline(always)]
    pub(super) fn of<const C: usize>(runs: &[Running]) -> Self {
        let (mut high, mut sum) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..LANES {
            high[i] = runs[i % C].high;
            sum[i] = runs[i % C].lanes[i / C];
        }
        Self { high, sum }
    }

    #[inline(always)]
    pub(super) fn keep<const C: usize>(&self, runs: &mut [Running]) {
        for i in 0..LANES {
            runs[i % C].high = self.high[i];
            runs[i % C].lanes[i / C] = self.sum[i];
        }
    }
}

/// Raises the running maxima to `most`; what was gathered before shrinks.
#[inline(always)]
fn raise<V: Vector, const C: usize>(most: V, run: &mut Softmax, outs: &mut Outs<'_>) {
    let mut lanes = [0.0; LANES];
    most.store(&mut lanes);
    let mut high = run.high;
    for (i, high) in high.iter_mut().enumerate() {
        for x in lanes.iter().skip(i % C).step_by(C) {
            *high = if *x > *high { *x } else { *high };
        }
    }
    let mut keep = [0.0; LANES];
    super::curve::exp(V::load(&run.high).sub(V::load(&high))).store(&mut keep);
    for (keep, old) in keep.iter_mut().zip(&run.high) {
        if *old == f32::NEG_INFINITY {
            *keep = 0.0; // before the first token there is nothing to keep
        }
    }
    let sum = V::load(&run.sum).mul(V::load(&keep));
    sum.store(&mut run.sum);
    for (out, keep) in outs.iter_mut().zip(&keep).take(C) {
        for block in out.iter_mut() {
            V::load(block).mul(V::splat(*keep)).store(block);
        }
    }
    run.high = high;
}

/// Products of `rows` tokens to weights under the running maxima, which grow seldom.
#[inline(always)]
pub(super) fn weigh<V: Vector, const R: usize, const C: usize>(
    scores: &mut Scores,
    rows: usize,
    most: V,
    run: &mut Softmax,
    outs: &mut Outs<'_>,
) {
    if most.exceeds(V::load(&run.high)) {
        raise::<V, C>(most, run, outs);
    }
    let high = V::load(&run.high);
    let scores = &mut scores[..rows.div_ceil(R)];
    for score in &mut *scores {
        super::curve::exp(V::load(score).sub(high)).store(score);
    }
    scores.as_flattened_mut()[rows * C..].fill(0.0);
    let mut sum = V::load(&run.sum);
    for score in scores {
        sum = sum.add(V::load(score));
    }
    sum.store(&mut run.sum);
}
