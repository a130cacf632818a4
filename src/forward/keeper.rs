//! The policy of one tiered cache: shown the rows of a real model, its moves carried out in the cache.
//!
//! The steps are those of a replay, the very same code ([`Sequence`]); but what a policy does here changes what the model
//! sees next, and so its later rows. Rows, scores and keys are what the tiered cache gives: a destroyed token weighs
//! nothing, and its key is NaN. The mass that is booked is that of the row of a *full* cache on the same text where it is
//! known, as in a replay; the cache's own row puts nothing on T3.
//!
//! Row of lane l: the sequence's mean row, a layer's mean over heads, or a KV head's mean over its group. Oracles are
//! refused: they read a future that decoding does not have.

use super::cache::{Cache, Storage};
use super::rows::{Detail, Rows};
use super::shape::Shape;
use crate::error::{Error, Result};
use crate::policy::{Keys, Lanes, Policy, PolicySpec};
use crate::replay::Sequence;
use crate::score::Score;
use crate::timeline::{Tier, Timeline};

/// Keys and queries of every KV head, for policies that look at them.
#[derive(Debug, Default)]
struct Seen {
    /// `[lane][position][dim]`; NaN where destroyed.
    keys: Vec<Vec<f32>>,
    /// `[lane][position - first][head of the group][dim]`.
    queries: Vec<Vec<f32>>,
    first_query: u32,
}

/// A policy at work on a cache.
pub struct Keeper {
    sequence: Sequence<Box<dyn Policy>>,
    score: Vec<Score>,
    lanes: Lanes,
    shape: Shape,
    seen: Option<Seen>,
    steps: u32,
}

impl Keeper {
    /// A cache and the policy that tiers it, after the prompt went through the model: `column_sums` is the attention
    /// each prompt position received, `queries` those of the last [`window`] prompt positions.
    ///
    /// # Errors
    /// Usage: a policy that reads the future. Internal: a budget that is not in tokens.
    pub fn new(
        spec: &PolicySpec,
        shape: &Shape,
        cache: &Cache,
        column_sums: &[f32],
        queries: &[Vec<f32>],
    ) -> Result<Self> {
        let card = spec.card();
        check(spec)?;
        let policy = spec.build()?;
        let prompt = u32::try_from(cache.len())
            .map_err(|_| Error::usage("a prompt has more than 2^32 tokens"))?;
        let score: Vec<Score> = policy
            .score()
            .map(|rule| Score::new(rule, prompt, Some(column_sums)))
            .into_iter()
            .collect();
        let index = (!score.is_empty()).then_some(0);
        let mut keeper = Self {
            sequence: Sequence::new(policy, prompt, Some(column_sums), cache.lanes(), index),
            score,
            lanes: card.lanes,
            shape: shape.clone(),
            seen: None,
            steps: 0,
        };
        if card.needs.prompt_queries.is_some() {
            keeper.seen = Some(keeper.look(cache, queries));
        }
        Ok(keeper)
    }

    /// An empty cache for a policy.
    pub fn cache(spec: &PolicySpec, shape: &Shape, room: usize, storage: Storage) -> Cache {
        Cache::tiered(shape, room, spec.card().lanes, storage)
    }

    /// Rows that fit the lanes.
    pub fn lane_detail(&self) -> Detail {
        match self.lanes {
            Lanes::Sequence => Detail::Mean,
            Lanes::Layer => Detail::Layers,
            Lanes::KvHead => Detail::Groups,
        }
    }

    /// Rows that an item of this cache must ask for.
    pub fn detail(&self) -> Detail {
        if self.sequence.looks() || !self.score.is_empty() {
            self.lane_detail()
        } else {
            Detail::None
        }
    }

    /// Whether an item of this cache must ask for its queries.
    pub fn queries(&self) -> bool {
        self.seen.is_some()
    }

