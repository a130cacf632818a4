//! What stands between the matrices: norms, rotary embedding, activation, the embedding's rows, the sampler.
//!
//! Each kernel has a floor and streams its operands: from L2 while they fit into half of it, which the kernel before has
//! just written, else from HBM. `t = floor + bytes / rate`. A layer has four such kernels (two norms, rope, activation),
//! so that the floor is a quarter of the runtime's `layer_other`. The sampler makes several passes over the logits
//! (copy to 32 bit, softmax, top-k, draw) with a floor of its own. Measured in `LLMServingSim`'s layer tables (vLLM 0.19).

use crate::hardware::{Gpu, Runtime};

/// Kernels of a layer that a floor is paid for.
const KERNELS: f64 = 4.0;

/// Bandwidth of L2 over the peak of memory for such kernels: 512 rows of an activation pass at 5.4 TB/s, of a norm at 8.8, on
/// an RTX PRO 6000 of 1.6 (`LLMServingSim`'s layer tables).
const L2: f64 = 3.8;

/// Passes of the sampler over 32-bit logits.
const PASSES: f64 = 2.0;

/// Bytes a second at which a kernel streams `bytes` of operands.
pub fn rate(gpu: &Gpu, bytes: f64) -> f64 {
    let k = &gpu.kernels;
    let speed = if bytes <= 0.5 * gpu.l2.get() {
        L2
    } else {
        k.attention.share.get()
    };
    speed * gpu.hbm_bandwidth.get()
}

/// Seconds of a kernel that moves `bytes`.
pub fn kernel(gpu: &Gpu, runtime: &Runtime, bytes: f64) -> f64 {
    runtime.layer_other.get() / KERNELS + bytes / rate(gpu, bytes)
}

/// Seconds of drawing tokens from `logits` logits in all.
pub fn sampler(gpu: &Gpu, runtime: &Runtime, logits: f64) -> f64 {
    let bytes = 4.0 * logits;
    runtime.sampler().get() + PASSES * bytes / rate(gpu, bytes)
}

/// Bytes of a norm fused with the residual: both read, both written, 16 bit.
pub fn norm_bytes(rows: f64, hidden: f64) -> f64 {
    rows * hidden * 2.0 * 4.0
}

/// Bytes of the rotary embedding over `width` elements of Q and K: read and written.
pub fn rope_bytes(rows: f64, width: f64) -> f64 {
    rows * width * 2.0 * 2.0
}

/// Bytes of a gated activation of `inner` elements: gate and up read, one written.
pub fn activation_bytes(rows: f64, inner: f64) -> f64 {
    rows * inner * 2.0 * 3.0
}

/// Bytes of looking up rows of the embedding: read and written.
pub fn embedding_bytes(rows: f64, hidden: f64) -> f64 {
    rows * hidden * 2.0 * 2.0
}
