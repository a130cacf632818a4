//! One step: items of one or more sequences through all layers.
//!
//! A step of one item a sequence is decoding; several items of one sequence, in order, are a chunk of a prompt or of a
//! finished text. Both compute the same numbers: an item's products have lanes of their own and its attention sees the
//! same positions. Work is bound by reading weights while items are few, so steps of several sequences cost little more
//! than steps of one.

use super::attention::{Attending, Attention};
use super::cache::Cache;
use super::load::{Layer, Model};
use super::matrix::{Matrix, multiply};
use super::rows::{Detail, Rows};
use crate::error::{Error, Result};

/// A token to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Index of its cache. Items of one cache follow each other in the order of the text.
    pub sequence: usize,
    /// Token of the vocabulary.
    pub token: u32,
    /// Whether the logits of what follows it are wanted.
    pub logits: bool,
    /// How much of its attention is wanted.
    pub detail: Detail,
    /// Whether its queries are wanted.
    pub queries: bool,
}

impl Item {
    /// A token of which only the logits are wanted.
    pub fn new(sequence: usize, token: u32) -> Self {
        Self {
            sequence,
            token,
            logits: true,
            detail: Detail::None,
            queries: false,
        }
    }

    /// Tokens of one sequence in the order of the text, all with their logits.
    pub fn of(sequence: usize, tokens: &[u32], detail: Detail) -> Vec<Self> {
        let item = |token: &u32| Self {
            detail,
            ..Self::new(sequence, *token)
        };
        tokens.iter().map(item).collect()
    }
}

/// What a step gives.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Logits of the items that want them, in their order, `vocab` numbers each.
    pub logits: Vec<f32>,
    /// Attention rows of every item, in their order.
    pub rows: Vec<Rows>,
    /// Queries of every item after rotation, `[layer][head][dim]`; empty where they are not wanted.
    pub queries: Vec<Vec<f32>>,
}

/// Activations of a step: items of some width.
struct State<'a> {
    items: &'a [Item],
    positions: Vec<usize>,
    turns: Vec<Vec<(f32, f32)>>,
    x: Vec<f32>,
    rows: Vec<Rows>,
    queries: Vec<Vec<f32>>,
}

impl Model {
    /// Runs items and appends them to their caches.
    ///
    /// # Errors
    /// Usage: a token outside the vocabulary, a sequence without a cache, or a text longer than the model's context.
    pub fn step(&self, caches: &mut [Cache], items: &[Item]) -> Result<Step> {
        self.check(caches, items)?;
        // Moves the work onto a worker, so that its many short parallel parts need no hand-over each.
        rayon::scope(|_| Ok(self.run(caches, items)))
    }

    fn check(&self, caches: &[Cache], items: &[Item]) -> Result<()> {
        let mut lengths: Vec<usize> = caches.iter().map(Cache::len).collect();
        for item in items {
            if item.token as usize >= self.shape.vocab {
                return Err(Error::usage(format!(
                    "token {} is not in the vocabulary of {} tokens",
                    item.token, self.shape.vocab
                )));
            }
            let length = lengths.get_mut(item.sequence).ok_or_else(|| {
                Error::internal(format!("sequence {} has no cache", item.sequence))
            })?;
            *length += 1;
            if *length > self.shape.context {
                return Err(Error::usage(format!(
                    "the text is longer than the model's context of {} tokens",
                    self.shape.context
                ))
                .help("shorten the prompt or lower --max-new"));
            }
        }
        Ok(())
    }

    fn run(&self, caches: &mut [Cache], items: &[Item]) -> Step {
        let mut state = self.begin(caches, items);
        for (l, layer) in self.layers.iter().enumerate() {
            self.attend(l, layer, caches, &mut state);
            self.feed_forward(layer, &mut state.x);
        }
        Step {
            logits: self.logits(&state),
            rows: state.rows,
            queries: state.queries,
        }
    }

