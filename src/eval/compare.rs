//! Two predictions of one token: the full cache's and a policy's.
//!
//! `KL(full || policy) = sum p (ln p - ln q)` over the whole vocabulary, in binary64 from binary32 logits; equal logits
//! give 0 to the bit. Likeliest tokens are compared with ties to the lower id. Sums run in the order of token ids.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::forward::likeliest;

/// Sums over predicted tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Tokens predicted.
    pub tokens: u32,
    /// Sum of KL(full || policy) \[nat\].
    pub kl: f64,
    /// Tokens whose likeliest prediction is the full cache's.
    pub agreed: u32,
    /// Sum of -ln of the probability that the policy gave the token that came \[nat\].
    pub surprise: f64,
}

/// A distribution over the vocabulary, as logits with the logarithm of their sum.
#[derive(Clone, Copy, Debug)]
pub struct Predicted<'a> {
    logits: &'a [f32],
    /// ln of the sum of exp(logit).
    norm: f64,
    best: u32,
}

impl<'a> Predicted<'a> {
    /// Of these logits.
    ///
    /// # Errors
    /// Data: one of them is not finite.
    pub fn new(logits: &'a [f32]) -> Result<Self> {
        let best = likeliest(logits)?;
        let high = f64::from(logits[best as usize]);
        let sum: f64 = logits.iter().map(|l| (f64::from(*l) - high).exp()).sum();
        Ok(Self {
            logits,
            norm: high + sum.ln(),
            best,
        })
    }

    /// ln of a token's probability.
    fn log(&self, token: u32) -> f64 {
        let logit = self.logits.get(token as usize);
        logit.map_or(f64::NEG_INFINITY, |l| f64::from(*l) - self.norm)
    }

    /// KL from this distribution to another \[nat\].
    pub fn divergence(&self, other: &Self) -> f64 {
        if self.logits == other.logits {
            return 0.0;
        }
        let term = |(p, q): (&f32, &f32)| {
            let (p, q) = (f64::from(*p) - self.norm, f64::from(*q) - other.norm);
            p.exp() * (p - q)
        };
        let sum: f64 = self.logits.iter().zip(other.logits).map(term).sum();
        sum.max(0.0) // rounding alone could take it below
    }
}

impl Tally {
    /// Takes in a prediction of `token`, beside the full cache's.
    pub fn add(&mut self, full: &Predicted<'_>, own: &Predicted<'_>, token: u32) {
        self.tokens += 1;
        self.kl += full.divergence(own);
        self.agreed += u32::from(full.best == own.best);
        self.surprise -= own.log(token);
    }

    /// The sums of two tallies.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            kl: self.kl + other.kl,
            agreed: self.agreed + other.agreed,
            surprise: self.surprise + other.surprise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Predicted, Tally};

    /// p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL = 1/2 ln 2 - 1/4 ln 2 = ln(2)/4 = 0.17328679; the likeliest differ;
    /// -ln q(2) = ln 4 = 1.38629436. Logits may be shifted by anything.
    #[test]
    fn a_divergence_by_hand() {
        let ln2 = std::f32::consts::LN_2;
        let p = [5.0 + ln2, 5.0, 5.0];
        let q = [-3.0, -3.0 + ln2, -3.0];
        let (p, q) = (Predicted::new(&p).unwrap(), Predicted::new(&q).unwrap());
        let mut tally = Tally::default();
        tally.add(&p, &q, 2);
        assert!((tally.kl - 0.173_286_79).abs() < 1e-6, "{tally:?}");
        assert!((tally.surprise - 1.386_294_36).abs() < 1e-6, "{tally:?}");
        assert_eq!((tally.tokens, tally.agreed), (1, 0));
        tally.add(&p, &p, 0);
        // ln 2 more for a token of probability one half, and not a bit of divergence.
        assert!((tally.surprise - 2.079_441_54).abs() < 1e-6, "{tally:?}");
        assert!((tally.kl - 0.173_286_79).abs() < 1e-6);
        assert_eq!((tally.tokens, tally.agreed), (2, 1));
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(Predicted::new(&[0.0, bad]).is_err());
        }
    }
}
