//! Products of a tile's keys for AVX-512: sums across lanes of one sixteen among the multiplications of the next.
//!
//! A sum across lanes is a chain of four shuffles and four additions. Where it follows its multiplications, it waits for
//! the last of them, and the multiplications behind it wait for a place in the scheduler: a fifth of the time. Here every
//! step of the tree stands beside a step of the next sixteen, and finds its operands ready. The order of additions is that
//! of [`super::attend`], to the bit. Rival: keys turned in registers, which need no sums across lanes: as fast from a cache,
//! slower from memory, because sixteen rows are read side by side.

use std::sync::atomic::{Ordering, compiler_fence};

use super::attend::{self, Halves, MOST, Rows, Scores, TILE};
use super::registers::Avx512;
use super::vector::{Block, LANES, Vector};

/// Steps of the tree, and the least blocks of a row that they stand beside.
const STEPS: usize = 4;

/// The tree of sixteen sums, half done.
struct Tree {
    eights: [Avx512; 8],
    fours: [Avx512; 4],
    twos: [Avx512; 2],
    done: Avx512,
}

impl Tree {
    /// What step `S` of the tree can do beside sums `at` and `at + 8`, before they begin anew.
    #[inline(always)]
    fn step<const S: usize>(&mut self, at: usize, sums: &[Avx512; LANES]) {
        if S == 0 {
            self.eights[at] = sums[at].eights(sums[at + 8]);
        } else if S == 1 && at.is_multiple_of(2) {
            let i = at / 2;
            self.fours[i] = self.eights[i].fours(self.eights[i + 4]);
        } else if S == 2 && at.is_multiple_of(4) {
            let i = at / 4;
            self.twos[i] = self.fours[i].twos(self.fours[i + 2]);
        } else if S == 3 && at == 0 {
            self.done = self.twos[0].ones(self.twos[1]);
        }
    }
}

/// Block `d` of `R` keys times `C` queries onto sums `r * C + c`, and step `S` of the tree of the sums before.
#[inline(always)]
fn step<const R: usize, const C: usize, const S: usize>(
    keys: &[&[Halves]; R],
    queries: &[&[Block]; C],
    d: usize,
    sums: &mut [Avx512; LANES],
    tree: &mut Tree,
) {
    // Loads stay beside their use; the compiler would fetch all of them first, and run out of registers.
    compiler_fence(Ordering::SeqCst);
    for r in 0..R / 2 {
        let low = Avx512::halves(&keys[r][d]);
        let high = Avx512::halves(&keys[r + R / 2][d]);
        for (c, query) in queries.iter().enumerate() {
            let at = r * C + c;
            tree.step::<S>(at, sums);
            if S == 0 {
                sums[at] = Avx512::splat(0.0);
                sums[at + 8] = Avx512::splat(0.0);
            }
            let q = Avx512::load(&query[d]);
            sums[at] = low.fma(q, sums[at]);
            sums[at + 8] = high.fma(q, sums[at + 8]);
        }
    }
}

/// See [`attend::in_turn`]; that one takes what is no whole tile, or narrower than the tree is deep.
#[inline(always)]
pub(super) fn products<const R: usize, const C: usize>(
    keys: Rows<'_>,
    ahead: &[Halves],
    queries: &[&[Block]; MOST],
    scores: &mut Scores,
) -> Avx512 {
    let blocks = queries[0].len();
    let rows = keys.whole();
    if blocks < STEPS || rows.len() < TILE * blocks {
        return attend::in_turn::<Avx512, R, C>(keys, ahead, queries, scores);
    }
    let mut to: [&[Block]; C] = [&[]; C];
    for c in 0..C {
        to[c] = &queries[c][..blocks];
    }
    let zero = Avx512::splat(0.0);
    let mut sums = [zero; LANES];
    let mut tree = Tree {
        eights: [zero; 8],
        fours: [zero; 4],
        twos: [zero; 2],
        done: zero,
    };
    let mut ahead = ahead.chunks(R * blocks);
    for (i, rows) in rows.chunks_exact(R * blocks).enumerate() {
        if let Some(rows) = ahead.next() {
            attend::fetch::<Avx512>(rows);
        }
        let mut from: [&[Halves]; R] = [&[]; R];
        for (from, row) in from.iter_mut().zip(rows.chunks_exact(blocks)) {
            *from = row;
        }
        step::<R, C, 0>(&from, &to, 0, &mut sums, &mut tree);
        step::<R, C, 1>(&from, &to, 1, &mut sums, &mut tree);
        step::<R, C, 2>(&from, &to, 2, &mut sums, &mut tree);
        step::<R, C, 3>(&from, &to, 3, &mut sums, &mut tree);
        tree.done.store(&mut scores[i.saturating_sub(1)]);
        for d in STEPS..blocks {
            step::<R, C, STEPS>(&from, &to, d, &mut sums, &mut tree);
        }
    }
    let last = Avx512::totals(&sums);
    last.store(&mut scores[TILE / R - 1]);
    let mut most = Avx512::splat(f32::NEG_INFINITY);
    for score in scores.iter().take(TILE / R) {
        most = most.at_least(Avx512::load(score));
    }
    most
}
