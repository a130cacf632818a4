//! Keys and values of one sequence, on their tiers.
//!
//! A placement says where each position is: one for the sequence, a layer, or a KV head ([`Lanes`]); every head has
//! buffers of its own in each tier ([`super::store`]). Attention sees the live positions gathered **in order of position**,
//! whatever slots they are in, so that its sums run as over a full cache: tiering without loss changes no bit
//! (Proposition 1). The rival, attention over HBM and host parts joined afterwards, is equal in real arithmetic only
//! (TRACES 5). As long as nothing was moved, T0 is in order of position and is read in place.
//!
//! Keys are rotated when they come and never again. A new token's position is that of the text, or, with
//! [`Positions::Restart`], the number of live tokens: the published run left positions to the length of the evicted cache,
//! so that new tokens drew near to old keys (METHODS 1.8). Binary32 but for T2.

use super::quantiser::Quantiser;
use super::shape::Shape;
use super::slots::Slots;
use super::store::{Part, Store};
use crate::policy::Lanes;
use crate::timeline::Tier;

/// Which position a new token takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Positions {
    /// Its place in the text.
    #[default]
    Kept,
    /// The number of live tokens (of the first placement).
    Restart,
}

impl Positions {
    /// Reads `kept` or `restart`.
    ///
    /// # Errors
    /// A sentence: neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "kept" => Ok(Self::Kept),
            "restart" => Ok(Self::Restart),
            _ => Err(format!("`{text}` is neither kept nor restart")),
        }
    }
}

/// How tokens are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// What T2 makes of keys and values.
    pub quantiser: Quantiser,
    /// Positions of new tokens.
    pub positions: Positions,
}

/// The KV cache of one sequence.
#[derive(Clone, Debug)]
pub struct Cache {
    length: usize,
    kv_heads: usize,
    head_dim: usize,
    lanes: Lanes,
    storage: Storage,
    placements: Vec<Slots>,
    /// `[layer][kv head]`.
    stores: Vec<Store>,
}

/// What a head's attention reads.
pub(super) struct Seen<'a> {
    /// Live positions, ascending; every position from 0 if `None`.
    pub(super) live: Option<&'a [u32]>,
    pub(super) keys: &'a [f32],
    pub(super) values: &'a [f32],
}

/// Memory for gathering.
#[derive(Default)]
pub(super) struct Scratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    pub(super) scores: Vec<f32>,
}

impl Cache {
    /// An empty cache with room for so many tokens (more may come), to be left in T0.
    pub fn new(shape: &Shape, room: usize) -> Self {
        Self::tiered(shape, room, Lanes::Sequence, Storage::default())
    }

    /// An empty cache with placements for these lanes.
    pub fn tiered(shape: &Shape, room: usize, lanes: Lanes, storage: Storage) -> Self {
        let heads = shape.layers * shape.kv_heads;
        let placements = match lanes {
            Lanes::Sequence => 1,
            Lanes::Layer => shape.layers,
            Lanes::KvHead => heads,
        };
        Self {
            length: 0,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            lanes,
            storage,
            placements: vec![Slots::default(); placements],
            stores: (0..heads)
                .map(|_| Store::new(shape.head_dim, room))
                .collect(),
        }
    }

    /// Tokens ever appended.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Placements: lanes of the sequence.
    pub fn lanes(&self) -> usize {
        self.placements.len()
    }

    /// One more token, whose keys and values follow layer by layer; its position for the rotation.
    pub(super) fn grow(&mut self) -> usize {
        let position = match self.storage.positions {
            Positions::Kept => self.length,
            Positions::Restart => self.placements[0].count(),
        };
        self.length += 1;
        self.placements.iter_mut().for_each(Slots::append);
        position
    }

    fn placement(&self, head: usize) -> usize {
        match self.lanes {
            Lanes::Sequence => 0,
            Lanes::Layer => head / self.kv_heads,
            Lanes::KvHead => head,
        }
    }

    /// Keys and values in a layer of the token that is `at`-th in the text, all KV heads.
    pub(super) fn put(&mut self, layer: usize, at: usize, keys: &[f32], values: &[f32]) {
        let heads = layer * self.kv_heads..(layer + 1) * self.kv_heads;
        let rows = keys
            .chunks_exact(self.head_dim)
            .zip(values.chunks_exact(self.head_dim));
        for (head, (k, v)) in heads.zip(rows) {
            let to = self.placements[self.placement(head)].of(at);
            self.stores[head].put(Part::Keys, to, k);
            self.stores[head].put(Part::Values, to, v);
        }
    }

