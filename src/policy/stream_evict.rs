//! Evict as the stream goes on: at each re-tier keep a share of all tokens so far, destroy the rest.
//!
//! Kept: the prompt, the first `sinks` tokens after it, the last `window`, and of the others those with the best score
//! until `ceil(budget * n)` tokens of the n so far are alive. Where the protected tokens alone are more than that, they
//! are all that is kept. The budget is a share of what exists, never of the final length, which a real run cannot know.
//!
//! It is four-tier with two tiers and a running budget: the plainest rival of four-tier at an equal retained count.
//! The product is in f64 and rounded up; ties go to the lower position, which leaves first.

use super::four_tier::Protected;
use super::rank::lowest;
use super::registry::{positive_share, tokens_at_least};
use super::{Card, Lanes, Moves, Needs, Param, Policy, Settings, View};
use crate::score::Rule;
use crate::timeline::Tier;

/// Parameters of [`StreamEvict`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Share of all tokens so far that may live.
    pub budget: f64,
    /// First tokens after the prompt, always kept (tokens).
    pub sinks: u32,
    /// Latest tokens, always kept (tokens).
    pub window: u32,
    /// Steps between decisions.
    pub interval: u32,
    /// Score ranked by.
    pub score: Rule,
    /// Prompt tokens of the deployment beyond those that are replayed: they count as kept (tokens).
    pub unseen_prompt: i64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            budget: 0.5,
            sinks: 4,
            window: 128,
            interval: 64,
            score: Rule::Cumulative,
            unseen_prompt: 0,
        }
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget", "sinks", "window", "interval", "score"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = positive_share(value)?,
            "sinks" => self.sinks = tokens_at_least(value, 0)?,
            "window" => self.window = tokens_at_least(value, 1)?,
            "interval" => self.interval = tokens_at_least(value, 1)?,
            _ => self.score = Rule::parse(value)?,
        }
        Ok(())
    }

    fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
        if !(length - prompt).is_multiple_of(self.interval) {
            return live;
        }
        let protected = self.protected(prompt, length).count();
        live.min(self.allowed(length).max(protected))
    }
}

impl Params {
    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        let param = |key, value, help| Param { key, value, help };
        vec![
            param(
                "budget",
                self.budget.to_string(),
                "share of all tokens so far that may live, rounded up (default 0.5)",
            ),
            param(
                "sinks",
                self.sinks.to_string(),
                "first tokens after the prompt, always kept (default 4)",
            ),
            param(
                "window",
                self.window.to_string(),
                "latest tokens, always kept (default 128)",
            ),
            param(
                "interval",
                self.interval.to_string(),
                "steps between decisions (default 64)",
            ),
            param(
                "score",
                self.score.to_string(),
                "cumulative, per-age, ema:LAMBDA or last (default cumulative)",
            ),
        ]
    }

    /// Tokens that may live of a sequence of `length`.
    fn allowed(&self, length: u32) -> u32 {
        let all = i64::from(length) + self.unseen_prompt;
        #[allow(clippy::cast_possible_truncation)] // at most `all`
        let budget = (self.budget * all as f64).ceil() as i64;
        u32::try_from(budget - self.unseen_prompt).unwrap_or(0)
    }

    fn protected(&self, prompt: u32, length: u32) -> Protected {
        Protected::between(prompt.saturating_add(self.sinks), self.window, length)
    }
}

/// The policy.
#[derive(Debug)]
pub struct StreamEvict {
    params: Params,
    card: Card,
    live: Vec<u32>,
    scores: Vec<f64>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(StreamEvict {
        card: card(&params),
        params,
        live: Vec::new(),
        scores: Vec::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "stream-evict",
        summary: "keeps a share of all tokens so far, best by attention",
        params: params.list(),
        needs: Needs {
            mean: true,
            ..Needs::default()
        },
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: None,
        source: "this program: four-tier's score with a running budget",
    }
}

impl Policy for StreamEvict {
    fn card(&self) -> &Card {
        &self.card
    }

    fn score(&self) -> Option<Rule> {
        Some(self.params.score)
    }

    fn interval(&self) -> Option<u32> {
        Some(self.params.interval)
    }

    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves) {
        let due = (step + 1).is_multiple_of(self.params.interval);
        let Some(score) = view.score.filter(|_| due) else {
            return;
        };
        let length = u32::try_from(view.tiers.len()).unwrap_or(u32::MAX);
        let protected = self.params.protected(view.prompt, length);
        self.live.clear();
        self.live.extend(
            protected
                .candidates()
                .filter(|p| view.tiers[*p as usize] != Tier::T3),
        );
        self.scores.clear();
        self.scores.extend(self.live.iter().map(|p| score.of(*p)));
        let room = self
            .params
            .allowed(length)
            .saturating_sub(protected.count());
        let gone = self.live.len().saturating_sub(room as usize);
        lowest(&self.scores, gone, |i| moves.put(self.live[i], Tier::T3));
    }
}
