//! Decode attention of one layer as launches: attention split over the context, the merge of the splits, the scores.
//!
//! A layer's KV lies in pages of two lists (resident, brought from the host), named by tables of pages a sequence; see
//! kernels/README.md for layouts. The context is split so that there are about four blocks a multiprocessor and a split
//! still has some 256 tokens.

use cudarc::driver::CudaStream;

use super::arena::Cut;
use super::kernels::{Args, Grid};
use super::rig::Rig;
use crate::calibrate::probe::{Field, Point};
use crate::error::Result;

/// Tokens of a page.
pub(super) const PAGE: u64 = 16;

/// Query heads that share a block.
const TILE: u64 = 8;

/// Blocks a multiprocessor.
const BLOCKS: u64 = 4;

/// Tokens that a split should have at least.
const SPLIT: u64 = 256;

/// Heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    /// KV heads.
    pub(super) kv: u64,
    /// Query heads a KV head.
    pub(super) group: u64,
    /// Numbers of a head.
    pub(super) dim: u64,
}

impl Heads {
    /// Of a point.
    pub(super) fn of(point: &Point) -> Self {
        let size = |f| point.get(f).unwrap_or(1);
        Self {
            kv: size(Field::KvHeads),
            group: size(Field::Group),
            dim: size(Field::HeadDim),
        }
    }

    /// Query heads.
    pub(super) fn queries(&self) -> u64 {
        self.kv * self.group
    }

    /// Bytes of keys and values of a token in one layer.
    pub(super) fn token(&self) -> u64 {
        4 * self.kv * self.dim
    }

    /// Bytes of a page of one layer.
    pub(super) fn page(&self) -> u64 {
        PAGE * self.token()
    }

    /// Words of 16 bytes of a row.
    pub(super) fn row_words(&self) -> u64 {
        self.dim / 8
    }

    /// Name of their attention kernel.
    pub(super) fn kernel(&self) -> &'static str {
        if self.dim == 64 {
            "kv_attend_64"
        } else {
            "kv_attend_128"
        }
    }

    /// Blocks of a sequence and split.
    pub(super) fn blocks(&self) -> u64 {
        self.kv * self.group.div_ceil(TILE)
    }

    /// Splits of a context of so many tokens.
    pub(super) fn splits(&self, sms: u32, batch: u64, context: u64) -> u64 {
        let blocks = batch * self.blocks();
        let wanted = (BLOCKS * u64::from(sms)).div_ceil(blocks.max(1));
        wanted.clamp(1, (context / SPLIT).max(1))
    }
}

/// Pages of one list: of all sequences, `stride` entries each.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// The layer's pages.
    pub(super) arena: u64,
    /// Table of pages.
    pub(super) pages: u64,
    /// Tokens of each sequence.
    pub(super) tokens: u64,
    /// Positions of slots, for scores; `stride * PAGE` a sequence.
    pub(super) positions: u64,
    /// Entries of a sequence in the table of pages.
    pub(super) stride: u64,
}

/// Queries and results of a layer's attention, and where partial ones lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    pub(super) heads: Heads,
    pub(super) batch: u64,
    /// Splits that are launched.
    pub(super) splits: u64,
    /// Parts that there is room for: the splits, and those of others.
    pub(super) parts: u64,
    /// Queries, binary16.
    pub(super) q: u64,
    pub(super) part_out: u64,
    pub(super) part_lse: u64,
    /// Outputs and their log-sum-exp.
    pub(super) out: u64,
    pub(super) lse: u64,
    /// Logits and scores; none where nobody asks.
    pub(super) scores: Option<Scores>,
}

/// Where scores are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) logits: u64,
    /// Logits of a query head.
    pub(super) logit_stride: u64,
    pub(super) score: u64,
    /// Positions of a sequence.
    pub(super) score_stride: u64,
    /// What a layer and head counts.
    pub(super) weight: f32,
}

/// Most logits that two lists of so many tokens need.
pub(super) fn logit_stride(first: u64, second: u64) -> u64 {
    first.next_multiple_of(PAGE) + second.next_multiple_of(PAGE)
}

impl Board {
    /// Cuts all but scores.
    pub(super) fn new(
        cut: &mut Cut,
        heads: Heads,
        batch: u64,
        splits: u64,
        parts: u64,
    ) -> Result<Self> {
        let rows = batch * heads.queries();
        Ok(Self {
            heads,
            batch,
            splits,
            parts,
            q: cut.take(2 * rows * heads.dim)?,
            part_out: cut.take(4 * rows * parts * heads.dim)?,
            part_lse: cut.take(4 * rows * parts)?,
            out: cut.take(4 * rows * heads.dim)?,
            lse: cut.take(4 * rows)?,
            scores: None,
        })
    }

