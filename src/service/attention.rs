//! Decode attention: reading the KV cache once.
//!
//! Flash-decoding kernels stream K and V on top of a floor: `t = fixed + split * log2(1 + context / 128) + pair * sequences *
//! KV heads + bytes / rate`. The floor grows with the context, because a long one is split over more blocks whose partial
//! results are merged, and with the grid, a block for each sequence and KV head. `rate` is a share of peak bandwidth (H100
//! 0.87 of 3,350 GB/s), or that of L2 where the whole cache of the layer fits in it, which benchmarks and short chains see
//! and a model with many layers does too while its weights bypass L2. FP8 KV has half the bytes but streams at a lower share
//! (0.78 against 0.87 on H100), so it does not halve the time. A profile without the terms of split, pair and L2 has the
//! two of the straight line (VALIDATION 1). Arithmetic is not a bound: grouped heads do 2 * group FLOP a byte, far under any
//! GPU's ratio. Units: bytes, tokens, seconds.

use crate::deploy::ScoreCost;
use crate::hardware::{Gpu, Host, Value};

/// Context up to which a call is one split \[tokens\].
const SPLIT: f64 = 128.0;

/// A layer's decode attention on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Everything the kernel moves (bytes).
    pub bytes: f64,
    /// Whether KV is stored in 8 bits or less.
    pub eight_bit: bool,
    /// Tokens a sequence has.
    pub context: f64,
    /// Sequences times KV heads of the GPU.
    pub pairs: f64,
}

/// Seconds that it takes; `kernels` is the runtime's share of the usual efficiency.
pub fn decode(gpu: &Gpu, kernels: f64, work: Work) -> f64 {
    floor(gpu, work) + work.bytes / rate(gpu, kernels, work)
}

/// Seconds of a call that moves nothing.
pub fn floor(gpu: &Gpu, work: Work) -> f64 {
    let k = &gpu.kernels;
    let split = k.attention_split.as_ref().map_or(0.0, |s| {
        s.get() * (1.0 + work.context.max(0.0) / SPLIT).log2()
    });
    let pair = k.attention_pair.as_ref().map_or(0.0, Value::get);
    k.attention_fixed.get() + split + pair * work.pairs
}

/// Bytes a second at which it streams.
pub fn rate(gpu: &Gpu, kernels: f64, work: Work) -> f64 {
    let k = &gpu.kernels;
    let memory = if work.eight_bit {
        k.attention_share_8bit.get()
    } else {
        k.attention_share.get()
    };
    let share = match &k.l2_speed {
        Some(l2) if work.bytes <= gpu.l2.get() => l2.get().max(memory),
        _ => memory,
    };
    share * kernels * gpu.hbm_bandwidth.get()
}

/// Seconds that the host needs to attend over `bytes` of KV of one layer with `flops` of arithmetic: the slower of
/// reading DDR and multiplying (DESIGN 5.1 `host-attention`).
pub fn host(host: &Host, bytes: f64, flops: f64) -> f64 {
    (bytes / host.ddr_read.get()).max(flops / host.attention_flops.get())
}

/// Kernels that one layer's attention takes, each with its floor.
pub fn kernels(cost: ScoreCost) -> f64 {
    match cost {
        ScoreCost::Fused => 1.0,
        // Attention, then logits and weights again from K and the row's log-sum-exp.
        ScoreCost::Recompute => 2.0,
        // Logits, softmax, conversion, weighted sum.
        ScoreCost::Eager => 4.0,
    }
}

/// HBM bytes a token of one layer costs besides its KV, on one GPU: K (`key_bytes`) once more, which is about half of the
/// traffic; or for each query head the logit written and read (16 bit), the softmax written and read (32 bit), the weight
/// written and read (16 bit), as an eager implementation does. Ignored: KV heads copied for every query head (eager
/// `repeat_kv`), which grouped products avoid.
pub fn score_bytes(cost: ScoreCost, key_bytes: f64, heads: f64) -> f64 {
    match cost {
        ScoreCost::Fused => 0.0,
        ScoreCost::Recompute => key_bytes,
        ScoreCost::Eager => heads * 2.0 * (2.0 + 4.0 + 2.0),
    }
}
