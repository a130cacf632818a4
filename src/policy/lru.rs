//! Least recently used: the token that has gone longest without being attended to goes.
//!
//! The caching rule of operating systems on attention rows: a token is *used* at a step whose mean row puts at least
//! `alpha` on it; the step that appends a token counts as its first use, those of the prompt as before step 0. After every
//! step in which more than `budget` tokens are live, the one whose latest use is oldest is destroyed. A baseline: `RaaS` is
//! this with pages and a pinned prompt. Ties (the prompt, at first) go to the lower position, which leaves first.

use super::lane::Lane;
use super::registry::{positive_share, tokens_at_least};
use super::{Card, Lanes, Moves, Needs, Param, Policy, Row, Settings, View};

/// Parameters of [`Lru`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Tokens kept.
    pub budget: u32,
    /// Weight from which on a token counts as used.
    pub alpha: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            budget: 512,
            alpha: 1e-3,
        }
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget", "alpha"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = tokens_at_least(value, 1)?,
            _ => self.alpha = positive_share(value)?,
        }
        Ok(())
    }

    fn live_after(&self, _prompt: u32, _length: u32, live: u32) -> u32 {
        live.min(self.budget)
    }
}

/// The policy.
#[derive(Debug)]
pub struct Lru {
    params: Params,
    card: Card,
    tokens: Lane,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(Lru {
        card: card(&params),
        params,
        tokens: Lane::default(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "lru",
        summary: "drops the token that went longest without attention",
        params: vec![
            Param {
                key: "budget",
                value: params.budget.to_string(),
                help: "tokens kept (default 512)",
            },
            Param {
                key: "alpha",
                value: params.alpha.to_string(),
                help: "weight from which on a token counts as used (default 0.001)",
            },
        ],
        needs: Needs {
            mean: true,
            ..Needs::default()
        },
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: None,
        source: "a baseline: least recently used",
    }
}

impl Policy for Lru {
    fn card(&self) -> &Card {
        &self.card
    }

    fn begin(&mut self, prompt: u32, _column_sums: Option<&[f32]>) {
        self.tokens.grow(prompt, |_| 0.0);
    }

    fn observe(&mut self, _lane: usize, row: Row<'_>) {
        // Uses are dated by the length of the sequence, the prompt's by 0.
        let now = f64::from(row.length());
        let alpha = self.params.alpha;
        self.tokens.grow(row.length(), |_| now);
        self.tokens.take_row(&row, |used, weight| {
            if weight >= alpha {
                *used = now;
            }
        });
    }

    fn decide(&mut self, _step: u32, _view: &View<'_>, moves: &mut Moves) {
        self.tokens.shrink_to(self.params.budget, moves);
    }
}
