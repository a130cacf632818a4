//! The ceiling: four-tier's budgets, filled by the attention that is still to come.
//!
//! Not a policy that could run: it reads every later row of the trace. At each re-tier it keeps in T0 the candidates
//! with the most attention over the rest of the trace, and destroys those with the least, within exactly the budgets
//! that `four-tier` with the same parameters would have. What four-tier loses against it is what a better score could
//! win; what it loses itself is the price of the budget.

use super::four_tier::{self, FourTier, Params};
use super::{Card, Moves, Policy, View};
use crate::score::Rule;

/// The policy.
#[derive(Debug)]
pub struct Oracle {
    inner: FourTier,
    card: Card,
}

impl Oracle {
    /// With four-tier's budgets; `params.score` is replaced by the future.
    pub fn new(params: Params) -> Self {
        let params = Params {
            score: Rule::Future,
            ..params
        };
        Self {
            card: card(&params),
            inner: FourTier::new(params),
        }
    }
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(Oracle::new(params))
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    let mut card = four_tier::card(params);
    card.params.retain(|p| p.key != "score");
    Card {
        name: "oracle",
        summary: "four-tier's budgets filled by future attention: a ceiling",
        oracle: true,
        source: "this program",
        ..card
    }
}

impl Policy for Oracle {
    fn card(&self) -> &Card {
        &self.card
    }

    fn score(&self) -> Option<Rule> {
        Some(Rule::Future)
    }

    fn interval(&self) -> Option<u32> {
        self.inner.interval()
    }

    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves) {
        self.inner.decide(step, view, moves);
    }
}
