//! Draws the next token: temperature, then the nucleus.
//!
//! The draw of a step depends on the seed, the prompt's number and the step alone, so a resumed recording draws what an
//! uninterrupted one does. Weights are binary64; ties lie in the order of token ids. Log-probabilities are natural, of
//! the model itself (temperature 1, whole vocabulary).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Softmax temperature; 0 takes the likeliest token.
    pub temperature: f64,
    /// Share of the probability that is drawn from, the likeliest tokens first; 0 < `top_p` <= 1.
    pub top_p: f64,
    /// Seed of all draws.
    pub seed: u64,
}

/// A token and the model's natural log-probability of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// The token.
    pub token: u32,
    /// Its natural log-probability.
    pub logp: f64,
}

impl Sampler {
    /// Draws a token at `step` of the text number `text`.
    ///
    /// # Errors
    /// Data: a logit is not finite.
    pub fn draw(&self, logits: &[f32], text: u64, step: u32) -> Result<Drawn> {
        let best = likeliest(logits)?;
        let token = if self.temperature > 0.0 {
            self.nucleus(logits, best, text, step)
        } else {
            best
        };
        Ok(Drawn {
            token,
            logp: log_probability(logits, best, token),
        })
    }

    fn nucleus(&self, logits: &[f32], best: u32, text: u64, step: u32) -> u32 {
        let high = f64::from(logits[best as usize]);
        // Beyond e^-40 a token has no part in any nucleus that can be drawn from.
        let mut weights: Vec<(f64, u32)> = (0u32..)
            .zip(logits)
            .map(|(id, l)| ((f64::from(*l) - high) / self.temperature, id))
            .filter(|(x, _)| *x > -40.0)
            .map(|(x, id)| (x.exp(), id))
            .collect();
        weights.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let whole: f64 = weights.iter().map(|w| w.0).sum();
        let mut kept = 0.0;
        let inside = weights.iter().take_while(|(w, _)| {
            let open = kept < self.top_p * whole;
            if open {
                kept += w;
            }
            open
        });
        let count = inside.count().max(1);
        let mut at = uniform(self.seed, text, step) * kept;
        for (w, id) in &weights[..count] {
            at -= w;
            if at < 0.0 {
                return *id;
            }
        }
        weights[count - 1].1
    }
}

/// A number in 0..1 that belongs to this step.
fn uniform(seed: u64, text: u64, step: u32) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(text);
    rng.set_word_pos(u128::from(step) * 2);
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The token of the highest logit, the first of equals.
///
/// # Errors
/// Data: a logit is not finite.
pub fn likeliest(logits: &[f32]) -> Result<u32> {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, l) in (0u32..).zip(logits) {
        if !l.is_finite() {
            return Err(Error::data("the model's logits are not finite")
                .help("its weights are damaged, or its numbers outgrow binary32"));
        }
        if *l > best.1 {
            best = (id, *l);
        }
    }
    Ok(best.0)
}

/// Natural log-probability of a token, given the likeliest one.
pub fn log_probability(logits: &[f32], best: u32, token: u32) -> f64 {
    let high = f64::from(logits[best as usize]);
    let sum: f64 = logits.iter().map(|l| (f64::from(*l) - high).exp()).sum();
    f64::from(logits[token as usize]) - high - sum.ln()
}
