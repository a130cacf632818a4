//! Percentiles, and one seeded random stream a purpose.
//!
//! ChaCha's output is fixed by definition, so seeds stay valid across versions; a stream a purpose keeps one draw more
//! here from shifting every draw there. Percentiles are exact (nearest rank), not sketched.

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

/// The nearest-rank percentile `share` (0..=1) of `values`, which it reorders; none if empty.
pub fn percentile<T: Copy + Ord>(values: &mut [T], share: f64) -> Option<T> {
    if values.is_empty() {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // within the length
    let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
    Some(*values.select_nth_unstable(rank - 1).1)
}