    /// Cuts scores of `stride` positions a sequence as well; they count as means over heads and layers.
    pub(super) fn scored(
        mut self,
        cut: &mut Cut,
        logits: u64,
        stride: u64,
        layers: u64,
    ) -> Result<Self> {
        let rows = self.batch * self.heads.queries();
        self.scores = Some(Scores {
            logits: cut.take(4 * rows * logits)?,
            logit_stride: logits,
            score: cut.take(4 * self.batch * stride)?,
            score_stride: stride,
            weight: 1.0 / (self.heads.queries() * layers) as f32,
        });
        Ok(self)
    }

    /// Bytes that a board takes, scores included.
    pub(super) fn bytes(heads: Heads, batch: u64, parts: u64, tokens: u64) -> u64 {
        let rows = batch * heads.queries();
        rows * (2 * heads.dim + 4 * (parts + 1) * (heads.dim + 1) + 4 * (tokens + 64))
            + batch * 4 * tokens
            + (1 << 14)
    }

    /// Attention over both lists into the parts.
    pub(super) fn attend(
        &self,
        rig: &Rig,
        stream: &CudaStream,
        res: &List,
        pre: &List,
    ) -> Result<()> {
        let h = &self.heads;
        let (logits, stride) = self.scores.map_or((0, 0), |s| (s.logits, s.logit_stride));
        let scale = 1.0 / (h.dim as f32).sqrt();
        let args = Args::new()
            .at(self.q)
            .at(res.arena)
            .at(res.pages)
            .at(res.tokens)
            .int(res.stride)
            .at(pre.arena)
            .at(pre.pages)
            .at(pre.tokens)
            .int(pre.stride)
            .int(h.group)
            .int(PAGE)
            .int(self.parts)
            .float(scale)
            .at(self.part_out)
            .at(self.part_lse)
            .at(logits)
            .int(stride);
        let grid = [self.splits, h.blocks(), self.batch].map(|n| n as u32);
        rig.launch(stream, h.kernel(), Grid::new(grid, 128), args)
    }

    /// Joins the parts.
    pub(super) fn merge(&self, rig: &Rig, stream: &CudaStream) -> Result<()> {
        let args = Args::new()
            .at(self.part_out)
            .at(self.part_lse)
            .int(self.parts)
            .at(self.out)
            .at(self.lse);
        let grid = [self.heads.queries() as u32, self.batch as u32, 1];
        rig.launch(
            stream,
            "kv_merge",
            Grid::new(grid, self.heads.dim as u32),
            args,
        )
    }

    /// Adds the mass of every token to its position's score; nothing without scores.
    pub(super) fn score(
        &self,
        rig: &Rig,
        stream: &CudaStream,
        res: &List,
        pre: &List,
    ) -> Result<()> {
        let Some(s) = self.scores else {
            return Ok(());
        };
        let args = Args::new()
            .at(s.logits)
            .int(s.logit_stride)
            .at(self.lse)
            .int(self.heads.queries())
            .float(s.weight)
            .at(res.positions)
            .at(res.tokens)
            .int(res.stride * PAGE)
            .at(pre.positions)
            .at(pre.tokens)
            .int(pre.stride * PAGE)
            .at(s.score)
            .int(s.score_stride);
        let most = 8 * rig.gpu.sms / (self.batch as u32).max(1) + 1;
        let blocks = (s.logit_stride.div_ceil(SPLIT) as u32).min(most);
        let grid = Grid::new([blocks, self.batch as u32, 1], SPLIT as u32);
        rig.launch(stream, "kv_score", grid, args)
    }

    /// All of a layer.
    pub(super) fn layer(
        &self,
        rig: &Rig,
        stream: &CudaStream,
        res: &List,
        pre: &List,
    ) -> Result<()> {
        self.attend(rig, stream, res, pre)?;
        self.merge(rig, stream)?;
        self.score(rig, stream, res, pre)
    }
}

#[cfg(test)]
mod tests {
    use super::{Heads, logit_stride};

    /// 4 blocks on each of 32 multiprocessors are 128; 8 KV heads and 1 sequence need 16 splits, which 2,048 tokens do not
    /// fill (8 of 256), 8,192 do; 64 sequences need none.
    #[test]
    fn a_context_is_split_until_the_card_is_full() {
        let heads = Heads {
            kv: 8,
            group: 4,
            dim: 128,
        };
        assert_eq!(heads.splits(32, 1, 2048), 8);
        assert_eq!(heads.splits(32, 1, 8192), 16);
        assert_eq!(heads.splits(32, 64, 8192), 1);
        assert_eq!(heads.splits(32, 1, 10), 1);
        assert_eq!(
            (heads.token(), heads.page(), heads.row_words()),
            (4096, 65536, 16)
        );
        assert_eq!(logit_stride(17, 1), 48);
    }
}