    /// Embeds the tokens and gives them their positions.
    fn begin<'a>(&self, caches: &mut [Cache], items: &'a [Item]) -> State<'a> {
        let hidden = self.shape.hidden;
        let mut x = vec![0.0; items.len() * hidden];
        let mut positions = Vec::with_capacity(items.len());
        let mut turns = Vec::with_capacity(items.len());
        for (item, x) in items.iter().zip(x.chunks_exact_mut(hidden)) {
            self.embedding.row(&self.dense, item.token as usize, x);
            positions.push(caches[item.sequence].len());
            turns.push(self.rotation.at(caches[item.sequence].grow()));
        }
        State {
            items,
            turns,
            rows: positions
                .iter()
                .zip(items)
                .map(|(p, item)| Rows::new(&self.shape, item.detail, p + 1))
                .collect(),
            queries: vec![Vec::new(); items.len()],
            positions,
            x,
        }
    }

    /// The attention part of a layer, added to the residual stream.
    fn attend(&self, l: usize, layer: &Layer, caches: &mut [Cache], state: &mut State<'_>) {
        let normed = self.normed(&state.x, &layer.attention_norm);
        let [mut q, mut k, mut v] = multiply(&self.dense, [&layer.q, &layer.k, &layer.v], &normed);
        if let Some([bq, bk, bv]) = &layer.biases {
            for (x, bias) in [(&mut q, bq), (&mut k, bk), (&mut v, bv)] {
                x.chunks_exact_mut(bias.len()).for_each(|x| add(x, bias));
            }
        }
        let (q_width, kv_width) = (self.shape.q_width(), self.shape.kv_width());
        for (i, (item, turn)) in state.items.iter().zip(&state.turns).enumerate() {
            let (k, v) = (
                &mut k[i * kv_width..][..kv_width],
                &v[i * kv_width..][..kv_width],
            );
            self.rotation.turn(&mut q[i * q_width..][..q_width], turn);
            self.rotation.turn(k, turn);
            caches[item.sequence].put(l, state.positions[i], k, v);
            if item.queries {
                state.queries[i].extend_from_slice(&q[i * q_width..][..q_width]);
            }
        }
        let attention = Attention {
            dense: &self.dense,
            shape: &self.shape,
            layer: l,
        };
        let seen: Vec<Attending<'_>> = state
            .items
            .iter()
            .zip(&state.positions)
            .map(|(item, at)| Attending {
                cache: &caches[item.sequence],
                at: *at,
                detail: item.detail,
            })
            .collect();
        let (out, parts) = attention.run(&q, &seen);
        for (rows, parts) in state
            .rows
            .iter_mut()
            .zip(parts.chunks_exact(self.shape.kv_heads))
        {
            rows.layer(l, parts);
        }
        let [out] = multiply(&self.dense, [&layer.o], &out);
        add(&mut state.x, &out);
    }

    /// The feed-forward part of a layer, added to the residual stream.
    fn feed_forward(&self, layer: &Layer, x: &mut [f32]) {
        let normed = self.normed(x, &layer.forward_norm);
        let [mut gate, up] = multiply(&self.dense, [&layer.gate, &layer.up], &normed);
        self.dense.gate(&mut gate, &up);
        let [out] = multiply(&self.dense, [&layer.down], &gate);
        add(x, &out);
    }

    fn logits(&self, state: &State<'_>) -> Vec<f32> {
        let mut wanted = Vec::new();
        for (item, x) in state
            .items
            .iter()
            .zip(state.x.chunks_exact(self.shape.hidden))
        {
            if item.logits {
                wanted.extend_from_slice(x);
            }
        }
        if wanted.is_empty() {
            return wanted;
        }
        let output: &Matrix = self.output.as_ref().unwrap_or(&self.embedding);
        let normed = self.normed(&wanted, &self.output_norm);
        let [logits] = multiply(&self.dense, [output], &normed);
        logits
    }

    /// Each item over its root mean square, times the norm's weights.
    fn normed(&self, x: &[f32], weights: &[f32]) -> Vec<f32> {
        let mut out = x.to_vec();
        for item in out.chunks_exact_mut(weights.len()) {
            let mut squares = [0.0];
            self.dense.products(item, item, weights.len(), &mut squares);
            let scale = 1.0 / (squares[0] / weights.len() as f32 + self.shape.epsilon).sqrt();
            for (x, w) in item.iter_mut().zip(weights) {
                *x = *x * scale * w;
            }
        }
        out
    }
}

/// `x += y`.
fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
