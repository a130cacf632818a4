//! Rows of keys or values of a tile, and what they ask memory for.
//!
//! Each line of a row asks for the lines that many tokens later, as it is used: requests that come in bursts are dropped by
//! the processor, and where memory is busy some others are, so that a line is asked for more than once. Rival: leaving it
//! to the processor, which begins anew at every page of 4 KiB.

use super::vector::{LANES, Vector};

/// Sixteen binary16 numbers.
pub(super) type Halves = [u8; 2 * LANES];

/// Tokens from a row to those that it asks for: as far as memory is late, and few enough to stay in the second cache. A
/// line is asked for more than once, because memory that is busy has no room for many a request.
pub(super) const AHEAD: [usize; 4] = [64, 32, 16, 4];

/// Rows of a tile.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) all: &'a [Halves],
    /// Blocks of a row.
    pub(super) blocks: usize,
    pub(super) count: usize,
    /// Bytes to the rows that are asked for, wrapping; the row itself is where they are 0.
    pub(super) soon: [usize; AHEAD.len()],
}

impl<'a> Rows<'a> {
    /// All of them, one after another.
    #[inline(always)]
    pub(super) fn whole(&self) -> &'a [Halves] {
        &self.all[..self.count * self.blocks]
    }

    /// Row `r`, the last again beyond it.
    #[inline(always)]
    pub(super) fn row(&self, r: usize) -> &'a [Halves] {
        let at = r.min(self.count - 1) * self.blocks;
        &self.all[at..at + self.blocks]
    }

    /// `count` rows from row `from` on, or as many as there are.
    #[inline(always)]
    pub(super) fn some(mut self, from: usize, count: usize) -> Self {
        self.all = &self.all[from * self.blocks..];
        self.count = count.min(self.count - from);
        self
    }

    /// The same rows, the last again until there are `rows`.
    #[cold]
    pub(super) fn padded(&self, rows: usize) -> Vec<Halves> {
        (0..rows).flat_map(|r| self.row(r)).copied().collect()
    }

    /// Asks for what lies ahead of a place in these rows.
    #[inline(always)]
    pub(super) fn ask<V: Vector>(&self, at: *const u8) {
        // Half registers have twice the loads, which leaves less time to ask.
        let often = if V::WIDE { AHEAD.len() } else { 2 };
        for soon in &self.soon[..often] {
            V::ask(at.wrapping_add(*soon));
        }
    }
}
