//! What a policy that only destroys keeps of one lane: its live positions, each with the value it is ranked by.
//!
//! Lists in order of position, because published rules speak of places in the cache ("the last `recent`"), not of
//! positions in the text. What is destroyed leaves the list at once and never comes back.

use std::ops::Range;

use super::{Moves, Row};
use crate::policy::rank::lowest;
use crate::timeline::Tier;

/// Live positions of one lane, ascending, and their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    positions: Vec<u32>,
    values: Vec<f64>,
    /// Positions ever appended.
    length: u32,
}

impl Lane {
    /// Appends tokens until the sequence is `length` long; `value` says what each starts from.
    pub(super) fn grow(&mut self, length: u32, value: impl FnMut(u32) -> f64) {
        let new = self.length..length.max(self.length);
        self.positions.extend(new.clone());
        self.values.extend(new.map(value));
        self.length = self.length.max(length);
    }

    /// Live tokens.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn positions(&self) -> &[u32] {
        &self.positions
    }

    pub(super) fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// Calls `f(value, weight)` for each live position of the row; new positions start from 0.
    pub(super) fn take_row(&mut self, row: &Row<'_>, mut f: impl FnMut(&mut f64, f64)) {
        self.grow(row.length(), |_| 0.0);
        let Some(positions) = row.positions else {
            for (position, value) in self.positions.iter().zip(&mut self.values) {
                f(value, f64::from(row.weights[*position as usize]));
            }
            return;
        };
        let mut shown = positions.iter().zip(row.weights);
        for (position, value) in self.positions.iter().zip(&mut self.values) {
            // Everything in the list is live, so it is shown; a row may show more.
            if let Some((_, weight)) = shown.find(|(p, _)| *p == position) {
                f(value, f64::from(*weight));
            }
        }
    }

    /// Destroys the `n` lowest by value of the tokens at `range` of the list; of ties the lower positions.
    pub(super) fn drop_lowest(&mut self, range: Range<usize>, n: usize, moves: &mut Moves) {
        if n == 0 {
            return;
        }
        let mut gone = vec![false; range.len()];
        lowest(&self.values[range.clone()], n, |i| gone[i] = true);
        let mut kept = range.start;
        for i in range.start..self.positions.len() {
            if range.contains(&i) && gone[i - range.start] {
                moves.put(self.positions[i], Tier::T3);
            } else {
                self.positions[kept] = self.positions[i];
                self.values[kept] = self.values[i];
                kept += 1;
            }
        }
        self.positions.truncate(kept);
        self.values.truncate(kept);
    }

    /// [`Self::drop_lowest`] of all tokens until `budget` are left.
    pub(super) fn shrink_to(&mut self, budget: u32, moves: &mut Moves) {
        let n = self.len().saturating_sub(budget as usize);
        self.drop_lowest(0..self.len(), n, moves);
    }
}

/// The lane of that index, made if it is new.
pub(super) fn at(lanes: &mut Vec<Lane>, lane: usize) -> &mut Lane {
    if lanes.len() <= lane {
        lanes.resize_with(lane + 1, Lane::default);
    }
    &mut lanes[lane]
}
