//! Rows of binary16 to bytes and back, and the roof of multiply-adds: what `calibrate` times beside attention.

use super::vector::{Block, LANES, MAGIC, Vector};

/// Vectors that a round of [`multiply_add`] keeps in registers.
const CHAINS: usize = 12;

/// Additions and multiplications of a round of [`super::Dense::multiply_add`].
pub const ROUND_FLOPS: u64 = (2 * CHAINS * LANES) as u64;

/// A row of binary16 numbers to bytes `code = round((x - low) / step)`, ties to even; returns `low` and `step`.
#[inline(always)]
pub(super) fn pack<V: Vector>(row: &[u8], codes: &mut [u8]) -> [f32; 2] {
    let row: &[[u8; 2 * LANES]] = row.as_chunks().0;
    let (mut low, mut high) = (V::splat(f32::INFINITY), V::splat(f32::NEG_INFINITY));
    for x in row {
        let x = V::halves(x);
        low = low.at_most(x);
        high = high.at_least(x);
    }
    let (mut lows, mut highs): (Block, Block) = ([0.0; LANES], [0.0; LANES]);
    low.store(&mut lows);
    high.store(&mut highs);
    let low = lows.iter().fold(f32::INFINITY, |a, b| a.min(*b));
    let high = highs.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let step = (high - low) / 255.0;
    let each = if step > 0.0 { 1.0 / step } else { 0.0 };
    let (from, each) = (V::splat(low), V::splat(each));
    for (x, codes) in row.iter().zip(codes.as_chunks_mut::<LANES>().0) {
        let mut code: Block = [0.0; LANES];
        let x = V::halves(x).sub(from).mul(each);
        x.at_most(V::splat(255.0))
            .add(V::splat(MAGIC))
            .store(&mut code);
        for i in 0..LANES {
            codes[i] = code[i].to_bits().to_le_bytes()[0];
        }
    }
    [low, step]
}

/// Bytes to binary32 numbers `low + code * step`.
#[inline(always)]
pub(super) fn unpack<V: Vector>(codes: &[u8], [low, step]: [f32; 2], out: &mut [f32]) {
    let (low, step) = (V::splat(low), V::splat(step));
    let codes: &[[u8; LANES]] = codes.as_chunks().0;
    for (codes, out) in codes.iter().zip(out.as_chunks_mut::<LANES>().0) {
        V::bytes(codes).fma(step, low).store(out);
    }
}

/// Rounds of multiply-adds on numbers that stay in registers; returns something that depends on all of them.
#[inline(always)]
pub(super) fn multiply_add<V: Vector>(rounds: usize) -> f32 {
    if V::WIDE {
        chains::<V, CHAINS>(rounds)
    } else {
        // Half as many fit at once, so twice as often.
        chains::<V, { CHAINS / 2 }>(2 * rounds)
    }
}

#[inline(always)]
fn chains<V: Vector, const N: usize>(rounds: usize) -> f32 {
    // The compiler must not know these: it would find that a chain at 1 stays there, and leave it out.
    let [shrink, grow, first] = std::hint::black_box([0.999, 0.001, 1.0]);
    let (shrink, grow) = (V::splat(shrink), V::splat(grow));
    let mut chain = [V::splat(first); N];
    for (n, chain) in chain.iter_mut().enumerate() {
        *chain = V::splat(first + n as f32);
    }
    for _ in 0..rounds {
        for chain in &mut chain {
            *chain = chain.fma(shrink, grow);
        }
    }
    let mut sum = V::splat(0.0);
    for c in chain {
        sum = sum.add(c);
    }
    super::tile::join(sum)
}
