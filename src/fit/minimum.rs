//! The smallest miss: Nelder and Mead from several starts, in logarithms, within ranges.
//!
//! Few parameters, a law without derivatives, a smooth miss: a simplex search needs nothing else. Ranges hold by clamping.
//! Starts and resamples come from a fixed generator, and logarithms from a library that gives the same bits on every
//! machine (those of the C library do not), so that a fit is a function of its rows.

use argmin::core::{CostFunction, Executor, State};
use argmin::solver::neldermead::NelderMead;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Miss at which the loss turns from square to straight \[natural logarithm\].
pub const SCALE: f64 = 0.05;

/// Steps of one search.
const STEPS: u64 = 700;

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// At least.
    pub low: f64,
    /// Where searches start.
    pub usual: f64,
    /// At most.
    pub high: f64,
}

struct Miss<'a, F> {
    ranges: &'a [Range],
    of: F,
}

impl<F> Miss<'_, F> {
    /// Parameters of a point in logarithms.
    fn point(&self, x: &[f64]) -> Vec<f64> {
        let clamped = |(x, r): (&f64, &Range)| libm::exp(*x).clamp(r.low, r.high);
        x.iter().zip(self.ranges).map(clamped).collect()
    }
}

impl<F: Fn(&[f64]) -> f64> CostFunction for Miss<'_, F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        // Beyond a range the miss grows, so that the simplex comes back.
        let beyond = |(x, r): (&f64, &Range)| {
            let over = (x - libm::log(r.high)).max(0.0) + (libm::log(r.low) - x).max(0.0);
            over * over
        };
        let penalty: f64 = x.iter().zip(self.ranges).map(beyond).sum();
        Ok((self.of)(&self.point(x)) + penalty)
    }
}

/// The parameters of the smallest miss found in `starts` searches, from `near` where it is given.
pub fn search(
    ranges: &[Range],
    starts: usize,
    near: Option<&[f64]>,
    of: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    if ranges.is_empty() {
        return Vec::new();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let miss = Miss { ranges, of };
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in 0..starts {
        let reach = if near.is_some() { 0.1 } else { 0.4 };
        let first: Vec<f64> = ranges
            .iter()
            .enumerate()
            .map(|(i, r)| {
                let at = libm::log(near.map_or(r.usual, |x| x[i]));
                if start == 0 {
                    at
                } else {
                    at + rng.random_range(-1.0..1.0)
                }
            })
            .collect();
        let found = descend(&miss, &first, reach);
        if best.as_ref().is_none_or(|b| found.0 < b.0) {
            best = Some(found);
        }
    }
    let x = best.map_or_else(
        || ranges.iter().map(|r| libm::log(r.usual)).collect(),
        |b| b.1,
    );
    miss.point(&x)
}

/// One search from a simplex around `first`.
fn descend<F: Fn(&[f64]) -> f64>(miss: &Miss<'_, F>, first: &[f64], reach: f64) -> (f64, Vec<f64>) {
    let mut simplex = vec![first.to_vec()];
    for i in 0..first.len() {
        let mut corner = first.to_vec();
        corner[i] += reach;
        simplex.push(corner);
    }
    let borrowed = Miss {
        ranges: miss.ranges,
        of: &miss.of,
    };
    let solver = NelderMead::new(simplex).with_sd_tolerance(1e-7);
    let run = solver.and_then(|s| {
        Executor::new(borrowed, s)
            .configure(|state| state.max_iters(STEPS))
            .run()
    });
    let found = run.ok().and_then(|r| {
        let cost = r.state().get_best_cost();
        Some((cost, r.state().get_best_param()?.clone()))
    });
    found.unwrap_or_else(|| (f64::INFINITY, first.to_vec()))
}

/// As many rows drawn with replacement.
pub fn resample(rows: usize, seed: u64) -> Vec<usize> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed + 1);
    (0..rows).map(|_| rng.random_range(0..rows)).collect()
}

/// p5 and p95 of resampled estimates, widened to hold the best one.
pub fn interval(best: f64, resampled: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut all: Vec<f64> = resampled.collect();
    let low = crate::stats::percentile(&mut all, 0.05).unwrap_or(best);
    let high = crate::stats::percentile(&mut all, 0.95).unwrap_or(best);
    (low.min(best), high.max(best))
}
