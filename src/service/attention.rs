//! Decode attention: reading the KV cache once.
//!
//! Flash-decoding kernels stream K and V at a share of peak bandwidth on top of a floor (launch, split, merge):
//! `t = fixed + bytes / (share * peak)`; H100 0.87 of 3,350 GB/s and 11 us (VALIDATION 1). FP8 KV has half the bytes
//! but streams at a lower share (0.78 against 0.87), so it does not halve the time. Arithmetic is not a bound: grouped
//! heads do 2 * group FLOP a byte, far under any GPU's ratio.

use crate::deploy::ScoreCost;
use crate::hardware::{Gpu, Host};

/// Seconds that one layer's decode attention takes on one GPU. `bytes` is everything the kernel moves; `eight_bit`
/// says that KV is stored in 8 bits or less; `kernels` is the runtime's share of the usual efficiency.
pub fn decode(gpu: &Gpu, kernels: f64, bytes: f64, eight_bit: bool) -> f64 {
    let k = &gpu.kernels;
    let share = if eight_bit {
        &k.attention_share_8bit
    } else {
        &k.attention_share
    };
    k.attention_fixed.get() + bytes / (share.get() * kernels * gpu.hbm_bandwidth.get())
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
