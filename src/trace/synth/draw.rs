//! Draws the rows of a law, one after another.
//!
//! State is one noise a position and one a stretch of text, so memory grows with the length of a row, not with the
//! trace. A row is scaled to sum to 1 in binary64, then rounded weight by weight; rounding to nearest keeps the sum
//! within the format's bound.

use super::WINDOW;
use super::law::{Dealer, Law, REVISIT_LEFT, REVISIT_ROWS, SINKS, Token, normal, unit};
use crate::stats::{self, Purpose};
use crate::trace::half;
use rand_chacha::ChaCha8Rng;

/// Age from which weights have noise of their own: what the latest tokens draw is in their young factor already.
const NOISE_FROM: usize = 16;

/// Draws rows.
pub struct Drawer<'a> {
    law: &'a Law,
    dealer: Dealer<'a>,
    rng: ChaCha8Rng,
    tokens: Vec<Token>,
    /// Noise of each generated token, variance 1.
    noise: Vec<f64>,
    /// Noise at every `knot`-th token, variance 1.
    stretches: Vec<f64>,
    /// `(age / 128) ^ -decay` from age 128 on.
    left: Vec<f64>,
    raw: Vec<f64>,
    step: u32,
}

impl<'a> Drawer<'a> {
    /// Begins at step `step`, the tokens before it being the law's.
    pub fn new(law: &'a Law, seed: u64, step: u32) -> Self {
        let mut dealer = law.deal(seed, false);
        let tokens = dealer.by_ref().take(step as usize).collect();
        Self {
            law,
            dealer,
            rng: stats::stream(seed, Purpose::SynthNoise),
            tokens,
            noise: Vec::new(),
            stretches: Vec::new(),
            left: Vec::new(),
            raw: Vec::new(),
            step,
        }
    }

    /// The next row: its step and P+t+1 binary16 weights are left in `out`.
    pub fn next_row(&mut self, out: &mut Vec<u16>) -> u32 {
        let step = self.step;
        self.grow();
        self.front(step);
        self.generated();
        self.scale();
        out.clear();
        out.extend(self.raw.iter().map(|w| half::from_f64(*w)));
        self.step += 1;
        step
    }

    /// One token more, and all noise one row on.
    fn grow(&mut self) {
        self.tokens.extend(self.dealer.next());
        if self.step.is_multiple_of(super::SPAN) {
            self.lose_heavy();
        }
        let keep = self.law.noise_keep;
        self.age_noise(|d| &mut d.noise, keep, |n| n);
        let every = self.knot();
        self.age_noise(
            |d| &mut d.stretches,
            (-1.0 / REVISIT_ROWS).exp(),
            |n| n / every + 2,
        );
        while self.left.len() < self.tokens.len() {
            let age = WINDOW as usize + self.left.len();
            self.left.push(self.law.left(age as f64));
        }
    }

    fn age_noise(
        &mut self,
        which: fn(&mut Self) -> &mut Vec<f64>,
        keep: f64,
        count: impl Fn(usize) -> usize,
    ) {
        let count = count(self.tokens.len());
        let fresh = (1.0 - keep * keep).sqrt();
        let mut values = std::mem::take(which(self));
        for x in &mut values {
            *x = keep * *x + fresh * normal(&mut self.rng);
        }
        while values.len() < count {
            values.push(normal(&mut self.rng));
        }
        *which(self) = values;
    }

    fn lose_heavy(&mut self) {
        if self.law.heavy_loss > 0.0 {
            for token in &mut self.tokens {
                if token.heavy > 0.0 && unit(&mut self.rng) < self.law.heavy_loss {
                    token.heavy = 0.0;
                }
            }
        }
    }

    /// Tokens between two stretches' knots.
    #[allow(clippy::cast_possible_truncation)] // a reach of some tokens
    fn knot(&self) -> usize {
        (2.0 * self.law.revisit_reach).clamp(1.0, 1e6) as usize
    }

    /// The sinks keep their share; the rest is scaled to what they leave.
    fn scale(&mut self) {
        let (sinks, rest) = self.raw.split_at_mut(SINKS.min(self.law.front.len()));
        let left = 1.0 - sinks.iter().sum::<f64>();
        let sum: f64 = rest.iter().sum();
        for w in rest {
            *w *= left / sum;
        }
    }

    fn front(&mut self, step: u32) {
        let factor = self.law.prompt_factor(step);
        self.raw.clear();
        let sinks = SINKS.min(self.law.front.len());
        self.raw.extend_from_slice(&self.law.front[..sinks]);
        self.raw
            .extend(self.law.front[sinks..].iter().map(|w| w * factor));
    }

    fn generated(&mut self) {
        let (law, every) = (self.law, self.knot());
        let width = law.noise.sqrt();
        // Between knots the variance is two thirds of theirs on average.
        let shared = (1.5 * law.revisit / REVISIT_LEFT).sqrt();
        let last = self.tokens.len() - 1;
        for (born, token) in self.tokens.iter().enumerate() {
            let age = last - born;
            let own = width * self.noise[born] - law.noise / 2.0;
            let weight = if age < NOISE_FROM {
                law.kernel[age] * token.young
            } else if age < WINDOW as usize {
                law.kernel[age] * token.young * own.exp()
            } else {
                let (knot, along) = (born / every, (born % every) as f64 / every as f64);
                let at = self.stretches[knot]
                    + along * (self.stretches[knot + 1] - self.stretches[knot]);
                let weight = token.old * self.left[age - WINDOW as usize] + token.heavy;
                weight * (own + shared * at - shared * shared / 3.0).exp()
            };
            self.raw.push(weight);
        }
    }
}
