//! What KV and queries hold when outputs are compared: numbers that follow from where they stand, and plain attention over
//! them.
//!
//! Any key, value or query can be computed again from sequence, layer, head and position, so that a token which ends up in
//! a wrong slot, layer or sequence changes outputs. Queries and keys are large enough for weights that differ by orders of
//! magnitude. The reference is a loop in binary64.

use super::super::attend::Heads;
use super::super::attend::PAGE;
use super::super::rig::Rig;
use super::book::Book;
use super::shape::Shape;
use super::store::Store;
use crate::error::Result;
use crate::trace::half;

/// Which numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Keys.
    Key = 0,
    /// Values.
    Value = 1,
    /// Queries, by query head.
    Query = 2,
}

/// Bits of binary16 of number `i` of a head at a position.
fn bits(of: Of, seq: u64, layer: u64, head: u64, position: u64, i: u64) -> u16 {
    let mut x =
        (position << 20) ^ (seq << 44) ^ (layer << 36) ^ (head << 28) ^ (i << 4) ^ of as u64;
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    // Magnitudes: queries 1 to 2, keys and values a half to 1.
    let exponent = if of == Of::Query { 0x3c00 } else { 0x3800 };
    (x >> 40) as u16 & 0x83ff | exponent
}

/// The number itself.
fn number(bits: u16) -> f64 {
    let size = half::units(bits & 0x7fff) as f64 / half::ONE as f64;
    if bits & 0x8000 == 0 { size } else { -size }
}

/// Keys and values of a token in a layer, a row a head: `[K, V][head][number]`.
fn token(h: &Heads, seq: u64, layer: u64, position: u64) -> Vec<u16> {
    let rows = [Of::Key, Of::Value]
        .into_iter()
        .flat_map(|of| (0..h.kv).map(move |head| (of, head)));
    let row =
        |(of, head): (Of, u64)| (0..h.dim).map(move |i| bits(of, seq, layer, head, position, i));
    rows.flat_map(row).collect()
}

/// Pages of `positions` in a layer, `[K, V][head][token][number]` each of `page` tokens; what no token fills is NaN.
fn pages(h: &Heads, seq: u64, layer: u64, positions: &[u32], page: u64, count: u64) -> Vec<u16> {
    let numbers = 2 * h.kv * page * h.dim;
    let mut out = vec![0x7e00u16; (count * numbers) as usize];
    for (slot, position) in (0u64..).zip(positions) {
        let (of, at) = (slot / page, slot % page);
        for (row, from) in token(h, seq, layer, u64::from(*position))
            .chunks_exact(h.dim as usize)
            .enumerate()
        {
            let to = of * numbers + (row as u64 * page + at) * h.dim;
            out[to as usize..][..from.len()].copy_from_slice(from);
        }
    }
    out
}

/// Fills both sides as the books say.
pub(super) fn fill(rig: &Rig, shape: &Shape, store: &Store) -> Result<()> {
    let h = &shape.heads;
    for (seq, book) in store.books.iter().enumerate() {
        for layer in 0..shape.layers {
            let resident = pages(
                h,
                seq as u64,
                layer,
                &book.resident,
                PAGE,
                store.device.pages,
            );
            let numbers = (h.page() / 2) as usize;
            for (page, to) in resident.chunks_exact(numbers).zip(&store.order[seq]) {
                let at =
                    store.device.arena + layer * store.device.layer + u64::from(*to) * h.page();
                rig.put(at, page)?;
            }
            let side = &store.host;
            let long = side.pages * PAGE / side.page;
            let host = pages(h, seq as u64, layer, &book.host, side.page, long);
            let at = side.arena + layer * side.layer + seq as u64 * side.run(h);
            rig.pinned.write(at, &host)?;
        }
    }
    Ok(())
}

/// Puts up the queries and new tokens of the steps `first..last`.
pub(super) fn script(rig: &Rig, shape: &Shape, store: &Store, first: u32, last: u32) -> Result<()> {
    let h = &shape.heads;
    let (mut fresh, mut queries) = (Vec::new(), Vec::new());
    for step in first..last {
        for (seq, plan) in (0u64..).zip(&shape.plans) {
            let position = u64::from(plan.length + step);
            (0..shape.layers).for_each(|l| fresh.extend(token(h, seq, l, position)));
        }
        for layer in 0..shape.layers {
            for seq in 0..shape.batch() {
                for head in 0..h.queries() {
                    queries.extend(
                        (0..h.dim).map(|i| bits(Of::Query, seq, layer, head, u64::from(step), i)),
                    );
                }
            }
        }
    }
    let batch = shape.batch();
    rig.put(
        store.fresh + u64::from(first) * batch * shape.layers * h.token(),
        &fresh,
    )?;
    rig.put(
        store.q + u64::from(first) * shape.layers * batch * h.queries() * h.dim * 2,
        &queries,
    )
}

