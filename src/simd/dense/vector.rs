//! Sixteen lanes of binary32, as an array or as registers.
//!
//! The loops are written once over this trait; what a path adds is only how a lane-wise operation is done. All operations
//! are exact by IEEE 754 (a fused multiply-add is one rounding), so paths cannot differ.

use super::attend::{self, Queries, Scores};
use super::quads::{Eight, QUAD};
use super::rows::Rows;
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
    /// `self * 2^n`, where `shifted` is n + [`MAGIC`] and the result neither subnormal nor infinite.
    fn scaled(self, shifted: Self) -> Self;
    /// A binary16 number.
    fn half(bits: u16) -> f32;
    /// Sixteen binary16 numbers.
    fn halves(from: &[u8; 2 * LANES]) -> Self;
    /// Eight binary16 numbers of four rows: four of each row, then the other four.
    fn quad(rows: [&Eight; QUAD]) -> [Self; 2];
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
    /// Asks for the cache line at an address that is read soon, into the second cache: the first is full of tiles. Where
    /// there is no such place, nothing happens.
    fn ask(soon: *const u8);
    /// Lane `i` is the sum of vector `i` by the reduction tree: halves of 8, 4, 2, 1.
    fn totals(rows: &[Self; LANES]) -> Self;
    /// Lane `4 q + i` is the sum of quarter `q` of vector `i`, by the tree's last steps: halves of 2, 1.
    fn quarters(rows: &[Self; QUAD]) -> Self;
    /// See [`attend::in_turn`].
    #[inline(always)]
    fn products<const R: usize, const C: usize>(
        keys: Rows<'_>,
        queries: &Queries<'_>,
        scores: &mut Scores,
    ) -> Self {
        attend::in_turn::<Self, R, C>(keys, queries, scores)
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
    fn scaled(self, shifted: Self) -> Self {
        self.zip(shifted, |x, n| {
            f32::from_bits(x.to_bits().wrapping_add(n.to_bits() << 23))
        })
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
    fn quad(rows: [&Eight; QUAD]) -> [Self; 2] {
        let number =
            |row: &Eight, n: usize| widen_one(u16::from_le_bytes([row[2 * n], row[2 * n + 1]]));
        let of = |first: usize| {
            Self(std::array::from_fn(|i| {
                number(rows[i / QUAD], first + i % QUAD)
            }))
        };
        [of(0), of(QUAD)]
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
    fn ask(_: *const u8) {}

    #[inline(always)]
    fn totals(rows: &[Self; LANES]) -> Self {
        Self(rows.map(super::tile::join))
    }

    #[inline(always)]
    fn quarters(rows: &[Self; QUAD]) -> Self {
        let sum = |lanes: &[f32; QUAD]| (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
        Self(std::array::from_fn(|i| {
            sum(&rows[i % QUAD].0.as_chunks().0[i / QUAD])
        }))
    }
}
