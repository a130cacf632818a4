//! A seeded random choice of what to keep: the floor that a policy has to beat.
//!
//! Every position draws a number when it is appended; after every step in which more than `budget` tokens are live, the
//! lowest draws go, the first `sinks` positions and the last `window` excepted. The survivors of the middle are then an
//! even sample of all of it, whatever the budget was before. (Fresh draws at every step would favour the young, which
//! have been through fewer of them: that is a recency policy in disguise.) No attention is looked at; the seed alone
//! decides.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::lane::Lane;
use super::registry::tokens_at_least;
use super::{Card, Lanes, Moves, Needs, Param, Policy, Settings, View};
use crate::stats::{Purpose, stream};

/// Parameters of [`Random`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Tokens kept.
    pub budget: u32,
    /// First positions of the sequence, always kept (tokens).
    pub sinks: u32,
    /// Latest positions, always kept (tokens).
    pub window: u32,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            budget: 512,
            sinks: 4,
            window: 128,
            seed: 0,
        }
    }
}

impl Params {
    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        let param = |key, value: u64, help| Param {
            key,
            value: value.to_string(),
            help,
        };
        vec![
            param("budget", self.budget.into(), "tokens kept (default 512)"),
            param(
                "sinks",
                self.sinks.into(),
                "first tokens of the sequence, always kept (default 4)",
            ),
            param(
                "window",
                self.window.into(),
                "latest tokens, always kept (default 128)",
            ),
            param("seed", self.seed, "seed of the draws (default 0)"),
        ]
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget", "sinks", "window", "seed"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = tokens_at_least(value, 1)?,
            "sinks" => self.sinks = tokens_at_least(value, 0)?,
            "window" => self.window = tokens_at_least(value, 1)?,
            _ => {
                self.seed = value
                    .parse()
                    .map_err(|_| format!("`{value}` is not a whole number from 0 to 2^64 - 1"))?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let kept = u64::from(self.sinks) + u64::from(self.window);
        if u64::from(self.budget) < kept {
            return Err(format!(
                "`budget={}` is less than `sinks` and `window` together ({kept} tokens)",
                self.budget
            ));
        }
        Ok(())
    }

    fn live_after(&self, _prompt: u32, _length: u32, live: u32) -> u32 {
        live.min(self.budget)
    }
}

/// The policy.
#[derive(Debug)]
pub struct Random {
    params: Params,
    card: Card,
    draws: ChaCha8Rng,
    tokens: Lane,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(Random {
        card: card(&params),
        draws: stream(params.seed, Purpose::Eviction),
        params,
        tokens: Lane::default(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "random",
        summary: "keeps first, latest and a random sample of the rest: a floor",
        params: params.list(),
        needs: Needs::default(),
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: None,
        source: "a baseline: even sample",
    }
}

impl Policy for Random {
    fn card(&self) -> &Card {
        &self.card
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        let length = u32::try_from(view.tiers.len()).unwrap_or(u32::MAX);
        let draws = &mut self.draws;
        self.tokens.grow(length, |_| draws.random_range(0.0..1.0));
        let n = self.tokens.len();
        let gone = n.saturating_sub(self.params.budget as usize);
        if gone > 0 {
            let middle = self.params.sinks as usize..n - self.params.window as usize;
            self.tokens.drop_lowest(middle, gone, moves);
        }
    }
}