/// Output of one query head over some positions, by a plain loop.
pub(super) fn plain(h: &Heads, at: (u64, u64, u64, u32), positions: &[u32]) -> Vec<f64> {
    let (seq, layer, head, step) = at;
    let row = |of, head, position: u64| -> Vec<f64> {
        (0..h.dim)
            .map(|i| number(bits(of, seq, layer, head, position, i)))
            .collect()
    };
    let q = row(Of::Query, head, u64::from(step));
    let kv = head / h.group;
    let scale = 1.0 / libm::sqrt(h.dim as f64);
    let logit = |p: &u32| -> f64 {
        let k = row(Of::Key, kv, u64::from(*p));
        scale * q.iter().zip(&k).map(|(a, b)| a * b).sum::<f64>()
    };
    let logits: Vec<f64> = positions.iter().map(logit).collect();
    let most = logits.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = logits.iter().map(|l| libm::exp(l - most)).collect();
    let total: f64 = weights.iter().sum();
    let mut out = vec![0.0; h.dim as usize];
    for (p, w) in positions.iter().zip(&weights) {
        for (out, v) in out.iter_mut().zip(row(Of::Value, kv, u64::from(*p))) {
            *out += w / total * v;
        }
    }
    out
}

/// Positions that attention sees in a step, of all that a book has by the end of its turn.
pub(super) fn seen(store: &Store, shape: &Shape, seq: usize, step: u32) -> Vec<u32> {
    let now = shape.plans[seq].length + step;
    let book: &Book = &store.books[seq];
    let all = store.seen(shape, seq);
    debug_assert!(book.length() > now);
    all.into_iter().filter(|p| *p <= now).collect()
}

#[cfg(test)]
mod tests {
    use super::{Heads, Of, bits, number, pages, plain, token};

    const H: Heads = Heads {
        kv: 2,
        group: 2,
        dim: 64,
    };

    #[test]
    fn numbers_are_finite_and_tell_their_place() {
        assert!(
            (0..1000).all(|p| (0.5..1.0).contains(&number(bits(Of::Key, 1, 0, 0, p, 3)).abs()))
        );
        assert!(
            (0..1000).all(|p| (1.0..2.0).contains(&number(bits(Of::Query, 0, 1, 0, p, 3)).abs()))
        );
        let places = [(0, 0, 5), (1, 0, 5), (0, 1, 5), (0, 0, 6)];
        let all: Vec<_> = places.map(|(s, l, p)| token(&H, s, l, p)).to_vec();
        assert!(
            all.iter()
                .enumerate()
                .all(|(i, a)| all[..i].iter().all(|b| a != b))
        );
    }

    /// Slot 17 of pages of 16 is token 1 of page 1; its key of head 1 is row 1, its value of head 0 row 2.
    #[test]
    fn pages_lie_as_the_kernels_read_them() {
        let positions: Vec<u32> = (100..118).collect();
        let all = pages(&H, 0, 0, &positions, 16, 2);
        let page = 2 * 2 * 16 * 64;
        assert_eq!(all[page + (16 + 1) * 64], bits(Of::Key, 0, 0, 1, 117, 0));
        assert_eq!(
            all[page + (2 * 16 + 1) * 64 + 9],
            bits(Of::Value, 0, 0, 0, 117, 9)
        );
        assert_eq!(all[page + 2 * 64], 0x7e00);
    }

    /// One token alone is its own output; two outputs are within their values.
    #[test]
    fn plain_attention_averages_values() {
        let alone = plain(&H, (0, 1, 3, 2), &[7]);
        let value: Vec<f64> = (0..64)
            .map(|i| number(bits(Of::Value, 0, 1, 1, 7, i)))
            .collect();
        assert!(alone.iter().zip(&value).all(|(a, b)| (a - b).abs() < 1e-12));
        let both = plain(&H, (0, 1, 3, 2), &[7, 8]);
        let other: Vec<f64> = (0..64)
            .map(|i| number(bits(Of::Value, 0, 1, 1, 8, i)))
            .collect();
        let within =
            |((x, a), b): ((&f64, &f64), &f64)| a.min(*b) - 1e-12 <= *x && *x <= a.max(*b) + 1e-12;
        assert!(both.iter().zip(&value).zip(&other).all(within));
    }
}
