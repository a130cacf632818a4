//! H2O, the heavy-hitter oracle: the tokens with the most attention so far, and the latest ones.
//!
//! Rule as published (arXiv 2306.14048; `utils_real_drop/modify_llama.py`): each head sums the attention that every live
//! token receives, the prompt's own rows included; after every forward pass in which more than `heavy + recent` tokens
//! are live, the `recent` latest stay and of the others the `heavy` with the greatest sums. The prompt is not protected
//! and there are no sinks. The pass over the prompt evicts too; a replay begins with decode steps, so that eviction
//! takes effect after step 0 (which attends to all of the prompt) and is otherwise the same.
//!
//! `h2o` runs a lane a KV head, from recorded keys and queries: attention over what the lane has kept, summed over the
//! query heads of the group (the published code has one each). `h2o-mean` runs one lane for the sequence on mean rows
//! as recorded, starting from the prompt's column sums where the trace has them.
//!
//! Defaults 1024 + 1024, as in the published summarisation runs. Ties go to the lower position, which leaves first.

use super::lane::{self, Lane};
use super::registry::tokens_at_least;
use super::{Card, Keys, Lanes, Moves, Needs, Param, Policy, Row, Settings, View};

/// Parameters of [`H2o`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Tokens kept by their sums.
    pub heavy: u32,
    /// Latest tokens kept.
    pub recent: u32,
    /// On mean rows, under the name of an approximation.
    pub mean: bool,
}

impl Params {
    /// Defaults, of the exact rule or of the approximation on mean rows.
    pub fn new(mean: bool) -> Self {
        Self {
            heavy: 1024,
            recent: 1024,
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
            param(
                "heavy",
                self.heavy,
                "tokens kept by attention received (default 1024)",
            ),
            param("recent", self.recent, "latest tokens kept (default 1024)"),
        ]
    }
}

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        &["heavy", "recent"]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "heavy" => self.heavy = tokens_at_least(value, 0)?,
            _ => self.recent = tokens_at_least(value, 1)?,
        }
        Ok(())
    }

    fn live_after(&self, _prompt: u32, _length: u32, live: u32) -> u32 {
        live.min(self.heavy.saturating_add(self.recent))
    }
}

/// The policy.
#[derive(Debug)]
pub struct H2o {
    params: Params,
    card: Card,
    prompt: u32,
    /// Column sums of the prompt, for mean rows.
    sums: Vec<f32>,
    lanes: Vec<Lane>,
    /// What the pass over the prompt evicts, by lane, until step 0 decides.
    early: Vec<Moves>,
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(H2o {
        card: card(&params),
        params,
        prompt: 0,
        sums: Vec::new(),
        lanes: Vec::new(),
        early: Vec::new(),
    })
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    let exact = Card {
        name: "h2o",
        summary: "keeps the most attended so far and the latest, each KV head",
        params: params.list(),
        needs: Needs {
            prompt_queries: Some(u32::MAX),
            ..Needs::default()
        },
        lanes: Lanes::KvHead,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: Some("h2o-mean"),
        source: "arXiv 2306.14048, utils_real_drop/modify_llama.py",
    };
    if !params.mean {
        return exact;
    }
    exact.on_mean_rows(
        "h2o-mean",
        "h2o on mean rows: one set of tokens for all heads",
    )
}

impl H2o {
    /// The pass over the prompt.
    fn prefill(&mut self, lane: usize, keys: Option<&Keys<'_>>) {
        let (prompt, sums) = (self.prompt, &self.sums);
        let tokens = lane::at(&mut self.lanes, lane);
        tokens.grow(prompt, |p| {
            sums.get(p as usize).copied().map_or(0.0, f64::from)
        });
        if let Some(keys) = keys {
            let all: Vec<u32> = (0..prompt).collect();
            for from in 0..prompt {
                let row = keys.attention(from, &all);
                super::attend::add(tokens.values_mut(), &row);
            }
        }
        let mut early = Moves::default();
        evict(&self.params, tokens, &mut early);
        self.early.push(early);
    }
}

/// Keeps the latest and the heaviest of the others.
fn evict(params: &Params, tokens: &mut Lane, moves: &mut Moves) {
    let (heavy, recent) = (params.heavy as usize, params.recent as usize);
    let older = tokens.len().saturating_sub(recent);
    tokens.drop_lowest(0..older, older.saturating_sub(heavy), moves);
}

impl Policy for H2o {
    fn card(&self) -> &Card {
        &self.card
    }

    fn begin(&mut self, prompt: u32, column_sums: Option<&[f32]>) {
        self.prompt = prompt;
        if let Some(sums) = column_sums.filter(|_| self.params.mean) {
            self.sums = sums.to_vec();
        }
    }

    fn observe(&mut self, lane: usize, row: Row<'_>) {
        if lane == self.lanes.len() {
            self.prefill(lane, row.keys.as_ref());
        }
        let tokens = lane::at(&mut self.lanes, lane);
        match row.keys.filter(|_| !self.params.mean) {
            None => tokens.take_row(&row, |sum, weight| *sum += weight),
            Some(keys) => {
                tokens.grow(keys.length(), |_| 0.0);
                let weights = keys.attention(keys.length() - 1, tokens.positions());
                super::attend::add(tokens.values_mut(), &weights);
            }
        }
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        if let Some(early) = self.early.get_mut(view.lane) {
            moves.append(early);
        }
        if let Some(tokens) = self.lanes.get_mut(view.lane) {
            evict(&self.params, tokens, moves);
        }
    }
}
