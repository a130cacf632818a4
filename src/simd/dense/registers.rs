//! [`Vector`] as two registers of AVX2 with FMA; what both widths of registers share ([`super::wide`] has the other).
//!
//! Every function joins its caller, which is compiled for the features; none is called from elsewhere.

use std::arch::x86_64::*;

use super::quads::{Eight, QUAD};
use super::vector::{Block, LANES, Vector};

/// Two halves of eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

/// Both halves by one intrinsic.
macro_rules! halves {
    ($f:ident, $a:expr $(, $b:expr)*) => {
        // SAFETY: the caller is compiled for AVX2 and FMA.
        unsafe { Avx2($f($a.0 $(, $b.0)*), $f($a.1 $(, $b.1)*)) }
    };
}

/// Bytes as they lie.
#[inline(always)]
pub(super) fn raw(from: &[u8; LANES]) -> __m128i {
    // SAFETY: `from` has sixteen bytes; SSE2 is always there.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline(always)]
pub(super) fn ask(soon: *const u8) {
    // SAFETY: a hint, which no address makes fail; SSE is always there.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(soon.cast()) }
}

#[inline(always)]
pub(super) fn nibbles(from: __m128i) -> __m128i {
    // SAFETY: SSE2 is always there.
    unsafe { _mm_and_si128(from, _mm_set1_epi8(15)) }
}

#[inline(always)]
pub(super) fn upper(from: &[u8; LANES]) -> __m128i {
    // SAFETY: SSE2 is always there.
    unsafe { nibbles(_mm_srli_epi16::<4>(raw(from))) }
}

#[inline(always)]
pub(super) fn half(bits: u16) -> f32 {
    // SAFETY: the caller is compiled for F16C.
    unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}

impl Avx2 {
    #[inline(always)]
    fn unsigned(from: __m128i) -> Self {
        // SAFETY: the caller is compiled for AVX2.
        unsafe {
            let high = _mm_unpackhi_epi64(from, from);
            Self(
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(from)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)),
            )
        }
    }
}

/// Halves of both added: of `a`, then of `b`. As in the next two, one blend and one shuffle where two shuffles would do:
/// shuffles have fewer ports.
#[inline(always)]
fn fours(a: __m256, b: __m256) -> __m256 {
    // SAFETY: the caller is compiled for AVX2.
    unsafe {
        let outer = _mm256_blend_ps::<0xf0>(a, b);
        _mm256_add_ps(outer, _mm256_permute2f128_ps::<0x21>(a, b))
    }
}

/// Halves of each quarter of both added: in each quarter of `a`, then of `b`.
#[inline(always)]
fn twos(a: __m256, b: __m256) -> __m256 {
    // SAFETY: the caller is compiled for AVX2.
    unsafe {
        let inner = _mm256_shuffle_pd::<0b0101>(_mm256_castps_pd(a), _mm256_castps_pd(b));
        _mm256_add_ps(_mm256_blend_ps::<0xcc>(a, b), _mm256_castpd_ps(inner))
    }
}

/// Pairs of both added, in turn.
#[inline(always)]
fn ones(a: __m256, b: __m256) -> __m256 {
    // SAFETY: the caller is compiled for AVX2.
    unsafe {
        let other = _mm256_permute_ps::<0xb1>(_mm256_blend_ps::<0xaa>(b, a));
        _mm256_add_ps(_mm256_blend_ps::<0xaa>(a, b), other)
    }
}

/// The last three steps of the tree for eight vectors of eight lanes: lane `i` is the sum of vector `i`.
#[inline(always)]
fn eight(rows: &[__m256; 8]) -> __m256 {
    let even = twos(fours(rows[0], rows[4]), fours(rows[2], rows[6]));
    let odd = twos(fours(rows[1], rows[5]), fours(rows[3], rows[7]));
    ones(even, odd)
}

/// The first step of the tree.
#[inline(always)]
fn folded(row: &Avx2) -> __m256 {
    // SAFETY: the caller is compiled for AVX2.
    unsafe { _mm256_add_ps(row.0, row.1) }
}

