//! Linear layers: reading the weights, or multiplying, whichever is slower.
//!
//! `t = fixed + max(weight bytes / (share * peak bandwidth), 2 m n k / (gemm share * dense rate))`. In decode the first
//! term rules up to a few hundred rows (time is flat in m to about 64 and grows from 128-256, VALIDATION 1). Experts: a
//! step of m tokens touches `E (1 - (1 - a/E)^m)` of E experts on average if a are chosen per token and routing is
//! even; skewed routing touches fewer.

use crate::hardware::{FlopRate, Gpu, Value};
use crate::model::layer::MatrixKind;
use crate::model::{Matrix, WeightFormat};

/// Efficiency and rates for a weight format.
pub struct Rates {
    /// Achieved bytes per second when weights stream.
    pub stream: f64,
    /// Achieved FLOP per second of a large product.
    pub multiply: f64,
}

/// The rates of a GPU for matrices of a kind in a weight format; `kernels` is the runtime's share of the usual
/// efficiency.
pub fn rates(gpu: &Gpu, kernels: f64, format: &WeightFormat, kind: MatrixKind) -> Rates {
    let k = &gpu.kernels;
    let bits = format.bits(kind);
    let share = match bits {
        16 => &k.linear_share,
        8 => &k.linear_share_8bit,
        _ => &k.linear_share_4bit,
    };
    Rates {
        stream: share.get() * kernels * gpu.hbm_bandwidth.get(),
        multiply: k.gemm_share.get() * kernels * dense(gpu, format, bits).get(),
    }
}

/// The dense rate that products in this format run at: formats without their own units multiply in 16 bit.
pub fn dense<'a>(gpu: &'a Gpu, format: &WeightFormat, bits: u32) -> &'a Value<FlopRate> {
    let own = match format {
        WeightFormat::Fp8 if bits == 8 => gpu.fp8_dense.as_ref(),
        WeightFormat::Int8 if bits == 8 => gpu.int8_dense.as_ref(),
        _ => None,
    };
    own.unwrap_or(&gpu.bf16_dense)
}

/// Seconds of one matrix kernel: `bytes` of weights read, `flops` of arithmetic.
pub fn kernel(fixed: f64, rates: &Rates, bytes: f64, flops: f64) -> f64 {
    fixed + (bytes / rates.stream).max(flops / rates.multiply)
}

/// Seconds of one linear operation for `rows` tokens, divided over `gpus`.
pub fn matrix(
    gpu: &Gpu,
    kernels: f64,
    format: &WeightFormat,
    matrix: &Matrix,
    gpus: f64,
    rows: f64,
) -> f64 {
    let touched = match matrix.copies {
        1 => 1.0,
        n => experts_touched(f64::from(n), f64::from(matrix.active), rows),
    };
    let bytes = touched * format.matrix_bytes(matrix) / gpus;
    let flops = 2.0 * rows * f64::from(matrix.active) * matrix.elements() as f64 / gpus;
    let rates = rates(gpu, kernels, format, matrix.kind);
    kernel(gpu.kernels.linear_fixed.get(), &rates, bytes, flops)
}

/// Experts touched on average by `tokens` tokens that each choose `active` of `experts`, routing even.
pub fn experts_touched(experts: f64, active: f64, tokens: f64) -> f64 {
    experts * (1.0 - (1.0 - active / experts).powf(tokens))
}
