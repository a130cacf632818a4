//! Inner loops of a forward pass: products, softmax, the gate, and weights of model files to binary32.
//!
//! Each loop is written once over vectors of sixteen lanes (`vector`) and compiled three times: over arrays for any
//! CPU, over registers for AVX2 with FMA and for AVX-512. Equality to the bit is then not a promise about three texts
//! but a property of one: lane-wise operations are exact by IEEE 754 and the order of every sum is that of the text. The
//! rivals: intrinsics a path, as for traces, three times the text; arrays only, left to the compiler, which kept the
//! lanes in registers or lost a factor of ten from one build to the next. A fused multiply-add is one rounding
//! everywhere; where the CPU has none, the C library's is slow and right.
//!
//! Lengths: a product's `k` and the width of rows are whole multiples of 16, quantised rows whole blocks. Functions
//! panic on slices that are too short, as slices do; `forward` checks shapes before.

mod attend;
mod blocks;
mod bytes;
mod curve;
#[cfg(target_arch = "x86_64")]
mod piped;
mod quads;
#[cfg(target_arch = "x86_64")]
mod registers;
mod rows;
mod running;
mod tile;
mod vector;
#[cfg(target_arch = "x86_64")]
mod wide;

use std::sync::OnceLock;

pub use attend::{Attend, TILE};
pub use bytes::ROUND_FLOPS;
pub use running::Running;
use vector::{Plain, Vector};

/// How a tensor's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // named as in model files
pub enum Format {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// As model files name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Numbers and bytes of a block.
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }
}

/// The body of [`Dense::widen`].
#[inline(always)]
fn widen<V: Vector>(format: Format, bytes: &[u8], out: &mut [f32]) {
    match format {
        Format::F32 => blocks::f32s(bytes, out),
        Format::F16 => blocks::f16s::<V>(bytes, out),
        Format::Bf16 => blocks::bf16s(bytes, out),
        Format::Q4_0 => blocks::q4_0::<V>(bytes, out),
        Format::Q4_1 => blocks::q4_1::<V>(bytes, out),
        Format::Q5_0 => blocks::q5_0::<V>(bytes, out),
        Format::Q5_1 => blocks::q5_1::<V>(bytes, out),
        Format::Q8_0 => blocks::q8_0::<V>(bytes, out),
        Format::Q4K => blocks::q4_k::<V>(bytes, out),
        Format::Q5K => blocks::q5_k::<V>(bytes, out),
        Format::Q6K => blocks::q6_k::<V>(bytes, out),
    }
}

