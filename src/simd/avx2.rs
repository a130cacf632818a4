//! AVX2 with F16C: 16 lanes are two registers of binary32 or four of binary64.

use std::arch::x86_64::*;

use super::lanes::{self, BLOCK};

/// Eight binary16 numbers at `at`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load_half(at: *const u16) -> __m256 {
    // SAFETY: the caller has 8 numbers at `at`.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store32(acc: &[__m256; 4]) -> [[f32; 16]; 2] {
    let mut out = [[0f32; 16]; 2];
    for (i, a) in acc.iter().enumerate() {
        // SAFETY: lanes 8*(i%2) .. +8 of accumulator i/2 are inside a 16-lane array.
        unsafe { _mm256_storeu_ps(out[i / 2].as_mut_ptr().add(8 * (i % 2)), *a) };
    }
    out
}

#[target_feature(enable = "avx2,f16c")]
pub(super) fn widen(bits: &[u16], out: &mut [f32]) -> f64 {
    let whole = bits.len() / BLOCK * BLOCK;
    let mut acc = [_mm256_setzero_ps(); 4];
    for at in (0..whole).step_by(BLOCK) {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: at + 32 <= bits.len() == out.len(), and i < 4.
            unsafe {
                let w = load_half(bits.as_ptr().add(at + 8 * i));
                _mm256_storeu_ps(out.as_mut_ptr().add(at + 8 * i), w);
                *acc = _mm256_add_ps(*acc, w);
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

#[target_feature(enable = "avx2,f16c")]
pub(super) fn sum(bits: &[u16]) -> f64 {
    let whole = bits.len() / BLOCK * BLOCK;
    let mut acc = [_mm256_setzero_pd(); 8];
    for at in (0..whole).step_by(BLOCK) {
        for i in 0..4 {
            // SAFETY: at + 32 <= bits.len() and i < 4.
            let w = unsafe { load_half(bits.as_ptr().add(at + 8 * i)) };
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(w));
            let high = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(w));
            acc[2 * i] = _mm256_add_pd(acc[2 * i], low);
            acc[2 * i + 1] = _mm256_add_pd(acc[2 * i + 1], high);
        }
    }
    let mut lane = [[0f64; 16]; 2];
    for (i, a) in acc.iter().enumerate() {
        // SAFETY: lanes 4*(i%4) .. +4 of accumulator i/4 are inside a 16-lane array.
        unsafe { _mm256_storeu_pd(lane[i / 4].as_mut_ptr().add(4 * (i % 4)), *a) };
    }
    for (i, b) in bits[whole..].iter().enumerate() {
        lane[i / 16][i % 16] += f64::from(lanes::widen_one(*b));
    }
    lanes::join(&lane[0], &lane[1])
}

/// Adds 32 weights under 32 mask bits.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn masked_block(acc: &mut [__m256; 4], at: *const f32, bits: u32, select: &[__m256i; 4]) {
    let spread = _mm256_set1_epi32(bits as i32);
    for i in 0..4 {
        let on = _mm256_cmpeq_epi32(_mm256_and_si256(spread, select[i]), select[i]);
        // SAFETY: the caller has 32 weights at `at`.
        let w = unsafe { _mm256_loadu_ps(at.add(8 * i)) };
        acc[i] = _mm256_add_ps(acc[i], _mm256_and_ps(w, _mm256_castsi256_ps(on)));
    }
}

/// Lane k of register i picks bit 8*i + k.
#[inline]
#[target_feature(enable = "avx2")]
fn selectors() -> [__m256i; 4] {
    let first = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    [
        first,
        _mm256_slli_epi32::<8>(first),
        _mm256_slli_epi32::<16>(first),
        _mm256_slli_epi32::<24>(first),
    ]
}

#[target_feature(enable = "avx2")]
pub(super) fn total(bytes: &[u8]) -> u64 {
    lanes::total(bytes)
}

#[target_feature(enable = "avx2")]
pub(super) fn masked_sum(weights: &[f32], mask: &[u64]) -> f64 {
    let select = selectors();
    let mut acc = [_mm256_setzero_ps(); 4];
    let words = (weights.len() / 64).min(mask.len());
    for (word, &bits) in weights.chunks_exact(64).zip(&mask[..words]) {
        if bits == 0 {
            continue;
        }
        // SAFETY: `word` has 64 weights: two blocks of 32.
        unsafe {
            masked_block(&mut acc, word.as_ptr(), bits as u32, &select);
            masked_block(
                &mut acc,
                word.as_ptr().add(32),
                (bits >> 32) as u32,
                &select,
            );
        }
    }
    let mut acc = store32(&acc);
    if let Some(&bits) = mask.get(words) {
        lanes::masked_word(&mut acc, &weights[words * 64..], bits);
    }
    lanes::join32(&acc[0], &acc[1])
}

/// Four scores and four weights at `i`, widened.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_pair(score: &[f64], weights: &[f32], i: usize) -> (__m256d, __m256d) {
    // SAFETY: the caller has i + 4 <= both lengths.
    unsafe {
        (
            _mm256_loadu_pd(score.as_ptr().add(i)),
            _mm256_cvtps_pd(_mm_loadu_ps(weights.as_ptr().add(i))),
        )
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn accumulate(score: &mut [f64], weights: &[f32]) {
    let n = score.len().min(weights.len());
    let whole = n / 16 * 16;
    for at in (0..whole).step_by(16) {
        for i in (at..at + 16).step_by(4) {
            // SAFETY: i + 4 <= whole <= both lengths.
            unsafe {
                let (s, w) = load_pair(score, weights, i);
                _mm256_storeu_pd(score.as_mut_ptr().add(i), _mm256_add_pd(s, w));
            }
        }
    }
    lanes::accumulate(&mut score[whole..n], &weights[whole..n]);
}

#[target_feature(enable = "avx2")]
pub(super) fn decay(score: &mut [f64], weights: &[f32], keep: f64) {
    let n = score.len().min(weights.len());
    let whole = n / 4 * 4;
    let (keep4, gain4) = (_mm256_set1_pd(keep), _mm256_set1_pd(1.0 - keep));
    for i in (0..whole).step_by(4) {
        // SAFETY: i + 4 <= whole <= both lengths.
        unsafe {
            let (s, w) = load_pair(score, weights, i);
            let next = _mm256_add_pd(_mm256_mul_pd(keep4, s), _mm256_mul_pd(gain4, w));
            _mm256_storeu_pd(score.as_mut_ptr().add(i), next);
        }
    }
    lanes::decay(&mut score[whole..n], &weights[whole..n], keep);
}
