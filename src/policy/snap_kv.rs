//! `SnapKV`: compresses the prompt once, by what its last queries attend to.
//!
//! Rule as published (arXiv 2404.14469; `snapkv_utils.py`): the attention of the last `window` prompt queries on each
//! earlier prompt position is summed, smoothed by an average over `kernel` neighbours (zeros beyond the ends), and the
//! `budget - window` best stay together with the last `window`. No-op if the prompt is within `budget`. Generated
//! tokens are never evicted, so a long chain of thought is not compressed at all.
//!
//! `snap-kv` runs a lane a KV head from recorded keys and queries, averaged over the query heads of the group; it takes
//! effect after step 0, which attends to all of the prompt. `snap-kv-mean` runs one lane on mean rows: those of the
//! prompt are not recorded, so the first `window` decode rows stand in for them, and it acts after the last of those.
//!
//! Defaults 32 and 2048, as in the published runs (its class has 64 and 320). Ties go to the lower position, which
//! leaves first.

use super::lane::{self, Lane};
use super::registry::tokens_at_least;
use super::{Card, Keys, Lanes, Moves, Needs, Param, Policy, Row, Settings, View, attend};

/// Parameters of [`SnapKv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Prompt tokens kept.
    pub budget: u32,
    /// Queries looked at; as many of the latest prompt tokens stay.
    pub window: u32,
    /// Width of the average, odd (tokens).
    pub kernel: u32,
    /// On mean rows, under the name of an approximation.
    pub mean: bool,
}

impl Params {
    /// Defaults, of the exact rule or of the approximation on mean rows.
    pub fn new(mean: bool) -> Self {
        Self {
            budget: 2048,
            window: 32,
            kernel: 5,
            mean,
        }
    }

    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        let param = |key, value: u32, help| Param {
            key,
            value: value.to_string(),
            help,
        };
        vec![
            param("budget", self.budget, "prompt tokens kept (default 2048)"),
            param(
                "window",
                self.window,
                "queries looked at, and latest prompt tokens kept (default 32)",
            ),
            param(
                "kernel",
                self.kernel,
                "neighbours averaged over, odd (default 5)",
            ),
        ]
    }

    /// Length of the sequence at which it acts.
    fn acts_at(&self, prompt: u32) -> u32 {
        prompt.saturating_add(if self.mean { self.window } else { 1 })
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["budget", "window", "kernel"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = tokens_at_least(value, 1)?,
            "window" => self.window = tokens_at_least(value, 1)?,
            _ => self.kernel = tokens_at_least(value, 1)?,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.budget <= self.window {
            return Err(format!(
                "`budget={}` must be over `window={}`, which always stays",
                self.budget, self.window
            ));
        }
        if self.kernel.is_multiple_of(2) {
            return Err(format!(
                "`kernel={}` must be odd, to have a middle",
                self.kernel
            ));
        }
        Ok(())
    }

    fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
        if length == self.acts_at(prompt) {
            live - prompt.saturating_sub(self.budget)
        } else {
            live
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct SnapKv {
    params: Params,
    card: Card,
    prompt: u32,
    lanes: Vec<Lane>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(SnapKv {
        card: card(&params),
        params,
        prompt: 0,
        lanes: Vec::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    let exact = Card {
        name: "snap-kv",
        summary: "compresses the prompt once, by what its last queries attend to",
        params: params.list(),
        needs: Needs {
            prompt_queries: Some(params.window),
            ..Needs::default()
        },
        lanes: Lanes::KvHead,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: Some("snap-kv-mean"),
        source: "arXiv 2404.14469, snapkv_utils.py",
    };
    if !params.mean {
        return exact;
    }
    exact.on_mean_rows(
        "snap-kv-mean",
        "snap-kv on the first mean rows of the answer",
    )
}

/// Average over `kernel` neighbours, zeros beyond the ends.
fn smooth(values: &mut [f64], kernel: usize) {
    let raw = values.to_vec();
    let reach = kernel / 2;
    for (i, value) in values.iter_mut().enumerate() {
        let near = i.saturating_sub(reach)..(i + reach + 1).min(raw.len());
        *value = raw[near].iter().sum::<f64>() / kernel as f64;
    }
}

impl SnapKv {
    /// Attention of the last prompt queries, summed.
    fn look(&mut self, lane: usize, keys: &Keys<'_>) {
        let all: Vec<u32> = (0..self.prompt).collect();
        let window = self.params.window.min(self.prompt);
        let tokens = lane::at(&mut self.lanes, lane);
        tokens.grow(keys.length(), |_| 0.0);
        for from in self.prompt - window..self.prompt {
            attend::add(tokens.values_mut(), &keys.attention(from, &all));
        }
    }
}

impl Policy for SnapKv {
    fn card(&self) -> &Card {
        &self.card
    }

    fn begin(&mut self, prompt: u32, _column_sums: Option<&[f32]>) {
        self.prompt = prompt;
    }

    fn observe(&mut self, lane: usize, row: Row<'_>) {
        if row.length() > self.params.acts_at(self.prompt) {
            return;
        }
        match row.keys.filter(|_| !self.params.mean) {
            Some(keys) => self.look(lane, &keys),
            None => lane::at(&mut self.lanes, lane).take_row(&row, |sum, weight| *sum += weight),
        }
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        let gone = self.prompt.saturating_sub(self.params.budget) as usize;
        if gone == 0 || view.tiers.len() != self.params.acts_at(self.prompt) as usize {
            return;
        }
        if let Some(tokens) = self.lanes.get_mut(view.lane) {
            let open = (self.prompt - self.params.window) as usize;
            smooth(
                &mut tokens.values_mut()[..open],
                self.params.kernel as usize,
            );
            tokens.drop_lowest(0..open, gone, moves);
        }
    }
}
