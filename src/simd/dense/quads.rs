//! Products of a tile's keys with four or eight queries, four keys to a vector.
//!
//! Four numbers each of four keys fill a vector, and a query is repeated to fit. A product is thus gathered in 4 lanes
//! (element `i` goes to lane `i % 4`) and joined by a tree of two steps: 3 nodes for 16 products. With a key to a vector it
//! has four steps and 15, whose shuffles keep the multiplications waiting (a fifth of the time); here sixteen numbers of
//! keys cost one insertion and one shuffle of half a vector, for all queries. Rival: keys turned in full, which need no
//! sums at all, but twice these shuffles and a place to put sixteen rows.

use super::attend::{Queries, Scores};
use super::rows::Rows;
use super::vector::{Block, LANES, Vector};

/// Keys that share a vector.
pub(super) const QUAD: usize = 4;

/// Eight binary16 numbers.
pub(super) type Eight = [u8; LANES];

/// Queries, each four numbers four times.
pub(super) fn spread(queries: &[Block]) -> Vec<Block> {
    let fours = queries.as_flattened().as_chunks::<QUAD>().0;
    let mut out = vec![[0.0; LANES]; fours.len()];
    for (out, four) in out.iter_mut().zip(fours) {
        for to in out.as_chunks_mut::<QUAD>().0 {
            *to = *four;
        }
    }
    out
}

/// `P` quads of keys times `Q` queries; a key has `N` times eight numbers, or as many as there are where that is 0. Asks
/// for as many lines as it reads, from what lies ahead of `at` on.
#[inline(always)]
fn block<V: Vector, const N: usize, const P: usize, const Q: usize>(
    keys: &[Eight],
    queries: &[&[Block]; Q],
    over: &Rows<'_>,
    at: *const u8,
) -> [[V; Q]; P] {
    let eights = if N == 0 { keys.len() / (P * QUAD) } else { N };
    let keys = &keys[..P * QUAD * eights];
    let mut to: [&[Block]; Q] = [&[]; Q];
    for q in 0..Q {
        to[q] = &queries[q][..2 * eights];
    }
    let mut sum = [[V::splat(0.0); Q]; P];
    for d in 0..eights {
        let mut k = [[V::splat(0.0); 2]; P];
        for (p, k) in k.iter_mut().enumerate() {
            over.ask::<V>(at.wrapping_add((d * P + p) * QUAD * size_of::<Eight>()));
            let first = p * QUAD * eights + d;
            *k = V::quad([
                &keys[first],
                &keys[first + eights],
                &keys[first + 2 * eights],
                &keys[first + 3 * eights],
            ]);
        }
        for h in 0..2 {
            for q in 0..Q {
                let query = V::load(&to[q][2 * d + h]);
                for p in 0..P {
                    sum[p][q] = k[p][h].fma(query, sum[p][q]);
                }
            }
        }
    }
    sum
}

/// Sums of `P` quads times `Q` queries, as many together as registers hold.
#[inline(always)]
fn sums<V: Vector, const N: usize, const P: usize, const Q: usize>(
    keys: &[Eight],
    queries: &[&[Block]; Q],
    over: &Rows<'_>,
    at: *const u8,
) -> [[V; Q]; P] {
    if V::WIDE {
        return block::<V, N, P, Q>(keys, queries, over, at);
    }
    let mut out = [[V::splat(0.0); Q]; P];
    let quads = keys.chunks_exact(keys.len() / P);
    for (p, (keys, out)) in quads.zip(&mut out).enumerate() {
        let at = at.wrapping_add(p * size_of_val(keys));
        let fours = queries.as_chunks::<QUAD>().0;
        for (four, out) in fours.iter().zip(out.as_chunks_mut::<QUAD>().0) {
            *out = block::<V, N, 1, QUAD>(keys, four, over, at)[0];
        }
    }
    out
}

#[inline(always)]
fn tile<V: Vector, const N: usize, const P: usize, const Q: usize, const G: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut [Scores; G],
) -> [V; G] {
    let eights = if N == 0 { 2 * keys.blocks } else { N };
    let to = &queries.as_chunks::<Q>().0[0];
    let (rows, padded) = (keys.whole(), keys.count.next_multiple_of(P * QUAD));
    let copy;
    let rows: &[Eight] = if keys.count == padded {
        rows.as_flattened().as_chunks().0
    } else {
        copy = keys.padded(padded);
        copy.as_flattened().as_chunks().0
    };
    let start = keys.whole().as_ptr().cast::<u8>();
    let mut most = [V::splat(f32::NEG_INFINITY); G];
    for (i, rows) in rows.chunks_exact(P * QUAD * eights).enumerate() {
        let at = start.wrapping_add(i * size_of_val(rows));
        let sums = sums::<V, N, P, Q>(rows, to, &keys, at);
        for p in 0..P {
            let fours = sums[p].as_chunks::<QUAD>().0;
            for g in 0..G {
                let products = V::quarters(&fours[g]);
                products.store(&mut scores[g][i * P + p]);
                most[g] = most[g].at_least(products);
            }
        }
    }
    most
}

#[inline(always)]
fn sized<V: Vector, const P: usize, const Q: usize, const G: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut [Scores; G],
) -> [V; G] {
    match 2 * keys.blocks {
        8 => tile::<V, 8, P, Q, G>(keys, queries, scores),
        16 => tile::<V, 16, P, Q, G>(keys, queries, scores),
        _ => tile::<V, 0, P, Q, G>(keys, queries, scores),
    }
}

/// Products of the tile's keys with `G` times four queries, which are [`spread`]; returns their maxima by lanes.
#[inline(always)]
pub(super) fn products<V: Vector, const G: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut [Scores; G],
) -> [V; G] {
    if G == 1 {
        sized::<V, 4, 4, G>(keys, queries, scores)
    } else {
        sized::<V, 2, 8, G>(keys, queries, scores)
    }
}
