//! A re-tier on the device: tokens change sides and holes are filled, all sequences and layers at once.
//!
//! Tokens that leave and tokens that come are first gathered into records, then written, so that one's slot may be the
//! other's; packing comes last. The host's side is read and written over the link by the kernels themselves: single tokens
//! are too small for copy engines. Tokens that `staged` keeps in its buffer are written back too, gathered and copied down:
//! their slots stay.

use super::super::arena::down;
use super::super::kernels::{Args, Grid};
use super::super::rig::Rig;
use super::mode::Mode;
use super::shape::Shape;
use super::store::{Lists, Side, Store};
use crate::error::Result;

/// Slots to move, of the arenas, by kind: down, up, pack, pack on the host.
#[derive(Debug, Default)]
pub(super) struct Moved {
    kinds: [Vec<(u32, u32)>; 4],
    /// Slots that are written back and stay.
    kept: Vec<u32>,
}

/// Takes the books to a turn; what has to move for it.
pub(super) fn plan(store: &mut Store, shape: &Shape, turn: usize) -> Moved {
    let mut out = Moved::default();
    for (seq, plan) in shape.plans.iter().enumerate() {
        let moves = store.books[seq].retier(shape.overflow(plan, turn));
        let device = |s: u32| store.device_slot(seq, s);
        let host = |s: u32| store.host_slot(seq, s);
        let of = |list: &[(u32, u32)], from: &dyn Fn(u32) -> u32, to: &dyn Fn(u32) -> u32| {
            list.iter()
                .map(|m| (from(m.0), to(m.1)))
                .collect::<Vec<_>>()
        };
        let mine = [
            of(&moves.down, &device, &host),
            of(&moves.up, &host, &device),
            of(&moves.pack, &device, &device),
            of(&moves.pack_host, &host, &host),
        ];
        for (all, mine) in out.kinds.iter_mut().zip(mine) {
            all.extend(mine);
        }
        if shape.mode == Mode::Staged {
            out.kept.extend(staged(store, shape, seq, turn));
        }
    }
    out
}

/// Device slots of tokens that are new on the host's side and stay in the buffer.
fn staged(store: &Store, shape: &Shape, seq: usize, turn: usize) -> Vec<u32> {
    let turns = &shape.plans[seq].turns;
    let (before, now) = (&turns[turn - 1].host, &turns[turn].host);
    let buffered = &now[..shape.mode.staged(now.len())];
    let fresh = |p: &u32| buffered.contains(p) && !before.contains(p);
    let slots = (0u32..)
        .zip(&store.books[seq].resident)
        .filter(|(_, p)| fresh(p));
    slots.map(|(s, _)| store.device_slot(seq, s)).collect()
}

impl Moved {
    /// Puts the lists up.
    pub(super) fn put(&self, rig: &Rig, store: &Store) -> Result<()> {
        for (list, moves) in store.lists.iter().zip(&self.kinds) {
            let (from, to): (Vec<u32>, Vec<u32>) = moves.iter().copied().unzip();
            rig.put(list.from, &from)?;
            rig.put(list.to, &to)?;
        }
        rig.put(store.lists[4].from, &self.kept)
    }

    /// Queues the moves on the compute stream.
    pub(super) fn queue(&self, rig: &Rig, store: &Store, shape: &Shape) -> Result<()> {
        let [going, coming] = store.records;
        let [down, up, pack, pack_host, _] = &store.lists;
        let n = |kind: usize| self.kinds[kind].len() as u64;
        let (device, host) = (&store.device, &store.host);
        gather(rig, shape, device, down.from, n(0), going)?;
        gather(rig, shape, host, up.from, n(1), coming)?;
        scatter(rig, shape, coming, up.to, n(1), device)?;
        scatter(rig, shape, going, down.to, n(0), host)?;
        moved(rig, shape, device, pack, n(2))?;
        moved(rig, shape, host, pack_host, n(3))?;
        self.write_back(rig, store, shape)
    }

    fn write_back(&self, rig: &Rig, store: &Store, shape: &Shape) -> Result<()> {
        let n = self.kept.len() as u64;
        if n == 0 {
            return Ok(());
        }
        gather(
            rig,
            shape,
            &store.device,
            store.lists[4].from,
            n,
            store.records[0],
        )?;
        let bytes = n * shape.layers * shape.heads.token();
        down(
            &rig.compute,
            &rig.pinned,
            store.records[0],
            store.kept,
            bytes,
        )
    }
}

fn grid(rig: &Rig, shape: &Shape, n: u64) -> Grid {
    let blocks = n.min(4 * u64::from(rig.gpu.sms)) as u32;
    Grid::new([blocks, shape.layers as u32, 1], 128)
}

fn record_words(shape: &Shape) -> u64 {
    shape.layers * shape.heads.token() / 16
}

fn gather(rig: &Rig, shape: &Shape, side: &Side, slots: u64, n: u64, records: u64) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let h = &shape.heads;
    let args = Args::new()
        .at(side.arena)
        .at(side.layer / 16)
        .at(slots)
        .int(n)
        .at(records)
        .at(record_words(shape))
        .int(h.kv)
        .int(side.page)
        .int(h.row_words());
    rig.launch(&rig.compute, "kv_gather_tokens", grid(rig, shape, n), args)
}

fn scatter(rig: &Rig, shape: &Shape, records: u64, slots: u64, n: u64, side: &Side) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let h = &shape.heads;
    let args = Args::new()
        .at(records)
        .at(record_words(shape))
        .at(slots)
        .int(n)
        .at(side.arena)
        .at(side.layer / 16)
        .int(h.kv)
        .int(side.page)
        .int(h.row_words());
    rig.launch(&rig.compute, "kv_scatter_tokens", grid(rig, shape, n), args)
}

fn moved(rig: &Rig, shape: &Shape, side: &Side, lists: &Lists, n: u64) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let h = &shape.heads;
    let args = Args::new()
        .at(side.arena)
        .at(side.layer / 16)
        .at(lists.from)
        .at(side.arena)
        .at(side.layer / 16)
        .at(lists.to)
        .int(n)
        .int(h.kv)
        .int(side.page)
        .int(h.row_words());
    rig.launch(&rig.compute, "kv_move_tokens", grid(rig, shape, n), args)
}
