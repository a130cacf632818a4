//! [`Vector`] as one register of AVX-512.
//!
//! Every function joins its caller, which is compiled for the features; none is called from elsewhere.

use std::arch::x86_64::*;

use super::attend::{Queries, Scores};
use super::quads::{Eight, QUAD};
use super::registers::{ask, half, nibbles, raw, upper};
use super::rows::Rows;
use super::vector::{Block, LANES, Vector};

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

/// An operation of one register.
macro_rules! whole {
    ($f:ident, $a:expr $(, $b:expr)*) => {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe { Avx512($f($a.0 $(, $b.0)*)) }
    };
}

impl Avx512 {
    #[inline(always)]
    fn unsigned(from: __m128i) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(from))) }
    }
}

/// The steps of the tree for two vectors each, one blend and one shuffle a step, as for AVX2.
impl Avx512 {
    /// Halves of both added: of `self`, then of `b`.
    #[inline(always)]
    pub(super) fn eights(self, b: Self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let outer = _mm512_mask_blend_ps(0xff00, self.0, b.0);
            let inner = _mm512_shuffle_f32x4::<0x4e>(self.0, b.0);
            Self(_mm512_add_ps(outer, inner))
        }
    }

    /// Halves of each half of both added: in each half of `self`, then of `b`.
    #[inline(always)]
    pub(super) fn fours(self, b: Self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let outer = _mm512_mask_blend_ps(0xf0f0, self.0, b.0);
            let places =
                _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
            Self(_mm512_add_ps(
                outer,
                _mm512_permutex2var_ps(self.0, places, b.0),
            ))
        }
    }

    /// Halves of each quarter of both added: in each quarter of `self`, then of `b`.
    #[inline(always)]
    pub(super) fn twos(self, b: Self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let inner = _mm512_shuffle_pd::<0x55>(_mm512_castps_pd(self.0), _mm512_castps_pd(b.0));
            Self(_mm512_add_ps(
                _mm512_mask_blend_ps(0xcccc, self.0, b.0),
                _mm512_castpd_ps(inner),
            ))
        }
    }

    /// Pairs of both added, in turn.
    #[inline(always)]
    pub(super) fn ones(self, b: Self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let places =
                _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
            Self(_mm512_add_ps(
                _mm512_mask_blend_ps(0xaaaa, self.0, b.0),
                _mm512_permutex2var_ps(self.0, places, b.0),
            ))
        }
    }
}

impl Vector for Avx512 {
    const WIDE: bool = true;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe { Self(_mm512_set1_ps(x)) }
    }

    #[inline(always)]
    fn load(from: &Block) -> Self {
        // SAFETY: `from` has sixteen numbers, and the caller is compiled for AVX-512.
        unsafe { Self(_mm512_loadu_ps(from.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, to: &mut Block) {
        // SAFETY: `to` has sixteen numbers, and the caller is compiled for AVX-512.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        whole!(_mm512_add_ps, self, b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        whole!(_mm512_sub_ps, self, b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        whole!(_mm512_mul_ps, self, b)
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        whole!(_mm512_div_ps, self, b)
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        whole!(_mm512_fmadd_ps, self, a, b)
    }

    #[inline(always)]
    fn at_least(self, b: Self) -> Self {
        whole!(_mm512_max_ps, b, self) // the second where either is NaN
    }

    #[inline(always)]
    fn at_most(self, b: Self) -> Self {
        whole!(_mm512_min_ps, b, self)
    }

    #[inline(always)]
    fn scaled(self, shifted: Self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(
                _mm512_castps_si512(self.0),
                n,
            )))
        }
    }

    #[inline(always)]
    fn half(bits: u16) -> f32 {
        half(bits)
    }

    #[inline(always)]
    fn halves(from: &[u8; 2 * LANES]) -> Self {
        // SAFETY: `from` has 32 bytes, and the caller is compiled for AVX-512.
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn quad(rows: [&Eight; QUAD]) -> [Self; 2] {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let [even, odd] = [
                _mm256_castsi128_si256(raw(rows[0])),
                _mm256_castsi128_si256(raw(rows[1])),
            ];
            let even = _mm256_inserti128_si256::<1>(even, raw(rows[2]));
            let odd = _mm256_inserti128_si256::<1>(odd, raw(rows[3]));
            [
                Self(_mm512_cvtph_ps(_mm256_unpacklo_epi64(even, odd))),
                Self(_mm512_cvtph_ps(_mm256_unpackhi_epi64(even, odd))),
            ]
        }
    }

    #[inline(always)]
    fn bytes(from: &[u8; LANES]) -> Self {
        Self::unsigned(raw(from))
    }

    #[inline(always)]
    fn signed(from: &[u8; LANES]) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(raw(from)))) }
    }

    #[inline(always)]
    fn low(from: &[u8; LANES]) -> Self {
        Self::unsigned(nibbles(raw(from)))
    }

    #[inline(always)]
    fn high(from: &[u8; LANES]) -> Self {
        Self::unsigned(upper(from))
    }

    #[inline(always)]
    fn exceeds(self, b: Self) -> bool {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, b.0) != 0 }
    }

    #[inline(always)]
    fn ask(soon: *const u8) {
        ask(soon);
    }

    #[inline(always)]
    fn totals(rows: &[Self; LANES]) -> Self {
        let mut fours = [rows[0]; 4];
        for i in 0..4 {
            let (low, high) = (
                rows[i].eights(rows[i + 8]),
                rows[i + 4].eights(rows[i + 12]),
            );
            fours[i] = low.fours(high);
        }
        fours[0].twos(fours[2]).ones(fours[1].twos(fours[3]))
    }

    #[inline(always)]
    fn quarters([a, b, c, d]: &[Self; QUAD]) -> Self {
        a.twos(*c).ones(b.twos(*d))
    }

    #[inline(always)]
    fn products<const R: usize, const C: usize>(
        keys: Rows<'_>,
        queries: &Queries<'_>,
        scores: &mut Scores,
    ) -> Self {
        super::piped::products::<R, C>(keys, queries, scores)
    }
}
