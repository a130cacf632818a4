//! R-KV: every `interval` tokens, keep what is important and not redundant.
//!
//! Rule as published (arXiv 2505.24133; `rkv/compression/r1_kv.py`), in each KV head:
//! 1. When `interval` divides the tokens seen after a forward pass, the next pass compresses after its own attention if
//!    at least `budget` tokens are live. So does the pass over the prompt. (The published counter is never reset
//!    between samples; here it starts with the sequence.)
//! 2. Importance: logits of the last `window` queries, the greatest over the query heads of the group, softmax over all
//!    tokens but the last `window`, mean over the queries, greatest within 7 neighbours.
//! 3. Redundancy: cosines of all keys, diagonal 0; in each row the last one over 0.5 set to 0 (the first one if there is
//!    none); column means; softmax; the last `window` then left out.
//! 4. Kept: the last `window` and the `budget - window` greatest of `lambda * importance - (1 - lambda) * redundancy`.
//!
//! `r-kv` runs a lane a KV head from recorded keys and queries; what the pass over the prompt drops takes effect after
//! step 0. `r-kv-importance` knows no keys: one lane on mean rows, lambda = 1, the last `window` rows each renormalised
//! without the last `window` tokens. Ties go to the lower position, which leaves first. O(live^2 * width) a compression.

mod score;

use std::collections::VecDeque;

use score::{importance, mean_importance, redundancy, spread};

use super::lane::{self, Lane};
use super::registry::tokens_at_least;
use super::{Card, Keys, Lanes, Moves, Needs, Param, Policy, Row, Settings, View};
use crate::units::text;

/// Parameters of [`RKv`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Tokens left by a compression.
    pub budget: u32,
    /// Queries looked at; as many of the latest tokens stay.
    pub window: u32,
    /// Tokens between compressions.
    pub interval: u32,
    /// Share of importance in the score; 1 without keys.
    pub lambda: f64,
    /// On mean rows, under the name of an approximation.
    pub mean: bool,
}

impl Params {
    /// Defaults, of the exact rule or of the approximation on mean rows.
    pub fn new(mean: bool) -> Self {
        Self {
            budget: 128,
            window: 8,
            interval: 128,
            lambda: if mean { 1.0 } else { 0.07 },
            mean,
        }
    }

    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        let param = |key, value, help| Param { key, value, help };
        let mut list = vec![
            param(
                "budget",
                self.budget.to_string(),
                "tokens left by a compression (default 128)",
            ),
            param(
                "window",
                self.window.to_string(),
                "queries looked at, and latest tokens kept (default 8)",
            ),
            param(
                "interval",
                self.interval.to_string(),
                "tokens between compressions (default 128)",
            ),
        ];
        if !self.mean {
            list.push(param(
                "lambda",
                self.lambda.to_string(),
                "share of importance in the score, the rest is redundancy (default 0.07)",
            ));
        }
        list
    }

    /// Whether the pass that made the sequence `length` long compresses.
    fn due(&self, length: u32) -> bool {
        (length - 1).is_multiple_of(self.interval)
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        let all = &["budget", "window", "interval", "lambda"];
        if self.mean { &all[..3] } else { all }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "budget" => self.budget = tokens_at_least(value, 1)?,
            "window" => self.window = tokens_at_least(value, 1)?,
            "interval" => self.interval = tokens_at_least(value, 1)?,
            _ => self.lambda = text::share(value)?,
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
        Ok(())
    }

    fn live_after(&self, prompt: u32, length: u32, live: u32) -> u32 {
        let live = if length == prompt + 1 {
            prompt.min(self.budget) + 1
        } else {
            live
        };
        if self.due(length) {
            live.min(self.budget)
        } else {
            live
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct RKv {
    params: Params,
    card: Card,
    prompt: u32,
    lanes: Vec<Lane>,
    /// What the latest compression drops, by lane, until the step decides.
    pending: Vec<Moves>,
    /// The last mean rows by position, oldest first.
    rows: VecDeque<Vec<f64>>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(RKv {
        card: card(&params),
        params,
        prompt: 0,
        lanes: Vec::new(),
        pending: Vec::new(),
        rows: VecDeque::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    let exact = Card {
        name: "r-kv",
        summary: "keeps what matters and is not redundant, each KV head its own",
        params: params.list(),
        needs: Needs {
            prompt_queries: Some(params.window),
            ..Needs::default()
        },
        lanes: Lanes::KvHead,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: Some("r-kv-importance"),
        source: "arXiv 2505.24133, rkv/compression/r1_kv.py",
    };
    if !params.mean {
        return exact;
    }
    exact.on_mean_rows("r-kv-importance", "r-kv without redundancy, on mean rows")
}

impl RKv {
    /// Compresses a lane to the budget, by the queries up to the latest.
    fn compress(&mut self, lane: usize, keys: Option<&Keys<'_>>, moves: &mut Moves) {
        let (params, rows) = (&self.params, &self.rows);
        let tokens = &mut self.lanes[lane];
        let n = tokens.len();
        if n <= params.budget as usize {
            return;
        }
        let older = n - params.window as usize;
        let live = tokens.positions();
        let scores = match keys {
            None => spread(&mean_importance(rows, &live[..older])),
            Some(keys) => {
                let last = live[n - 1];
                let important = spread(&importance(keys, params.window, last, &live[..older]));
                let alike = redundancy(keys, live);
                let mix = |(i, r)| params.lambda * i - (1.0 - params.lambda) * r;
                important.iter().zip(&alike).map(mix).collect()
            }
        };
        tokens.values_mut()[..older].copy_from_slice(&scores);
        tokens.drop_lowest(0..older, n - params.budget as usize, moves);
    }
}

impl Policy for RKv {
    fn card(&self) -> &Card {
        &self.card
    }

    fn begin(&mut self, prompt: u32, _column_sums: Option<&[f32]>) {
        self.prompt = prompt;
    }

    fn observe(&mut self, lane: usize, row: Row<'_>) {
        let length = row.length();
        let keys = row.keys.filter(|_| !self.params.mean);
        if keys.is_none() {
            self.keep_row(&row);
        }
        let mut moves = Moves::default();
        if lane == self.lanes.len() {
            lane::at(&mut self.lanes, lane).grow(self.prompt, |_| 0.0);
            self.compress(lane, keys.as_ref(), &mut moves);
        }
        self.lanes[lane].grow(length, |_| 0.0);
        if self.params.due(length) {
            self.compress(lane, keys.as_ref(), &mut moves);
        }
        if self.pending.len() <= lane {
            self.pending.resize_with(lane + 1, Moves::default);
        }
        self.pending[lane] = moves;
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        if let Some(pending) = self.pending.get_mut(view.lane) {
            moves.append(pending);
        }
    }
}

impl RKv {
    /// Remembers the last mean rows.
    fn keep_row(&mut self, row: &Row<'_>) {
        let mut whole = if self.rows.len() == self.params.window as usize {
            self.rows.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        whole.clear();
        whole.resize(row.length() as usize, 0.0);
        match row.positions {
            Some(positions) => {
                for (p, w) in positions.iter().zip(row.weights) {
                    whole[*p as usize] = f64::from(*w);
                }
            }
            None => {
                for (slot, w) in whole.iter_mut().zip(row.weights) {
                    *slot = f64::from(*w);
                }
            }
        }
        self.rows.push_back(whole);
    }
}
