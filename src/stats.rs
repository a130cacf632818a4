//! Percentiles, intervals, seeded random streams.
//!
//! Percentiles are nearest-rank: the smallest sample that at least that share of the samples does not exceed. A p99 is
//! then always a value that occurred (the step it names can be looked at), at the price of jumps for few samples;
//! interpolating estimators invent values between two regimes, which is just where a tail is read.
//!
//! Random numbers: one `ChaCha` stream a purpose. `ChaCha`'s output is fixed by definition, so seeds stay valid across
//! versions, and one draw more here never shifts the draws there.

pub mod least;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a random stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// How far along staggered requests are.
    Phases = 1,
    /// Re-tier offsets of sequences.
    Retier = 2,
    /// Tokens of synthetic traces.
    SynthTokens = 3,
    /// Row noise of synthetic traces.
    SynthNoise = 4,
    /// Resampling of means.
    Bootstrap = 5,
    /// What a random policy keeps.
    Eviction = 8,
    /// Repetitions of measurements drawn again.
    Resample = 9,
    /// The order in which points are measured.
    Order = 10,
    /// When requests come.
    Arrivals = 11,
    /// How long requests are.
    Lengths = 12,
    /// What is not known exactly of a machine and its software.
    Unknown = 13,
}

/// The stream of `seed` for `purpose`.
pub fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose as u64);
    rng
}

/// The stream of `seed` for `purpose` that belongs to a name (FNV-1a of its bytes), whatever other names there are.
pub fn named_stream(seed: u64, purpose: Purpose, name: &str) -> ChaCha8Rng {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(hash.wrapping_add(purpose as u64));
    rng
}

/// Mean of the samples; 0 of none.
pub fn mean(samples: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0u64);
    for x in samples {
        sum += x;
        n += 1;
    }
    if n == 0 { 0.0 } else { sum / n as f64 }
}

/// A mean and what it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean of the sample.
    pub mean: f64,
    /// 5th percentile of the resampled means.
    pub low: f64,
    /// 95th percentile.
    pub high: f64,
    /// Size of the sample.
    pub n: u32,
}

/// Percentile bootstrap of a mean: 90 % interval from `resamples` draws with replacement. None of no values, or of more
/// than 2^32; a single value gives an interval of no width, which says nothing.
///
/// Why not `t`: shares of mass are few, skewed and bounded. What it cannot know: with n values it never goes beyond
/// them, so intervals from three traces are too narrow (Efron and Tibshirani, An Introduction to the Bootstrap, ch. 13).
pub fn bootstrap_mean(values: &[f64], resamples: u32, seed: u64) -> Option<Estimate> {
    use rand::RngExt;
    let n = u32::try_from(values.len()).ok().filter(|n| *n > 0)?;
    let mut rng = stream(seed, Purpose::Bootstrap);
    let mut one = || mean((0..n).map(|_| values[rng.random_range(0..n) as usize]));
    let mut means: Vec<f64> = (0..resamples.max(1)).map(|_| one()).collect();
    Some(Estimate {
        mean: mean(values.iter().copied()),
        low: percentile(&mut means, 0.05)?,
        high: percentile(&mut means, 0.95)?,
        n,
    })
}

/// Nearest-rank percentile, `share` in 0..=1 (0 gives the least, 1 the greatest); reorders `samples`. None of none.
pub fn percentile(samples: &mut [f64], share: f64) -> Option<f64> {
    let at = nearest_rank(samples.len(), share)?;
    Some(*samples.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// As [`percentile`], for whole numbers (picoseconds, bytes).
pub fn percentile_of<T: Copy + Ord>(samples: &mut [T], share: f64) -> Option<T> {
    let at = nearest_rank(samples.len(), share)?;
    Some(*samples.select_nth_unstable(at).1)
}

/// Index of the percentile among `n` sorted samples.
fn nearest_rank(n: usize, share: f64) -> Option<usize> {
    #[allow(clippy::cast_possible_truncation)] // at most n, by the clamp
    let rank = (share.clamp(0.0, 1.0) * n as f64).ceil() as usize;
    (n > 0).then(|| rank.max(1) - 1)
}

#[cfg(test)]
mod tests {
    use super::{bootstrap_mean, mean, percentile, percentile_of};

    /// Two values 0 and 1: a resampled mean is 0, 1/2 or 1 with 1/4, 1/2, 1/4, so the 5th percentile is 0 and the 95th
    /// is 1. Nine values of which one is 9: the resampled mean is a count over 9, binomial(9, 1/9) by 1: P(0) = (8/9)^9 =
    /// 0.346, P(<= 2) = 0.346 + 0.390 + 0.195 = 0.931, P(<= 3) = 0.988: from 0 to 3.
    #[test]
    fn bootstrap_of_samples_with_known_laws() {
        let two = bootstrap_mean(&[0.0, 1.0], 2000, 1).unwrap();
        assert_eq!(
            [two.mean, two.low, two.high].map(f64::to_bits),
            [0.5, 0.0, 1.0f64].map(f64::to_bits)
        );
        let mut nine = [0.0; 9];
        nine[4] = 9.0;
        let nine = bootstrap_mean(&nine, 4000, 7).unwrap();
        assert_eq!(
            [nine.mean, nine.low, nine.high].map(f64::to_bits),
            [1.0, 0.0, 3.0f64].map(f64::to_bits)
        );
        assert_eq!(nine.n, 9);
        let one = bootstrap_mean(&[0.25], 10, 3).unwrap();
        assert_eq!(
            [one.low, one.high].map(f64::to_bits),
            [0.25f64; 2].map(f64::to_bits)
        );
        assert!(bootstrap_mean(&[], 10, 3).is_none());
    }

    #[test]
    fn nearest_rank_of_a_hand_sorted_sample() {
        let base = [15.0, 20.0, 35.0, 40.0, 50.0];
        // Ranks: ceil(.05*5) = 1, ceil(.3*5) = 2, ceil(.4*5) = 2, ceil(.5*5) = 3, ceil(.99*5) = 5.
        for (share, want) in [
            (0.0, 15.0),
            (0.05, 15.0),
            (0.3, 20.0),
            (0.4, 20.0),
            (0.5, 35.0),
            (0.99, 50.0),
            (1.0, 50.0),
        ] {
            let mut samples = [50.0, 15.0, 40.0, 20.0, 35.0];
            assert_eq!(
                percentile(&mut samples, share).unwrap().to_bits(),
                f64::to_bits(want),
                "{share}"
            );
            samples.sort_by(f64::total_cmp);
            assert_eq!(samples.map(f64::to_bits), base.map(f64::to_bits));
        }
        assert!(percentile(&mut [], 0.5).is_none());
        // ceil(.3*5) = 2: the second.
        assert_eq!(percentile_of(&mut [50, 15, 40, 20, 35], 0.3), Some(20));
        assert_eq!(percentile_of::<u8>(&mut [], 0.3), None);
        assert_eq!(mean([1.0, 2.0, 6.0]).to_bits(), 3.0f64.to_bits());
        assert_eq!(mean([]).to_bits(), 0.0f64.to_bits());
    }
}
