//! Costs that are sums of known terms, fitted by relative error: `t = sum of coefficient * term`, coefficients at least 0.
//!
//! A line over four decades of sizes must be as right at 4 KiB as at 1 GiB, so what is squared is `predicted / measured - 1`
//! (ordinary least squares leaves a latency of 9 us anywhere between -12 and 26). Huber weights keep spikes out: beyond
//! 1.345 times the usual miss a residual counts by its size and not its square. No coefficient is negative: the one that
//! is most so is held at 0 and the rest fitted again. Intervals resample the repetitions of each point and fit their
//! medians again; they hold the noise of repetitions and nothing of what the terms leave out, for which the worst
//! residual stands. Rival: a general minimiser, which needs starts and still ends there. Only sums, products and
//! comparisons: the same bits on every machine.

use rand::RngExt;

use super::{Purpose, percentile, stream};

/// A residual beyond so many times the usual one counts by its size (Huber 1964: 95 % efficient on normal noise).
const HUBER: f64 = 1.345;

/// A median absolute deviation is this share of a normal standard deviation.
const MAD: f64 = 1.0 / 1.4826;

/// Rounds of weights.
const ROUNDS: u32 = 30;

/// What was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// One a term, at least 0.
    pub coefficients: Vec<f64>,
    /// Greatest |predicted / measured - 1|.
    pub worst: f64,
    /// Root of their mean square.
    pub rms: f64,
}

/// The sum of a row's terms under some coefficients.
pub fn cost(row: &[f64], coefficients: &[f64]) -> f64 {
    row.iter().zip(coefficients).map(|(x, c)| x * c).sum()
}

/// The median of samples, the mean of both middle ones of an even count; 0 of none.
pub fn median(samples: &[f64]) -> f64 {
    let mut all = samples.to_vec();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => 0.0,
        n if n % 2 == 1 => all[n / 2],
        n => 0.5 * (all[n / 2 - 1] + all[n / 2]),
    }
}

/// Coefficients of the terms in `rows` for the times `measured`; none of fewer rows than terms, of rows of different
/// lengths, of times that are not positive, or of terms that the rows do not tell apart.
pub fn fit(rows: &[Vec<f64>], measured: &[f64]) -> Option<Least> {
    let terms = rows.first()?.len();
    let odd = rows.iter().any(|r| r.len() != terms) || rows.len() != measured.len();
    let sound = |t: &f64| t.is_finite() && *t > 0.0;
    if odd || rows.len() < terms || !measured.iter().all(sound) {
        return None;
    }
    let mut used: Vec<usize> = (0..terms).collect();
    loop {
        let coefficients = weighted(rows, measured, &used)?;
        let share = |t: usize| coefficients[t] * rows.iter().map(|r| r[t]).sum::<f64>();
        let negative = used.iter().copied().filter(|t| share(*t) < 0.0);
        let Some(worst) = negative.min_by(|a, b| share(*a).total_cmp(&share(*b))) else {
            return Some(judged(rows, measured, coefficients));
        };
        used.retain(|t| *t != worst);
        if used.is_empty() {
            return None;
        }
    }
}

/// With the misses of its coefficients.
fn judged(rows: &[Vec<f64>], measured: &[f64], coefficients: Vec<f64>) -> Least {
    let misses = misses(rows, measured, &coefficients);
    let squares: f64 = misses.iter().map(|m| m * m).sum();
    Least {
        worst: misses.iter().fold(0.0, |a, b| a.max(*b)),
        rms: (squares / misses.len().max(1) as f64).sqrt(),
        coefficients,
    }
}

/// |predicted / measured - 1| of every row.
fn misses(rows: &[Vec<f64>], measured: &[f64], coefficients: &[f64]) -> Vec<f64> {
    let one = |(r, t): (&Vec<f64>, &f64)| (cost(r, coefficients) / t - 1.0).abs();
    rows.iter().zip(measured).map(one).collect()
}

