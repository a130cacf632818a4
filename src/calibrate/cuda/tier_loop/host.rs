//! A layer of `host-attention`: the device attends to what it has while the host attends to the rest, then both are merged.
//!
//! The order is that of a model: the layer's queries exist once the layer before is merged, go down, the host attends over
//! its own memory, outputs come up into a part of their own, and the merge takes them by their log-sum-exp, which the host
//! writes into mapped memory. Nothing overlaps with another layer. Ignored: splitting the batch in two, which would.

use cudarc::driver::CudaEvent;

use super::super::arena::{down, up};
use super::super::attend::{Board, PAGE};
use super::super::kernels::{Args, Grid};
use super::super::rig::{finish, record, wait};
use super::run::Loop;
use crate::calibrate::host_attention::{Head, Shape as HostShape, attend_heads};
use crate::error::Result;
use crate::simd::dense::{Dense, Format};

/// Threads of a block that lays a row down.
const ROW: u32 = 32;

impl Loop<'_> {
    /// One layer.
    pub(super) fn on_host(
        &self,
        step: u32,
        layer: u64,
        marks: Option<&[CudaEvent; 4]>,
    ) -> Result<()> {
        let (rig, s, h) = (self.rig, &self.store, self.heads());
        let mut board = self.board(step, layer);
        let rows = board.batch * h.queries();
        board.part_lse += layer * 4 * rows * board.parts;
        let q = s.host_q + layer * rows * h.dim * 2;
        let out = s.host_out + layer * rows * h.dim * 4;
        let mark =
            |i: usize, stream| marks.map_or(Ok(()), |m: &[CudaEvent; 4]| record(&m[i], stream));
        record(self.joint(), &rig.compute)?;
        wait(&rig.back, self.joint())?;
        mark(0, &rig.copy)?;
        down(&rig.back, &rig.pinned, board.q, q, rows * h.dim * 2)?;
        mark(2, &rig.compute)?;
        let nothing = self.ahead(step, s.stages);
        board.attend(rig, &rig.compute, &self.resident(step, layer), &nothing)?;
        finish(&rig.back)?;
        self.host_layer(&board, layer, q, out)?;
        up(&rig.copy, &rig.pinned, out, s.host_landed, rows * h.dim * 4)?;
        mark(1, &rig.copy)?;
        record(self.joint(), &rig.copy)?;
        wait(&rig.compute, self.joint())?;
        let words = h.dim / 4;
        let args = Args::new()
            .at(s.host_landed)
            .at(0)
            .at(board.part_out)
            .at(0)
            .at(s.host_rows)
            .int(rows)
            .int(words);
        let grid = Grid::of((rows as u32).min(4 * rig.gpu.sms), ROW);
        rig.launch(&rig.compute, "kv_scatter_pages", grid, args)?;
        board.merge(rig, &rig.compute)?;
        mark(3, &rig.compute)
    }

    /// The host's attention over its tokens, into the outputs and its part of the log-sum-exp.
    fn host_layer(&self, board: &Board, layer: u64, q: u64, out: u64) -> Result<()> {
        let (rig, s, h) = (self.rig, &self.store, self.heads());
        let rows = (board.batch * h.queries()) as usize;
        let mut queries = vec![0f32; rows * h.dim as usize];
        Dense::best().widen(
            Format::F16,
            rig.pinned.bytes(q, 2 * queries.len() as u64)?,
            &mut queries,
        );
        let shape = HostShape {
            batch: board.batch as usize,
            context: s.books.iter().map(|b| b.host.len()).max().unwrap_or(0),
            kv_heads: h.kv as usize,
            group: h.group as usize,
            head_dim: h.dim as usize,
        };
        let heads = self.heads_on_host(layer)?;
        let (mut outs, mut lse) = (vec![0f32; queries.len()], vec![0f32; rows]);
        attend_heads(Dense::best(), shape, &heads, &queries, &mut outs, &mut lse);
        rig.pinned.write(out, &outs)?;
        for (row, lse) in lse.iter().enumerate() {
            let at = board.part_lse + 4 * (row as u64 * board.parts + board.parts - 1);
            rig.pinned.write(at, &[*lse])?;
        }
        Ok(())
    }

    /// Keys and values of every sequence and KV head of a layer, as they lie: `[K, V][head][token]` of one long page.
    fn heads_on_host(&self, layer: u64) -> Result<Vec<Head<'_>>> {
        let (s, h) = (&self.store, self.heads());
        let row = 2 * h.dim;
        let mut out = Vec::new();
        for (seq, book) in s.books.iter().enumerate() {
            let first = s.host.arena + layer * s.host.layer + seq as u64 * s.host.run(&h);
            let tokens = book.host.len() as u64;
            let at =
                |part: u64, head: u64| first + (part * h.kv + head) * s.host.pages * PAGE * row;
            for head in 0..h.kv {
                out.push(Head {
                    keys: self.rig.pinned.bytes(at(0, head), tokens * row)?,
                    values: self.rig.pinned.bytes(at(1, head), tokens * row)?,
                });
            }
        }
        Ok(out)
    }
}
