//! Decode attention: reading the KV cache once.
//!
//! Flash-decoding kernels stream K and V at a share of peak bandwidth on top of a floor (launch, split, merge):
//! `t = fixed + bytes / (share * peak)`; H100 0.87 of 3,350 GB/s and 11 us (VALIDATION 1). FP8 KV has half the bytes
//! but streams at a lower share (0.78 against 0.87), so it does not halve the time. Arithmetic is not a bound: grouped
//! heads do 2 * group FLOP a byte, far under any GPU's ratio.

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
