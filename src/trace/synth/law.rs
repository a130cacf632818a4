//! What a mean row looks like, as numbers.
//!
//! Before it is scaled to sum to 1, the row of step `t` puts on
//! * the front (sinks, prompt): its late mean; of the prompt beyond the sinks a part lasts, the rest decays with age;
//! * a generated token of age `a < 128`: `kernel[a]` times the token's `young` factor;
//! * an older one: `old * (a / 128) ^ -decay`, and `heavy` besides.
//!
//! The scaling is what makes the middle's share level off: old tokens add up ever more slowly, at the cost of the rest.

use super::WINDOW;
use crate::error::Result;
use crate::stats::{self, Purpose};
use crate::trace::Rows;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::sync::{Arc, Mutex, PoisonError};

/// First positions that are sinks and keep their mass (tokens).
pub(super) const SINKS: usize = 4;

/// The lasting factors of one generated token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Factor on the kernel of the latest 128 tokens (1 is the mean).
    pub young: f64,
    /// Weight at age 128, from where it decays (share of a row).
    pub old: f64,
    /// Weight that does not decay with age (share of a row).
    pub heavy: f64,
}

/// A token that new ones are modelled on, and where it stood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Donor {
    pub(super) young: f64,
    pub(super) old: f64,
    pub(super) born: u32,
}

impl Donor {
    /// Late weight of a token that is like it but for its young factor: what goes with that goes along.
    pub(super) fn aged(&self, young: f64, lasting: f64) -> f64 {
        self.old * (young / self.young).powf(lasting)
    }
}

/// The law of a trace's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Rows that were recorded: tokens before that are known, later ones are drawn.
    pub rows: u32,
    /// Mean weight of each prompt position (share of a row).
    pub front: Vec<f64>,
    /// Share of the prompt beyond the sinks, as in `front`, that does not decay.
    pub prompt_lasts: f64,
    /// Distance from the middle of the prompt at which it is as in `front` (tokens).
    pub prompt_from: f64,
    /// Mean weight by age of the latest 128 tokens, own position first (share of a row).
    pub kernel: Vec<f64>,
    /// Power by which older tokens decay with age.
    pub decay: f64,
    /// Known tokens, one a recorded row.
    pub tokens: Vec<Token>,
    pub(super) donors: Vec<Donor>,
    /// Power by which the spread of the young factors changes with the step, at most 0.
    pub spread_slope: f64,
    /// Slope of the log of `old` over that of `young`, between tokens.
    pub lasting: f64,
    /// Share of new tokens that are heavy hitters.
    pub heavy_share: f64,
    /// Weights of heavy hitters, to draw from (shares of a row).
    pub heavy_weights: Vec<f64>,
    /// Share of heavy hitters that cease to be any within 64 steps.
    pub heavy_loss: f64,
    /// Variance of the log of a weight around its token's, row by row.
    pub noise: f64,
    /// How much of that carries over to the next row, 0..1.
    pub noise_keep: f64,
    /// Variance of the log of a weight's mean over 64 rows that a stretch of text shares.
    pub revisit: f64,
    /// How far such a stretch reaches (tokens).
    pub revisit_reach: f64,
}

/// (sqrt(5) - 1) / 2.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Rows over which a revisit fades.
pub(super) const REVISIT_ROWS: f64 = 16.0;

/// Share of a revisit's variance that is left in the mean over 64 rows, for a fading over 16: with r = 16/64,
/// 2r - 2r^2 (1 - e^(-1/r)) = 0.5 - 0.125 * 0.982 = 0.377.
pub(super) const REVISIT_LEFT: f64 = 0.377;

impl Law {
    /// Prompt tokens.
    pub fn prompt(&self) -> u32 {
        u32::try_from(self.front.len()).unwrap_or(u32::MAX)
    }

    /// Factor on the prompt beyond the sinks at a step.
    pub fn prompt_factor(&self, step: u32) -> f64 {
        let at = (f64::from(step) + f64::from(self.prompt()) / 2.0).max(1.0);
        self.prompt_lasts + (1.0 - self.prompt_lasts) * (at / self.prompt_from).powf(-self.decay)
    }

    /// What age leaves of an old token's weight.
    pub fn left(&self, age: f64) -> f64 {
        (age / f64::from(WINDOW)).powf(-self.decay)
    }

