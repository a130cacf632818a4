//! Prefill: large matrix products and causal attention, chunk by chunk.
//!
//! `t = max(2 * active parameters * tokens / (gemm share * dense), weight read) + causal attention flops / (share * bf16
//! dense)`, each chunk reading the weights once. BF16 products with m >= 2,048 reach 0.65-0.83 of the datasheet rate,
//! causal attention over 4k tokens 0.48-0.58 (VALIDATION 1). Ignored: decode steps of other requests in the same chunk.

use crate::hardware::Gpu;

/// Query-key pairs that `tokens` new tokens attend to after `before` cached ones: a causal triangle on a rectangle.
pub fn causal_pairs(before: f64, tokens: f64) -> f64 {
    tokens * before + tokens * (tokens + 1.0) / 2.0
}

/// Pairs with a sliding window of `window` tokens.
pub fn causal_pairs_within(before: f64, tokens: f64, window: f64) -> f64 {
    // Rows whose whole past fits the window, then rows that see exactly `window`.
    let growing = (window - before).clamp(0.0, tokens);
    causal_pairs(before, growing) + (tokens - growing) * window
}

/// Seconds of causal attention for `pairs` of one layer with `heads * head_dim` = `width` on one GPU.
pub fn attention(gpu: &Gpu, kernels: f64, pairs: f64, width: f64) -> f64 {
    4.0 * pairs * width
        / (gpu.kernels.prefill_attention_share.get() * kernels * gpu.bf16_dense.get())
}
