//! A law from a handful of numbers.
//!
//! The defaults are what [`Law::fit`] finds on recordings of `SmolLM2` of 1,000 to 2,500 rows, the shipped ones among
//! them, rounded (see the fields). Shares are those
//! of a row once the middle has levelled off, some 1,000 steps on; what they leave goes to the prompt beyond its sinks.

use super::WINDOW;
use super::law::{Donor, Law, SINKS, normal};
use crate::error::{Error, Result};
use crate::stats::{self, Purpose};

/// The numbers.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Shape {
    /// Share on the first four positions (0.27; recorded 0.265 to 0.274).
    pub sinks: f64,
    /// Share on the latest 128 tokens (0.41; recorded 0.40 to 0.42).
    pub recency: f64,
    /// Share on older generated tokens after 1,000 steps (0.20; recorded 0.15 to 0.28).
    pub middle: f64,
    /// Share of the tokens that are heavy hitters: they do not decay (0.004; recorded 0 to 0.016).
    pub heavy: f64,
    /// Share of the heavy hitters that give way to others within 64 steps (0.01).
    pub drift: f64,
    /// Standard deviation of the log of what a stretch of text draws from one 64 rows to the next (0.2; recorded 0.09
    /// to 0.26).
    pub revisit: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            sinks: 0.27,
            recency: 0.41,
            middle: 0.20,
            heavy: 0.004,
            drift: 0.01,
            revisit: 0.2,
        }
    }
}

/// Step at which the shares hold.
const LEVEL: u32 = 1000;
/// Power of decay with age, 128 tokens on.
const DECAY: f64 = 1.2;
/// Standard deviations of the logs of young and old factors, and how they go together.
const SPREAD: (f64, f64, f64) = (0.4, 0.5, 0.75);
/// A heavy hitter's weight over a typical token's at age 128.
const HEAVY: f64 = 10.0;
/// Noise of single rows (variance of the log) and what it keeps.
const NOISE: (f64, f64) = (0.45, 0.7);
/// Tokens a revisited stretch reaches.
const REACH: f64 = 20.0;
/// Tokens to draw new ones from.
const DONORS: u32 = 512;

impl Shape {
    /// Checks that the numbers can be.
    ///
    /// # Errors
    /// Usage: naming the flag.
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("sinks", self.sinks),
            ("recency", self.recency),
            ("middle", self.middle),
            ("heavy", self.heavy),
            ("drift", self.drift),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::usage(format!("--{name} {share} is not a share"))
                    .help("write a number from 0 to 1"));
            }
        }
        if !(0.0..=2.0).contains(&self.revisit) {
            return Err(Error::usage(format!(
                "--revisit {} is not a spread of logs",
                self.revisit
            ))
            .help("write a number from 0 to 2"));
        }
        let sum = self.sinks + self.recency + self.middle;
        if sum > 1.0 + 1e-9 {
            return Err(Error::usage(format!(
                "--sinks {}, --recency {} and --middle {} are together {sum:.3}, more than all attention",
                self.sinks, self.recency, self.middle
            ))
            .help("what they leave goes to the prompt; let them sum to at most 1"));
        }
        if self.recency <= 0.0 {
            return Err(Error::usage(
                "--recency 0 leaves the first generated token nothing to attend to",
            )
            .help("a token attends at least to itself: write a share above 0"));
        }
        Ok(())
    }

    /// The law for a prompt of some tokens.
    ///
    /// # Errors
    /// As [`Shape::check`].
    pub fn law(&self, prompt: u32, seed: u64) -> Result<Law> {
        self.check()?;
        let donors = donors(seed);
        let drawn = crate::stats::mean(donors.iter().map(|d| d.old));
        let law = Law {
            rows: 0,
            front: self.front(prompt),
            prompt_lasts: 1.0,
            prompt_from: 1.0,
            kernel: kernel(self.recency),
            decay: DECAY,
            tokens: Vec::new(),
            donors: Vec::new(),
            spread_slope: 0.0,
            lasting: SPREAD.2 * SPREAD.1 / SPREAD.0,
            heavy_share: self.heavy,
            heavy_weights: Vec::new(),
            heavy_loss: self.drift,
            noise: NOISE.0,
            noise_keep: NOISE.1,
            revisit: self.revisit * self.revisit,
            revisit_reach: REACH,
        };
        // A middle token's weight at age 128 such that all of them have the share asked for at the level.
        let ages = WINDOW..LEVEL;
        let decayed: f64 = ages.clone().map(|a| law.left(f64::from(a))).sum();
        let lasting = f64::from(LEVEL - WINDOW) * self.heavy * HEAVY;
        let typical = self.middle / (decayed + lasting);
        Ok(Law {
            donors: donors
                .into_iter()
                .map(|d| Donor {
                    old: d.old / drawn * typical,
                    ..d
                })
                .collect(),
            heavy_weights: [0.5, 1.0, 1.5].map(|x| x * HEAVY * typical).to_vec(),
            ..law
        })
    }

    fn front(&self, prompt: u32) -> Vec<f64> {
        let n = prompt as usize;
        let sinks = SINKS.min(n);
        let rest = (1.0 - self.sinks - self.recency - self.middle).max(0.0);
        // The first position has most of what the sinks have.
        let steps: f64 = (1..=sinks).map(|i| 1.0 / (i * i) as f64).sum();
        (0..n)
            .map(|p| {
                if p < sinks {
                    self.sinks / ((p + 1) * (p + 1)) as f64 / steps
                } else {
                    rest / (n - sinks) as f64
                }
            })
            .collect()
    }
}

/// Weight by age: `1 / (age + 1)`, own position at half of that, as recorded within a factor of 1.3.
fn kernel(share: f64) -> Vec<f64> {
    let raw = |age: u32| {
        if age == 0 {
            0.5
        } else {
            1.0 / f64::from(age + 1)
        }
    };
    let sum: f64 = (0..WINDOW).map(raw).sum();
    (0..WINDOW).map(|age| share * raw(age) / sum).collect()
}

/// Tokens with log-normal factors.
fn donors(seed: u64) -> Vec<Donor> {
    let mut rng = stats::stream(seed, Purpose::SynthTokens);
    let (young, old, together) = SPREAD;
    (0..DONORS)
        .map(|_| {
            let (a, b) = (normal(&mut rng), normal(&mut rng));
            let other = together * a + (1.0 - together * together).sqrt() * b;
            Donor {
                young: (young * a - young * young / 2.0).exp(),
                old: (old * other).exp(),
                born: LEVEL,
            }
        })
        .collect()
}
