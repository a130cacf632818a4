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
use super::plan::Plan;
use crate::error::Result;

/// What a loop is over.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) heads: Heads,
    pub(super) layers: u64,
    pub(super) depth: u64,
    pub(super) mode: Mode,
    /// A plan a sequence.
    pub(super) plans: Vec<Plan>,
    /// Steps in all.
    pub(super) steps: u32,
    /// Steps whose queries, new tokens and outputs have places of their own: all of them, or one over and over.
    pub(super) apart: u32,
}

impl Shape {
    /// Sequences.
    pub(super) fn batch(&self) -> u64 {
        self.plans.len() as u64
    }

    /// Tokens of a sequence at the end, the longest.
    pub(super) fn longest(&self) -> u64 {
        let most = self.plans.iter().map(|p| p.length).max().unwrap_or(0);
        u64::from(most + self.steps)
    }

    /// Positions on the host that are not in device memory too, in a turn.
    pub(super) fn overflow<'a>(&self, plan: &'a Plan, turn: usize) -> &'a [u32] {
        let host = &plan.turns[turn].host;
        &host[self.mode.staged(host.len())..]
    }

    fn most(&self, of: impl Fn(&Plan) -> usize) -> u64 {
        self.plans.iter().map(of).max().unwrap_or(0) as u64
    }

    /// Pages of a sequence on the host, at most.
    fn host_pages(&self) -> u64 {
        let turns = |p: &Plan| (0..p.turns.len()).map(|t| self.overflow(p, t).len()).max();
        self.most(|p| turns(p).unwrap_or(0)).div_ceil(PAGE).max(1)
    }

    /// Pages of a sequence on the device, at most: all that is not on the host in the turn that has least there, and what
    /// a re-tier brings before it packs.
    fn device_pages(&self) -> u64 {
        let turns = |p: &Plan| {
            let least = (0..p.turns.len()).map(|t| self.overflow(p, t).len()).min();
            p.length as usize - least.unwrap_or(0)
        };
        (self.most(turns) + u64::from(self.steps)).div_ceil(PAGE) + 1
    }

    /// Tokens that all sequences move in one direction at a re-tier, at most.
    fn moved(&self) -> u64 {
        let change = |p: &Plan, turn: usize| {
            let over = differ(self.overflow(p, turn), self.overflow(p, turn + 1));
            over.max(differ(&p.turns[turn].host, &p.turns[turn + 1].host))
        };
        let most = |p: &Plan| (0..p.turns.len() - 1).map(|t| change(p, t)).max();
        let all: usize = self.plans.iter().map(|p| most(p).unwrap_or(0)).sum();
        all.max(1) as u64
    }

    /// Bytes of device and of pinned memory that a loop takes.
    pub(super) fn bytes(&self, sms: u32) -> (u64, u64) {
        let (h, batch, layers) = (&self.heads, self.batch(), self.layers);
        let (device, host) = (self.device_pages(), self.host_pages());
        let side = |pages: u64| layers * batch * pages * h.page();
        let stages = self.depth * batch * host * h.page();
        let records = 2 * self.moved() * layers * h.token();
        let splits = h.splits(sms, batch, self.longest());
        let boards = Board::bytes(*h, batch, splits + 1, self.longest() + 2 * PAGE);
        let each = u64::from(self.apart) * layers * batch * h.queries() * h.dim * 7;
        let fresh = u64::from(self.apart) * batch * layers * h.token();
        let tables = batch * (device + host) * (4 + 4 * PAGE)
            + 12 * u64::from(self.steps) * batch
            + 40 * self.moved();
        let slack = 1 << 18;
        let up = side(device) + stages + records + boards + each + fresh + tables + slack;
        let down =
            side(host) + records + each + batch * h.queries() * (splits + 1) * 4 * layers + slack;
        (up, down)
    }
}

