//! The loop: steps of a turn, queued on three streams, then the re-tier.
//!
//! A step appends one token a sequence (all layers in one launch), then goes through the layers: attention over what is
//! resident and what came, its merge, its scores. Ahead of it the copy stream brings the next layers into stages as they
//! become free, across steps, so that a link which is ahead stays ahead. A re-tier waits for the copies, moves tokens with
//! kernels that write and read host memory in place, and the copies go on behind it. With `serial` and on the host nothing
//! runs ahead. Queries and new keys and values are there before: where they come from (the rest of the model) is no part of
//! this. Marks are events around every layer's copies and compute, kept for the steps that are timed.

use cudarc::driver::CudaEvent;

use super::super::arena::{batch, up};
use super::super::attend::{Board, Heads, List, PAGE};
use super::super::kernels::{Args, Grid};
use super::super::rig::{Rig, between, event, finish, record, wait};
use super::marks::{Marks, StepMarks};
use super::mode::Mode;
use super::shape::Shape;
use super::store::Store;
use crate::error::Result;

/// Threads of a block that moves tokens.
const MOVERS: u32 = 128;

/// A loop that runs.
pub(super) struct Loop<'a> {
    pub(super) rig: &'a Rig,
    pub(super) shape: &'a Shape,
    pub(super) store: Store,
    /// Layers whose copies were queued, over all steps.
    queued: u64,
    /// When each stage was last read, and when it was last filled.
    free: Vec<CudaEvent>,
    filled: Vec<CudaEvent>,
    joint: CudaEvent,
    pub(super) marks: Vec<StepMarks>,
    retier: [CudaEvent; 2],
}

/// A list for a layer.
pub(super) fn over(list: &List, arena: u64, step: u32, sequences: u64) -> List {
    List {
        arena,
        tokens: list.tokens + 4 * u64::from(step) * sequences,
        ..*list
    }
}

impl<'a> Loop<'a> {
    /// Memory and tables; what KV holds is put up by the caller before the first turn.
    pub(super) fn new(rig: &'a Rig, shape: &'a Shape) -> Result<Self> {
        let events = |n: u64| (0..n).map(|_| event(&rig.gpu)).collect::<Result<Vec<_>>>();
        Ok(Self {
            store: Store::new(rig, shape)?,
            queued: 0,
            free: events(shape.depth)?,
            filled: events(shape.depth)?,
            joint: event(&rig.gpu)?,
            marks: Vec::new(),
            retier: [event(&rig.gpu)?, event(&rig.gpu)?],
            rig,
            shape,
        })
    }

    /// Runs the whole: turns with a re-tier between them. Steps from `timed` on keep marks, until the next re-tier.
    /// `ready(loop, first, last)` is called before each turn's steps are queued and `done` when they are finished.
    pub(super) fn run(
        &mut self,
        timed: Option<u32>,
        ready: &mut dyn FnMut(&Self, u32, u32) -> Result<()>,
        done: &mut dyn FnMut(&Self, u32, u32) -> Result<()>,
    ) -> Result<()> {
        let starts: Vec<u32> = self.shape.plans[0].turns.iter().map(|t| t.step).collect();
        for (turn, first) in starts.iter().enumerate() {
            if *first >= self.shape.steps {
                break;
            }
            if turn > 0 {
                self.retier(turn)?;
            }
            let last = starts
                .get(turn + 1)
                .copied()
                .unwrap_or(u32::MAX)
                .min(self.shape.steps);
            self.store.turn(self.rig, self.shape, turn, *first, last)?;
            ready(self, *first, last)?;
            for step in *first..last {
                let timed = turn == 0 && timed.is_some_and(|t| step >= t);
                self.step(step, timed)?;
            }
            finish(&self.rig.compute)?;
            finish(&self.rig.copy)?;
            done(self, *first, last)?;
        }
        Ok(())
    }

    /// Which of the places of queries and outputs a step uses.
    pub(super) fn place(&self, step: u32) -> u64 {
        u64::from(step % self.shape.apart.max(1))
    }

