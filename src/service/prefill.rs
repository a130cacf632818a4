//! Prefill: large matrix products and causal attention, chunk by chunk.
//!
//! The products follow the law of [`super::linear`], each chunk reading the weights once. Causal attention: `t = fixed +
//! ((flops / (share * dense) * (1 + fill / blocks))^2 + (operands / (operand share * peak))^2)^(1/2)`: a call of few blocks (128
//! queries of a head each) does not fill the GPU, and short sequences pass more operands than they multiply. Causal
//! attention over 4k tokens reaches 0.48-0.58 of the dense rate (VALIDATION 1). Ignored: decode steps of other requests in
//! the same chunk.

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

/// Queries of a head that one block takes.
const BLOCK: f64 = 128.0;

/// Causal attention of one layer's prefill on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Query-key pairs.
    pub pairs: f64,
    /// New tokens, all sequences.
    pub queries: f64,
    /// Query heads.
    pub heads: f64,
    /// Query width: heads * `head_dim`.
    pub width: f64,
    /// Queries, outputs, keys and values (bytes).
    pub operands: f64,
}

/// Seconds that it takes; `kernels` is the runtime's share of the usual efficiency.
pub fn attention(gpu: &Gpu, kernels: f64, work: Work) -> f64 {
    let law = &gpu.kernels.prefill;
    let dense = law.share.get() * kernels * gpu.bf16_dense.get();
    let blocks = (work.heads * work.queries / BLOCK).max(1e-9);
    let multiply = 4.0 * work.pairs * work.width / dense * (1.0 + law.fill.get() / blocks);
    let stream = work.operands / (law.operands.get() * kernels * gpu.hbm_bandwidth.get());
    let floor = law.fixed.get();
    let total = floor + (multiply * multiply + stream * stream).sqrt();
    law.spread.apply(&law.off, "prefill", floor, total)
}
