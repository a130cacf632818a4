//! Percentiles, intervals, seeded random streams.
//!
//! Percentiles are nearest-rank: the smallest sample that at least that share of the samples does not exceed. A p99 is
//! then always a value that occurred (the step it names can be looked at), at the price of jumps for few samples;
//! interpolating estimators invent values between two regimes, which is just where a tail is read.
//!
//! Random numbers: one `ChaCha` stream a purpose. `ChaCha`'s output is fixed by definition, so seeds stay valid across
//! versions, and one draw more here never shifts the draws there.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a random stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// How far along staggered requests are.
    Phases = 1,
    /// Re-tier offsets of sequences.
    Retier = 2,
}

/// The stream of `seed` for `purpose`.
pub fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose as u64);
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

/// Nearest-rank percentile, `share` in 0..=1 (0 gives the least, 1 the greatest); reorders `samples`. None of none.
pub fn percentile(samples: &mut [f64], share: f64) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // at most the length, by the clamp
    let rank = (share.clamp(0.0, 1.0) * samples.len() as f64).ceil() as usize;
    let (_, x, _) = samples.select_nth_unstable_by(rank.max(1) - 1, f64::total_cmp);
    Some(*x)
}

#[cfg(test)]
mod tests {
    use super::{mean, percentile};

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
        assert_eq!(mean([1.0, 2.0, 6.0]).to_bits(), 3.0f64.to_bits());
        assert_eq!(mean([]).to_bits(), 0.0f64.to_bits());
    }
}
