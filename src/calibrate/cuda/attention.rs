//! Attention on the device: resident KV alone, with part of it brought over the link meanwhile, and beside a plain copy.
//!
//! Samples go from layer to layer of a cache that fills the device memory, so that none finds its KV in L2. Tables of pages
//! are shuffled, as an allocator leaves them. With prefetch, attention reads the tokens that came before while the same
//! number comes for the layer after: two stages that take turns.

use super::arena::{Cut, up};
use super::attend::{Board, Heads, List, PAGE, logit_stride};
use super::copies::place;
use super::rig::Rig;
use crate::calibrate::probe::{Field, Part, Point, Reading};
use crate::error::Result;

/// Most layers that samples go round.
const LAYERS: u64 = 64;

/// Mode whose scores are gathered as well.
pub(super) const SCORED: &str = "scored";

/// One cache and what attends to it.
struct Scene {
    board: Board,
    resident: List,
    ahead: List,
    layers: u64,
    layer: u64,
    stages: [u64; 2],
    /// Bytes of one sequence that come over the link.
    brought: u64,
}

/// Page tables of `batch` sequences of `pages` pages each, no page twice.
fn shuffled(batch: u64, pages: u64) -> Vec<u32> {
    let all = batch * pages;
    // Odd numbers from a third on, one of which has no factor in common soon.
    let odd = (0..=all).map(|i| ((all / 3) | 1) + 2 * i);
    let stride = odd.into_iter().find(|s| gcd(*s, all) == 1).unwrap_or(1);
    (0..all).map(|i| (i * stride % all) as u32).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A list of `tokens` of every sequence, with its tables.
fn list(rig: &Rig, cut: &mut Cut, batch: u64, tokens: u64, shuffle: bool) -> Result<List> {
    let pages = tokens.div_ceil(PAGE).max(1);
    let table = cut.take(4 * batch * pages)?;
    let counts = cut.take(4 * batch)?;
    let positions = cut.take(4 * batch * pages * PAGE)?;
    let order: Vec<u32> = (0..batch * pages).map(|p| p as u32).collect();
    rig.put(
        table,
        &if shuffle {
            shuffled(batch, pages)
        } else {
            order
        },
    )?;
    rig.put(counts, &vec![tokens as u32; batch as usize])?;
    Ok(List {
        arena: 0,
        pages: table,
        tokens: counts,
        positions,
        stride: pages,
    })
}

/// Positions of the slots of a list, from `first` on.
fn positions(rig: &Rig, list: &List, batch: u64, first: u64) -> Result<()> {
    let slots = list.stride * PAGE;
    let all: Vec<u32> = (0..batch * slots)
        .map(|i| (first + i % slots) as u32)
        .collect();
    rig.put(list.positions, &all)
}

/// Device memory that a point needs with one layer \[bytes\].
pub(super) fn needs(point: &Point, sms: u32) -> u64 {
    let size = |f| point.get(f).unwrap_or(0);
    let (batch, context) = (size(Field::Batch), size(Field::Context));
    let heads = Heads::of(point);
    let pages = context.div_ceil(PAGE) + 2;
    let splits = heads.splits(sms, batch, context);
    let tables = batch * pages * (8 + 4 * PAGE) * 2;
    batch * pages * heads.page() * 3 / 2
        + Board::bytes(heads, batch, splits, context)
        + tables
        + (1 << 16)
}

impl Scene {
    fn new(rig: &Rig, point: &Point) -> Result<Self> {
        let size = |f| point.get(f).unwrap_or(0);
        let (batch, context, fetched) = (
            size(Field::Batch),
            size(Field::Context),
            size(Field::Fetched),
        );
        let heads = Heads::of(point);
        let mut cut = rig.device();
        let splits = heads.splits(rig.gpu.sms, batch, context);
        let mut board = Board::new(&mut cut, heads, batch, splits, splits)?;
        let resident = list(rig, &mut cut, batch, context - fetched, true)?;
        let ahead = list(rig, &mut cut, batch, fetched, false)?;
        if point.mode == SCORED {
            let stride = logit_stride(context - fetched, fetched);
            let most = (resident.stride + ahead.stride) * PAGE;
            board = board.scored(&mut cut, stride, most, 1)?;
            positions(rig, &resident, batch, 0)?;
            positions(rig, &ahead, batch, resident.stride * PAGE)?;
        }
        let stage = batch * ahead.stride * heads.page();
        let stages = [cut.take(stage)?, cut.take(stage)?];
        let layer = batch * resident.stride * heads.page();
        let first = cut.take(0)?;
        Ok(Self {
            board,
            resident: List {
                arena: first,
                ..resident
            },
            ahead,
            layers: (cut.left() / layer.max(1)).clamp(1, LAYERS),
            layer,
            stages,
            brought: fetched.div_ceil(PAGE) * heads.page(),
        })
    }

    /// Attention of the `i`th layer, over what is in one of the stages as well.
    fn attend(&self, rig: &Rig, i: u64) -> Result<()> {
        let arena = self.resident.arena + i % self.layers * self.layer;
        let resident = List {
            arena,
            ..self.resident
        };
        let ahead = List {
            arena: self.stages[i as usize % 2],
            ..self.ahead
        };
        self.board.layer(rig, &rig.compute, &resident, &ahead)
    }

    /// Brings what the layer after needs into the other stage, a copy a sequence.
    fn bring(&self, rig: &Rig, i: u64) -> Result<()> {
        let to = self.stages[(i as usize + 1) % 2];
        for seq in 0..self.board.batch {
            let from =
                rig.pinned.at + place(i * self.board.batch + seq, self.brought, rig.pinned.bytes);
            up(
                &rig.copy,
                &rig.pinned,
                from,
                to + seq * self.brought,
                self.brought,
            )?;
        }
        Ok(())
    }
}

/// Microseconds of a layer's attention, over `k` layers.
pub(super) fn resident(rig: &Rig, point: &Point, k: u32) -> Result<f64> {
    let scene = Scene::new(rig, point)?;
    let all = rig.gated(&rig.compute, &[], || {
        (0..u64::from(k)).try_for_each(|i| scene.attend(rig, i))
    })?;
    Ok(all / f64::from(k))
}

/// Microseconds of a layer, over `k` of them, of which each waits for the one before and for what was brought meanwhile.
pub(super) fn prefetch(rig: &Rig, point: &Point, k: u32) -> Result<f64> {
    let scene = Scene::new(rig, point)?;
    let (here, there) = (super::rig::event(&rig.gpu)?, super::rig::event(&rig.gpu)?);
    let all = rig.gated(&rig.compute, &[&rig.copy], || {
        for i in 0..u64::from(k) {
            scene.bring(rig, i)?;
            scene.attend(rig, i)?;
            super::rig::record(&there, &rig.copy)?;
            super::rig::record(&here, &rig.compute)?;
            super::rig::wait(&rig.compute, &there)?;
            super::rig::wait(&rig.copy, &here)?;
        }
        Ok(())
    })?;
    Ok(all / f64::from(k))
}

/// A copy of as many bytes as the point has and a layer's attention: alone, and both at once.
pub(super) fn overlap(rig: &Rig, point: &Point, k: u32) -> Result<Vec<Reading>> {
    let scene = Scene::new(rig, point)?;
    let bytes = point.get(Field::Bytes).unwrap_or(0);
    let stage = scene.resident.arena + scene.layers * scene.layer - bytes;
    let attend = || (0..u64::from(k)).try_for_each(|i| scene.attend(rig, i));
    let copy = || {
        (0..u64::from(k)).try_for_each(|i| {
            let from = rig.pinned.at + place(i, bytes, rig.pinned.bytes);
            up(&rig.copy, &rig.pinned, from, stage, bytes)
        })
    };
    let compute = rig.gated(&rig.compute, &[], attend)?;
    let transfer = rig.gated(&rig.copy, &[], copy)?;
    let both = rig.gated(&rig.compute, &[&rig.copy], || {
        copy().and_then(|()| attend())
    })?;
    let parts = [
        (Part::Whole, both),
        (Part::Compute, compute),
        (Part::Transfer, transfer),
    ];
    let one = |(part, us): (Part, f64)| Reading {
        part,
        us: us / f64::from(k),
    };
    Ok(parts.map(one).to_vec())
}

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn no_page_is_named_twice() {
        for (batch, pages) in [(1, 1), (3, 7), (8, 64), (1, 30)] {
            let mut all = shuffled(batch, pages);
            all.sort_unstable();
            assert!(
                all.iter().enumerate().all(|(i, p)| i as u32 == *p),
                "{batch} {pages}"
            );
        }
    }
}
