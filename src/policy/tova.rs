//! TOVA, token omission via attention: after every step the token with the least weight in the latest row goes.
//!
//! Rule as published (arXiv 2401.06104; `tova_cache.py`): in each layer, if more than `budget` tokens are live, keep the
//! `budget` with the greatest weight in the last query's row, averaged over the layer's heads. No recency and no sinks:
//! the newest token can go at once. The prompt is not protected; the published pass over the prompt evicts by the last
//! prompt row, which traces do not record, so here the first eviction is by row 0.
//!
//! `tova` runs a lane a layer on per-layer rows, and is exact: leaving tokens out scales what is left of a head's row,
//! and the rule only compares. (Averaging heads that lose different shares shifts weights between them; that is the
//! first-order error of any replay.) `tova-mean` runs one lane on mean rows. Ties go to the lower position, which leaves
//! first.

use super::lane::{self, Lane};
use super::registry::tokens_at_least;
use super::{Card, Lanes, Moves, Needs, Param, Policy, Row, Settings, View};

/// Parameters of [`Tova`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Tokens kept.
    pub budget: u32,
    /// On mean rows, under the name of an approximation.
    pub mean: bool,
}

impl Params {
    /// Defaults, of the exact rule or of the approximation on mean rows.
    pub fn new(mean: bool) -> Self {
        Self { budget: 512, mean }
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget"]
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<(), String> {
        self.budget = tokens_at_least(value, 1)?;
        Ok(())
    }

    fn live_after(&self, _prompt: u32, _length: u32, live: u32) -> u32 {
        live.min(self.budget)
    }
}

/// The policy.
#[derive(Debug)]
pub struct Tova {
    params: Params,
    card: Card,
    lanes: Vec<Lane>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(Tova {
        card: card(&params),
        params,
        lanes: Vec::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    let exact = Card {
        name: "tova",
        summary: "drops the least weight of the latest row, each layer its own",
        params: vec![Param {
            key: "budget",
            value: params.budget.to_string(),
            help: "tokens kept (default 512)",
        }],
        needs: Needs {
            layers: true,
            ..Needs::default()
        },
        lanes: Lanes::Layer,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: Some("tova-mean"),
        source: "arXiv 2401.06104, tova_cache.py",
    };
    if !params.mean {
        return exact;
    }
    exact.on_mean_rows(
        "tova-mean",
        "tova on mean rows: one set of tokens for all layers",
    )
}

impl Policy for Tova {
    fn card(&self) -> &Card {
        &self.card
    }

    fn observe(&mut self, lane: usize, row: Row<'_>) {
        lane::at(&mut self.lanes, lane).take_row(&row, |value, weight| *value = weight);
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        if let Some(tokens) = self.lanes.get_mut(view.lane) {
            tokens.shrink_to(self.params.budget, moves);
        }
    }
}
