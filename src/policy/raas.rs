//! `RaaS`: pages of generated tokens, dated by when they last mattered; the page that has not mattered longest goes.
//!
//! Rule as published (arXiv 2502.11147): the prompt is pinned; generated tokens form pages of `page` tokens; a page on
//! which a step's row puts more than `alpha` is dated anew; when more than `budget` tokens are live, the page with the
//! oldest date is destroyed. The page being filled counts as dated by every step. A page's weight is the sum over its
//! tokens in the mean row. The published *code* differs: it dates the best half of the budget's pages by an estimate from
//! keys; that variant is not here. Mean rows are flat: a page of 16 draws more than the published 1e-4 at nearly every
//! step, and then the rule is first in, first out; from about 0.01 on it chooses. Pinning follows the paper: a prompt over budget leaves only the newest page.
//!
//! Ties go to the older page, which leaves first. Pages are counted from the end of the prompt.

use super::registry::{positive_share, tokens_at_least};
use super::{Card, Lanes, Moves, Needs, Param, Policy, Row, Settings, View};
use crate::timeline::Tier;

/// Parameters of [`Raas`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Tokens kept, the prompt included.
    pub budget: u32,
    /// Tokens a page.
    pub page: u32,
    /// Weight over which a page is dated anew.
    pub alpha: f64,
    /// Prompt tokens of the deployment beyond those that are replayed: they count against the budget (tokens).
    pub unseen_prompt: i64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            budget: 1024,
            page: 16,
            alpha: 1e-4,
            unseen_prompt: 0,
        }
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
                "tokens kept, the prompt included (default 1024)",
            ),
            param("page", self.page.to_string(), "tokens a page (default 16)"),
            param(
                "alpha",
                self.alpha.to_string(),
                "weight over which a page counts as used (default 0.0001)",
            ),
        ]
    }

    /// The budget of what is replayed.
    fn allowed(&self) -> u32 {
        u32::try_from(i64::from(self.budget) - self.unseen_prompt).unwrap_or(0)
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget", "page", "alpha"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = tokens_at_least(value, 1)?,
            "page" => self.page = tokens_at_least(value, 1)?,
            _ => self.alpha = positive_share(value)?,
        }
        Ok(())
    }

    fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
        let over = live.saturating_sub(self.allowed());
        // All pages but the newest are full.
        let newest = (length - prompt - 1) % self.page + 1;
        let full = (live - prompt - newest) / self.page;
        live - over.div_ceil(self.page).min(full) * self.page
    }
}

/// Generated tokens that live and die together.
#[derive(Clone, Copy, Debug)]
struct Page {
    first: u32,
    /// Length of the sequence when it was last dated.
    date: u32,
}

/// The policy.
#[derive(Debug)]
pub struct Raas {
    params: Params,
    card: Card,
    prompt: u32,
    /// Live pages, ascending.
    pages: Vec<Page>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(Raas {
        card: card(&params),
        params,
        prompt: 0,
        pages: Vec::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "raas",
        summary: "drops the page that went longest without attention",
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
        source: "arXiv 2502.11147, the paper's rule (its code dates the top half of the pages instead)",
    }
}

impl Raas {
    /// Weight of the row on each live page.
    fn weights(&self, row: &Row<'_>) -> Vec<f64> {
        let mut sums = vec![0.0; self.pages.len()];
        let mut page = 0;
        let mut add = |position: u32, weight: f32| {
            if position < self.prompt {
                return;
            }
            while self.pages[page].first + self.params.page <= position {
                page += 1;
            }
            sums[page] += f64::from(weight);
        };
        match row.positions {
            Some(positions) => positions
                .iter()
                .zip(row.weights)
                .for_each(|(p, w)| add(*p, *w)),
            None => (0..).zip(row.weights).for_each(|(p, w)| add(p, *w)),
        }
        sums
    }
}

impl Policy for Raas {
    fn card(&self) -> &Card {
        &self.card
    }

    fn begin(&mut self, prompt: u32, _column_sums: Option<&[f32]>) {
        self.prompt = prompt;
    }

    fn observe(&mut self, _lane: usize, row: Row<'_>) {
        let length = row.length();
        let own = length - 1;
        if (own - self.prompt).is_multiple_of(self.params.page) {
            self.pages.push(Page {
                first: own,
                date: length,
            });
        }
        let sums = self.weights(&row);
        let newest = self.pages.len() - 1;
        for (i, (page, sum)) in self.pages.iter_mut().zip(sums).enumerate() {
            if sum > self.params.alpha || i == newest {
                page.date = length;
            }
        }
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        let length = u32::try_from(view.tiers.len()).unwrap_or(u32::MAX);
        while self.pages.len() > 1 {
            let newest = self.pages[self.pages.len() - 1];
            let full = u32::try_from(self.pages.len() - 1).unwrap_or(u32::MAX);
            let live = self.prompt + full * self.params.page + (length - newest.first);
            if live <= self.params.allowed() {
                return;
            }
            let older = self.pages[..self.pages.len() - 1].iter().enumerate();
            let Some((oldest, _)) = older.min_by_key(|(_, page)| page.date) else {
                return;
            };
            let page = self.pages.remove(oldest);
            for position in page.first..page.first + self.params.page {
                moves.put(position, Tier::T3);
            }
        }
    }
}
