//! Decides where tokens live: told each row, asked for moves, sees only the past.
//!
//! One trait drives both the replay of a trace and the real cache of `eval`. A policy is one file, all in the same
//! shape: parameters, card, state, observe, decide. Decisions are pure functions of what was observed: same rows, same
//! moves (law 7: a policy given a trace cut at step t makes the same moves up to t; `oracle`, which reads the future,
//! is marked). Rival design: a policy that owns the cache; it could not be replayed without one.
//!
//! A policy that ranks by a score of `crate::score` names its rule and finds the score in the [`View`]: whoever runs the
//! policy keeps one score a rule, so that many settings share it. Any other policy keeps its own state from `observe`.

pub mod four_tier;
pub mod full;
pub mod oracle;
pub mod registry;
pub mod streaming_llm;

pub use registry::{PolicySpec, cards, names, parse};

use crate::score::{Rule, Score};
use crate::timeline::Tier;

/// How many placements a sequence has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// One for the whole sequence (four-tier).
    Sequence,
    /// One a layer (TOVA).
    Layer,
    /// One a KV head of each layer (R-KV, H2O).
    KvHead,
}

/// What a policy needs of a trace to run exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Mean rows (every trace has them).
    pub mean: bool,
    /// Rows of each layer.
    pub layers: bool,
    /// Rows of each head.
    pub heads: bool,
    /// Keys and last-query windows.
    pub keys: bool,
}

/// One parameter as resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Key in `NAME:key=value`.
    pub key: &'static str,
    /// Resolved value.
    pub value: String,
    /// What it does, with its default.
    pub help: &'static str,
}

/// How a policy explains itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Name in the registry.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Parameters as resolved.
    pub params: Vec<Param>,
    /// What it needs of a trace.
    pub needs: Needs,
    /// Its placements.
    pub lanes: Lanes,
    /// Reads the future: a ceiling, not a policy.
    pub oracle: bool,
    /// Whether it destroys tokens (T3); such rows are never ranked with rows that do not.
    pub destroys: bool,
    /// Whether its token counts follow from the lengths alone.
    pub counts_by_length: bool,
    /// Paper section or file the rule is from.
    pub source: &'static str,
}

/// The attention of one lane at one step, over live positions only.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Positions, ascending; `None` means every position 0..weights.len() is live.
    pub positions: Option<&'a [u32]>,
    /// Weight on each of those positions; own position last.
    pub weights: &'a [f32],
    /// Keys and recent queries, where the trace carries them.
    pub keys: Option<Keys<'a>>,
}

/// Keys of the live positions and the last queries of a KV head, for policies that look at them.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Width of a head.
    pub head_dim: usize,
    /// One key a live position, rotated.
    pub keys: &'a [f32],
    /// Last queries of the head's group, oldest first.
    pub queries: &'a [f32],
    /// Query heads in the group.
    pub group: usize,
}

/// What a policy may look at when it decides: the placement of one lane after step `step`.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Prompt tokens.
    pub prompt: u32,
    /// Tier of each position, the step's own token included.
    pub tiers: &'a [Tier],
    /// Which lane.
    pub lane: usize,
    /// The score the policy ranks by, this step's row included; there if [`Policy::score`] names a rule.
    pub score: Option<&'a Score>,
}

/// The moves of one decision, in the order they were asked for; a position at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    list: Vec<(u32, Tier)>,
}

impl Moves {
    /// Asks for `position` to live in `tier` from the next step on.
    pub fn put(&mut self, position: u32, tier: Tier) {
        self.list.push((position, tier));
    }

    /// The moves asked for.
    pub fn as_slice(&self) -> &[(u32, Tier)] {
        &self.list
    }

    /// Forgets them, keeping the memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

/// A tiering policy.
pub trait Policy: Send {
    /// How it explains itself.
    fn card(&self) -> &Card;

    /// The score it ranks by, kept by the caller and passed in the [`View`]. With a rule the policy is shown no rows.
    fn score(&self) -> Option<Rule> {
        None
    }

    /// Steps between decisions; 1 if any step may move something, 0 if none ever does.
    fn interval(&self) -> u32 {
        1
    }

    /// Told once before step 0: the attention each prompt position received during prefill.
    fn begin(&mut self, _prompt: u32, _column_sums: Option<&[f32]>) {}

    /// Told the row of one lane after the attention of each step; not called if the card needs no rows or
    /// [`Policy::score`] names a rule.
    fn observe(&mut self, _lane: usize, _row: Row<'_>) {}

    /// Asked at the end of every step; returns at once off its cadence. Moves hold from `step + 1`.
    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves);
}
