//! Sixteen lanes of binary32, as an array or as registers.
//!
//! The loops are written once over this trait; what a path adds is only how a lane-wise operation is done. All operations
//! are exact by IEEE 754 (a fused multiply-add is one rounding), so paths cannot differ.

use super::attend::{self, Halves, MOST, Rows, Scores};
use crate::simd::lanes::widen_one;

/// Lanes of a vector.
pub(super) const LANES: usize = 16;

/// Numbers of a vector in memory.
pub(super) type Block = [f32; LANES];

/// Adding it rounds a small number to a whole one, which then stands in the low bits.
pub(super) const MAGIC: f32 = 12_582_912.0;

/// Sixteen lanes.
pub(super) trait Vector: Copy {
    /// Whether sixteen and more of them fit into registers.
    const WIDE: bool;
    /// The same number in every lane.
    fn splat(x: f32) -> Self;
    fn load(from: &Block) -> Self;
    fn store(self, to: &mut Block);
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    /// `self * a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    /// `b > self ? b : self`, `self` where either is NaN.
    fn at_least(self, b: Self) -> Self;
    /// `b < self ? b : self`, `self` where either is NaN.
    fn at_most(self, b: Self) -> Self;
    /// 2^n, where `self` is n + [`MAGIC`] and n in -126..=127.
    fn power(self) -> Self;
    /// A binary16 number.
    fn half(bits: u16) -> f32;
    /// Sixteen binary16 numbers.
    fn halves(from: &[u8; 2 * LANES]) -> Self;
    /// Unsigned bytes.
    fn bytes(from: &[u8; LANES]) -> Self;
    /// Signed bytes.
    fn signed(from: &[u8; LANES]) -> Self;
    /// Low nibbles of bytes.
    fn low(from: &[u8; LANES]) -> Self;
    /// High nibbles of bytes.
    fn high(from: &[u8; LANES]) -> Self;
    /// Whether any lane is greater.
    fn exceeds(self, b: Self) -> bool;
    /// Asks for the cache line of something that is read soon, into the second cache: the first is full of tiles.
    fn fetch(soon: &[u8; 2 * LANES]);
    /// Lane `i` is the sum of vector `i` by the reduction tree: halves of 8, 4, 2, 1.
    fn totals(rows: &[Self; LANES]) -> Self;
    /// See [`attend::in_turn`].
    #[inline(always)]
    fn products<const R: usize, const C: usize>(
        keys: Rows<'_>,
        ahead: &[Halves],
        queries: &[&[Block]; MOST],
        scores: &mut Scores,
    ) -> Self {
        attend::in_turn::<Self, R, C>(keys, ahead, queries, scores)
    }
}

/// The plain one.
#[derive(Clone, Copy)]
pub(super) struct Plain(Block);

impl Plain {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], b.0[i])))
    }
}

impl Vector for Plain {
    const WIDE: bool = false;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; LANES])
    }

    #[inline(always)]
    fn load(from: &Block) -> Self {
        Self(*from)
    }

    #[inline(always)]
    fn store(self, to: &mut Block) {
        *to = self.0;
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |x, y| x + y)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |x, y| x - y)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |x, y| x * y)
    }

    #[inline(always)]
    fn div(self, b: Self) -> Self {
        self.zip(b, |x, y| x / y)
    }

    #[inline(always)]
    fn fma(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(a.0[i], b.0[i])))
    }

    #[inline(always)]
    fn at_least(self, b: Self) -> Self {
        self.zip(b, |x, y| if y > x { y } else { x })
    }

    #[inline(always)]
    fn at_most(self, b: Self) -> Self {
        self.zip(b, |x, y| if y < x { y } else { x })
    }

    #[inline(always)]
    fn power(self) -> Self {
        let power = |x: f32| x.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23;
        Self(self.0.map(|x| f32::from_bits(power(x))))
    }

    #[inline(always)]
    fn half(bits: u16) -> f32 {
        widen_one(bits)
    }

    #[inline(always)]
    fn halves(from: &[u8; 2 * LANES]) -> Self {
        let pairs = from.as_chunks::<2>().0;
        Self(std::array::from_fn(|i| {
            widen_one(u16::from_le_bytes(pairs[i]))
        }))
    }

    #[inline(always)]
    fn bytes(from: &[u8; LANES]) -> Self {
        Self(from.map(f32::from))
    }

    #[inline(always)]
    fn signed(from: &[u8; LANES]) -> Self {
        Self(from.map(|b| f32::from(b.cast_signed())))
    }

    #[inline(always)]
    fn low(from: &[u8; LANES]) -> Self {
        Self(from.map(|b| f32::from(b & 15)))
    }

    #[inline(always)]
    fn high(from: &[u8; LANES]) -> Self {
        Self(from.map(|b| f32::from(b >> 4)))
    }

    #[inline(always)]
    fn exceeds(self, b: Self) -> bool {
        self.0.iter().zip(&b.0).any(|(x, y)| x > y)
    }

    #[inline(always)]
    fn fetch(_: &[u8; 2 * LANES]) {}

    #[inline(always)]
    fn totals(rows: &[Self; LANES]) -> Self {
        Self(rows.map(super::tile::join))
    }
}
