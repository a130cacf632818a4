//! Attention of the items of a step over their caches, one task an item and KV head.
//!
//! Scores, softmax and the weighted sum of values run over live positions in ascending order. A later item of the same
//! sequence is not seen by an earlier one: an item attends to its own position and those before. Rows have a weight for
//! every position, 0 where it was destroyed.

use rayon::prelude::*;

use super::cache::{Cache, Scratch};
use super::rows::{Detail, add};
use super::shape::Shape;
use crate::simd::dense::Dense;

/// What the tasks of a layer share.
pub(super) struct Attention<'a> {
    pub(super) dense: &'a Dense,
    pub(super) shape: &'a Shape,
    pub(super) layer: usize,
}

/// An item as attention sees it.
#[derive(Clone, Copy)]
pub(super) struct Attending<'a> {
    pub(super) cache: &'a Cache,
    /// Its place in the text.
    pub(super) at: usize,
    /// What its rows need.
    pub(super) detail: Detail,
}

impl Attention<'_> {
    /// Outputs of all heads, items of `q_width` numbers, and for each item and KV head what the rows need: the sum of
    /// the group's weights, all of them for [`Detail::Heads`], nothing for [`Detail::None`].
    pub(super) fn run(
        &self,
        queries: &[f32],
        items: &[Attending<'_>],
    ) -> (Vec<f32>, Vec<Vec<f32>>) {
        let width = self.shape.group() * self.shape.head_dim;
        let mut out = vec![0.0; queries.len()];
        let parts = out
            .par_chunks_exact_mut(width)
            .zip(queries.par_chunks_exact(width))
            .enumerate()
            .map_init(Scratch::default, |scratch, (task, (out, q))| {
                let kv_heads = self.shape.kv_heads;
                self.group(items[task / kv_heads], task % kv_heads, q, out, scratch)
            })
            .collect();
        (out, parts)
    }

    /// The query heads of one KV head.
    fn group(
        &self,
        item: Attending<'_>,
        kv_head: usize,
        queries: &[f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Vec<f32> {
        let width = self.shape.head_dim;
        let (seen, scores) = item.cache.seen(self.layer, kv_head, item.at, scratch);
        let scale = 1.0 / (width as f32).sqrt();
        scores.resize(seen.keys.len() / width, 0.0);
        let mut kept = Vec::new();
        for (q, out) in queries.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            self.dense.products(seen.keys, q, width, scores);
            for s in scores.iter_mut() {
                *s *= scale;
            }
            self.dense.softmax(scores);
            self.dense.weighted_sum(scores, seen.values, out);
            match item.detail {
                Detail::None => {}
                Detail::Mean | Detail::Layers | Detail::Groups if !kept.is_empty() => {
                    add(&mut kept, scores, 1.0);
                }
                _ => kept.extend_from_slice(scores),
            }
        }
        match seen.live {
            Some(live) => spread(&kept, live, item.at + 1),
            None => kept,
        }
    }
}

/// Lanes of weights on the live positions as lanes of all `positions`.
fn spread(lanes: &[f32], live: &[u32], positions: usize) -> Vec<f32> {
    let count = lanes.len() / live.len().max(1);
    let mut all = vec![0.0; count * positions];
    for (all, lane) in all
        .chunks_exact_mut(positions)
        .zip(lanes.chunks_exact(live.len()))
    {
        for (position, weight) in live.iter().zip(lane) {
            all[*position as usize] = *weight;
        }
    }
    all
}
