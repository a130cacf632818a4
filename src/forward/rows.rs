//! Attention rows of a step: what each item's softmax gave every position.
//!
//! Sums run over heads first and then over layers, both in their order, in binary32: a mean over 30 layers of 9 heads is
//! within 1e-6 of the exact one. Rows sum to 1.

use std::borrow::Cow;

use super::shape::Shape;

/// How much of the attention is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    None,
    /// One row an item: the mean over layers and query heads.
    Mean,
    /// A row a layer: the mean over its query heads.
    Layers,
    /// A row a layer and KV head: the mean over the query heads of its group.
    Groups,
    /// A row a layer and query head.
    Heads,
}

/// Rows of one item: lanes of as many weights as positions it attended to, its own last.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    detail: Detail,
    positions: usize,
    heads: usize,
    kv_heads: usize,
    layers: usize,
    weights: Vec<f32>,
}

impl Rows {
    pub(super) fn new(shape: &Shape, detail: Detail, positions: usize) -> Self {
        let mut rows = Self {
            detail,
            positions,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            layers: shape.layers,
            weights: Vec::new(),
        };
        rows.weights = vec![0.0; rows.lanes(detail) * positions];
        rows
    }

    /// Positions attended to, the item's own included.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// All lanes one after another: `[position]`, `[layer][position]`, `[layer][kv head][position]` or
    /// `[layer][head][position]`.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The mean over layers and heads, whatever the detail; empty if nothing was kept.
    pub fn mean(&self) -> Vec<f32> {
        self.by(Detail::Mean).into_owned()
    }

    /// The lanes of a detail that is no finer than that of these rows: means over neighbouring lanes; empty if nothing
    /// was kept.
    pub fn by(&self, detail: Detail) -> Cow<'_, [f32]> {
        let kept = self.weights.len() / self.positions.max(1);
        let wanted = self.lanes(detail).min(kept);
        if wanted == kept {
            return Cow::Borrowed(&self.weights);
        }
        let each = kept / wanted.max(1);
        let mut means = vec![0.0; wanted * self.positions];
        let lanes = means.chunks_exact_mut(self.positions);
        for (mean, lanes) in lanes.zip(self.weights.chunks_exact(each * self.positions)) {
            for lane in lanes.chunks_exact(self.positions) {
                add(mean, lane, 1.0 / each as f32);
            }
        }
        Cow::Owned(means)
    }

    fn lanes(&self, detail: Detail) -> usize {
        match detail {
            Detail::None => 0,
            Detail::Mean => 1,
            Detail::Layers => self.layers,
            Detail::Groups => self.layers * self.kv_heads,
            Detail::Heads => self.layers * self.heads,
        }
    }

    /// Takes in the heads of a layer: `sums` is the sum over all heads, `heads` all of them where they are kept.
    pub(super) fn layer(&mut self, layer: usize, parts: &[Vec<f32>]) {
        let n = self.positions;
        match self.detail {
            Detail::None => {}
            Detail::Heads => {
                let from = layer * self.heads * n;
                let to = self.weights[from..from + self.heads * n]
                    .chunks_mut(n * self.heads / parts.len().max(1));
                for (to, part) in to.zip(parts) {
                    to.copy_from_slice(part);
                }
            }
            Detail::Groups => {
                let share = 1.0 / (self.heads / self.kv_heads) as f32;
                let from = layer * self.kv_heads * n;
                for (lane, part) in self.weights[from..].chunks_exact_mut(n).zip(parts) {
                    add(lane, part, share);
                }
            }
            Detail::Layers | Detail::Mean => {
                let mut sum = vec![0.0; n];
                for part in parts {
                    add(&mut sum, part, 1.0);
                }
                let lane = if self.detail == Detail::Mean {
                    0
                } else {
                    layer
                };
                let layers = if self.detail == Detail::Mean {
                    self.layers
                } else {
                    1
                };
                let share = 1.0 / (self.heads * layers) as f32;
                add(&mut self.weights[lane * n..(lane + 1) * n], &sum, share);
            }
        }
    }
}

/// `sum += share * x`.
pub(super) fn add(sum: &mut [f32], x: &[f32], share: f32) {
    for (s, x) in sum.iter_mut().zip(x) {
        *s += share * x;
    }
}
