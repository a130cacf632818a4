//! One drawn attention: its lists of pages, the launches of the step, and the same by loops in binary64.

use super::numbers::{Draw, int, value};
use super::shim::{Mem, Shim, args, shape};

/// One list of pages for every sequence: resident or prefetched.
pub(super) struct List {
    pub(super) tokens: Vec<usize>,
    pub(super) stride: usize,
    pub(super) table: Vec<i32>,
    /// [page][K, V][kv head][token][number]; NaN where no token lies.
    pub(super) arena: Vec<u16>,
    /// [sequence][stride * page_tokens]
    pub(super) positions: Vec<i32>,
}

/// One launch.
pub(super) struct Case {
    pub(super) d: usize,
    pub(super) kv_heads: usize,
    pub(super) group: usize,
    pub(super) page_tokens: usize,
    pub(super) lists: [List; 2],
    pub(super) q: Vec<u16>,
    pub(super) splits: usize,
    pub(super) parts: usize,
    /// Largest magnitude of a number of q.
    pub(super) size: f64,
}

/// What a plain loop says: per row (sequence, q head) logits of the tokens of both lists, log-sum-exp, output.
pub(super) struct Row {
    pub(super) logits: Vec<f64>,
    pub(super) lse: f64,
    pub(super) out: Vec<f64>,
}

impl List {
    pub(super) fn draw(
        draw: &mut Draw,
        tokens: Vec<usize>,
        positions: &[Vec<i32>],
        row: [usize; 3],
    ) -> Self {
        let [kv_heads, page_tokens, d] = row;
        let stride = tokens
            .iter()
            .map(|n| n.div_ceil(page_tokens))
            .max()
            .unwrap()
            + 1;
        let table = draw.distinct(tokens.len() * stride, tokens.len() * stride + 2);
        let mut list = Self {
            arena: vec![0x7e00; (table.len() + 2) * 2 * kv_heads * page_tokens * d],
            positions: vec![-1; tokens.len() * stride * page_tokens],
            tokens,
            stride,
            table,
        };
        for (seq, places) in positions.iter().enumerate() {
            for (slot, place) in places.iter().take(list.tokens[seq]).enumerate() {
                list.positions[seq * stride * page_tokens + slot] = *place;
                list.fill(seq, slot, row, draw);
            }
        }
        list
    }

    /// K and V of all heads for one slot.
    fn fill(&mut self, seq: usize, slot: usize, row: [usize; 3], draw: &mut Draw) {
        let [kv_heads, _, d] = row;
        for part in 0..2 * kv_heads {
            let at = self.row(seq, slot, part, row);
            self.arena[at..at + d].copy_from_slice(&draw.halves(d, 1.0));
        }
    }

    /// Where row `part` (K of all heads, then V of all heads) of a slot begins.
    pub(super) fn row(
        &self,
        seq: usize,
        slot: usize,
        part: usize,
        [kv_heads, page_tokens, d]: [usize; 3],
    ) -> usize {
        let page = self.table[seq * self.stride + slot / page_tokens] as usize;
        ((page * 2 * kv_heads + part) * page_tokens + slot % page_tokens) * d
    }

    pub(super) fn counts(&self) -> Vec<i32> {
        self.tokens.iter().map(|n| int(*n)).collect()
    }
}

impl Case {
    pub(super) fn draw(draw: &mut Draw, most: usize) -> Self {
        let (d, sequences) = (draw.one_of(&[64, 128]), draw.within(1, 2));
        let (kv_heads, group) = (draw.within(1, 2), draw.one_of(&[1, 2, 4, 7, 8, 11]));
        let (page_tokens, splits) = (draw.one_of(&[16, 32, 64]), draw.within(1, 4));
        let row = [kv_heads, page_tokens, d];
        let mut count = || {
            (0..sequences)
                .map(|_| draw.within(0, most))
                .collect::<Vec<_>>()
        };
        let (res, pre) = (count(), count());
        let all: Vec<Vec<i32>> = (0..sequences)
            .map(|s| draw.distinct(res[s] + pre[s], 2 * most + 1))
            .collect();
        let after: Vec<Vec<i32>> = (0..sequences).map(|s| all[s][res[s]..].to_vec()).collect();
        let lists = [
            List::draw(draw, res, &all, row),
            List::draw(draw, pre, &after, row),
        ];
        let size = draw.one_of(&[0.5, 4.0, 40.0]);
        let q = draw.halves(sequences * kv_heads * group * d, size);
        Self {
            d,
            kv_heads,
            group,
            page_tokens,
            lists,
            q,
            splits,
            parts: splits + draw.within(0, 1),
            size,
        }
    }

    pub(super) fn sequences(&self) -> usize {
        self.lists[0].tokens.len()
    }

