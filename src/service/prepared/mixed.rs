//! A step in which decode tokens and chunks of prompts share the layers, as continuous batching with chunked prefill runs.
//!
//! The matrices see all rows at once: a chunk that is there anyway hides what a decode step spends on reading weights, and
//! decode tokens ride along for little. Attention is apart: each sequence of the batch reads its own KV (the law of decode),
//! each chunk attends to what its prompt has cached and to itself (the law of prefill). Norms, rotary embedding and
//! activation grow with the rows ([`elementwise`]), which a decode step of some hundred rows does not notice. The head runs
//! over the rows that give a token: decode tokens and the last row of a prompt. Where one kernel takes both kinds of
//! sequence it is made for many queries: a lone one is padded to a tile of rows, so that a decode step which waits for memory
//! alone has to multiply too (the runtime's `mixed_tile`); both go together as in prefill, by the root of squares. Ignored: one kernel for both kinds of
//! attention, which pays one floor and not two. Rival: prefill that stalls the batch, which reads the weights twice.

use super::{BatchCost, Class, Prepared};
use crate::model::Attention;
use crate::service::{attention, collective, cpu, elementwise};

impl Prepared {
    /// Costs of a step of `decodes` sequences beside chunks of prompts: pairs of tokens already cached and new tokens.
    /// `sampled` sequences get a token.
    pub fn mixed(&self, decodes: u32, chunks: &[(u32, u32)], sampled: u32) -> BatchCost {
        let d = &self.deployment;
        let new: f64 = chunks.iter().map(|c| f64::from(c.1)).sum();
        let rows = f64::from(decodes) + new;
        let wide = f64::from(d.model.hidden) * 2.0 * rows;
        let reduce =
            collective::all_reduce(d.hardware.interconnect.as_ref(), f64::from(d.gpus), wide);
        let collective = 2.0 * reduce;
        let mut cost = BatchCost {
            m: decodes,
            linear: Vec::with_capacity(self.classes.len()),
            other: 0.0,
            collective,
            fixed: Vec::with_capacity(self.classes.len()),
            head: self.head(f64::from(sampled)),
            totals: [0.0; 3],
            prefill: 0.0,
            gap: cpu::step_gap(&d.runtime, f64::from(decodes) + chunks.len() as f64),
        };
        cost.totals[0] = cost.head;
        for class in &self.classes {
            let count = f64::from(class.count);
            let linear = self.linear(&class.layer.matrices(d.model.hidden), rows)
                + self.exchange(class, rows);
            let other = self.between(class, rows);
            let attention = self.prompt_attention(class, chunks, new);
            cost.linear.push(linear);
            cost.fixed.push(linear + other + collective + attention);
            cost.other = other;
            cost.prefill += count * attention;
            for (sum, part) in cost.totals.iter_mut().zip([linear, other, collective]) {
                *sum += count * part;
            }
        }
        // Its rows are of both kinds, and so is what a server adds.
        let off = d.runtime.off;
        cost.slowed(off.step + (off.prefill - off.step) * new / rows.max(1.0))
    }

    /// Seconds of one layer's decode attention in a step with prompts: as [`Prepared::attention`], or longer where lone queries
    /// are padded.
    pub fn attention_beside(&self, class: &Class, sequences: f64, bytes: f64) -> f64 {
        let plain = self.attention(class, sequences, bytes);
        let d = &self.deployment;
        let tile = d.runtime.mixed_tile.as_ref();
        let tile = tile.filter(|t| t.generations.contains(&d.hardware.generation));
        let grouped = matches!(class.layer.attention, Attention::Grouped { .. });
        let Some(tile) = tile.filter(|_| grouped && class.kv_token > 0.0) else {
            return plain;
        };
        let floor = self.attention_floor(class, sequences, bytes);
        let tokens = bytes / (class.kv_token + class.score_token);
        let gpu = &d.hardware.gpu;
        let multiply = attention::padded(gpu, self.kernels, tile.rows.get(), tokens, class.width);
        floor + libm::hypot((plain - floor).max(0.0), multiply)
    }

    /// Seconds of the kernels between the matrices of a layer for `rows` tokens.
    fn between(&self, class: &Class, rows: f64) -> f64 {
        let d = &self.deployment;
        let gpus = f64::from(d.gpus);
        let gpu = &d.hardware.gpu;
        let norm = elementwise::norm_bytes(rows, f64::from(d.model.hidden));
        // Keys are as wide as queries divided by the heads that share them; what latent attention rotates is less.
        let rope = elementwise::rope_bytes(rows, class.width);
        let inner = elementwise::activation_bytes(rows, class.layer.ffn.inner() / gpus);
        let stream = |bytes: f64| bytes / elementwise::rate(gpu, bytes);
        d.runtime.layer_other.get()
            + (2.0 * stream(norm) + stream(rope) + stream(inner)) / d.runtime.kernel_share.get()
    }
}
