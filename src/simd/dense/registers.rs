//! [`Vector`] as two registers of AVX2 with FMA, or one of AVX-512.
//!
//! Every function joins its caller, which is compiled for the features; none is called from elsewhere.

use std::arch::x86_64::*;

use super::vector::{Block, LANES, MAGIC, Vector};

/// Two halves of eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

/// Both halves by one intrinsic.
macro_rules! halves {
    ($f:ident, $a:expr $(, $b:expr)*) => {
        // SAFETY: the caller is compiled for AVX2 and FMA.
        unsafe { Avx2($f($a.0 $(, $b.0)*), $f($a.1 $(, $b.1)*)) }
    };
}

/// Bytes as they lie.
#[inline(always)]
fn raw(from: &[u8; LANES]) -> __m128i {
    // SAFETY: `from` has sixteen bytes; SSE2 is always there.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline(always)]
fn nibbles(from: __m128i) -> __m128i {
    // SAFETY: SSE2 is always there.
    unsafe { _mm_and_si128(from, _mm_set1_epi8(15)) }
}

#[inline(always)]
fn upper(from: &[u8; LANES]) -> __m128i {
    // SAFETY: SSE2 is always there.
    unsafe { nibbles(_mm_srli_epi16::<4>(raw(from))) }
}

#[inline(always)]
fn half(bits: u16) -> f32 {
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

impl Vector for Avx2 {
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
    fn power(self) -> Self {
        // SAFETY: the caller is compiled for AVX2.
        unsafe {
            let off = _mm256_set1_epi32(127i32.wrapping_sub(MAGIC.to_bits().cast_signed()));
            let one = |x| {
                let power = _mm256_add_epi32(_mm256_castps_si256(x), off);
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(power))
            };
            Self(one(self.0), one(self.1))
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
}

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

impl Vector for Avx512 {
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
    fn power(self) -> Self {
        // SAFETY: the caller is compiled for AVX-512.
        unsafe {
            let off = _mm512_set1_epi32(127i32.wrapping_sub(MAGIC.to_bits().cast_signed()));
            let power = _mm512_add_epi32(_mm512_castps_si512(self.0), off);
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(power)))
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
}