/// One compilation of every loop.
#[derive(Clone, Copy, Debug)]
pub struct Dense {
    /// `scalar`, `avx2` or `avx512`.
    pub name: &'static str,
    widen: fn(Format, &[u8], &mut [f32]),
    products: fn(&[f32], &[f32], usize, &mut [f32]),
    weighted_sum: fn(&[f32], &[f32], &mut [f32]),
    softmax: fn(&mut [f32]),
    gate: fn(&mut [f32], &[f32]),
    attend: fn(Attend<'_>, &mut [f32], &mut [Running]),
    pack: fn(&[u8], &mut [u8]) -> [f32; 2],
    unpack: fn(&[u8], [f32; 2], &mut [f32]),
    multiply_add: fn(usize) -> f32,
}

/// Compiles the bodies for some CPU features.
#[cfg(target_arch = "x86_64")]
macro_rules! path {
    ($name:ident, $from:ident::$vector:ident, $features:literal) => {
        mod $name {
            use super::$from::$vector;
            use super::*;

            #[target_feature(enable = $features)]
            fn widen(format: Format, bytes: &[u8], out: &mut [f32]) {
                super::widen::<$vector>(format, bytes, out);
            }

            #[target_feature(enable = $features)]
            fn products(rows: &[f32], items: &[f32], k: usize, out: &mut [f32]) {
                tile::products::<$vector>(rows, items, k, out);
            }

            #[target_feature(enable = $features)]
            fn weighted_sum(weights: &[f32], rows: &[f32], out: &mut [f32]) {
                tile::weighted_sum::<$vector>(weights, rows, out);
            }

            #[target_feature(enable = $features)]
            fn softmax(x: &mut [f32]) {
                curve::softmax::<$vector>(x);
            }

            #[target_feature(enable = $features)]
            fn gate(gate: &mut [f32], up: &[f32]) {
                curve::gate::<$vector>(gate, up);
            }

            #[target_feature(enable = $features)]
            fn attend(over: Attend<'_>, out: &mut [f32], runs: &mut [Running]) {
                super::attend::attend::<$vector>(over, out, runs);
            }

            #[target_feature(enable = $features)]
            fn pack(row: &[u8], codes: &mut [u8]) -> [f32; 2] {
                bytes::pack::<$vector>(row, codes)
            }

            #[target_feature(enable = $features)]
            fn unpack(codes: &[u8], scale: [f32; 2], out: &mut [f32]) {
                bytes::unpack::<$vector>(codes, scale, out);
            }

            #[target_feature(enable = $features)]
            fn multiply_add(rounds: usize) -> f32 {
                bytes::multiply_add::<$vector>(rounds)
            }

            /// To be made only where the features were detected.
            pub(super) const DENSE: Dense = Dense {
                name: stringify!($name),
                // SAFETY: this value is handed out only where the features were detected.
                widen: |f, b, o| unsafe { widen(f, b, o) },
                // SAFETY: as above.
                products: |r, i, k, o| unsafe { products(r, i, k, o) },
                // SAFETY: as above.
                weighted_sum: |w, r, o| unsafe { weighted_sum(w, r, o) },
                // SAFETY: as above.
                softmax: |x| unsafe { softmax(x) },
                // SAFETY: as above.
                gate: |g, u| unsafe { gate(g, u) },
                // SAFETY: as above.
                attend: |a, o, r| unsafe { attend(a, o, r) },
                // SAFETY: as above.
                pack: |r, c| unsafe { pack(r, c) },
                // SAFETY: as above.
                unpack: |c, s, o| unsafe { unpack(c, s, o) },
                // SAFETY: as above.
                multiply_add: |n| unsafe { multiply_add(n) },
            };
        }
    };
}

#[cfg(target_arch = "x86_64")]
path!(avx2, registers::Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
path!(
    avx512,
    wide::Avx512,
    "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c"
);

impl Dense {
    /// The fastest path of this CPU; detected once.
    pub fn best() -> &'static Self {
        static BEST: OnceLock<Dense> = OnceLock::new();
        BEST.get_or_init(|| *Self::available().last().expect("scalar is always there"))
    }

    /// Every path this CPU can run, slowest first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::scalar()];
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq");
            all.extend(fma.then_some(avx2::DENSE));
            all.extend((fma && wide).then_some(avx512::DENSE));
        }
        all
    }

    /// For any CPU.
    pub fn scalar() -> Self {
        Self {
            name: "scalar",
            widen: widen::<Plain>,
            products: tile::products::<Plain>,
            weighted_sum: tile::weighted_sum::<Plain>,
            softmax: curve::softmax::<Plain>,
            gate: curve::gate::<Plain>,
            attend: attend::attend::<Plain>,
            pack: bytes::pack::<Plain>,
            unpack: bytes::unpack::<Plain>,
            multiply_add: bytes::multiply_add::<Plain>,
        }
    }

    /// Whole blocks of `format` to binary32; stops at the shorter of both.
    pub fn widen(&self, format: Format, bytes: &[u8], out: &mut [f32]) {
        (self.widen)(format, bytes, out);
    }

    /// `out[r * n + c]` = row `r` times item `c` of `n`, both of `k` numbers, `k` a multiple of 16.
    ///
    /// # Panics
    /// If `out` is shorter than rows times items.
    pub fn products(&self, rows: &[f32], items: &[f32], k: usize, out: &mut [f32]) {
        (self.products)(rows, items, k, out);
    }

    /// `out` = sum over `j`, ascending, of `weights[j]` times row `j`, rows as wide as `out` (a multiple of 16).
    pub fn weighted_sum(&self, weights: &[f32], rows: &[f32], out: &mut [f32]) {
        (self.weighted_sum)(weights, rows, out);
    }

    /// Softmax in place.
    pub fn softmax(&self, x: &mut [f32]) {
        (self.softmax)(x);
    }

    /// `gate[i] = silu(gate[i]) * up[i]`, silu(x) = x / (1 + e^-x).
    pub fn gate(&self, gate: &mut [f32], up: &[f32]) {
        (self.gate)(gate, up);
    }

    /// Goes on with the attention of queries over the tokens of `over`: `runs` has one state a query, `out` a row a query
    /// of values weighted by `e^(product - high)`, zero before the first call. Calls of whole multiples of 32 tokens give
    /// the bits of one call. Stops at the shorter of keys and values.
    ///
    /// # Panics
    /// If `queries` or `out` is shorter than a row a state.
    pub fn attend(&self, over: Attend<'_>, out: &mut [f32], runs: &mut [Running]) {
        (self.attend)(over, out, runs);
    }

    /// A row of binary16 numbers, a multiple of 16 of them, to bytes `round((x - low) / step)`; returns low and step.
    pub fn pack(&self, row: &[u8], codes: &mut [u8]) -> [f32; 2] {
        (self.pack)(row, codes)
    }

    /// Bytes of [`Dense::pack`] to binary32, sixteen at a time; stops at the shorter of both.
    pub fn unpack(&self, codes: &[u8], scale: [f32; 2], out: &mut [f32]) {
        (self.unpack)(codes, scale, out);
    }

    /// Rounds of [`ROUND_FLOPS`] multiply-adds in registers: the roof that [`Dense::attend`] is measured against.
    pub fn multiply_add(&self, rounds: usize) -> f32 {
        (self.multiply_add)(rounds)
    }
}
