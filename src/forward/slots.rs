//! Where each position of one placement is kept: its tier, and its slot in that tier's buffers.
//!
//! A slot that a token leaves is the next one used in its tier, so buffers stay as large as the most tokens that a tier
//! ever held. As long as nothing was moved, slot and position are the same number.

use crate::timeline::Tier;

/// Tiers that keep something.
pub(super) const KEPT: usize = 3;

/// The placement of one lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// By position; the slot means nothing in T3.
    at: Vec<(Tier, u32)>,
    /// Positions that are not destroyed, ascending; kept up to date once something was moved.
    live: Vec<u32>,
    /// Left slots and slots ever used, by tier.
    free: [Vec<u32>; KEPT],
    used: [u32; KEPT],
    moved: bool,
}

impl Slots {
    /// Room for the next position, in T0.
    pub(super) fn append(&mut self) {
        let slot = self.take(Tier::T0);
        if self.moved {
            self.live
                .push(u32::try_from(self.at.len()).unwrap_or(u32::MAX));
        }
        self.at.push((Tier::T0, slot));
    }

    /// Tier and slot of a position.
    pub(super) fn of(&self, position: usize) -> (Tier, u32) {
        self.at[position]
    }

    /// The live positions up to and with `last`; `None` as long as every position is in the slot of its number.
    pub(super) fn live(&self, last: usize) -> Option<&[u32]> {
        let upto = |live: &[u32]| live.partition_point(|p| *p as usize <= last);
        self.moved.then(|| &self.live[..upto(&self.live)])
    }

    /// Live positions.
    pub(super) fn count(&self) -> usize {
        if self.moved {
            self.live.len()
        } else {
            self.at.len()
        }
    }

    /// Moves a position: where it was, and its new slot (0 in T3).
    pub(super) fn shift(&mut self, position: u32, to: Tier) -> ((Tier, u32), u32) {
        if !self.moved {
            self.moved = true;
            self.live = (0u32..).take(self.at.len()).collect();
        }
        let from = self.at[position as usize];
        let slot = match to {
            Tier::T3 => 0,
            _ => self.take(to),
        };
        if from.0 != Tier::T3 {
            self.free[from.0 as usize].push(from.1);
        }
        if to == Tier::T3
            && let Ok(at) = self.live.binary_search(&position)
        {
            self.live.remove(at);
        }
        self.at[position as usize] = (to, slot);
        (from, slot)
    }

    fn take(&mut self, tier: Tier) -> u32 {
        let tier = tier as usize;
        self.free[tier].pop().unwrap_or_else(|| {
            self.used[tier] += 1;
            self.used[tier] - 1
        })
    }
}