/// Fits the `used` terms again and again, each time with weights from the misses of the last.
fn weighted(rows: &[Vec<f64>], measured: &[f64], used: &[usize]) -> Option<Vec<f64>> {
    let mut weights = vec![1.0; rows.len()];
    let mut coefficients = normal(rows, measured, &weights, used)?;
    for _ in 0..ROUNDS {
        let misses = misses(rows, measured, &coefficients);
        let scale = (median(&misses) / MAD).max(1e-9);
        for (weight, miss) in weights.iter_mut().zip(&misses) {
            *weight = (HUBER * scale / miss.max(1e-300)).min(1.0);
        }
        let next = normal(rows, measured, &weights, used)?;
        let still = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        let done = next.iter().zip(&coefficients).all(still);
        coefficients = next;
        if done {
            break;
        }
    }
    Some(coefficients)
}

/// The normal equations of the `used` terms, each term divided by its greatest share of a time so that they are of one
/// size.
fn normal(
    rows: &[Vec<f64>],
    measured: &[f64],
    weights: &[f64],
    used: &[usize],
) -> Option<Vec<f64>> {
    let size = |term: usize| {
        let shares = rows.iter().zip(measured).map(|(r, t)| (r[term] / t).abs());
        shares.fold(0.0, f64::max)
    };
    let sizes: Vec<f64> = used.iter().map(|t| size(*t)).collect();
    if !sizes.iter().all(|s| s.is_finite() && *s > 0.0) {
        return None;
    }
    let n = used.len();
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for ((row, time), weight) in rows.iter().zip(measured).zip(weights) {
        let x: Vec<f64> = (0..n).map(|i| row[used[i]] / time / sizes[i]).collect();
        for i in 0..n {
            for j in 0..n {
                matrix[i][j] += weight * x[i] * x[j];
            }
            matrix[i][n] += weight * x[i];
        }
    }
    let solved = solve(matrix)?;
    if !solved.iter().all(|c| c.is_finite()) {
        return None;
    }
    let mut out = vec![0.0; rows[0].len()];
    for i in 0..n {
        out[used[i]] = solved[i] / sizes[i];
    }
    Some(out)
}

/// Gauss with the greatest pivot; the last column is the right side. None where a pivot has no weight.
fn solve(mut m: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = m.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs()))?;
        m.swap(i, pivot);
        let usable = m[i][i].abs() > 1e-12;
        if !usable {
            return None;
        }
        for r in i + 1..n {
            let factor = m[r][i] / m[i][i];
            let (above, below) = m.split_at_mut(r);
            for (x, pivot) in below[0].iter_mut().zip(&above[i]).skip(i) {
                *x -= factor * pivot;
            }
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|c| m[i][c] * m[c][n]).sum();
        m[i][n] = (m[i][n] - known) / m[i][i];
    }
    Some(m.into_iter().map(|row| row[n]).collect())
}