    /// After a step: shows the rows of the item, lets the policy act, and moves its tokens in the cache. `full` is the
    /// row of a full cache for the same token, no coarser than [`Keeper::lane_detail`]; without it the mass is that of the own row.
    ///
    /// # Errors
    /// Internal: a move that cannot be.
    pub fn after(
        &mut self,
        cache: &mut Cache,
        own: &Rows,
        queries: &[f32],
        full: Option<&Rows>,
    ) -> Result<()> {
        self.sequence.begin(self.steps);
        self.look_again(cache, queries);
        let length = own.positions();
        let nothing = vec![0.0; length];
        let detail = self.lane_detail();
        let (own, full) = (own.by(detail), full.map(|f| f.by(detail)));
        for lane in 0..cache.lanes() {
            let part = lane * length..(lane + 1) * length;
            let shown = own.get(part.clone()).unwrap_or(&nothing);
            let booked = full.as_ref().and_then(|f| f.get(part)).unwrap_or(shown);
            self.score.iter_mut().for_each(|s| s.observe(shown));
            let keys = self.seen.as_ref().map(|seen| Keys {
                head_dim: self.shape.head_dim,
                group: self.shape.group(),
                keys: &seen.keys[lane],
                first_query: seen.first_query,
                queries: &seen.queries[lane],
            });
            self.sequence.take(lane, shown, booked, keys);
        }
        let seen = &mut self.seen;
        let width = self.shape.head_dim;
        self.sequence
            .end_with(self.steps, &self.score, &mut |lane, moves| {
                cache.shift(lane, moves.as_slice());
                if let Some(seen) = seen {
                    let gone = moves.as_slice().iter().filter(|m| m.1 == Tier::T3);
                    for (position, _) in gone {
                        seen.keys[lane][*position as usize * width..][..width].fill(f32::NAN);
                    }
                }
            })?;
        self.steps += 1;
        Ok(())
    }

    /// Counts and masses over the steps so far, as those of a replay.
    pub fn finish(self) -> Timeline {
        self.sequence.finish(self.steps)
    }

    /// Layer and KV head of a lane.
    fn head(&self, lane: usize) -> (usize, usize) {
        (lane / self.shape.kv_heads, lane % self.shape.kv_heads)
    }

    /// Keys of the prompt and its last queries.
    fn look(&self, cache: &Cache, queries: &[Vec<f32>]) -> Seen {
        let lanes = 0..cache.lanes();
        let key = |lane: usize| {
            let (layer, head) = self.head(lane);
            (0..cache.len()).flat_map(move |p| cache.key(layer, head, p))
        };
        let query = |lane: usize| {
            queries
                .iter()
                .flat_map(move |q| self.of_lane(q, lane).to_vec())
        };
        Seen {
            keys: lanes.clone().map(|l| key(l).collect()).collect(),
            queries: lanes.map(|l| query(l).collect()).collect(),
            first_query: u32::try_from(cache.len() - queries.len()).unwrap_or(u32::MAX),
        }
    }

    /// The step's own key and queries.
    fn look_again(&mut self, cache: &Cache, queries: &[f32]) {
        let Some(mut seen) = self.seen.take() else {
            return;
        };
        for lane in 0..cache.lanes() {
            let (layer, head) = self.head(lane);
            seen.keys[lane].extend(cache.key(layer, head, cache.len() - 1));
            seen.queries[lane].extend_from_slice(self.of_lane(queries, lane));
        }
        self.seen = Some(seen);
    }

    /// Queries of a lane's group among those of all layers and heads.
    fn of_lane<'a>(&self, queries: &'a [f32], lane: usize) -> &'a [f32] {
        let width = self.shape.group() * self.shape.head_dim;
        &queries[lane * width..(lane + 1) * width]
    }
}

/// Refuses a policy that no decoding model can run.
///
/// # Errors
/// Usage: it reads the future.
pub fn check(spec: &PolicySpec) -> Result<()> {
    if spec.card().oracle {
        return Err(Error::usage(format!(
            "policy `{}` reads the future: a model that decodes has none",
            spec.name()
        ))
        .help("`kvplan simulate` runs it on a trace"));
    }
    Ok(())
}

/// Prompt positions, from the last one back, whose queries a policy needs.
pub fn window(spec: &PolicySpec, prompt: usize) -> usize {
    let wanted = spec.card().needs.prompt_queries.unwrap_or(0);
    prompt.min(wanted as usize)
}
