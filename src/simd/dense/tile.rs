//! Products of rows with vectors, and weighted sums of rows.
//!
//! A product of two vectors of `k` numbers is kept in 16 lanes: element `i` goes to lane `i % 16` by one fused
//! multiply-add, and the lanes are joined by one tree. Several products run side by side to hide the latency of the
//! unit; how many changes no bit, because each has lanes of its own. Two accumulators a product, as in the sums over
//! traces, would halve how many fit into sixteen registers.

use super::vector::{Block, LANES, Vector};

/// The reduction tree: halves of 8, 4, 2, 1.
#[inline(always)]
pub(super) fn join<V: Vector>(lanes: V) -> f32 {
    let mut lane = [0.0; LANES];
    lanes.store(&mut lane);
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lane[i] += lane[i + half];
        }
    }
    lane[0]
}

#[inline(always)]
fn blocks(row: &[f32]) -> &[Block] {
    row.as_chunks().0
}

/// `R * C` products at once, of `R` rows and `C` items from the start of each slice.
#[inline(always)]
fn tile<V: Vector, const R: usize, const C: usize>(
    rows: &[f32],
    items: &[f32],
    k: usize,
) -> [[f32; C]; R] {
    let (mut from, mut to): ([&[Block]; R], [&[Block]; C]) = ([&[]; R], [&[]; C]);
    for r in 0..R {
        from[r] = &blocks(&rows[r * k..])[..k / LANES];
    }
    for c in 0..C {
        to[c] = &blocks(&items[c * k..])[..k / LANES];
    }
    let mut acc = [[V::splat(0.0); C]; R];
    for i in 0..k / LANES {
        for r in 0..R {
            let w = V::load(&from[r][i]);
            for c in 0..C {
                acc[r][c] = w.fma(V::load(&to[c][i]), acc[r][c]);
            }
        }
    }
    let mut out = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            out[r][c] = join(acc[r][c]);
        }
    }
    out
}

/// `R` rows with all items, `C` at a time; `out` holds `R` rows of as many numbers as there are items.
#[inline(always)]
fn band<V: Vector, const R: usize, const C: usize>(
    rows: &[f32],
    items: &[f32],
    k: usize,
    out: &mut [f32],
) {
    let n = items.len() / k;
    let whole = n / C * C;
    for at in (0..whole).step_by(C) {
        let done = tile::<V, R, C>(rows, &items[at * k..], k);
        for r in 0..R {
            out[r * n + at..r * n + at + C].copy_from_slice(&done[r]);
        }
    }
    for at in whole..n {
        let done = tile::<V, R, 1>(rows, &items[at * k..], k);
        for r in 0..R {
            out[r * n + at] = done[r][0];
        }
    }
}

/// See [`super::Dense::products`].
#[inline(always)]
pub(super) fn products<V: Vector>(rows: &[f32], items: &[f32], k: usize, out: &mut [f32]) {
    let (count, n) = (rows.len() / k, items.len() / k);
    let mut r = 0;
    while r < count {
        let (from, to) = (&rows[r * k..], &mut out[r * n..]);
        if n == 1 && count - r >= 4 {
            band::<V, 4, 1>(from, items, k, to);
            r += 4;
        } else if count - r >= 2 {
            band::<V, 2, 3>(from, items, k, to);
            r += 2;
        } else {
            band::<V, 1, 4>(from, items, k, to);
            r += 1;
        }
    }
}

/// `N` blocks of the weighted sum, from column `from` on.
#[inline(always)]
fn strip<V: Vector, const N: usize>(weights: &[f32], rows: &[f32], out: &mut [f32], from: usize) {
    let width = out.len();
    let mut acc = [V::splat(0.0); N];
    for (weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
        let (weight, row) = (V::splat(*weight), &blocks(&row[from..])[..N]);
        for n in 0..N {
            acc[n] = weight.fma(V::load(&row[n]), acc[n]);
        }
    }
    let to = &mut out[from..].as_chunks_mut().0[..N];
    for n in 0..N {
        acc[n].store(&mut to[n]);
    }
}

/// See [`super::Dense::weighted_sum`].
#[inline(always)]
pub(super) fn weighted_sum<V: Vector>(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let mut from = 0;
    while from < out.len() {
        if out.len() - from >= 4 * LANES {
            strip::<V, 4>(weights, rows, out, from);
            from += 4 * LANES;
        } else {
            strip::<V, 1>(weights, rows, out, from);
            from += LANES;
        }
    }
}
