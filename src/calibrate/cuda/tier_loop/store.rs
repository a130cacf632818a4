//! Memory of the loop: KV on both sides, stages, tables, boards; and what is put there before a turn.
//!
//! Both sides hold `[layer][sequence][page]`, a fixed run of pages a sequence: on the host in order, so that what a
//! sequence has there is one run of bytes a layer and comes in one copy; on the device shuffled, as an allocator leaves
//! them. With attention on the host a sequence's run is one long page, so that keys of a head lie side by side. Tables of a
//! whole turn are put up at its begin (counts of every step, slots of tokens to come), so that nothing but KV moves in a
//! step.

use super::super::arena::Cut;
use super::super::attend::{Board, Heads, List, PAGE, logit_stride};
use super::super::rig::Rig;
use super::book::Book;
use super::mode::Mode;
use super::shape::Shape;
use crate::error::Result;

/// One side's KV.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Layer 0.
    pub(super) arena: u64,
    /// Bytes of a layer.
    pub(super) layer: u64,
    /// Pages of a sequence.
    pub(super) pages: u64,
    /// Tokens of a page as kernels that move tokens see it.
    pub(super) page: u64,
}

impl Side {
    fn new(cut: &mut Cut, shape: &Shape, pages: u64, page: u64) -> Result<Self> {
        let layer = shape.batch() * pages * shape.heads.page();
        Ok(Self {
            arena: cut.take(shape.layers * layer)?,
            layer,
            pages,
            page,
        })
    }

    /// Bytes of one sequence in a layer.
    pub(super) fn run(&self, heads: &Heads) -> u64 {
        self.pages * heads.page()
    }
}

/// Lists of slots for a re-tier, by kind of move; the last kind is written back and stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Everything that a loop works on.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) device: Side,
    pub(super) host: Side,
    /// Stages, one after another.
    pub(super) stages: u64,
    /// Bytes of a stage.
    pub(super) stage: u64,
    /// Tables of both lists.
    pub(super) resident: List,
    pub(super) ahead: List,
    /// Slots of the tokens to come, `[step][sequence]`.
    pub(super) append: u64,
    /// Keys and values to come, `[step][sequence][layer]...`.
    pub(super) fresh: u64,
    /// Queries, outputs and their log-sum-exp, `[step][layer]...`.
    pub(super) q: u64,
    pub(super) out: u64,
    pub(super) lse: u64,
    pub(super) board: Board,
    /// Tokens on their way down and up.
    pub(super) records: [u64; 2],
    pub(super) lists: [Lists; 5],
    /// Pinned room for tokens that stay in a buffer and are written back.
    pub(super) kept: u64,
    /// Queries on their way to the host, what it attended, where that lands, which rows it is; `[layer]...` but the last.
    pub(super) host_q: u64,
    pub(super) host_out: u64,
    pub(super) host_landed: u64,
    pub(super) host_rows: u64,
    pub(super) books: Vec<Book>,
    /// Pages of each sequence's shuffled table.
    pub(super) order: Vec<Vec<u32>>,
    /// Pages that are fetched of each sequence this turn (selective).
    pub(super) chosen: Vec<Vec<u32>>,
}

/// Pages of a sequence in another order, the same for every run.
fn shuffled(seq: u64, pages: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pages).map(|p| (seq * pages + p) as u32).collect();
    let mut state = seq + 1;
    for i in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order
}

fn list(cut: &mut Cut, shape: &Shape, pages: u64) -> Result<List> {
    let batch = shape.batch();
    Ok(List {
        arena: 0,
        pages: cut.take(4 * batch * pages)?,
        tokens: cut.take(4 * batch * u64::from(shape.steps))?,
        positions: cut.take(4 * batch * pages * PAGE)?,
        stride: pages,
    })
}

