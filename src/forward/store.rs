//! Keys and values of one KV head of one layer, tier by tier.
//!
//! T0 and T1 are separate buffers of binary32 rows; T2 holds quantised rows; what is destroyed is nowhere. The slot that
//! a token leaves is filled with NaN, so that a read of what is not there anymore shows in the logits.

use super::quantiser::Packed;
use crate::timeline::Tier;

/// One of the two things kept of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Keys,
    Values,
}

/// Rows of keys or of values, by tier and slot.
#[derive(Clone, Debug, Default)]
struct Rows {
    full: [Vec<f32>; 2],
    packed: Vec<Option<Packed>>,
}

/// The buffers of a head.
#[derive(Clone, Debug)]
pub(super) struct Store {
    width: usize,
    parts: [Rows; 2],
}

impl Store {
    /// Nothing kept, T0 with room for so many tokens.
    pub(super) fn new(width: usize, room: usize) -> Self {
        let rows = || Rows {
            full: [Vec::with_capacity(room * width), Vec::new()],
            packed: Vec::new(),
        };
        Self {
            width,
            parts: [rows(), rows()],
        }
    }

    /// All rows of T0, in the order of its slots.
    pub(super) fn t0(&self, part: Part) -> &[f32] {
        &self.parts[part as usize].full[0]
    }

    /// Puts a row into a slot of T0 or T1; in T2 and T3 there is nothing to put it into.
    pub(super) fn put(&mut self, part: Part, (tier, slot): (Tier, u32), row: &[f32]) {
        let Some(buffer) = self.parts[part as usize].full.get_mut(tier as usize) else {
            return;
        };
        let at = slot as usize * self.width;
        if buffer.len() < at + self.width {
            buffer.resize(at + self.width, f32::NAN);
        }
        buffer[at..at + self.width].copy_from_slice(row);
    }

    /// Puts a quantised row into a slot of T2.
    pub(super) fn put_packed(&mut self, part: Part, slot: u32, row: Packed) {
        let packed = &mut self.parts[part as usize].packed;
        if packed.len() <= slot as usize {
            packed.resize(slot as usize + 1, None);
        }
        packed[slot as usize] = Some(row);
    }

    /// Reads a row, widened; NaN where there is none.
    pub(super) fn get(&self, part: Part, (tier, slot): (Tier, u32), out: &mut [f32]) {
        let rows = &self.parts[part as usize];
        match (rows.full.get(tier as usize), tier) {
            (Some(buffer), _) => {
                out.copy_from_slice(&buffer[slot as usize * self.width..][..self.width]);
            }
            (None, Tier::T2) => match rows.packed.get(slot as usize) {
                Some(Some(row)) => row.decode(out),
                _ => out.fill(f32::NAN),
            },
            (None, _) => out.fill(f32::NAN),
        }
    }

    /// Forgets what a slot held.
    pub(super) fn leave(&mut self, (tier, slot): (Tier, u32)) {
        let at = slot as usize * self.width;
        for rows in &mut self.parts {
            match (rows.full.get_mut(tier as usize), tier) {
                (Some(buffer), _) => buffer[at..at + self.width].fill(f32::NAN),
                (None, Tier::T2) => rows.packed[slot as usize] = None,
                (None, _) => {}
            }
        }
    }
}
