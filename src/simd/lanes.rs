//! The lane order, written plainly; the other paths are held to it bit by bit.

/// Elements a block: two accumulators of 16 lanes.
pub const BLOCK: usize = 32;

/// One binary16 number, subnormals, infinities and NaN included (a signalling NaN comes out quiet, as in hardware).
pub fn widen_one(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Subnormal: fraction * 2^-24, exact in binary32.
        0 => f32::from_bits(sign | (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits()),
        0x1f if fraction == 0 => f32::from_bits(sign | 0x7f80_0000),
        0x1f => f32::from_bits(sign | 0x7fc0_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The reduction tree: accumulators first, then halves of 8, 4, 2, 1.
pub fn join(first: &[f64; 16], second: &[f64; 16]) -> f64 {
    let mut lane: [f64; 16] = std::array::from_fn(|i| first[i] + second[i]);
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lane[i] += lane[i + half];
        }
    }
    lane[0]
}

/// [`join`] for binary32 lanes, widened first.
pub fn join32(first: &[f32; 16], second: &[f32; 16]) -> f64 {
    join(&first.map(f64::from), &second.map(f64::from))
}

/// Adds up to one block into the accumulators.
fn add_block(acc: &mut [[f32; 16]; 2], block: &[f32]) {
    for (i, w) in block.iter().enumerate() {
        acc[i / 16][i % 16] += w;
    }
}

pub(super) fn widen(bits: &[u16], out: &mut [f32]) -> f64 {
    let mut acc = [[0f32; 16]; 2];
    for (bits, out) in bits.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        for (o, b) in out.iter_mut().zip(bits) {
            *o = widen_one(*b);
        }
        add_block(&mut acc, out);
    }
    join32(&acc[0], &acc[1])
}

pub(super) fn sum(bits: &[u16]) -> f64 {
    let mut acc = [[0f64; 16]; 2];
    for block in bits.chunks(BLOCK) {
        for (i, b) in block.iter().enumerate() {
            acc[i / 16][i % 16] += f64::from(widen_one(*b));
        }
    }
    join(&acc[0], &acc[1])
}

/// Whole numbers that wrap have one sum in any order, so that this text is every path's, compiled for its registers. Four
/// quarters are read side by side: one stream leaves a tenth to a third of the bandwidth.
#[inline(always)]
pub(super) fn total(bytes: &[u8]) -> u64 {
    let blocks = bytes.as_chunks::<512>().0;
    let quarter = blocks.len() / 4;
    let mut sum = [0u64; 64];
    for i in 0..quarter {
        for stream in 0..4 {
            add_words(&mut sum, &blocks[stream * quarter + i]);
        }
    }
    for block in &blocks[4 * quarter..] {
        add_words(&mut sum, block);
    }
    sum.iter().fold(0, |a, b| a.wrapping_add(*b))
}

#[inline(always)]
fn add_words(sum: &mut [u64; 64], block: &[u8; 512]) {
    for (sum, word) in sum.iter_mut().zip(block.as_chunks::<8>().0) {
        *sum = sum.wrapping_add(u64::from_le_bytes(*word));
    }
}

pub(super) fn masked_sum(weights: &[f32], mask: &[u64]) -> f64 {
    let mut acc = [[0f32; 16]; 2];
    for (word, &bits) in weights.chunks(64).zip(mask) {
        if bits != 0 {
            masked_word(&mut acc, word, bits);
        }
    }
    join32(&acc[0], &acc[1])
}

/// Adds the selected of at most 64 weights; an unselected weight adds zero, which changes no accumulator.
pub(super) fn masked_word(acc: &mut [[f32; 16]; 2], word: &[f32], bits: u64) {
    for (i, w) in word.iter().enumerate() {
        if bits >> i & 1 == 1 {
            acc[i / 16 % 2][i % 16] += w;
        }
    }
}

pub(super) fn accumulate(score: &mut [f64], weights: &[f32]) {
    for (s, w) in score.iter_mut().zip(weights) {
        *s += f64::from(*w);
    }
}

pub(super) fn decay(score: &mut [f64], weights: &[f32], keep: f64) {
    let gain = 1.0 - keep;
    for (s, w) in score.iter_mut().zip(weights) {
        *s = keep * *s + gain * f64::from(*w);
    }
}
