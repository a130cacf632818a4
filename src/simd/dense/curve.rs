//! Softmax and the gate of the feed-forward part.
//!
//! The exponential is ours, because that of the C library differs between systems and a result must not: range reduction
//! by powers of two in two steps and a polynomial of degree 6 (minimax on half of a binade either side, relative error
//! below 2^-22). Arguments are held to -87..=88, where the result is neither subnormal nor infinite.

use super::tile::join;
use super::vector::{LANES, MAGIC, Vector};

/// ln 2 in two parts; the first has so few digits that its product with a whole number is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Of the polynomial p in e^r = 1 + r + r^2 p(r), from the highest power down.
const POLYNOMIAL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];

/// e^x.
#[inline(always)]
pub(super) fn exp<V: Vector>(x: V) -> V {
    let x = x.at_least(V::splat(-87.0)).at_most(V::splat(88.0));
    let shifted = x.fma(V::splat(std::f32::consts::LOG2_E), V::splat(MAGIC));
    let whole = shifted.sub(V::splat(MAGIC));
    let r = whole.fma(V::splat(-LN_2[0]), x);
    let r = whole.fma(V::splat(-LN_2[1]), r);
    let mut p = V::splat(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = p.fma(r, V::splat(*c));
    }
    let mantissa = p.fma(r.mul(r), r).add(V::splat(1.0));
    // The low bits of the shifted number are the power of two: as exponent bits, they scale exactly.
    mantissa.scaled(shifted)
}

/// See [`super::Dense::softmax`].
#[inline(always)]
pub(super) fn softmax<V: Vector>(x: &mut [f32]) {
    let mut high = V::splat(f32::NEG_INFINITY);
    let (whole, rest) = x.as_chunks_mut::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for block in &*whole {
        high = high.at_least(V::load(block));
    }
    let mut lanes = [0.0; LANES];
    high.at_least(V::load(&last)).store(&mut lanes);
    let high = lanes.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let high = V::splat(high);
    let mut sum = V::splat(0.0);
    for block in &mut *whole {
        let e = exp(V::load(block).sub(high));
        e.store(block);
        sum = sum.add(e);
    }
    exp(V::load(&last).sub(high)).store(&mut last);
    last[rest.len()..].fill(0.0);
    let sum = sum.add(V::load(&last));
    rest.copy_from_slice(&last[..rest.len()]);
    let share = 1.0 / join(sum);
    for block in whole {
        V::load(block).mul(V::splat(share)).store(block);
    }
    for v in rest {
        *v *= share;
    }
}

/// g / (1 + e^-g) * u.
#[inline(always)]
fn gated<V: Vector>(g: V, u: V) -> V {
    let minus = V::splat(0.0).sub(g);
    g.div(V::splat(1.0).add(exp(minus))).mul(u)
}

/// See [`super::Dense::gate`].
#[inline(always)]
pub(super) fn gate<V: Vector>(gate: &mut [f32], up: &[f32]) {
    let (gates, rest) = gate.as_chunks_mut::<LANES>();
    let (ups, last) = up.as_chunks::<LANES>();
    for (g, u) in gates.iter_mut().zip(ups) {
        gated(V::load(g), V::load(u)).store(g);
    }
    let mut pair = [[0.0; LANES]; 2];
    pair[0][..rest.len()].copy_from_slice(rest);
    pair[1][..last.len()].copy_from_slice(last);
    let mut out = [0.0; LANES];
    gated(V::load(&pair[0]), V::load(&pair[1])).store(&mut out);
    rest.copy_from_slice(&out[..rest.len()]);
}