    pub(super) fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.d as f32).sqrt()
    }

    /// Room for a row of logits: both lists in whole tiles.
    pub(super) fn logit_stride(&self) -> usize {
        let tiles = |s: usize| {
            self.lists
                .iter()
                .map(|l: &List| l.tokens[s].div_ceil(16))
                .sum::<usize>()
        };
        16 * (0..self.sequences()).map(tiles).max().unwrap() + 16
    }

    /// Where slot `slot` of a list lies in a row of logits.
    pub(super) fn logit_at(&self, seq: usize, list: usize, slot: usize) -> usize {
        list * self.lists[0].tokens[seq].div_ceil(16) * 16 + slot
    }

    /// K (part 0) or V (part 1) of every token of a sequence for one KV head.
    pub(super) fn rows(&self, seq: usize, kv_head: usize, part: usize) -> Vec<Vec<f64>> {
        let row = [self.kv_heads, self.page_tokens, self.d];
        let of = |l: &List| -> Vec<Vec<f64>> {
            let at = |slot| l.row(seq, slot, part * self.kv_heads + kv_head, row);
            let read = |slot| {
                l.arena[at(slot)..][..self.d]
                    .iter()
                    .map(|b| value(*b))
                    .collect()
            };
            (0..l.tokens[seq]).map(read).collect()
        };
        self.lists.iter().flat_map(of).collect()
    }

    pub(super) fn plain(&self, seq: usize, head: usize) -> Row {
        let q = &self.q[(seq * self.heads() + head) * self.d..][..self.d];
        let (keys, values) = (
            self.rows(seq, head / self.group, 0),
            self.rows(seq, head / self.group, 1),
        );
        let dot = |k: &Vec<f64>| q.iter().zip(k).map(|(a, b)| value(*a) * b).sum::<f64>();
        let logits: Vec<f64> = keys
            .iter()
            .map(|k| dot(k) * f64::from(self.scale()))
            .collect();
        let lse = log_sum_exp(&logits);
        let weighted = |i: usize| {
            logits
                .iter()
                .zip(&values)
                .map(|(l, v)| (l - lse).exp() * v[i])
                .sum()
        };
        Row {
            out: (0..self.d).map(weighted).collect(),
            lse,
            logits,
        }
    }

    /// Binary32 sums of `d` products, relative to what is summed.
    pub(super) fn logit_slack(&self) -> f64 {
        2e-5 * (1.0 + self.size)
    }

    pub(super) fn launch(
        &self,
        shim: &Shim,
        order: u32,
        score: &Mem,
        score_stride: usize,
    ) -> Result<Got, String> {
        let (rows, sequences) = (self.sequences() * self.heads(), self.sequences());
        let table = |l: &List| {
            [
                Mem::of(&l.arena),
                Mem::of(&l.table),
                Mem::of(&l.counts()),
                Mem::of(&l.positions),
            ]
        };
        let (res, pre) = (table(&self.lists[0]), table(&self.lists[1]));
        let strides = [int(self.lists[0].stride), int(self.lists[1].stride)];
        let part_out = Mem::unset::<f32>(rows * self.parts * self.d);
        // A part that no split writes belongs to somebody else; here it says "nothing".
        let own = |i: usize| {
            if i % self.parts < self.splits {
                f32::NAN
            } else {
                f32::NEG_INFINITY
            }
        };
        let part_lse = Mem::of(&(0..rows * self.parts).map(own).collect::<Vec<_>>());
        let (logits, stride) = (
            Mem::unset::<f32>(rows * self.logit_stride()),
            int(self.logit_stride()),
        );
        let (q, parts, heads) = (Mem::of(&self.q), int(self.parts), int(self.heads()));
        let grid = [
            self.splits,
            self.kv_heads * self.group.div_ceil(8),
            sequences,
        ];
        shim.launch(
            &format!("kv_attend_{}", self.d),
            shape(grid, 128),
            order,
            args![
                &q,
                &res[0],
                &res[1],
                &res[2],
                strides[0],
                &pre[0],
                &pre[1],
                &pre[2],
                strides[1],
                int(self.group),
                int(self.page_tokens),
                parts,
                self.scale(),
                &part_out,
                &part_lse,
                &logits,
                stride
            ],
        )?;
        let (out, lse) = (Mem::unset::<f32>(rows * self.d), Mem::unset::<f32>(rows));
        let form = shape([self.heads(), sequences, 1], self.d);
        shim.launch(
            "kv_merge",
            form,
            order,
            args![&part_out, &part_lse, parts, &out, &lse],
        )?;
        let weight = 1.0 / self.heads() as f32;
        let strides = self
            .lists
            .each_ref()
            .map(|l| int(l.stride * self.page_tokens));
        shim.launch(
            "kv_score",
            shape([2, sequences, 1], 64),
            order,
            args![
                &logits,
                stride,
                &lse,
                heads,
                weight,
                &res[3],
                &res[2],
                strides[0],
                &pre[3],
                &pre[2],
                strides[1],
                score,
                int(score_stride)
            ],
        )?;
        part_out.read::<f32>()?;
        part_lse.read::<f32>()?;
        Ok(Got {
            out: out.read()?,
            lse: lse.read()?,
            logits: logits.read()?,
            score: score.read()?,
        })
    }
}

/// What the kernels say.
pub(super) struct Got {
    pub(super) out: Vec<f32>,
    pub(super) lse: Vec<f32>,
    pub(super) logits: Vec<f32>,
    pub(super) score: Vec<f32>,
}

pub(super) fn log_sum_exp(logits: &[f64]) -> f64 {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
}