impl Vector for Avx2 {
    const WIDE: bool = false;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: the caller is compiled for AVX2.
        unsafe { Self(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }

    #[inline(always)]
    fn load(from: &Block) -> Self {
        // SAFETY: `from` has sixteen numbers, and the caller is compiled for AVX2.
        unsafe {
            Self(
                _mm256_loadu_ps(from.as_ptr()),
                _mm256_loadu_ps(from.as_ptr().add(8)),
            )
        }
    }

    #[inline(always)]
    fn store(self, to: &mut Block) {
        // SAFETY: `to` has sixteen numbers, and the caller is compiled for AVX2.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), self.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), self.1);
        }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        halves!(_mm256_add_ps, self, b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        halves!(_mm256_sub_ps, self, b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        halves!(_mm256_mul_ps, self, b)
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        halves!(_mm256_div_ps, self, b)
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        halves!(_mm256_fmadd_ps, self, a, b)
    }

    #[inline(always)]
    fn at_least(self, b: Self) -> Self {
        halves!(_mm256_max_ps, b, self) // the second where either is NaN
    }

    #[inline(always)]
    fn at_most(self, b: Self) -> Self {
        halves!(_mm256_min_ps, b, self)
    }

    #[inline(always)]
    fn scaled(self, shifted: Self) -> Self {
        // SAFETY: the caller is compiled for AVX2.
        unsafe {
            let n = [
                _mm256_castps_si256(shifted.0),
                _mm256_castps_si256(shifted.1),
            ];
            let x = [_mm256_castps_si256(self.0), _mm256_castps_si256(self.1)];
            let low = _mm256_add_epi32(x[0], _mm256_slli_epi32::<23>(n[0]));
            let high = _mm256_add_epi32(x[1], _mm256_slli_epi32::<23>(n[1]));
            Self(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
        }
    }

    #[inline(always)]
    fn half(bits: u16) -> f32 {
        half(bits)
    }

    #[inline(always)]
    fn halves(from: &[u8; 2 * LANES]) -> Self {
        // SAFETY: `from` has 32 bytes, and the caller is compiled for F16C.
        unsafe {
            let at: *const __m128i = from.as_ptr().cast();
            let [low, high] = [_mm_loadu_si128(at), _mm_loadu_si128(at.add(1))];
            Self(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }

    #[inline(always)]
    fn quad(rows: [&Eight; QUAD]) -> [Self; 2] {
        let [a, b, c, d] = [raw(rows[0]), raw(rows[1]), raw(rows[2]), raw(rows[3])];
        // SAFETY: the caller is compiled for AVX2 and F16C.
        unsafe {
            let low = [_mm_unpacklo_epi64(a, b), _mm_unpacklo_epi64(c, d)];
            let high = [_mm_unpackhi_epi64(a, b), _mm_unpackhi_epi64(c, d)];
            [
                Self(_mm256_cvtph_ps(low[0]), _mm256_cvtph_ps(low[1])),
                Self(_mm256_cvtph_ps(high[0]), _mm256_cvtph_ps(high[1])),
            ]
        }
    }

    #[inline(always)]
    fn bytes(from: &[u8; LANES]) -> Self {
        Self::unsigned(raw(from))
    }

    #[inline(always)]
    fn signed(from: &[u8; LANES]) -> Self {
        // SAFETY: the caller is compiled for AVX2.
        unsafe {
            let from = raw(from);
            let high = _mm_unpackhi_epi64(from, from);
            Self(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(from)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)),
            )
        }
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
        // SAFETY: the caller is compiled for AVX2.
        unsafe {
            let low = _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, b.0);
            let high = _mm256_cmp_ps::<_CMP_GT_OQ>(self.1, b.1);
            _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0
        }
    }

    #[inline(always)]
    fn ask(soon: *const u8) {
        ask(soon);
    }

    #[inline(always)]
    fn totals(rows: &[Self; LANES]) -> Self {
        let mut low = [rows[0].0; 8];
        let mut high = low;
        for i in 0..8 {
            low[i] = folded(&rows[i]);
            high[i] = folded(&rows[8 + i]);
        }
        Self(eight(&low), eight(&high))
    }

    #[inline(always)]
    fn quarters([a, b, c, d]: &[Self; QUAD]) -> Self {
        Self(
            ones(twos(a.0, c.0), twos(b.0, d.0)),
            ones(twos(a.1, c.1), twos(b.1, d.1)),
        )
    }
}
