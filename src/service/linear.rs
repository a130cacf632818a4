//! Linear layers: reading the weights and multiplying, the slower ruling.
//!
//! `t = fixed + (stream^q + multiply^q)^(1/q)`, `stream = weights / (share * peak) + activations / L2`, `multiply = 2 m n k /
//! (gemm share * dense rate)`. In decode the first rules up to a few hundred rows (time is flat in m to about 64 and grows
//! from 128-256, VALIDATION 1); q says how well a kernel overlaps the two where they are alike (H100 2.8: nearly the
//! maximum; L40S 1.3: nearly the sum). A small matrix is slow through the floor alone. A benchmark that cycles through six
//! copies of a matrix finds it in L2 if all six fit (`warm`); a model does not. Some libraries take a single row with
//! another kernel ([`crate::hardware::kernels::SingleRow`]: FP8 on B200 is three times slower at m = 1 than at 4). Experts: a
//! step of m tokens touches `E (1 - (1 - a/E)^m)` of E experts on average if a are chosen per token and routing is even;
//! skewed routing touches fewer. Ignored: tiles that do not divide the shape (waves), which is most of what is left.

use crate::hardware::kernels::{Linear, Spread};
use crate::hardware::{FlopRate, Gpu, Value};
use crate::model::{Matrix, WeightFormat};

/// Copies of a matrix that a benchmark cycles through.
const COPIES: f64 = 6.0;

/// Sharpness from which the blend is the maximum.
const SHARP: f64 = 32.0;

/// One kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Weights read (bytes).
    pub weights: f64,
    /// Activations read and written (bytes).
    pub activations: f64,
    /// Arithmetic (FLOP).
    pub flops: f64,
    /// Rows of the activations.
    pub rows: f64,
    /// Whether it is a benchmark that cycles through six copies.
    pub warm: bool,
}

/// How a product is divided and measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// GPUs in tensor parallel.
    pub gpus: f64,
    /// The runtime's share of the usual efficiency.
    pub kernels: f64,
    /// Whether it is a benchmark that cycles through six copies.
    pub warm: bool,
    /// How tokens spread over experts.
    pub routing: Routing,
}

/// How tokens spread over experts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Routing {
    /// Each token's experts are drawn evenly.
    #[default]
    Random,
    /// Experts take turns, as a balanced benchmark deals them: all are busy as soon as there are enough tokens.
    Dealt,
    /// The i-th expert is drawn with a weight of `i^-exponent`.
    Skewed(f64),
}

impl Routing {
    /// Experts touched on average by `tokens` tokens that each choose `active` of `experts`.
    pub fn touched(self, experts: f64, active: f64, tokens: f64) -> f64 {
        match self {
            Self::Random => experts_touched(experts, active, tokens),
            Self::Dealt => (active * tokens).min(experts),
            Self::Skewed(exponent) => skewed(experts, active, tokens, exponent),
        }
    }
}

/// A draw misses the i-th expert with `1 - p_i`; one token touches `active` at the least.
fn skewed(experts: f64, active: f64, tokens: f64, exponent: f64) -> f64 {
    let weight = |i: u32| libm::pow(f64::from(i), -exponent);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some hundred experts
    let ranks = 1..=(experts as u32);
    let all: f64 = ranks.clone().map(weight).sum();
    let draws = active * tokens;
    let hit = |i: u32| 1.0 - libm::pow(1.0 - weight(i) / all, draws);
    ranks.map(hit).sum::<f64>().max(active)
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

/// Seconds of one kernel by the law of its format, at `dense` FLOP/s.
pub fn kernel(gpu: &Gpu, law: &Linear, kernels: f64, dense: f64, work: Work) -> (f64, f64) {
    let peak = kernels * gpu.hbm_bandwidth.get();
    if let Some(single) = law.single.as_ref().filter(|_| work.rows <= 1.0) {
        let fixed = single.fixed.get();
        return (fixed, fixed + work.weights / (single.share.get() * peak));
    }
    let cached = work.warm && COPIES * work.weights <= gpu.l2.get();
    let share = if cached {
        law.l2.get().max(law.share.get())
    } else {
        law.share.get()
    };
    let local = gpu.kernels.attention.l2.get() * peak;
    let stream = work.weights / (share * peak) + work.activations / local;
    let multiply = work.flops / (law.gemm.get() * kernels * dense);
    let fixed = law.fixed.get();
    (fixed, fixed + blend(stream, multiply, law.sharpness.get()))
}

/// `(a^q + b^q)^(1/q)`.
fn blend(a: f64, b: f64, q: f64) -> f64 {
    let (small, large) = (a.min(b), a.max(b));
    if q >= SHARP || large <= 0.0 {
        return large;
    }
    large * libm::pow(1.0 + libm::pow(small / large, q), 1.0 / q)
}

/// Seconds of one linear operation for `rows` tokens.
pub fn matrix(gpu: &Gpu, format: &WeightFormat, matrix: &Matrix, split: Split, rows: f64) -> f64 {
    let touched = match matrix.copies {
        1 => 1.0,
        n => split
            .routing
            .touched(f64::from(n), f64::from(matrix.active), rows),
    };
    let (active, bits) = (f64::from(matrix.active), format.bits(matrix.kind));
    let work = Work {
        weights: touched * format.matrix_bytes(matrix) / split.gpus,
        activations: 2.0 * rows * active * f64::from(matrix.out + matrix.inp) / split.gpus,
        flops: 2.0 * rows * active * matrix.elements() as f64 / split.gpus,
        rows,
        warm: split.warm,
    };
    let law = gpu.kernels.linear_of(bits);
    let dense = dense(gpu, format, bits).get();
    let (floor, total) = kernel(gpu, law, split.kernels, dense, work);
    let spread = match matrix.copies {
        1 => law.spread,
        _ => Spread::even(law.experts),
    };
    spread.apply(&law.off, matrix.name, floor, total)
}

/// Experts touched on average by `tokens` tokens that each choose `active` of `experts`, routing even.
pub fn experts_touched(experts: f64, active: f64, tokens: f64) -> f64 {
    experts * (1.0 - libm::pow(1.0 - active / experts, tokens))
}
