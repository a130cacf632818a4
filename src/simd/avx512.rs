//! AVX-512 (foundation): 16 lanes are one register of binary32 or two of binary64.

use std::arch::x86_64::*;

use super::lanes::{self, BLOCK};

/// Sixteen binary16 numbers at `at`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_half(at: *const u16) -> __m512 {
    // SAFETY: the caller has 16 numbers at `at`.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store32(acc: &[__m512; 2]) -> [[f32; 16]; 2] {
    acc.map(|a| {
        let mut out = [0f32; 16];
        // SAFETY: `out` has 16 lanes.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), a) };
        out
    })
}

#[target_feature(enable = "avx512f")]
pub(super) fn widen(bits: &[u16], out: &mut [f32]) -> f64 {
    let whole = bits.len() / BLOCK * BLOCK;
    let mut acc = [_mm512_setzero_ps(); 2];
    for at in (0..whole).step_by(BLOCK) {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: at + 32 <= bits.len() == out.len(), and i < 2.
            unsafe {
                let w = load_half(bits.as_ptr().add(at + 16 * i));
                _mm512_storeu_ps(out.as_mut_ptr().add(at + 16 * i), w);
                *acc = _mm512_add_ps(*acc, w);
            }
        }
    }
    let mut acc = store32(&acc);
    for (i, (o, b)) in out[whole..].iter_mut().zip(&bits[whole..]).enumerate() {
        *o = lanes::widen_one(*b);
        acc[i / 16][i % 16] += *o;
    }
    lanes::join32(&acc[0], &acc[1])
}

/// Low and high eight lanes, widened.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(w: __m512) -> (__m512d, __m512d) {
    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(w)));
    (
        _mm512_cvtps_pd(_mm512_castps512_ps256(w)),
        _mm512_cvtps_pd(high),
    )
}

#[target_feature(enable = "avx512f")]
pub(super) fn sum(bits: &[u16]) -> f64 {
    let whole = bits.len() / BLOCK * BLOCK;
    let mut acc = [_mm512_setzero_pd(); 4];
    for at in (0..whole).step_by(BLOCK) {
        for i in 0..2 {
            // SAFETY: at + 32 <= bits.len() and i < 2.
            let (low, high) = halves(unsafe { load_half(bits.as_ptr().add(at + 16 * i)) });
            acc[2 * i] = _mm512_add_pd(acc[2 * i], low);
            acc[2 * i + 1] = _mm512_add_pd(acc[2 * i + 1], high);
        }
    }
    let mut lane = [[0f64; 16]; 2];
    for (i, a) in acc.iter().enumerate() {
        // SAFETY: lanes 8*(i%2) .. +8 of accumulator i/2 are inside a 16-lane array.
        unsafe { _mm512_storeu_pd(lane[i / 2].as_mut_ptr().add(8 * (i % 2)), *a) };
    }
    for (i, b) in bits[whole..].iter().enumerate() {
        lane[i / 16][i % 16] += f64::from(lanes::widen_one(*b));
    }
    lanes::join(&lane[0], &lane[1])
}

#[target_feature(enable = "avx512f")]
pub(super) fn total(bytes: &[u8]) -> u64 {
    lanes::total(bytes)
}

#[target_feature(enable = "avx512f")]
pub(super) fn masked_sum(weights: &[f32], mask: &[u64]) -> f64 {
    let mut acc = [_mm512_setzero_ps(); 2];
    let words = (weights.len() / 64).min(mask.len());
    for (word, &bits) in weights.chunks_exact(64).zip(&mask[..words]) {
        if bits == 0 {
            continue;
        }
        for i in 0..4 {
            // SAFETY: `word` has 64 weights: four registers of 16.
            let w = unsafe {
                _mm512_maskz_loadu_ps((bits >> (16 * i)) as u16, word.as_ptr().add(16 * i))
            };
            acc[i % 2] = _mm512_add_ps(acc[i % 2], w);
        }
    }
    let mut acc = store32(&acc);
    if let Some(&bits) = mask.get(words) {
        lanes::masked_word(&mut acc, &weights[words * 64..], bits);
    }
    lanes::join32(&acc[0], &acc[1])
}

/// Eight scores and eight weights at `i`, widened.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_pair(score: &[f64], weights: &[f32], i: usize) -> (__m512d, __m512d) {
    // SAFETY: the caller has i + 8 <= both lengths.
    unsafe {
        (
            _mm512_loadu_pd(score.as_ptr().add(i)),
            _mm512_cvtps_pd(_mm256_loadu_ps(weights.as_ptr().add(i))),
        )
    }
}

#[target_feature(enable = "avx512f")]
pub(super) fn accumulate(score: &mut [f64], weights: &[f32]) {
    let n = score.len().min(weights.len());
    let whole = n / 8 * 8;
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= whole <= both lengths.
        unsafe {
            let (s, w) = load_pair(score, weights, i);
            _mm512_storeu_pd(score.as_mut_ptr().add(i), _mm512_add_pd(s, w));
        }
    }
    lanes::accumulate(&mut score[whole..n], &weights[whole..n]);
}

#[target_feature(enable = "avx512f")]
pub(super) fn decay(score: &mut [f64], weights: &[f32], keep: f64) {
    let n = score.len().min(weights.len());
    let whole = n / 8 * 8;
    let (keep8, gain8) = (_mm512_set1_pd(keep), _mm512_set1_pd(1.0 - keep));
    for i in (0..whole).step_by(8) {
        // SAFETY: i + 8 <= whole <= both lengths.
        unsafe {
            let (s, w) = load_pair(score, weights, i);
            let next = _mm512_add_pd(_mm512_mul_pd(keep8, s), _mm512_mul_pd(gain8, w));
            _mm512_storeu_pd(score.as_mut_ptr().add(i), next);
        }
    }
    lanes::decay(&mut score[whole..n], &weights[whole..n], keep);
}
