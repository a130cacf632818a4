//! Everything stays in HBM: the reference that every other policy is measured against.

use super::{Card, Lanes, Moves, Needs, Policy, View};

/// The full cache.
#[derive(Debug)]
pub struct Full {
    card: Card,
}

impl Full {
    /// The policy; it has no parameters.
    pub fn new() -> Self {
        Self { card: card() }
    }
}

impl Default for Full {
    fn default() -> Self {
        Self::new()
    }
}

/// How it explains itself.
pub fn card() -> Card {
    Card {
        name: "full",
        summary: "every token stays in HBM",
        params: Vec::new(),
        needs: Needs::default(),
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: false,
        counts_by_length: true,
        source: "the reference",
    }
}

impl Policy for Full {
    fn card(&self) -> &Card {
        &self.card
    }

    fn interval(&self) -> u32 {
        0
    }

    fn decide(&mut self, _step: u32, _view: &View<'_>, _moves: &mut Moves) {}
}