/// p5 and p95 of each coefficient over `draws` fits of resampled repetitions, widened to hold `best`.
pub fn intervals(
    rows: &[Vec<f64>],
    samples: &[&[f64]],
    best: &Least,
    draws: u32,
    seed: u64,
) -> Vec<[f64; 2]> {
    let mut rng = stream(seed, Purpose::Resample);
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); best.coefficients.len()];
    for _ in 0..draws {
        let mut again = |s: &&[f64]| {
            let one = |_| s[rng.random_range(0..s.len().max(1))];
            median(&(0..s.len()).map(one).collect::<Vec<_>>())
        };
        let medians: Vec<f64> = samples.iter().map(&mut again).collect();
        if let Some(fit) = fit(rows, &medians) {
            for (all, c) in all.iter_mut().zip(&fit.coefficients) {
                all.push(*c);
            }
        }
    }
    let ends = |(all, best): (&mut Vec<f64>, &f64)| {
        let low = percentile(all, 0.05).unwrap_or(*best);
        let high = percentile(all, 0.95).unwrap_or(*best);
        [low.min(*best), high.max(*best)]
    };
    all.iter_mut().zip(&best.coefficients).map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::{fit, intervals, median};

    /// An exponential draw from a counter: one-sided noise, as of a machine that can only be late.
    fn late(s: &mut u64) -> f64 {
        *s ^= *s << 13;
        *s ^= *s >> 7;
        *s ^= *s << 17;
        -((*s >> 11) as f64 / (1u64 << 53) as f64).max(1e-12).ln()
    }

    /// 9 us a call, 1.8 us a piece, 25 GB/s; 1 % noise, one repetition in twenty doubled.
    #[test]
    fn three_terms_are_found_through_noise_and_spikes() {
        let (call, piece, rate) = (9.0, 1.8, 25e3);
        let mut s = 7;
        let (mut rows, mut samples) = (Vec::new(), Vec::new());
        for bytes in [4096.0, 32768.0, 262_144.0, 4_194_304.0] {
            for pieces in [1.0, 4.0, 16.0, 64.0, 256.0] {
                rows.push(vec![1.0, pieces, pieces * bytes]);
                let exact = call + piece * pieces + pieces * bytes / rate;
                let one = |_| {
                    let spike = if late(&mut s) > 3.0 { 2.0 } else { 1.0 };
                    exact * (1.0 + 0.01 * late(&mut s)) * spike
                };
                samples.push((0..15).map(one).collect::<Vec<f64>>());
            }
        }
        let medians: Vec<f64> = samples.iter().map(|s| median(s)).collect();
        let best = fit(&rows, &medians).unwrap();
        let want = [call, piece, 1.0 / rate];
        for (got, want) in best.coefficients.iter().zip(want) {
            assert!((got / want - 1.0).abs() < 0.03, "{got}, wanted {want}");
        }
        assert!(best.worst < 0.02, "{}", best.worst);
        let samples: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let ends = intervals(&rows, &samples, &best, 200, 3);
        assert_eq!(ends, intervals(&rows, &samples, &best, 200, 3));
        for ([low, high], c) in ends.iter().zip(&best.coefficients) {
            assert!(
                low <= c && c <= high && high / low < 1.1,
                "{low} {c} {high}"
            );
        }
    }

    /// Times 1, 2, 4 of a term 1, 2, 3 by hand: without weights c = sum(x/t) / sum((x/t)^2) = (1 + 1 + 3/4) / (1 + 1 + 9/16)
    /// = 44/41. The misses 3/41, 3/41 and 8/41 make the last weigh 1.345 * 1.4826 * 3/8 of the others and so on, towards 1.
    #[test]
    fn an_outlier_weighs_less() {
        let rows = [vec![1.0], vec![2.0], vec![3.0]];
        let c = fit(&rows, &[1.0, 2.0, 4.0]).unwrap().coefficients[0];
        assert!((1.0..44.0 / 41.0).contains(&c), "{c}");
        // All alike: exact.
        let c = fit(&rows, &[2.0, 4.0, 6.0]).unwrap().coefficients[0];
        assert!((c - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_line_below_zero_keeps_its_latency_at_zero() {
        let rows: Vec<Vec<f64>> = (0..12).map(|i| vec![1.0, f64::from(4096 << i)]).collect();
        let below = |(i, r): (usize, &Vec<f64>)| r[1] / 5e3 * (1.0 - 0.02 / (i + 1) as f64);
        let times: Vec<f64> = rows.iter().enumerate().map(below).collect();
        let fit = fit(&rows, &times).unwrap();
        assert_eq!(fit.coefficients[0].to_bits(), 0.0f64.to_bits());
        assert!((fit.coefficients[1] * 5e3 - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_cannot_be_fitted_is_none() {
        assert!(fit(&[], &[]).is_none());
        assert!(fit(&[vec![1.0, 2.0]], &[1.0]).is_none());
        assert!(fit(&[vec![1.0], vec![2.0]], &[1.0, f64::NAN]).is_none());
        assert!(fit(&[vec![1.0], vec![2.0]], &[1.0, 0.0]).is_none());
        assert!(fit(&[vec![1.0], vec![2.0, 3.0]], &[1.0, 2.0]).is_none());
        // Two terms that are the same, and one that is not there.
        assert!(fit(&[vec![1.0, 1.0], vec![2.0, 2.0]], &[1.0, 2.0]).is_none());
        assert!(fit(&[vec![0.0], vec![0.0]], &[1.0, 2.0]).is_none());
        assert!(fit(&[vec![f64::INFINITY], vec![1.0]], &[1.0, 2.0]).is_none());
    }
}
