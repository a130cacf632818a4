//! Rotary position embedding.
//!
//! Angles are binary64 until sine and cosine are taken, then binary32: at position 100,000 a binary32 angle is off by
//! 0.004. Frequency `i` of a head of width d is base^(-2i/d), stretched as [`Scaling`] says.

use super::shape::{Rope, Scaling};

/// Frequencies of a model, and how pairs lie.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    frequencies: Vec<f64>,
    interleaved: bool,
}

impl Rotation {
    pub(super) fn new(rope: &Rope, head_dim: usize) -> Self {
        let half = head_dim / 2;
        let plain = |i: usize| rope.base.powf(-2.0 * i as f64 / head_dim as f64);
        Self {
            frequencies: (0..half)
                .map(|i| stretched(&rope.scaling, i, plain(i)))
                .collect(),
            interleaved: rope.interleaved,
        }
    }

    /// Cosine and sine of every frequency at a position.
    #[allow(clippy::cast_possible_truncation)] // to the precision that is computed in
    pub(super) fn at(&self, position: usize) -> Vec<(f32, f32)> {
        let turn = |f: &f64| {
            let (sine, cosine) = (position as f64 * f).sin_cos();
            (cosine as f32, sine as f32)
        };
        self.frequencies.iter().map(turn).collect()
    }

    /// Turns all heads.
    pub(super) fn turn(&self, heads: &mut [f32], at: &[(f32, f32)]) {
        let half = at.len();
        for head in heads.chunks_exact_mut(2 * half) {
            for (i, (cosine, sine)) in at.iter().enumerate() {
                let (a, b) = if self.interleaved {
                    (2 * i, 2 * i + 1)
                } else {
                    (i, i + half)
                };
                let (u, v) = (head[a], head[b]);
                head[a] = u * cosine - v * sine;
                head[b] = u * sine + v * cosine;
            }
        }
    }
}

/// Frequency `i` after scaling.
fn stretched(scaling: &Scaling, i: usize, frequency: f64) -> f64 {
    match scaling {
        Scaling::None => frequency,
        Scaling::Linear(factor) => frequency / factor,
        Scaling::Divisors(d) => frequency / d.get(i).map_or(1.0, |x| f64::from(*x)),
        Scaling::Llama3 {
            factor,
            low,
            high,
            original,
        } => {
            let waves = original * frequency / std::f64::consts::TAU;
            let fast = ((waves - low) / (high - low)).clamp(0.0, 1.0);
            frequency * (fast + (1.0 - fast) / factor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(scaling: Scaling) -> Vec<f64> {
        let rope = Rope {
            base: 500_000.0,
            interleaved: false,
            scaling,
        };
        Rotation::new(&rope, 128).frequencies
    }

    #[test]
    fn llama_3_keeps_fast_waves_and_stretches_slow_ones() {
        let plain = frequencies(Scaling::None);
        let scaled = frequencies(Scaling::Llama3 {
            factor: 8.0,
            low: 1.0,
            high: 4.0,
            original: 8192.0,
        });
        // A wave is 2 pi / f long. 8192/4 = 2048 and shorter stay: f >= 0.003068, i <= 28 (5e5^(-56/128) = 0.003217).
        // 8192/1 and longer are divided by 8: f <= 0.000767, i >= 35 (5e5^(-70/128) = 0.000765).
        for i in 0..64 {
            let ratio = scaled[i] / plain[i];
            match i {
                0..=28 => assert!((ratio - 1.0).abs() < 1e-12, "{i}: {ratio}"),
                35.. => assert!((ratio - 0.125).abs() < 1e-12, "{i}: {ratio}"),
                _ => assert!(ratio > 0.125 && ratio < 1.0, "{i}: {ratio}"),
            }
        }
    }

    #[test]
    fn a_quarter_turn_by_hand() {
        // One frequency of 1 at pi/2: (1, 0) turns to (0, 1), (0, 2) to (-2, 0), whichever way pairs lie.
        let quarter = [(0.0, 1.0), (0.0, 1.0)];
        let mut near = [1.0, 0.0, 0.0, 2.0];
        let mut apart = [1.0, 0.0, 0.0, 2.0];
        let rotation = |interleaved| Rotation {
            frequencies: vec![1.0; 2],
            interleaved,
        };
        rotation(true).turn(&mut near, &quarter);
        rotation(false).turn(&mut apart, &quarter);
        assert_eq!(
            near.map(f32::to_bits),
            [0.0, 1.0, -2.0, 0.0].map(f32::to_bits)
        );
        assert_eq!(
            apart.map(f32::to_bits),
            [0.0, -2.0, 1.0, 0.0].map(f32::to_bits)
        );
    }
}