    /// The board of a layer in a step.
    pub(super) fn board(&self, step: u32, layer: u64) -> Board {
        let board = self.store.board;
        let rows = board.batch * board.heads.queries();
        let at = (self.place(step) * self.shape.layers + layer) * rows;
        Board {
            q: self.store.q + at * board.heads.dim * 2,
            out: self.store.out + at * board.heads.dim * 4,
            lse: self.store.lse + at * 4,
            ..board
        }
    }

    /// The resident list of a layer in a step.
    pub(super) fn resident(&self, step: u32, layer: u64) -> List {
        let side = &self.store.device;
        over(
            &self.store.resident,
            side.arena + layer * side.layer,
            step,
            self.shape.batch(),
        )
    }

    /// The second list, wherever its pages lie.
    pub(super) fn ahead(&self, step: u32, arena: u64) -> List {
        over(&self.store.ahead, arena, step, self.shape.batch())
    }

    fn step(&mut self, step: u32, timed: bool) -> Result<()> {
        let rig = self.rig;
        let marks = timed.then(|| self.new_marks()).transpose()?;
        if let Some(m) = &marks {
            record(&m.begin, &rig.compute)?;
        }
        self.append(step)?;
        if let Some(m) = &marks {
            record(&m.appended, &rig.compute)?;
        }
        for layer in 0..self.shape.layers {
            let marks = marks.as_ref().map(|m| &m.layers[layer as usize]);
            match self.shape.mode {
                Mode::Resident | Mode::Direct => self.still(step, layer, marks)?,
                Mode::Stream | Mode::Staged | Mode::Selective => {
                    self.streamed(step, layer, marks)?
                }
                Mode::Serial => self.serial(step, layer, marks)?,
                Mode::HostAttention => self.on_host(step, layer, marks.map(|m| &m.0))?,
            }
        }
        if let Some(m) = &marks {
            record(&m.end, &rig.compute)?;
        }
        self.marks.extend(marks);
        Ok(())
    }

    /// Writes the step's tokens into their slots, all layers at once.
    fn append(&self, step: u32) -> Result<()> {
        let (h, s) = (&self.shape.heads, &self.store);
        let sequences = self.shape.batch();
        let record_words = self.shape.layers * h.token() / 16;
        let fresh = s.fresh + self.place(step) * sequences * self.shape.layers * h.token();
        let args = Args::new()
            .at(fresh)
            .at(record_words)
            .at(s.append + 4 * u64::from(step) * sequences)
            .int(sequences)
            .at(s.device.arena)
            .at(s.device.layer / 16)
            .int(h.kv)
            .int(PAGE)
            .int(h.row_words());
        let grid = Grid::new([sequences as u32, self.shape.layers as u32, 1], MOVERS);
        self.rig
            .launch(&self.rig.compute, "kv_scatter_tokens", grid, args)
    }

    /// A layer for which nothing is copied.
    fn still(&self, step: u32, layer: u64, marks: Option<&Marks>) -> Result<()> {
        let side = &self.store.host;
        let ahead = self.ahead(step, side.arena + layer * side.layer);
        self.compute(step, layer, &ahead, marks)
    }

    fn compute(&self, step: u32, layer: u64, ahead: &List, marks: Option<&Marks>) -> Result<()> {
        let rig = self.rig;
        if let Some(m) = marks {
            record(&m.0[2], &rig.compute)?;
        }
        self.board(step, layer)
            .layer(rig, &rig.compute, &self.resident(step, layer), ahead)?;
        if let Some(m) = marks {
            record(&m.0[3], &rig.compute)?;
        }
        Ok(())
    }

    /// A layer whose tokens come ahead: copies wait for a free stage, compute waits for the copies.
    fn streamed(&mut self, step: u32, layer: u64, marks: Option<&Marks>) -> Result<()> {
        let (rig, depth) = (self.rig, self.shape.depth);
        let stage = (self.queued % depth) as usize;
        if self.queued >= depth {
            wait(&rig.copy, &self.free[stage])?;
        }
        self.queued += 1;
        let arena = self.store.stages + stage as u64 * self.store.stage;
        if let Some(m) = marks {
            record(&m.0[0], &rig.copy)?;
        }
        self.bring(layer, arena)?;
        if let Some(m) = marks {
            record(&m.0[1], &rig.copy)?;
        }
        record(&self.filled[stage], &rig.copy)?;
        wait(&rig.compute, &self.filled[stage])?;
        self.compute(step, layer, &self.ahead(step, arena), marks)?;
        record(&self.free[stage], &rig.compute)
    }

