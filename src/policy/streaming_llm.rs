//! `StreamingLLM`: the first tokens of the sequence and the latest ones; everything between is destroyed.
//!
//! Rule as published (arXiv 2309.17453; `streaming_llm/kv_cache.py`): before a token is added, keep the first `sinks`
//! absolute positions and the last `window - 1`; so at most `sinks + window` tokens take part in any attention. The
//! prompt is not protected: step 0 attends to all of it (a decision holds from the next step on), then its middle goes.
//! Defaults 4 and 2000, as in the published example (its class defaults to 512, its evaluation to 255).
//!
//! Ignored: the published code rotates keys by cache index, which moves no token and cannot be seen in a trace.

use super::registry::tokens_at_least;
use super::{Card, Lanes, Moves, Needs, Param, Policy, Settings, View};
use crate::timeline::Tier;

/// Parameters of [`StreamingLlm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// First absolute positions kept (tokens).
    pub sinks: u32,
    /// Latest positions kept, the step's own included (tokens).
    pub window: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            sinks: 4,
            window: 2000,
        }
    }
}

/// Keys in the order they are shown.
pub const KEYS: &[&str] = &["sinks", "window"];

impl Settings for Params {
    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "sinks" => self.sinks = tokens_at_least(value, 0)?,
            _ => self.window = tokens_at_least(value, 1)?,
        }
        Ok(())
    }
}

impl Params {
    /// As resolved.
    pub fn list(&self) -> Vec<Param> {
        vec![
            Param {
                key: "sinks",
                value: self.sinks.to_string(),
                help: "first tokens of the sequence, always kept (default 4)",
            },
            Param {
                key: "window",
                value: self.window.to_string(),
                help: "latest tokens kept (default 2000)",
            },
        ]
    }

    /// Tokens destroyed once the step that made the sequence `length` long has ended.
    pub fn destroyed_after(&self, length: u32) -> u32 {
        length.saturating_sub(self.sinks.saturating_add(self.window - 1))
    }
}

/// The policy.
#[derive(Debug)]
pub struct StreamingLlm {
    params: Params,
    card: Card,
    /// First position not yet destroyed behind the sinks.
    next: u32,
}

impl StreamingLlm {
    /// With these parameters.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            card: card(&params),
            next: params.sinks,
        }
    }
}

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(StreamingLlm::new(params))
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "streaming-llm",
        summary: "keeps the first tokens and the latest ones, destroys the rest",
        params: params.list(),
        needs: Needs::default(),
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: true,
        counts_by_length: true,
        stand_in: None,
        source: "arXiv 2309.17453, kv_cache.py",
    }
}

impl Policy for StreamingLlm {
    fn card(&self) -> &Card {
        &self.card
    }

    fn decide(&mut self, _step: u32, view: &View<'_>, moves: &mut Moves) {
        let length = u32::try_from(view.tiers.len()).unwrap_or(u32::MAX);
        let end = self.params.sinks + self.params.destroyed_after(length);
        for position in self.next..end {
            moves.put(position, Tier::T3);
        }
        self.next = self.next.max(end);
    }
}