    /// Variance of the log of a token's mean over `rows` rows: noise that fades and what it shares with its stretch.
    pub fn spread_over(&self, rows: u32) -> f64 {
        let n = f64::from(rows.max(1));
        let fades = (1.0 + self.noise_keep) / (1.0 - self.noise_keep);
        let own = self.noise.exp_m1() * (fades / n).min(1.0);
        own.ln_1p() + self.revisit * (f64::from(super::SPAN) / n).min(1.0 / REVISIT_LEFT)
    }

    /// The tokens from the first on: known ones, then drawn ones without end.
    ///
    /// `even` draws spread over the donors as evenly as any few of them can, for samples; else they are independent.
    pub fn deal(&self, seed: u64, even: bool) -> Dealer<'_> {
        let mut order: Vec<usize> = (0..self.donors.len()).collect();
        if even {
            order.sort_by(|a, b| self.donors[*a].young.total_cmp(&self.donors[*b].young));
        }
        Dealer {
            law: self,
            rng: stats::stream(seed, Purpose::SynthTokens),
            next: 0,
            even: even.then_some(0.5),
            order,
        }
    }
}

/// Remembers the law of some rows: a plan asks for that of one trace many times.
#[derive(Debug, Default)]
pub struct Memo {
    last: Mutex<Option<(u32, Arc<Law>)>>,
}

impl Memo {
    /// The law of the first `limit` of `rows`, which must always be the same rows.
    ///
    /// # Errors
    /// As [`Law::fit`].
    pub fn law(&self, rows: &dyn Rows, limit: u32) -> Result<Arc<Law>> {
        // A panic elsewhere cannot have left half a law behind.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, law)) = last.as_ref().filter(|(n, _)| *n == limit) {
            return Ok(Arc::clone(law));
        }
        let law = Arc::new(Law::fit(rows, limit)?);
        *last = Some((limit, Arc::clone(&law)));
        Ok(law)
    }
}

/// Hands out the tokens of a law.
#[derive(Clone, Debug)]
pub struct Dealer<'a> {
    law: &'a Law,
    rng: ChaCha8Rng,
    next: u32,
    /// Where the last even draw was taken, 0..1.
    even: Option<f64>,
    /// Donors, by their young factor if drawn evenly.
    order: Vec<usize>,
}

impl Dealer<'_> {
    /// Goes on with the token of step `born`.
    pub fn skip_to(&mut self, born: u32) {
        self.next = born;
    }

    fn donor(&mut self) -> Donor {
        let n = self.order.len();
        let at = match &mut self.even {
            // Steps of the golden ratio never leave a wide gap.
            Some(at) => {
                *at = (*at + GOLDEN).fract();
                #[allow(clippy::cast_possible_truncation)] // below n
                let i = (*at * n as f64) as usize;
                i.min(n - 1)
            }
            None => below(&mut self.rng, n),
        };
        self.law.donors[self.order[at]]
    }

    /// A token born at a step after the recorded ones.
    fn drawn(&mut self, born: u32) -> Token {
        let donor = self.donor();
        let heavy =
            if unit(&mut self.rng) < self.law.heavy_share && !self.law.heavy_weights.is_empty() {
                self.law.heavy_weights[below(&mut self.rng, self.law.heavy_weights.len())]
            } else {
                0.0
            };
        let since = f64::from(born + super::SPAN) / f64::from(donor.born + super::SPAN);
        let narrowed = since.max(1.0).powf(self.law.spread_slope);
        let young = donor.young.powf(narrowed);
        Token {
            young,
            old: donor.aged(young, self.law.lasting),
            heavy,
        }
    }
}

impl Iterator for Dealer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let born = self.next;
        self.next += 1;
        Some(match self.law.tokens.get(born as usize) {
            Some(known) => *known,
            None => self.drawn(born),
        })
    }
}

/// Uniform in 0..1, 53 bits.
pub(super) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (0.5f64).powi(53)
}

/// Uniform whole number below `n` (at least 1).
#[allow(clippy::cast_possible_truncation)] // below n
pub(super) fn below(rng: &mut impl Rng, n: usize) -> usize {
    ((unit(rng) * n as f64) as usize).min(n - 1)
}

/// Nearly normal with variance 1: the sum of four uniform numbers, from one draw. Ends at 3.5 standard deviations,
/// which a weight should not go beyond anyway.
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    let bits = rng.next_u64();
    let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xFFFF).sum();
    // Each part is uniform on 0..65535 with variance 65536^2 / 12; four of them: 65536^2 / 3.
    (sum as f64 - 2.0 * 65535.0) * (3f64.sqrt() / 65536.0)
}
