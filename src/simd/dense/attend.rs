//! Attention of a group of queries over the binary16 keys and values of one KV head, in one pass.
//!
//! Tiles of 128 or 32 tokens: products of the tile's keys with up to eight queries at a time, the running maximum (online
//! softmax), weights, and the weighted values onto outputs that are not yet divided by the sum of weights. A key is
//! widened once for all of them. Rows ask for those that come up to 64 tokens later, line by line as they are used and more
//! than once: a processor drops requests that come in bursts, and some others. Products and weights lie by token and then
//! by query, so that softmax runs over whole vectors and needs no sum across lanes until the end.
//!
//! One query or two: products keep the lane order of [`super::tile`] and are joined sixteen at a time by the same tree. Four
//! and eight: see [`super::quads`]. Weights of a query are summed in 16 / C lanes, C being how many queries share a vector
//! (4, 2 or 1, the same on every path), so that a group's bits are those of the group and not of its queries alone. Rival:
//! widening the cache to binary32 first, which reads three times the memory that this is bound by.

use super::quads::{self, QUAD};
use super::rows::{AHEAD, Halves, Rows};
use super::running::{Running, Softmax, weigh};
use super::vector::{Block, LANES, Vector};

/// Tokens that share a maximum at most: parts of a context are best whole multiples.
pub const TILE: usize = 128;

/// Tokens that share a maximum where fewer than four queries share vectors.
const NARROW: usize = 32;

/// Queries that share a vector at most.
pub(super) const WIDTH: usize = 4;

/// Queries that are taken together at most.
pub(super) const MOST: usize = 8;

/// Values that stay in the first cache while they are gone over block by block \[bytes\].
const NEAR: usize = 16 << 10;

/// Tokens that stay in a cache while the queries of a large group go over them in turn: whole tiles.
const STAY: usize = 512;

/// A tile's products, then weights, of queries that share vectors.
pub(super) type Scores = [Block; TILE * WIDTH / LANES];

/// Rows of queries; what is beyond them is empty.
pub(super) type Queries<'a> = [&'a [Block]; MOST];

/// Rows of outputs of queries that share vectors.
pub(super) type Outs<'a> = [&'a mut [Block]; WIDTH];

/// What a group of queries attends to.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'a> {
    /// Queries, already scaled, rows of `width` numbers.
    pub queries: &'a [f32],
    /// Keys, rows of `width` binary16 numbers, little endian.
    pub keys: &'a [u8],
    /// Values, as many rows.
    pub values: &'a [u8],
    /// Numbers of a row, a multiple of 16.
    pub width: usize,
}

