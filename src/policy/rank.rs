//! Splits candidates by rank without sorting them; shared by all policies, so that ties are one rule.
//!
//! Each boundary of the ranking is one selection on the bare keys (linear in the candidates); a pass in position order
//! then compares every candidate with the boundaries. Of candidates that tie with a boundary the lower positions come
//! first, which is the rule for ties, and the moves come out in position order.

/// Total order of scores as integers; negative zero counts as zero.
#[inline]
pub(super) fn key(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

/// A boundary of the ranking: what lies below it.
#[derive(Clone, Copy, Debug)]
struct Cut {
    key: u64,
    /// Candidates with exactly that key that still lie below.
    ties: usize,
}

impl Cut {
    /// Whether the next candidate in position order lies below.
    #[inline]
    fn takes(&mut self, key: u64) -> bool {
        if key == self.key {
            let tie = self.ties > 0;
            self.ties -= usize::from(tie);
            return tie;
        }
        key < self.key
    }
}

/// Three boundaries of one ranking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    cuts: [Cut; 3],
    /// Boundaries in front that nothing lies below: nearly always two, where nothing is destroyed or degraded.
    empty: usize,
}

impl Cuts {
    /// Boundaries with the `ranks[i]` lowest of `keys` below them; `ranks` ascend. Uses `scratch`.
    pub(super) fn new(keys: &[u64], ranks: [usize; 3], scratch: &mut Vec<u64>) -> Self {
        scratch.clear();
        scratch.extend_from_slice(keys);
        let mut sorted = 0;
        let cuts = ranks.map(|rank| {
            let cut = cut(scratch, sorted, rank);
            sorted = rank.min(keys.len());
            cut
        });
        let empty = ranks.iter().take_while(|rank| **rank == 0).count();
        Self { cuts, empty }
    }

    /// How many boundaries the next candidate in position order lies below.
    #[inline]
    pub(super) fn level(&mut self, key: u64) -> usize {
        self.cuts[self.empty..]
            .iter_mut()
            .map(|cut| usize::from(cut.takes(key)))
            .sum()
    }
}

/// The boundary above the `rank` lowest; the `sorted` lowest already lie in front.
fn cut(scratch: &mut [u64], sorted: usize, rank: usize) -> Cut {
    if rank == 0 {
        return Cut { key: 0, ties: 0 };
    }
    if rank >= scratch.len() {
        return Cut {
            key: u64::MAX,
            ties: usize::MAX,
        };
    }
    let (_, &mut key, _) = scratch[sorted..].select_nth_unstable(rank - sorted);
    Cut {
        key,
        ties: scratch[..rank].iter().filter(|k| **k == key).count(),
    }
}

/// Calls `low` with the index of each of the `n` lowest of `scores`, in position order; of ties the lower positions.
pub(super) fn lowest(scores: &[f64], n: usize, mut low: impl FnMut(usize)) {
    let mut keys: Vec<u64> = scores.iter().map(|s| key(*s)).collect();
    let mut boundary = cut(&mut keys, 0, n);
    for (i, score) in scores.iter().enumerate() {
        if boundary.takes(key(*score)) {
            low(i);
        }
    }
}