impl Store {
    /// Cuts everything and puts up the tables of pages; no KV yet.
    pub(super) fn new(rig: &Rig, shape: &Shape) -> Result<Self> {
        let (h, batch, layers) = (shape.heads, shape.batch(), shape.layers);
        let (mut cut, mut pinned) = (rig.device(), rig.pinned.cut());
        let (device_pages, host_pages) = (shape.device_pages(), shape.host_pages());
        let host_page = if shape.mode == Mode::HostAttention {
            host_pages * PAGE
        } else {
            PAGE
        };
        let device = Side::new(&mut cut, shape, device_pages, PAGE)?;
        let host = Side::new(&mut pinned, shape, host_pages, host_page)?;
        let stage = batch * host.run(&h);
        let rows = batch * h.queries();
        let apart = u64::from(shape.apart);
        let splits = h.splits(rig.gpu.sms, batch, shape.longest());
        let on_host = u64::from(shape.mode == Mode::HostAttention);
        let mut board = Board::new(&mut cut, h, batch, splits, splits + on_host)?;
        if on_host == 1 {
            board.part_lse = pinned.take(4 * rows * board.parts * layers)?;
        }
        if shape.mode.scores() {
            let logits = logit_stride(device_pages * PAGE, host_pages * PAGE);
            board = board.scored(&mut cut, logits, shape.longest(), layers)?;
        }
        let moved = shape.moved();
        let list_of = |cut: &mut Cut| -> Result<Lists> {
            let from = cut.take(4 * moved)?;
            Ok(Lists {
                from,
                to: cut.take(4 * moved)?,
            })
        };
        let mut one = || list_of(&mut cut);
        let lists = [one()?, one()?, one()?, one()?, one()?];
        let store = Self {
            device,
            host,
            stages: cut.take(shape.depth * stage)?,
            stage,
            resident: list(&mut cut, shape, device_pages)?,
            ahead: list(&mut cut, shape, host_pages)?,
            append: cut.take(4 * batch * u64::from(shape.steps))?,
            fresh: cut.take(apart * batch * layers * h.token())?,
            q: cut.take(apart * layers * rows * h.dim * 2)?,
            out: cut.take(apart * layers * rows * h.dim * 4)?,
            lse: cut.take(apart * layers * rows * 4)?,
            records: [
                cut.take(moved * layers * h.token())?,
                cut.take(moved * layers * h.token())?,
            ],
            kept: pinned.take(moved * layers * h.token())?,
            host_q: pinned.take(layers * rows * h.dim * 2)?,
            host_out: pinned.take(layers * rows * h.dim * 4)?,
            host_landed: cut.take(rows * h.dim * 4)?,
            host_rows: cut.take(4 * rows)?,
            lists,
            board,
            books: shape
                .plans
                .iter()
                .map(|p| Book::new(p.length, shape.overflow(p, 0)))
                .collect(),
            order: (0..batch).map(|s| shuffled(s, device_pages)).collect(),
            chosen: vec![Vec::new(); batch as usize],
        };
        rig.put(store.resident.pages, &store.order.concat())?;
        let in_order: Vec<u32> = (0..batch * host_pages).map(|p| p as u32).collect();
        rig.put(store.ahead.pages, &in_order)?;
        let last = (board.parts - 1) as u32;
        let others: Vec<u32> = (0..rows as u32)
            .map(|r| r * board.parts as u32 + last)
            .collect();
        rig.put(store.host_rows, &others)?;
        if let Some(scores) = board.scores {
            rig.put(
                scores.score,
                &vec![0f32; (batch * scores.score_stride) as usize],
            )?;
        }
        Ok(store)
    }

    /// The slot of the device's arena of a sequence's slot.
    pub(super) fn device_slot(&self, seq: usize, slot: u32) -> u32 {
        let page = self.order[seq][slot as usize / PAGE as usize];
        page * PAGE as u32 + slot % PAGE as u32
    }

    /// The slot of the host's arena of a sequence's slot.
    pub(super) fn host_slot(&self, seq: usize, slot: u32) -> u32 {
        (seq as u64 * self.host.pages * PAGE) as u32 + slot
    }
}
