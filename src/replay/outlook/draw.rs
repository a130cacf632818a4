//! What the sample draws in a stride, and what its scores become.
//!
//! A member's expected mean weight is the law's; noise goes into its score alone, so that masses are smooth. Everything is
//! scaled to what the sinks leave, with the members standing for all tokens and heavy hitters added by themselves.

use super::{Member, Outlook};
use crate::score::Rule;
use crate::trace::synth::{Law, WINDOW};

/// Log-normal factors to draw noise from.
pub(super) const TABLE: usize = 1024;

/// Ages in one entry of the table of decay.
const STEP: usize = 8;

impl Outlook<'_> {
    /// Strides are of few lengths: one table each.
    pub(super) fn prepare_noise(&mut self, rows: u32) {
        self.noise_at = self
            .noise
            .iter()
            .position(|(n, _)| *n == rows)
            .unwrap_or_else(|| {
                self.noise.push((rows, factors(self.law.spread_over(rows))));
                self.noise.len() - 1
            });
    }

    /// New members up to step `to`.
    pub(super) fn birth(&mut self, to: u32) {
        let length = self.law.prompt() + to;
        while self.next < length {
            let position = self.next_position();
            self.dealer.skip_to(position - self.law.prompt());
            let Some(token) = self.dealer.next() else {
                return;
            };
            let (tiers, twin) = ([0.0; 3], self.twin(self.members.len()));
            self.members.push(Member {
                position,
                young: token.young,
                old: token.old,
                score: 0.0,
                now: 0.0,
                noise: 1.0,
                tiers,
                twin,
                soft: None,
            });
        }
    }

    /// Mean weights over the stride, scaled so that all sum to 1.
    pub(super) fn draw(&mut self, rows: u32) {
        let law = self.law;
        let prompt = law.prompt();
        let end = prompt + self.time + rows;
        let middle_of = f64::from(rows) / 2.0;
        let faded = law.prompt_factor(self.time + rows / 2);
        let salt = self.strides;
        let noise = &self.noise[self.noise_at].1;
        let mut old = 0.0;
        for (i, m) in self.members.iter_mut().enumerate() {
            if m.position < prompt {
                m.now = if m.position < 4 { m.old } else { m.old * faded };
                continue;
            }
            // Rows of the stride in which it is there, and its ages then.
            let last = end - 1 - m.position;
            let first = last.saturating_sub(rows - 1);
            if first >= WINDOW {
                let age = f64::from(first) + middle_of;
                #[allow(clippy::cast_possible_truncation)] // within the table
                let left = self.left[(age as usize - WINDOW as usize) / STEP];
                m.now = m.old * left;
                m.noise = noise[scatter(i as u64, salt)];
                old += m.now;
            } else {
                let within =
                    self.kernel[(last + 1).min(WINDOW) as usize] - self.kernel[first as usize];
                let beyond = f64::from((last + 1).saturating_sub(WINDOW));
                let aged = m.old * self.left[0] * beyond;
                old += aged / f64::from(rows);
                m.now = (m.young * within + aged) / f64::from(rows);
            }
        }
        self.heavy_mass = self.heavy.iter().map(|(w, _)| w).sum::<f64>()
            * self.lasting(self.time.saturating_sub(law.rows))
            + self.new_heavy();
        let window = self.kernel[(self.time + rows).min(WINDOW) as usize];
        let sinks: f64 = law.front.iter().take(4).sum();
        let front: f64 = law.front.iter().skip(4).sum::<f64>() * faded;
        let raw = front + window + old * self.weight + self.heavy_mass;
        self.scale = if raw > 0.0 { (1.0 - sinks) / raw } else { 0.0 };
        for m in self
            .members
            .iter_mut()
            .filter(|m| m.position >= 4.min(prompt))
        {
            m.now *= self.scale;
        }
    }

    /// Share of heavy hitters that still are some after some steps.
    pub(super) fn lasting(&self, steps: u32) -> f64 {
        (1.0 - self.law.heavy_loss).powf(f64::from(steps) / 64.0)
    }

    /// Expected weight of heavy hitters born after the recorded ones.
    pub(super) fn new_heavy(&self) -> f64 {
        let law = self.law;
        let ripe = self.time.saturating_sub(law.rows).saturating_sub(WINDOW);
        let mean = crate::stats::mean(law.heavy_weights.iter().copied());
        f64::from(ripe) * law.heavy_share * mean * self.lasting(ripe / 2)
    }

    pub(super) fn score(&mut self, rows: u32) {
        let n = f64::from(rows);
        for m in &mut self.members {
            let drew = m.now * m.noise;
            match self.order.rule {
                Some(Rule::Ema(keep)) => {
                    let kept = keep.powf(n);
                    m.score = kept * m.score + (1.0 - kept) * drew;
                }
                Some(Rule::Last) => m.score = drew,
                _ => m.score += drew * n,
            }
        }
    }
}

/// An entry of the table of noise for a member and a stride: a mixing of both (the finaliser of splitmix64).
pub(super) fn scatter(member: u64, stride: u64) -> usize {
    let mut x = (member << 32 | stride).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from(x >> 54).unwrap_or(0)
}

/// Decay by blocks of ages from 128 on, at their middle.
pub(super) fn left(law: &Law, steps: u32) -> Vec<f64> {
    let blocks = (steps.saturating_sub(WINDOW) as usize / STEP) + 2 + 128 / STEP;
    (0..blocks)
        .map(|i| law.left(f64::from(WINDOW) + ((i * STEP) as f64 + STEP as f64 / 2.0)))
        .collect()
}

pub(super) fn summed(kernel: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(kernel.iter().map(|w| {
            sum += w;
            sum
        }))
        .collect()
}

/// Log-normal factors of mean 1 and this variance of the log, at evenly spaced quantiles in scattered order.
fn factors(variance: f64) -> Vec<f64> {
    let width = variance.max(0.0).sqrt();
    (0..TABLE)
        .map(|i| {
            // 389 is coprime to the length: every quantile occurs once.
            let u = ((i * 389) % TABLE) as f64 / TABLE as f64 + 0.5 / TABLE as f64;
            // The logistic distribution scaled to variance 1 stands in for the normal one.
            let z = (u / (1.0 - u)).ln() * (3f64.sqrt() / std::f64::consts::PI);
            (width * z - variance / 2.0).exp()
        })
        .collect()
}
