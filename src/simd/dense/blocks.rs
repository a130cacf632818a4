//! Weights of a model file to binary32.
//!
//! Layouts are those of GGUF (its specification and the quantisers' own packing): a block holds 32 or 256 numbers, a
//! scale in binary16 and for some a minimum. Every product here is of a binary16 scale (11 bits), where there is one a
//! sub-scale (6 bits, or 8 signed ones in `Q6_K`) and a quant of at most 5 bits (6 with 8-bit sub-scales, 8 without
//! any): it fits the 24 bits of binary32 or nearly, and each is written so that the stored order of the format's own
//! reference holds: (scale * sub-scale) * quant, then the minimum.

use super::vector::{Block, LANES, Vector};

#[inline(always)]
fn half_at<V: Vector>(block: &[u8], at: usize) -> f32 {
    V::half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// `N` bytes of a block.
#[inline(always)]
fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..at + N]
        .try_into()
        .expect("a range of N bytes has N")
}

/// Calls `f(block, numbers)` for each block, numbers in vectors of 16. `f` is a function and no closure, because only a
/// function can be made to join its caller, and with it that caller's CPU features.
#[inline(always)]
fn each<const BYTES: usize, const VECTORS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    f: impl Fn(&[u8; BYTES], &mut [Block; VECTORS]),
) {
    let numbers = out.as_chunks_mut::<LANES>().0.as_chunks_mut::<VECTORS>().0;
    for (block, numbers) in bytes.as_chunks::<BYTES>().0.iter().zip(numbers) {
        f(block, numbers);
    }
}

#[inline(always)]
pub(super) fn f32s(bytes: &[u8], out: &mut [f32]) {
    for (b, o) in bytes.as_chunks::<4>().0.iter().zip(out) {
        *o = f32::from_le_bytes(*b);
    }
}

#[inline(always)]
pub(super) fn f16s<V: Vector>(bytes: &[u8], out: &mut [f32]) {
    each(bytes, out, half_block::<V>);
}

#[inline(always)]
fn half_block<V: Vector>(b: &[u8; 32], out: &mut [Block; 1]) {
    V::halves(b).store(&mut out[0]);
}

#[inline(always)]
pub(super) fn bf16s(bytes: &[u8], out: &mut [f32]) {
    for (b, o) in bytes.as_chunks::<2>().0.iter().zip(out) {
        *o = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
    }
}

/// `(quant - zero) * scale + low` for two vectors.
#[inline(always)]
fn place<V: Vector>(quants: [V; 2], zero: f32, scale: f32, low: f32, out: &mut [Block]) {
    let (zero, scale, low) = (V::splat(zero), V::splat(scale), V::splat(low));
    quants[0].sub(zero).fma(scale, low).store(&mut out[0]);
    quants[1].sub(zero).fma(scale, low).store(&mut out[1]);
}

/// Low nibbles are numbers 0 to 15, high ones 16 to 31.
#[inline(always)]
fn nibbles<V: Vector>(packed: &[u8; 16]) -> [V; 2] {
    [V::low(packed), V::high(packed)]
}

/// As [`nibbles`], with the fifth bit of number `j` in bit `j` of `fifth`.
#[inline(always)]
fn fives<V: Vector>(packed: &[u8; 16], fifth: u32) -> [V; 2] {
    let (mut low, mut high) = ([0; 16], [0; 16]);
    for (j, p) in packed.iter().enumerate() {
        low[j] = p & 15 | ((fifth >> j & 1) << 4) as u8;
    }
    for (j, p) in packed.iter().enumerate() {
        high[j] = p >> 4 | ((fifth >> (16 + j) & 1) << 4) as u8;
    }
    [V::bytes(&low), V::bytes(&high)]
}

#[inline(always)]
fn q4_0_block<V: Vector>(b: &[u8; 18], out: &mut [Block; 2]) {
    place(nibbles::<V>(part(b, 2)), 8.0, half_at::<V>(b, 0), 0.0, out);
}

#[inline(always)]
fn q4_1_block<V: Vector>(b: &[u8; 20], out: &mut [Block; 2]) {
    place(
        nibbles::<V>(part(b, 4)),
        0.0,
        half_at::<V>(b, 0),
        half_at::<V>(b, 2),
        out,
    );
}

#[inline(always)]
fn q5_0_block<V: Vector>(b: &[u8; 22], out: &mut [Block; 2]) {
    let quants = fives::<V>(part(b, 6), u32::from_le_bytes(*part(b, 2)));
    place(quants, 16.0, half_at::<V>(b, 0), 0.0, out);
}

