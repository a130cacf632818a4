//! Decode attention: reading the KV cache once.
//!
//! Flash-decoding kernels stream K and V on top of a floor: `t = fixed + split * doublings(1 + context / 128) + pair *
//! sequences * KV heads + bytes / rate`. The floor grows with the context, because a long one is split over more blocks whose partial
//! results are merged, and with the grid, a block for each sequence and KV head. `rate` is a share of peak bandwidth (H100
//! 0.95 of 3,350 GB/s above that floor). A benchmark that repeats one call finds a small cache in L2 and is faster (`warm`); in
//! a model the weights of a layer pass between two calls and evict it, as profiles of whole models show, so that serving
//! is always cold. FP8 KV has half the bytes but streams at a lower share on some cards (0.82 against 0.95 on H100), so it does
//! not halve the time. Arithmetic is not a bound: grouped heads do 2 * group FLOP a byte, far under any GPU's ratio.
//! Parameters: [`crate::hardware::kernels::DecodeAttention`], fitted over tables of one call (VALIDATION 1). Units: bytes,
//! tokens, seconds.

use crate::deploy::ScoreCost;
use crate::hardware::kernels::DecodeAttention;
use crate::hardware::{Gpu, Host};

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
    /// Whether the same call ran just before, so that a cache that fits L2 is still there.
    pub warm: bool,
}

/// Seconds that it takes; `kernels` is the runtime's share of the usual efficiency, `calls` how often the floor
/// is paid.
pub fn decode(gpu: &Gpu, law: &DecodeAttention, kernels: f64, work: Work, calls: f64) -> f64 {
    let floor = calls * floor(law, work);
    let total = floor + work.bytes / rate(gpu, law, kernels, work);
    law.spread.apply(&law.off, "attention", floor, total)
}

/// Seconds of a call that moves nothing.
pub fn floor(law: &DecodeAttention, work: Work) -> f64 {
    let splits = doublings(1.0 + work.context.max(0.0) / SPLIT);
    law.fixed.get() + law.split.get() * splits + law.pair.get() * work.pairs
}

/// How often 1 doubles to reach `x` >= 1, linear between powers of two: within 0.09 of the logarithm, the same on every
/// machine, and a tenth of its cost in a function that every step calls.
fn doublings(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    // At most 1,024: exact in a float.
    let whole = ((bits >> 52) as f64) - 1023.0;
    whole + f64::from_bits((bits & MANTISSA) | (1023 << 52)) - 1.0
}

/// Bytes a second at which it streams.
pub fn rate(gpu: &Gpu, law: &DecodeAttention, kernels: f64, work: Work) -> f64 {
    let share = if work.warm && work.bytes <= gpu.l2.get() {
        law.l2.get().max(law.share.get())
    } else {
        law.share.get()
    };
    share * kernels * gpu.hbm_bandwidth.get()
}

/// Seconds of multiplying what a decode step attends to beside prompts, where each lone query is padded to a tile of `rows`:
/// `tokens` positions in all, queries of `width` elements, at the rate of prompts.
pub fn padded(gpu: &Gpu, kernels: f64, rows: f64, tokens: f64, width: f64) -> f64 {
    let dense = gpu.kernels.prefill.share.get() * kernels * gpu.bf16_dense.get();
    4.0 * rows * tokens * width / dense
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