/// Entries of `b` that are not in `a`, and the other way round.
fn differ(a: &[u32], b: &[u32]) -> usize {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    let missing = |x: &[u32], y: &[u32]| x.iter().filter(|p| y.binary_search(p).is_err()).count();
    missing(&a, &b).max(missing(&b, &a))
}

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

    /// Puts up the tables of the steps `first..last`, and takes the tokens that come in them into the books.
    pub(super) fn turn(
        &mut self,
        rig: &Rig,
        shape: &Shape,
        turn: usize,
        first: u32,
        last: u32,
    ) -> Result<()> {
        let batch = self.books.len();
        self.choose(shape, turn);
        let (mut resident, mut ahead, mut append) = (Vec::new(), Vec::new(), Vec::new());
        for _ in first..last {
            for seq in 0..batch {
                let slot = self.books[seq].append();
                append.push(self.device_slot(seq, slot));
                resident.push(self.books[seq].resident.len() as u32);
                ahead.push(self.attended(shape, seq));
            }
        }
        let at = 4 * u64::from(first) * batch as u64;
        rig.put(self.append + at, &append)?;
        rig.put(self.resident.tokens + at, &resident)?;
        rig.put(self.ahead.tokens + at, &ahead)?;
        if shape.mode.scores() {
            rig.put(
                self.resident.positions,
                &self.positions(&self.resident, |b| &b.resident),
            )?;
            rig.put(
                self.ahead.positions,
                &self.positions(&self.ahead, |b| &b.host),
            )?;
        }
        Ok(())
    }

    fn positions(&self, list: &List, side: impl Fn(&Book) -> &Vec<u32>) -> Vec<u32> {
        let room = (list.stride * PAGE) as usize;
        let one = |b: &Book| {
            let mut row = side(b).clone();
            row.resize(room, 0);
            row
        };
        self.books.iter().flat_map(one).collect()
    }

    /// Tokens of a sequence that its second list names.
    fn attended(&self, shape: &Shape, seq: usize) -> u32 {
        let host = self.books[seq].host.len() as u32;
        match shape.mode {
            Mode::HostAttention | Mode::Resident => 0,
            Mode::Selective => self.fetched_tokens(seq),
            _ => host,
        }
    }

    /// Tokens on the pages that are fetched; only the last page may be part full, and it comes last.
    fn fetched_tokens(&self, seq: usize) -> u32 {
        let (host, chosen) = (self.books[seq].host.len() as u32, &self.chosen[seq]);
        let on = |page: &u32| (host - page * PAGE as u32).min(PAGE as u32);
        chosen.iter().map(on).sum()
    }

    /// Pages with the best scored tokens of each sequence, ascending.
    fn choose(&mut self, shape: &Shape, turn: usize) {
        if shape.mode != Mode::Selective {
            return;
        }
        for (seq, plan) in shape.plans.iter().enumerate() {
            let host = &self.books[seq].host;
            let pages = host.len().div_ceil(PAGE as usize);
            let mut rank = vec![0usize; self.books[seq].length() as usize];
            for (i, position) in plan.turns[turn].host.iter().enumerate() {
                rank[*position as usize] = plan.turns[turn].host.len() - i;
            }
            let worth = |page: usize| -> usize {
                let slots = host.iter().skip(page * PAGE as usize).take(PAGE as usize);
                slots.map(|p| rank[*p as usize]).sum()
            };
            let mut order: Vec<u32> = (0..pages as u32).collect();
            order.sort_by_key(|p| (std::cmp::Reverse(worth(*p as usize)), *p));
            order.truncate(shape.mode.fetched(pages as u64) as usize);
            order.sort_unstable();
            self.chosen[seq] = order;
        }
    }

    /// Positions of a sequence that attention sees before this step's own token.
    pub(super) fn seen(&self, shape: &Shape, seq: usize) -> Vec<u32> {
        let book = &self.books[seq];
        if shape.mode != Mode::Selective {
            return (0..book.length()).collect();
        }
        let on = |page: &u32| {
            book.host
                .iter()
                .skip((page * PAGE as u32) as usize)
                .take(PAGE as usize)
        };
        let chosen = self.chosen[seq].iter().flat_map(on);
        book.resident.iter().chain(chosen).copied().collect()
    }
}
