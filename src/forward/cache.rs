//! Keys and values of one sequence, in full.
//!
//! One row of `head_dim` numbers a position, apart for each layer and KV head, so that the attention of a head reads
//! them from end to end. Binary32. Positions are those of the text and never change.

use super::shape::Shape;

/// The KV cache of one sequence.
#[derive(Clone, Debug)]
pub struct Cache {
    length: usize,
    kv_heads: usize,
    head_dim: usize,
    /// `[layer][kv head]`, rows by position.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Cache {
    /// An empty cache with room for so many tokens (more may come).
    pub fn new(shape: &Shape, room: usize) -> Self {
        let lane = || Vec::with_capacity(room * shape.head_dim);
        let lanes = shape.layers * shape.kv_heads;
        Self {
            length: 0,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            keys: (0..lanes).map(|_| lane()).collect(),
            values: (0..lanes).map(|_| lane()).collect(),
        }
    }

    /// Tokens in it; the next one takes this position.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One more token, whose keys and values follow layer by layer.
    pub(super) fn grow(&mut self) {
        self.length += 1;
    }

    /// Appends the next position's keys and values of a layer, all KV heads.
    pub(super) fn append(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        let lanes = layer * self.kv_heads..(layer + 1) * self.kv_heads;
        for (lane, k) in self.keys[lanes.clone()]
            .iter_mut()
            .zip(keys.chunks_exact(self.head_dim))
        {
            lane.extend_from_slice(k);
        }
        for (lane, v) in self.values[lanes]
            .iter_mut()
            .zip(values.chunks_exact(self.head_dim))
        {
            lane.extend_from_slice(v);
        }
    }

    /// Keys of the first `count` positions in a layer and KV head, rotated.
    ///
    /// # Panics
    /// If there are fewer, or no such head.
    pub fn keys(&self, layer: usize, kv_head: usize, count: usize) -> &[f32] {
        &self.keys[layer * self.kv_heads + kv_head][..count * self.head_dim]
    }

    /// Values, as [`Cache::keys`].
    ///
    /// # Panics
    /// As [`Cache::keys`].
    pub fn values(&self, layer: usize, kv_head: usize, count: usize) -> &[f32] {
        &self.values[layer * self.kv_heads + kv_head][..count * self.head_dim]
    }
}
