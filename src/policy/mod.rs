//! Decides where tokens live: told each row, asked for moves, sees only the past.
//!
//! One trait drives both the replay of a trace and the real cache of `eval`. A policy is one file, all in the same
//! shape: parameters, card, state, observe, decide. Decisions are pure functions of what was observed: same rows, same
//! moves (law 7: a policy given a trace cut at step t makes the same moves up to t; `oracle`, which reads the future,
//! is marked). Rival design: a policy that owns the cache; it could not be replayed without one.
//!
//! A policy that ranks by a score of `crate::score` names its rule and finds the score in the [`View`]: whoever runs the
//! policy keeps one score a rule, so that many settings share it. Any other policy keeps its own state from `observe`.

mod attend;
pub mod four_tier;
pub mod full;
pub mod h2o;
mod lane;
pub mod lru;
pub mod oracle;
pub mod r_kv;
pub mod raas;
pub mod random;
mod rank;
pub mod registry;
pub mod snap_kv;
pub mod stream_evict;
pub mod streaming_llm;
pub mod tova;

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
    /// Keys, and the queries of every step and of the latest prompt positions, this many of them (all if there are
    /// fewer): with those, the rows of each head follow (tokens).
    pub prompt_queries: Option<u32>,
}

impl Needs {
    /// What a trace must carry, in words.
    pub fn words(&self) -> String {
        match self.prompt_queries {
            Some(u32::MAX) => {
                "keys, and queries of every position (sections `keys` and `queries`)".into()
            }
            Some(n) => format!(
                "keys, and queries from {n} before the end of the prompt on (sections `keys` and `queries`)"
            ),
            None if self.layers => "per-layer rows (section `layers`)".into(),
            None if self.mean => "mean rows (every trace has them)".into(),
            None => "nothing but lengths".into(),
        }
    }
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
    /// The approximation to ask for where a trace lacks what it needs.
    pub stand_in: Option<&'static str>,
    /// Paper section or file the rule is from.
    pub source: &'static str,
}

impl Card {
    /// The card of the approximation of this policy on mean rows: one placement a sequence.
    #[must_use]
    pub fn on_mean_rows(self, name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            needs: Needs {
                mean: true,
                ..Needs::default()
            },
            lanes: Lanes::Sequence,
            stand_in: None,
            ..self
        }
    }
}

/// Parameters of a policy: set from text, checked, and the counts that follow from them.
pub trait Settings: Copy {
    /// Keys in the order they are shown.
    fn keys(&self) -> &'static [&'static str];

    /// Sets one of the [`Settings::keys`] from text.
    ///
    /// # Errors
    /// A sentence: the value cannot be used.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// Checks that parameters agree with each other.
    ///
    /// # Errors
    /// A sentence naming both keys.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Tokens left of `live` after the decision that follows the step which made the sequence `length` long, for
    /// policies that only destroy (tokens).
    fn live_after(&self, _prompt: u32, _length: u32, live: u32) -> u32 {
        live
    }
}

/// The attention of one lane at one step, over live positions only.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Positions, ascending; `None` means every position `0..weights.len()` is live.
    pub positions: Option<&'a [u32]>,
    /// Weight on each of those positions; own position last.
    pub weights: &'a [f32],
    /// Keys and recent queries, where the trace carries them.
    pub keys: Option<Keys<'a>>,
}

impl Row<'_> {
    /// Length of the sequence, the step's own token included (tokens).
    pub fn length(&self) -> u32 {
        match self.positions {
            Some(positions) => positions.last().map_or(0, |p| p + 1),
            None => u32::try_from(self.weights.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Keys and queries of one KV head, for policies that look at them.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Width of a head.
    pub head_dim: usize,
    /// Query heads in the group.
    pub group: usize,
    /// One key a position ever appended, after rotation: `[position][dim]`.
    pub keys: &'a [f32],
    /// Position of the first query.
    pub first_query: u32,
    /// Queries from that position to the step's own: `[position][head of the group][dim]`.
    pub queries: &'a [f32],
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

    /// Appends the moves of another decision.
    pub fn append(&mut self, other: &mut Self) {
        self.list.append(&mut other.list);
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

    /// Steps between decisions; `None` if it has no cadence and acts whenever it must.
    fn interval(&self) -> Option<u32> {
        None
    }

    /// Told once before step 0: the attention each prompt position received during prefill.
    fn begin(&mut self, _prompt: u32, _column_sums: Option<&[f32]>) {}

    /// Told the row of one lane after the attention of each step; not called if the card needs no rows or
    /// [`Policy::score`] names a rule.
    fn observe(&mut self, _lane: usize, _row: Row<'_>) {}

    /// Asked at the end of every step; returns at once off its cadence. Moves hold from `step + 1`.
    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves);
}