    /// Copies what a layer needs of the host into a stage.
    fn bring(&self, layer: u64, stage: u64) -> Result<()> {
        let (h, s) = (&self.shape.heads, &self.store);
        let run = s.host.run(h);
        let from = s.host.arena + layer * s.host.layer;
        if self.shape.mode == Mode::Selective {
            return self.bring_pages(from, stage);
        }
        for (seq, book) in self.store.books.iter().enumerate() {
            let pages = (book.host.len() as u64).div_ceil(PAGE);
            if pages > 0 {
                let at = seq as u64 * run;
                up(
                    &self.rig.copy,
                    &self.rig.pinned,
                    from + at,
                    stage + at,
                    pages * h.page(),
                )?;
            }
        }
        Ok(())
    }

    /// Copies chosen pages side by side: in one call where the driver can, else one by one.
    fn bring_pages(&self, from: u64, stage: u64) -> Result<()> {
        let (h, s, rig) = (&self.shape.heads, &self.store, self.rig);
        let mut moves = Vec::new();
        for (seq, chosen) in s.chosen.iter().enumerate() {
            let run = seq as u64 * s.host.run(h);
            for (i, page) in chosen.iter().enumerate() {
                let at = from + run + u64::from(*page) * h.page();
                moves.push((at, stage + run + i as u64 * h.page()));
            }
        }
        if moves.is_empty() || !rig.gpu.driver.batch {
            return moves
                .iter()
                .try_for_each(|m| up(&rig.copy, &rig.pinned, m.0, m.1, h.page()));
        }
        let on_host = |m: &(u64, u64)| {
            Ok((
                rig.pinned.host(m.0, h.page())? as u64,
                m.1,
                h.page() as usize,
            ))
        };
        batch(
            &rig.copy,
            &moves.iter().map(on_host).collect::<Result<Vec<_>>>()?,
        )
    }

    /// A copy, waited for; attention, waited for.
    fn serial(&self, step: u32, layer: u64, marks: Option<&Marks>) -> Result<()> {
        let rig = self.rig;
        if let Some(m) = marks {
            record(&m.0[0], &rig.copy)?;
        }
        self.bring(layer, self.store.stages)?;
        if let Some(m) = marks {
            record(&m.0[1], &rig.copy)?;
        }
        finish(&rig.copy)?;
        self.compute(step, layer, &self.ahead(step, self.store.stages), marks)?;
        finish(&rig.compute)
    }

    /// Makes compute wait for all copies, moves tokens as the next turn wants them, makes copies wait for that.
    fn retier(&mut self, turn: usize) -> Result<()> {
        let rig = self.rig;
        record(&self.joint, &rig.copy)?;
        wait(&rig.compute, &self.joint)?;
        let moves = super::retier::plan(&mut self.store, self.shape, turn);
        moves.put(rig, &self.store)?;
        record(&self.retier[0], &rig.compute)?;
        moves.queue(rig, &self.store, self.shape)?;
        record(&self.retier[1], &rig.compute)?;
        wait(&rig.copy, &self.retier[1])?;
        // Nothing that was brought before holds any more.
        self.queued = 0;
        Ok(())
    }

    /// Microseconds of the last re-tier.
    pub(super) fn retier_time(&self) -> Result<f64> {
        between(&self.retier[0], &self.retier[1])
    }

    /// The event by which streams wait for each other, recorded anew each time.
    pub(super) fn joint(&self) -> &CudaEvent {
        &self.joint
    }

    /// Heads of the loop.
    pub(super) fn heads(&self) -> Heads {
        self.shape.heads
    }
}
