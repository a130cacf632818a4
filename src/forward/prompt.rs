//! A prompt through the model, in chunks: what follows it, and what its positions received.
//!
//! Recording keeps it in a trace, evaluation gives it to the policies: both run prompts by this one loop, so a policy in a
//! real cache begins from the numbers that a replay begins from. Sums are taken in binary64 over rows in their order.

use super::cache::Cache;
use super::load::Model;
use super::rows::Detail;
use super::step::Item;
use crate::error::{Error, Result};

/// Tokens of one sequence that run together: enough to read weights rarely, few enough for the caches.
pub const CHUNK: usize = 64;

/// What a prompt leaves.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// Logits of what follows.
    pub logits: Vec<f32>,
    /// Attention that each position received, mean over layers and heads.
    pub sums: Vec<f32>,
    /// Queries of its last positions, as many as were asked for, each `[layer][head][dim]`.
    pub queries: Vec<Vec<f32>>,
}

impl Model {
    /// Runs a prompt in each of the empty `caches`, all alike; the last `window` positions hand out their queries. `tell`
    /// hears of every group of tokens that was run.
    ///
    /// # Errors
    /// Usage: no token, or more than the model's context; a token outside the vocabulary.
    pub fn prompt(
        &self,
        caches: &mut [Cache],
        tokens: &[u32],
        window: usize,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Prompt> {
        let mut prompt = Prompt::default();
        let mut sums = vec![0f64; tokens.len()];
        for (first, chunk) in (0..).step_by(CHUNK).zip(tokens.chunks(CHUNK)) {
            let mut items = Item::of(0, chunk, Detail::Mean);
            for (item, at) in items.iter_mut().zip(first..) {
                item.logits = at + 1 == tokens.len();
                item.queries = at + window >= tokens.len();
            }
            for sequence in 1..caches.len() {
                items.extend(
                    Item::of(sequence, chunk, Detail::None)
                        .into_iter()
                        .map(silent),
                );
            }
            let mut step = self.step(caches, &items)?;
            for rows in &step.rows[..chunk.len()] {
                for (sum, w) in sums.iter_mut().zip(rows.weights()) {
                    *sum += f64::from(*w);
                }
            }
            let asked = step.queries.drain(..chunk.len());
            prompt.queries.extend(asked.filter(|q| !q.is_empty()));
            prompt.logits = step.logits;
            tell(items.len() as u64);
        }
        if prompt.logits.is_empty() {
            return Err(Error::usage("a prompt has no token").help("give it some text"));
        }
        #[allow(clippy::cast_possible_truncation)] // as a trace's header stores them
        let narrow = |s: f64| s as f32;
        prompt.sums = sums.into_iter().map(narrow).collect();
        Ok(prompt)
    }
}

fn silent(item: Item) -> Item {
    Item {
        logits: false,
        ..item
    }
}
