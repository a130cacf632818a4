//! Inner loops over slices: scalar, AVX2 and AVX-512 in one lane order, equal to the bit.
//!
//! Attention rows are binary16. Every binary16 number of at most 1 is a whole multiple of 2^-24, so a binary32 lane that
//! never exceeds 1 adds such numbers **exactly**: sums of a row's weights are kept in binary32 lanes and joined in
//! binary64, and no order of addition can change them. Only rows that are no attention rows (a lane over 1) round, by
//! 2^-24 relative. Scores run over many rows and are binary64 throughout.
//!
//! One lane order for all paths: element `i` of a block of 32 goes to lane `i % 16` of accumulator `i / 16`; the tail is
//! padded with zeros; [`lanes::join`] is the one reduction tree. No fused multiply-add anywhere. Rival design: let each
//! width sum as it likes and compare with a tolerance; then no golden would hold on another machine.
//!
//! Unsafe code of the crate lives here and only here: loads and stores through pointers whose bounds are checked by the
//! loop above them, and calls of functions whose CPU features were detected.
#![allow(unsafe_code, clippy::pedantic)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod dense;
pub mod lanes;

use std::sync::OnceLock;

/// One implementation of every inner loop.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// `scalar`, `avx2` or `avx512`.
    pub name: &'static str,
    widen: fn(&[u16], &mut [f32]) -> f64,
    sum: fn(&[u16]) -> f64,
    total: fn(&[u8]) -> u64,
    masked_sum: fn(&[f32], &[u64]) -> f64,
    accumulate: fn(&mut [f64], &[f32]),
    decay: fn(&mut [f64], &[f32], f64),
}

impl Kernels {
    /// The fastest path of this CPU; detected once.
    pub fn best() -> &'static Self {
        static BEST: OnceLock<Kernels> = OnceLock::new();
        BEST.get_or_init(|| *Self::available().last().expect("scalar is always there"))
    }

    /// Every path this CPU can run, slowest first.
    pub fn available() -> Vec<Self> {
        [Some(Self::scalar()), Self::avx2(), Self::avx512()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Plain Rust.
    pub fn scalar() -> Self {
        Self {
            name: "scalar",
            widen: lanes::widen,
            sum: lanes::sum,
            total: lanes::total,
            masked_sum: lanes::masked_sum,
            accumulate: lanes::accumulate,
            decay: lanes::decay,
        }
    }

    /// AVX2 with F16C, where the CPU has both.
    #[cfg(target_arch = "x86_64")]
    pub fn avx2() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self {
            name: "avx2",
            // SAFETY: this value exists only where AVX2 and F16C were detected.
            widen: |b, o| unsafe { avx2::widen(b, o) },
            // SAFETY: as above.
            sum: |b| unsafe { avx2::sum(b) },
            // SAFETY: as above.
            total: |b| unsafe { avx2::total(b) },
            // SAFETY: as above.
            masked_sum: |w, m| unsafe { avx2::masked_sum(w, m) },
            // SAFETY: as above.
            accumulate: |s, w| unsafe { avx2::accumulate(s, w) },
            // SAFETY: as above.
            decay: |s, w, l| unsafe { avx2::decay(s, w, l) },
        })
    }

    /// AVX-512 (foundation), where the CPU has it.
    #[cfg(target_arch = "x86_64")]
    pub fn avx512() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self {
            name: "avx512",
            // SAFETY: this value exists only where AVX-512F was detected.
            widen: |b, o| unsafe { avx512::widen(b, o) },
            // SAFETY: as above.
            sum: |b| unsafe { avx512::sum(b) },
            // SAFETY: as above.
            total: |b| unsafe { avx512::total(b) },
            // SAFETY: as above.
            masked_sum: |w, m| unsafe { avx512::masked_sum(w, m) },
            // SAFETY: as above.
            accumulate: |s, w| unsafe { avx512::accumulate(s, w) },
            // SAFETY: as above.
            decay: |s, w, l| unsafe { avx512::decay(s, w, l) },
        })
    }

    /// Not on this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn avx2() -> Option<Self> {
        None
    }

    /// Not on this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn avx512() -> Option<Self> {
        None
    }

    /// Decodes binary16 `bits` into the first `bits.len()` of `out` and returns their sum.
    ///
    /// # Panics
    /// If `out` is shorter than `bits`.
    pub fn widen(&self, bits: &[u16], out: &mut [f32]) -> f64 {
        (self.widen)(bits, &mut out[..bits.len()])
    }

    /// Sum of binary16 `bits` in binary64 lanes: the plain sum that other passes over a trace are measured against.
    pub fn sum(&self, bits: &[u16]) -> f64 {
        (self.sum)(bits)
    }

    /// Wrapping sum of whole 512-byte blocks as 64-bit words: the plainest pass over memory, for its bandwidth.
    pub fn total(&self, bytes: &[u8]) -> u64 {
        (self.total)(bytes)
    }

    /// Sum of the `weights` whose bit in `mask` is set: bit `i % 64` of word `i / 64`; missing words count as zero.
    pub fn masked_sum(&self, weights: &[f32], mask: &[u64]) -> f64 {
        (self.masked_sum)(weights, mask)
    }

    /// `score[i] += weights[i]`.
    ///
    /// # Panics
    /// If `score` is shorter than `weights`.
    pub fn accumulate(&self, score: &mut [f64], weights: &[f32]) {
        (self.accumulate)(&mut score[..weights.len()], weights);
    }

    /// `score[i] = keep * score[i] + (1 - keep) * weights[i]`: an exponential moving average.
    ///
    /// # Panics
    /// If `score` is shorter than `weights`.
    pub fn decay(&self, score: &mut [f64], weights: &[f32], keep: f64) {
        (self.decay)(&mut score[..weights.len()], weights, keep);
    }
}