    /// What the token that is `at`-th in the text sees in a layer and KV head: itself and those before it.
    pub(super) fn seen<'a>(
        &'a self,
        layer: usize,
        kv_head: usize,
        at: usize,
        scratch: &'a mut Scratch,
    ) -> (Seen<'a>, &'a mut Vec<f32>) {
        let head = layer * self.kv_heads + kv_head;
        let (slots, store) = (&self.placements[self.placement(head)], &self.stores[head]);
        let live = slots.live(at);
        if let Some(live) = live {
            for (part, out) in [
                (Part::Keys, &mut scratch.keys),
                (Part::Values, &mut scratch.values),
            ] {
                out.resize(live.len() * self.head_dim, 0.0);
                for (position, row) in live.iter().zip(out.chunks_exact_mut(self.head_dim)) {
                    store.get(part, slots.of(*position as usize), row);
                }
            }
            let seen = Seen {
                live: Some(live),
                keys: &scratch.keys,
                values: &scratch.values,
            };
            return (seen, &mut scratch.scores);
        }
        let all = (at + 1) * self.head_dim;
        let seen = Seen {
            live: None,
            keys: &store.t0(Part::Keys)[..all],
            values: &store.t0(Part::Values)[..all],
        };
        (seen, &mut scratch.scores)
    }

    /// Key, rotated, of a position in a layer and KV head, as it is kept; NaN if it was destroyed.
    ///
    /// # Panics
    /// If there is no such position or head.
    pub fn key(&self, layer: usize, kv_head: usize, position: usize) -> Vec<f32> {
        self.row(Part::Keys, layer * self.kv_heads + kv_head, position)
    }

    /// Value, as [`Cache::key`].
    ///
    /// # Panics
    /// As [`Cache::key`].
    pub fn value(&self, layer: usize, kv_head: usize, position: usize) -> Vec<f32> {
        self.row(Part::Values, layer * self.kv_heads + kv_head, position)
    }

    fn row(&self, part: Part, head: usize, position: usize) -> Vec<f32> {
        let mut row = vec![0.0; self.head_dim];
        let at = self.placements[self.placement(head)].of(position);
        self.stores[head].get(part, at, &mut row);
        row
    }

    /// Moves tokens of a lane; each is moved at most once, none back from T3.
    ///
    /// # Panics
    /// If there is no such lane or position.
    pub fn shift(&mut self, lane: usize, moves: &[(u32, Tier)]) {
        let heads = match self.lanes {
            Lanes::Sequence => 0..self.stores.len(),
            Lanes::Layer => lane * self.kv_heads..(lane + 1) * self.kv_heads,
            Lanes::KvHead => lane..lane + 1,
        };
        let shifted: Vec<Shift> = moves
            .iter()
            .map(|(position, to)| {
                let (from, slot) = self.placements[lane].shift(*position, *to);
                Shift {
                    from,
                    to: (*to, slot),
                }
            })
            .collect();
        let heads: Vec<usize> = heads.collect();
        for group in heads.chunks(self.kv_heads) {
            self.carry(group, &shifted);
        }
    }

    /// Carries out moves in heads of one layer. All are read before any is written: a slot that one leaves may be the
    /// one that another takes.
    fn carry(&mut self, heads: &[usize], shifts: &[Shift]) {
        let kept = |s: &&Shift| s.to.0 != Tier::T3;
        let read = |part: Part| -> Vec<Vec<f32>> {
            let of_head = |head: &usize| {
                let row = |s: &Shift| {
                    let mut row = vec![0.0; self.head_dim];
                    self.stores[*head].get(part, s.from, &mut row);
                    row
                };
                shifts.iter().filter(kept).map(row).collect::<Vec<_>>()
            };
            heads.iter().flat_map(of_head).collect()
        };
        let (keys, values) = (read(Part::Keys), read(Part::Values));
        for head in heads {
            for shift in shifts {
                self.stores[*head].leave(shift.from);
            }
        }
        let to: Vec<(Tier, u32)> = shifts.iter().filter(kept).map(|s| s.to).collect();
        for (part, rows) in [(Part::Keys, keys), (Part::Values, values)] {
            self.write(part, heads, &to, rows);
        }
    }

    /// Writes rows, by head and then by token, to their places; what goes to T2 is quantised together.
    fn write(&mut self, part: Part, heads: &[usize], to: &[(Tier, u32)], rows: Vec<Vec<f32>>) {
        let mut packing = Vec::new();
        let places = || heads.iter().flat_map(|h| to.iter().map(move |t| (*h, *t)));
        for ((head, to), row) in places().zip(rows) {
            if to.0 == Tier::T2 {
                packing.push(row);
            } else {
                self.stores[head].put(part, to, &row);
            }
        }
        let packed = self
            .storage
            .quantiser
            .encode(&packing, heads.len(), part == Part::Keys);
        let packable = places().filter(|(_, to)| to.0 == Tier::T2);
        for ((head, to), row) in packable.zip(packed) {
            self.stores[head].put_packed(part, to.1, row);
        }
    }
}

/// A move of one token: from where, to where.
struct Shift {
    from: (Tier, u32),
    to: (Tier, u32),
}
