//! Everything stays in HBM: the reference that every other policy is measured against.

use super::{Card, Lanes, Moves, Needs, Policy, Settings, View};

/// No parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params;

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<(), String> {
        Err(format!("`{key}` is no parameter"))
    }
}

/// The full cache.
#[derive(Debug)]
pub struct Full {
    card: Card,
}

impl Full {
    /// The policy; it has no parameters.
    pub fn new() -> Self {
        Self {
            card: card(&Params),
        }
    }
}

impl Default for Full {
    fn default() -> Self {
        Self::new()
    }
}

/// A fresh policy.
pub(super) fn build(_params: Params) -> Box<dyn Policy> {
    Box::new(Full::new())
}

/// How it explains itself.
pub fn card(_params: &Params) -> Card {
    Card {
        name: "full",
        summary: "every token stays in HBM",
        params: Vec::new(),
        needs: Needs::default(),
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: false,
        counts_by_length: true,
        stand_in: None,
        source: "the reference",
    }
}

impl Policy for Full {
    fn card(&self) -> &Card {
        &self.card
    }

    fn decide(&mut self, _step: u32, _view: &View<'_>, _moves: &mut Moves) {}
}