/// Products of `R` keys from key `r0` on with `C` queries from query `c0` on, into place `r * queries + c`.
#[inline(always)]
fn block<V: Vector, const R: usize, const C: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    (r0, c0, count): (usize, usize, usize),
    at: usize,
    out: &mut [V; LANES],
) {
    let blocks = queries[c0].len();
    let (mut from, mut to): ([&[Halves]; R], [&[Block]; C]) = ([&[]; R], [&[]; C]);
    for (r, from) in from.iter_mut().enumerate() {
        *from = &keys.row(at + r0 + r)[..blocks];
    }
    for c in 0..C {
        to[c] = &queries[c0 + c][..blocks];
    }
    let mut sum = [[V::splat(0.0); C]; R];
    for d in 0..blocks {
        let mut k = [V::splat(0.0); R];
        for r in 0..R {
            if d % 2 == 0 && c0 == 0 {
                keys.ask::<V>(from[r][d].as_ptr());
            }
            k[r] = V::halves(&from[r][d]);
        }
        for c in 0..C {
            let q = V::load(&to[c][d]);
            for r in 0..R {
                sum[r][c] = k[r].fma(q, sum[r][c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            out[(r0 + r) * count + c0 + c] = sum[r][c];
        }
    }
}

/// Products of `R = 16 / C` keys with `C` queries: lane `r * C + c`.
#[inline(always)]
fn sixteen<V: Vector, const R: usize, const C: usize>(
    keys: Rows<'_>,
    at: usize,
    queries: &Queries<'_>,
) -> V {
    let mut sums = [V::splat(0.0); LANES];
    if V::WIDE {
        block::<V, R, C>(keys, queries, (0, 0, C), at, &mut sums);
    } else if C == 1 {
        for r in (0..R).step_by(4) {
            block::<V, 4, 1>(keys, queries, (r, 0, C), at, &mut sums);
        }
    } else {
        for r in (0..R).step_by(2) {
            for c in (0..C).step_by(2) {
                block::<V, 2, 2>(keys, queries, (r, c, C), at, &mut sums);
            }
        }
    }
    V::totals(&sums)
}

/// Products of the tile's keys with `C` queries, `R = 16 / C` keys at a time; returns their maximum by lanes.
#[inline(always)]
pub(super) fn in_turn<V: Vector, const R: usize, const C: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut Scores,
) -> V {
    let mut most = V::splat(f32::NEG_INFINITY);
    for (i, score) in scores.iter_mut().enumerate().take(keys.count.div_ceil(R)) {
        // Beyond the last key it is taken again, which changes no maximum.
        let products: V = sixteen::<V, R, C>(keys, i * R, queries);
        products.store(score);
        most = most.at_least(products);
    }
    most
}

/// `N` blocks from block `from` on of `M` of `C` outputs from output `c0` on, plus the tile's weighted values.
#[inline(always)]
fn strip<V: Vector, const N: usize, const M: usize, const C: usize>(
    weights: &[[f32; C]],
    values: Rows<'_>,
    outs: &mut Outs<'_>,
    (from, c0): (usize, usize),
) {
    let mut sum = [[V::splat(0.0); N]; M];
    for c in 0..M {
        let out = &outs[c0 + c][from..from + N];
        for n in 0..N {
            sum[c][n] = V::load(&out[n]);
        }
    }
    let rows = values.whole().chunks_exact(values.blocks);
    for (weights, row) in weights.iter().zip(rows) {
        let row = &row[from..from + N];
        let mut v = [V::splat(0.0); N];
        for n in 0..N {
            if n % 2 == 0 && c0 == 0 {
                values.ask::<V>(row[n].as_ptr());
            }
            v[n] = V::halves(&row[n]);
        }
        for c in 0..M {
            let weight = V::splat(weights[c0 + c]);
            for n in 0..N {
                sum[c][n] = weight.fma(v[n], sum[c][n]);
            }
        }
    }
    for c in 0..M {
        let out = &mut outs[c0 + c][from..from + N];
        for n in 0..N {
            sum[c][n].store(&mut out[n]);
        }
    }
}

/// The tile's weighted values onto `C` outputs; only how many registers there are decides how many blocks and outputs go
/// together.
#[inline(always)]
fn gather<V: Vector, const C: usize>(weights: &[[f32; C]], values: Rows<'_>, outs: &mut Outs<'_>) {
    let blocks = values.blocks;
    let mut from = 0;
    while from < blocks {
        let left = blocks - from;
        from += if V::WIDE && C <= 2 && left >= 8 {
            strip::<V, 8, C, C>(weights, values, outs, (from, 0));
            8
        } else if V::WIDE && left >= 4 {
            strip::<V, 4, C, C>(weights, values, outs, (from, 0));
            4
        } else if V::WIDE && left >= 2 {
            strip::<V, 2, C, C>(weights, values, outs, (from, 0));
            2
        } else if C >= 2 && left >= 2 {
            for c in (0..C).step_by(2) {
                strip::<V, 2, 2, C>(weights, values, outs, (from, c));
            }
            2
        } else if C == 1 && left >= 4 {
            strip::<V, 4, 1, C>(weights, values, outs, (from, 0));
            4
        } else {
            for c in 0..C {
                strip::<V, 1, 1, C>(weights, values, outs, (from, c));
            }
            1
        };
    }
}

/// Keys and values of a head, in blocks.
#[derive(Clone, Copy)]
struct Cache<'a> {
    keys: &'a [Halves],
    values: &'a [Halves],
    blocks: usize,
}

/// Tokens of a tile whose vectors hold `width` queries.
pub(super) const fn tile(width: usize) -> usize {
    if width < WIDTH { NARROW } else { TILE }
}

/// Tokens `from..to` for `G` times `C` queries, `R = 16 / C`; the `first` queries ask for what lies ahead.
#[inline(always)]
fn pass<V: Vector, const R: usize, const C: usize, const G: usize>(
    over: Cache<'_>,
    (from, to, first): (usize, usize, bool),
    queries: &[Block],
    out: &mut [Block],
    runs: &mut [Running],
) {
    let blocks = over.blocks;
    let mut q: Queries<'_> = [&[]; MOST];
    for (q, row) in q
        .iter_mut()
        .zip(queries.chunks_exact(queries.len() / (C * G)))
    {
        *q = row;
    }
    let mut outs: [Outs<'_>; G] = std::array::from_fn(|_| Outs::default());
    for (outs, rows) in outs.iter_mut().zip(out.chunks_exact_mut(C * blocks)) {
        for (out, row) in outs.iter_mut().zip(rows.chunks_exact_mut(blocks)) {
            *out = row;
        }
    }
    let mut run = [Softmax::of::<C>(runs); G];
    for g in 1..G {
        run[g] = Softmax::of::<C>(&runs[g * C..]);
    }
    let row = if first {
        blocks * size_of::<Halves>()
    } else {
        0
    };
    let ahead = AHEAD.map(|rows| rows * row);
    let mut scores = [Scores::default(); G];
    for at in (from..to).step_by(tile(C)) {
        let end = to.min(at + tile(C));
        let mut keys = Rows {
            all: &over.keys[at * blocks..end * blocks],
            blocks,
            count: end - at,
            soon: ahead,
        };
        if first && at == 0 {
            // Nothing has asked for the first values.
            let [from, to] = [keys.all, over.values].map(|a| a.as_ptr().addr());
            keys.soon[0] = to.wrapping_sub(from);
        }
        let mut most = [V::splat(0.0); G];
        if C < WIDTH {
            most[0] = V::products::<R, C>(keys, &q, &mut scores[0]);
        } else {
            most = quads::products::<V, G>(keys, &q, &mut scores);
        }
        let mut values = keys;
        values.all = &over.values[at * blocks..end * blocks];
        values.soon = ahead;
        for g in 0..G {
            weigh::<V, R, C>(
                &mut scores[g],
                values.count,
                most[g],
                &mut run[g],
                &mut outs[g],
            );
        }
        for g in 0..G {
            let weights = scores[g].as_flattened().as_chunks::<C>().0;
            let near = (NEAR / size_of::<Halves>() / blocks).max(1);
            for from in (0..values.count).step_by(near) {
                let some = values.some(from, near);
                gather::<V, C>(&weights[from..], some, &mut outs[g]);
            }
            values.soon = [0; AHEAD.len()];
        }
    }
    for g in 0..G {
        run[g].keep::<C>(&mut runs[g * C..(g + 1) * C]);
    }
}

/// See [`super::Dense::attend`].
#[inline(always)]
pub(super) fn attend<V: Vector>(over: Attend<'_>, out: &mut [f32], runs: &mut [Running]) {
    let blocks = over.width / LANES;
    if blocks == 0 {
        return;
    }
    let (keys, values) = (over.keys.as_chunks().0, over.values.as_chunks().0);
    let rows = (keys.len() / blocks).min(values.len() / blocks);
    let queries: &[Block] = over.queries.as_chunks().0;
    let over = Cache {
        keys: &keys[..rows * blocks],
        values: &values[..rows * blocks],
        blocks,
    };
    let out: &mut [Block] = out.as_chunks_mut().0;
    let fours = runs.len() / WIDTH * WIDTH;
    let spread = quads::spread(&queries[..fours * blocks]);
    for start in (0..rows).step_by(STAY) {
        let end = rows.min(start + STAY);
        let mut at = 0;
        while at < runs.len() {
            let count = together(runs.len() - at);
            let part = at * blocks..(at + count) * blocks;
            let q = if count < WIDTH {
                &queries[part.clone()]
            } else {
                &spread[QUAD * part.start..QUAD * part.end]
            };
            let (o, r) = (&mut out[part], &mut runs[at..at + count]);
            let tokens = (start, end, at == 0);
            match count {
                8 => pass::<V, 4, 4, 2>(over, tokens, q, o, r),
                4 => pass::<V, 4, 4, 1>(over, tokens, q, o, r),
                2 => pass::<V, 8, 2, 1>(over, tokens, q, o, r),
                _ => pass::<V, 16, 1, 1>(over, tokens, q, o, r),
            }
            at += count;
        }
    }
}

/// How many of the `left` queries are taken together.
#[inline(always)]
fn together(left: usize) -> usize {
    match left {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}
