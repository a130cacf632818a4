//! Attention of the items of a step over their caches, one task an item and KV head.
//!
//! Scores, softmax and the weighted sum of values run over positions in ascending order. A later item of the same
//! sequence is not seen by an earlier one: an item attends to its own position and those before.

use rayon::prelude::*;

use super::cache::Cache;
use super::rows::{Detail, add};
use super::shape::Shape;
use crate::simd::dense::Dense;

/// What the tasks of a layer share.
pub(super) struct Attention<'a> {
    pub(super) dense: &'a Dense,
    pub(super) shape: &'a Shape,
    pub(super) layer: usize,
    pub(super) detail: Detail,
}

impl Attention<'_> {
    /// Outputs of all heads, items of `q_width` numbers, and for each item and KV head what the rows need: the sum of
    /// the group's weights, all of them for [`Detail::Heads`], nothing for [`Detail::None`].
    ///
    /// `items` gives the cache of each item and the positions it attends to.
    pub(super) fn run(
        &self,
        queries: &[f32],
        items: &[(&Cache, usize)],
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let width = self.shape.group() * self.shape.head_dim;
        let mut out = vec![0.0; queries.len()];
        let parts = out
            .par_chunks_exact_mut(width)
            .zip(queries.par_chunks_exact(width))
            .enumerate()
            .map_init(Vec::new, |scores, (task, (out, q))| {
                let kv_heads = self.shape.kv_heads;
                let (cache, positions) = items[task / kv_heads];
                self.group(cache, positions, task % kv_heads, q, out, scores)
            })
            .collect();
        (out, parts)
    }

    /// The query heads of one KV head.
    fn group(
        &self,
        cache: &Cache,
        positions: usize,
        kv_head: usize,
        queries: &[f32],
        out: &mut [f32],
        scores: &mut Vec<f32>,
    ) -> Vec<f32> {
        let width = self.shape.head_dim;
        let keys = cache.keys(self.layer, kv_head, positions);
        let values = cache.values(self.layer, kv_head, positions);
        let scale = 1.0 / (width as f32).sqrt();
        scores.resize(positions, 0.0);
        let mut kept = Vec::new();
        for (q, out) in queries.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            self.dense.products(keys, q, width, scores);
            for s in scores.iter_mut() {
                *s *= scale;
            }
            self.dense.softmax(scores);
            self.dense.weighted_sum(scores, values, out);
            match self.detail {
                Detail::None => {}
                Detail::Heads => kept.extend_from_slice(scores),
                Detail::Mean | Detail::Layers if kept.is_empty() => kept.extend_from_slice(scores),
                Detail::Mean | Detail::Layers => add(&mut kept, scores, 1.0),
            }
        }
        kept
    }
}
