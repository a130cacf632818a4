//! Where each token of one sequence is: tiers by position, and the same as bit masks for sums and run counts.

use crate::error::{Error, Result};
use crate::policy::Moves;
use crate::simd::Kernels;
use crate::timeline::{Interval, Tier};

/// Positions a page.
const PAGE: u32 = 16;

/// The placement of one sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    tiers: Vec<Tier>,
    /// Masks of T1, T2, T3; what is in none of them is in T0.
    masks: [Vec<u64>; 3],
    /// Once in T2, now elsewhere, not destroyed.
    strays: Vec<u64>,
    /// Mass of the present row on T1, T2, T3 and the strays.
    mass: [f64; 4],
    any_degraded: bool,
    counts: [u32; 4],
    moved: Vec<(u32, Tier)>,
}

impl Placement {
    /// Appends `n` tokens to T0.
    pub(super) fn append(&mut self, n: u32) {
        self.counts[0] += n;
        self.tiers.resize(self.tiers.len() + n as usize, Tier::T0);
        let words = self.tiers.len().div_ceil(64);
        for mask in self.masks.iter_mut().chain([&mut self.strays]) {
            mask.resize(words, 0);
        }
    }

    pub(super) fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Whether nothing was destroyed.
    pub(super) fn all_live(&self) -> bool {
        self.counts[3] == 0
    }

    pub(super) fn any_degraded(&self) -> bool {
        self.any_degraded
    }

    /// Adds the mass of a part of a row that begins at position `at`, a multiple of 64.
    pub(super) fn add_mass(&mut self, at: usize, part: &[f32]) {
        let kernels = Kernels::best();
        let word = at / 64;
        for tier in 1..4 {
            if self.counts[tier] > 0 {
                self.mass[tier - 1] += kernels.masked_sum(part, &self.masks[tier - 1][word..]);
            }
        }
        if self.any_degraded {
            self.mass[3] += kernels.masked_sum(part, &self.strays[word..]);
        }
    }

    /// Mass on T0..T3 of the row just added, which sums to `total`, and on degraded tokens that still live. T0 is the
    /// rest: these sums are exact (see `simd`).
    pub(super) fn take_mass(&mut self, total: f64) -> ([f64; 4], f64) {
        let [t1, t2, t3, strays] = std::mem::take(&mut self.mass);
        ([total - t1 - t2 - t3, t1, t2, t3], t2 + strays)
    }

    /// Carries out the moves of a decision and counts them; the counts of tokens are still to be filled in.
    ///
    /// # Errors
    /// Internal: a move outside the sequence, or of a destroyed token.
    pub(super) fn apply(&mut self, moves: &Moves) -> Result<Interval> {
        let mut interval = Interval::default();
        self.moved.clear();
        for &(position, to) in moves.as_slice() {
            let from = self.shift(position, to)?;
            count(&mut interval, from, to);
            if to != Tier::T3 && from != to {
                self.moved.push((position, to));
            }
        }
        self.moved.sort_unstable();
        let starts = |i: usize| {
            let (position, tier) = self.moved[i];
            i == 0 || position == 0 || self.moved[i - 1] != (position - 1, tier)
        };
        interval.moved_runs = (0..self.moved.len()).filter(|i| starts(*i)).count() as f64;
        Ok(interval)
    }

    /// Moves one token; returns where it was.
    fn shift(&mut self, position: u32, to: Tier) -> Result<Tier> {
        let at = position as usize;
        let from = *self.tiers.get(at).ok_or_else(|| {
            Error::internal(format!(
                "a policy moved position {position}, which does not exist yet"
            ))
        })?;
        if from == Tier::T3 && to != Tier::T3 {
            return Err(Error::internal(format!(
                "a policy brought back position {position}, which was destroyed"
            )));
        }
        let (word, bit) = (at / 64, 1u64 << (at % 64));
        let degraded = from == Tier::T2 || self.strays[word] & bit != 0;
        self.strays[word] &= !bit;
        if degraded && to < Tier::T2 {
            self.strays[word] |= bit;
        }
        self.any_degraded |= to == Tier::T2;
        if from != Tier::T0 {
            self.masks[from as usize - 1][word] &= !bit;
        }
        if to != Tier::T0 {
            self.masks[to as usize - 1][word] |= bit;
        }
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        self.tiers[at] = to;
        Ok(from)
    }

    /// Fills in tokens, runs and pages as they stand.
    pub(super) fn describe(&self, interval: &mut Interval) {
        interval.tokens = self.counts.map(f64::from);
        interval.runs[0] = f64::from(runs((0..self.words()).map(|w| self.resident(w))));
        for tier in 1..4 {
            interval.runs[tier] = match self.counts[tier] {
                0 => 0.0,
                _ => f64::from(runs(self.masks[tier - 1].iter().copied())),
            };
        }
        interval.t0_pages = f64::from(
            (0..self.words())
                .map(|w| pages(self.resident(w)))
                .sum::<u32>(),
        );
    }

    fn words(&self) -> usize {
        self.tiers.len().div_ceil(64)
    }

    /// Mask of T0 in word `w`.
    fn resident(&self, w: usize) -> u64 {
        let inside = match self.tiers.len() - w * 64 {
            0..64 => (1u64 << (self.tiers.len() % 64)) - 1,
            _ => u64::MAX,
        };
        inside & !(self.masks[0][w] | self.masks[1][w] | self.masks[2][w])
    }
}

/// Adds one move to the counts.
fn count(interval: &mut Interval, from: Tier, to: Tier) {
    match (from, to) {
        (Tier::T1 | Tier::T2, Tier::T0) => interval.promoted += 1.0,
        (Tier::T0, Tier::T1 | Tier::T2) => interval.demoted += 1.0,
        (_, Tier::T3) if from != to => interval.destroyed += 1.0,
        _ => {}
    }
    if to == Tier::T2 && from != to {
        interval.compressed += 1.0;
    }
}

/// Runs of set bits.
fn runs(words: impl Iterator<Item = u64>) -> u32 {
    let mut carry = 0;
    words
        .map(|w| {
            let starts = w & !(w << 1 | carry);
            carry = w >> 63;
            starts.count_ones()
        })
        .sum()
}

/// Pages of [`PAGE`] positions with a set bit.
fn pages(word: u64) -> u32 {
    let page = (1u64 << PAGE) - 1;
    (0..64 / PAGE)
        .filter(|p| word >> (p * PAGE) & page != 0)
        .map(|_| 1)
        .sum()
}
