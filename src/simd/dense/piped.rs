//! Products of a tile's keys for AVX-512 with one query or two: sums across lanes of a query among the multiplications of
//! the next.
//!
//! A sum across lanes is a chain of four shuffles and four additions. Here a tree grows by two keys at a time, right behind
//! their multiplications, and everything fits into registers: with all sixteen sums first, the compiler puts half of them
//! into memory. The order of additions is that of [`super::attend`], to the bit. Rival: keys turned in registers, which
//! need no sums across lanes: as fast from a cache, slower from memory, because sixteen rows are read side by side.

use super::attend::{self, Queries, Scores};
use super::rows::{Halves, Rows};
use super::vector::{Block, LANES, Vector};
use super::wide::Avx512;

/// The tree of sixteen sums, as far as it has grown.
struct Tree {
    eights: [Avx512; 4],
    fours: [Avx512; 2],
    twos: Avx512,
}

impl Tree {
    /// Takes sums `at` and `at + 8`, for `at` from 0 to 7 in turn; returns the newest node, at last the whole.
    #[inline(always)]
    fn grow(&mut self, at: usize, low: Avx512, high: Avx512) -> Avx512 {
        let eight = low.eights(high);
        if at < 4 {
            self.eights[at] = eight;
            return eight;
        }
        let four = self.eights[at - 4].fours(eight);
        if at < 6 {
            self.fours[at - 4] = four;
            return four;
        }
        let two = self.fours[at - 6].twos(four);
        if at < 7 {
            self.twos = two;
            return two;
        }
        self.twos.ones(two)
    }
}

/// Products of `R = 16 / C` keys of `N` blocks with `C` queries: lane `r * C + c`.
#[inline(always)]
fn sixteen<const R: usize, const C: usize, const N: usize>(
    over: &Rows<'_>,
    keys: &[Halves],
    queries: &[&[Block]; C],
) -> Avx512 {
    let zero = Avx512::splat(0.0);
    let mut tree = Tree {
        eights: [zero; 4],
        fours: [zero; 2],
        twos: zero,
    };
    let (mut low, mut high) = ([zero; N], [zero; N]);
    let mut last = zero;
    for at in 0..LANES / 2 {
        if at % C == 0 {
            let r = at / C;
            for d in 0..N {
                let (l, h) = (&keys[r * N + d], &keys[(r + R / 2) * N + d]);
                if d % 2 == 0 {
                    over.ask::<Avx512>(l.as_ptr());
                    over.ask::<Avx512>(h.as_ptr());
                }
                low[d] = Avx512::halves(l);
                high[d] = Avx512::halves(h);
            }
        }
        let (mut a, mut b) = (zero, zero);
        for d in 0..N {
            let q = Avx512::load(&queries[at % C][d]);
            a = low[d].fma(q, a);
            b = high[d].fma(q, b);
        }
        last = tree.grow(at, a, b);
    }
    last
}

#[inline(always)]
fn tile<const R: usize, const C: usize, const N: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut Scores,
) -> Avx512 {
    let mut to: [&[Block]; C] = [&[]; C];
    for c in 0..C {
        to[c] = &queries[c][..N];
    }
    let mut most = Avx512::splat(f32::NEG_INFINITY);
    for (rows, score) in keys.whole().chunks_exact(R * N).zip(scores.iter_mut()) {
        let products = sixteen::<R, C, N>(&keys, rows, &to);
        products.store(score);
        most = most.at_least(products);
    }
    most
}

/// See [`attend::in_turn`]; that one takes what is no whole tile, or of another width.
#[inline(always)]
pub(super) fn products<const R: usize, const C: usize>(
    keys: Rows<'_>,
    queries: &Queries<'_>,
    scores: &mut Scores,
) -> Avx512 {
    let whole = keys.whole().len() == attend::tile(C) * keys.blocks;
    match keys.blocks {
        4 if whole => tile::<R, C, 4>(keys, queries, scores),
        8 if whole => tile::<R, C, 8>(keys, queries, scores),
        _ => attend::in_turn::<Avx512, R, C>(keys, queries, scores),
    }
}