#[inline(always)]
fn q5_1_block<V: Vector>(b: &[u8; 24], out: &mut [Block; 2]) {
    let quants = fives::<V>(part(b, 8), u32::from_le_bytes(*part(b, 4)));
    place(quants, 0.0, half_at::<V>(b, 0), half_at::<V>(b, 2), out);
}

#[inline(always)]
fn q8_0_block<V: Vector>(b: &[u8; 34], out: &mut [Block; 2]) {
    let quants = [V::signed(part(b, 2)), V::signed(part(b, 18))];
    place(quants, 0.0, half_at::<V>(b, 0), 0.0, out);
}

/// Sub-scale and sub-minimum `j` of the eight that twelve bytes hold, six bits each.
#[inline(always)]
fn sub_scale(packed: &[u8; 12], j: usize) -> (f32, f32) {
    let (scale, low) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (
            packed[j + 4] & 15 | packed[j - 4] >> 6 << 4,
            packed[j + 4] >> 4 | packed[j] >> 6 << 4,
        )
    };
    (f32::from(scale), f32::from(low))
}

/// Scale and minimum of group `j`.
#[inline(always)]
fn group<V: Vector>(head: &[u8], j: usize) -> (f32, f32) {
    let (scale, low) = sub_scale(part(head, 4), j);
    (half_at::<V>(head, 0) * scale, -half_at::<V>(head, 2) * low)
}

/// Eight groups of 32: the low nibbles of 32 bytes, then their high ones.
#[inline(always)]
fn q4_k_block<V: Vector>(b: &[u8; 144], out: &mut [Block; 16]) {
    for j in 0..8 {
        let (first, second) = (part(b, 16 + j / 2 * 32), part(b, 32 + j / 2 * 32));
        let quants = if j % 2 == 0 {
            [V::low(first), V::low(second)]
        } else {
            [V::high(first), V::high(second)]
        };
        let (scale, low) = group::<V>(b, j);
        place(quants, 0.0, scale, low, &mut out[2 * j..]);
    }
}

/// As `Q4_K`, with the fifth bit of group `j` in bit `j` of 32 further bytes.
#[inline(always)]
fn q5_k_block<V: Vector>(b: &[u8; 176], out: &mut [Block; 16]) {
    for j in 0..8 {
        let (packed, fifth): (&[u8; 32], &[u8; 32]) = (part(b, 48 + j / 2 * 32), part(b, 16));
        let mut quants = [[0; 16]; 2];
        for (i, q) in quants.as_flattened_mut().iter_mut().enumerate() {
            *q = packed[i] >> (4 * (j % 2)) & 15 | (fifth[i] >> j & 1) << 4;
        }
        let (scale, low) = group::<V>(b, j);
        place(
            quants.each_ref().map(V::bytes),
            0.0,
            scale,
            low,
            &mut out[2 * j..],
        );
    }
}

/// Two halves of four quarters of 32: four bits from the first 128 bytes, two from the next 64; a scale for 16 numbers.
#[inline(always)]
fn q6_k_block<V: Vector>(b: &[u8; 210], out: &mut [Block; 16]) {
    let scale = half_at::<V>(b, 208);
    for group in 0..16 {
        let (n, quarter, side) = (group / 8, group / 2 % 4, group % 2);
        let low: &[u8; 16] = part(b, 64 * n + 32 * (quarter % 2) + 16 * side);
        let high: &[u8; 16] = part(b, 128 + 32 * n + 16 * side);
        let mut quants = [0; 16];
        for (i, q) in quants.iter_mut().enumerate() {
            *q = low[i] >> (4 * (quarter / 2)) & 15 | (high[i] >> (2 * quarter) & 3) << 4;
        }
        let scale = V::splat(scale * f32::from(b[192 + group].cast_signed()));
        V::bytes(&quants)
            .sub(V::splat(32.0))
            .mul(scale)
            .store(&mut out[group]);
    }
}

/// Blocks by the function of their format.
macro_rules! formats {
    ($($name:ident $block:ident)*) => {
        $(#[inline(always)]
        pub(super) fn $name<V: Vector>(bytes: &[u8], out: &mut [f32]) {
            each(bytes, out, $block::<V>);
        })*
    };
}

formats! { q4_0 q4_0_block q4_1 q4_1_block q5_0 q5_0_block q5_1 q5_1_block q8_0 q8_0_block q4_k q4_k_block q5_k q5_k_block q6_k q6_k_block }
