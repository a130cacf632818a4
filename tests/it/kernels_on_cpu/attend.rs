//! Attention over two lists of pages, its merge and its scores against loops in binary64.
//!
//! Slack: weights are rounded to binary16 before they meet V (2^-11 relative, and they sum to 1), logits are binary32 sums.

use super::numbers::{Draw, half, int, near, value};
use super::shim::{Mem, Shim, args, shape};

/// One list of pages for every sequence: resident or prefetched.
struct List {
    tokens: Vec<usize>,
    stride: usize,
    table: Vec<i32>,
    /// [page][K, V][kv head][token][number]; NaN where no token lies.
    arena: Vec<u16>,
    /// [sequence][stride * page_tokens]
    positions: Vec<i32>,
}

/// One launch.
struct Case {
    d: usize,
    kv_heads: usize,
    group: usize,
    page_tokens: usize,
    lists: [List; 2],
    q: Vec<u16>,
    splits: usize,
    parts: usize,
    /// Largest magnitude of a number of q.
    size: f64,
}

/// What a plain loop says: per row (sequence, q head) logits of the tokens of both lists, log-sum-exp, output.
struct Row {
    logits: Vec<f64>,
    lse: f64,
    out: Vec<f64>,
}

impl List {
    fn draw(draw: &mut Draw, tokens: Vec<usize>, positions: &[Vec<i32>], row: [usize; 3]) -> Self {
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
        for seq in 0..list.tokens.len() {
            for slot in 0..list.tokens[seq] {
                list.positions[seq * stride * page_tokens + slot] = positions[seq][slot];
                for part in 0..2 * kv_heads {
                    let at = list.row(seq, slot, part, row);
                    list.arena[at..at + d].copy_from_slice(&draw.halves(d, 1.0));
                }
            }
        }
        list
    }

    /// Where row `part` (K of all heads, then V of all heads) of a slot begins.
    fn row(
        &self,
        seq: usize,
        slot: usize,
        part: usize,
        [kv_heads, page_tokens, d]: [usize; 3],
    ) -> usize {
        let page = self.table[seq * self.stride + slot / page_tokens] as usize;
        ((page * 2 * kv_heads + part) * page_tokens + slot % page_tokens) * d
    }

    fn counts(&self) -> Vec<i32> {
        self.tokens.iter().map(|n| int(*n)).collect()
    }
}

impl Case {
    fn draw(draw: &mut Draw, most: usize) -> Self {
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

    fn sequences(&self) -> usize {
        self.lists[0].tokens.len()
    }

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn scale(&self) -> f32 {
        1.0 / (self.d as f32).sqrt()
    }

    /// Room for a row of logits: both lists in whole tiles.
    fn logit_stride(&self) -> usize {
        let tiles = |s: usize| {
            self.lists
                .iter()
                .map(|l: &List| l.tokens[s].div_ceil(16))
                .sum::<usize>()
        };
        16 * (0..self.sequences()).map(tiles).max().unwrap() + 16
    }

    /// Where slot `slot` of a list lies in a row of logits.
    fn logit_at(&self, seq: usize, list: usize, slot: usize) -> usize {
        list * self.lists[0].tokens[seq].div_ceil(16) * 16 + slot
    }

    /// K (part 0) or V (part 1) of every token of a sequence for one KV head.
    fn rows(&self, seq: usize, kv_head: usize, part: usize) -> Vec<Vec<f64>> {
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

    fn plain(&self, seq: usize, head: usize) -> Row {
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
    fn logit_slack(&self) -> f64 {
        2e-5 * (1.0 + self.size)
    }

    fn launch(
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
struct Got {
    out: Vec<f32>,
    lse: Vec<f32>,
    logits: Vec<f32>,
    score: Vec<f32>,
}

fn log_sum_exp(logits: &[f64]) -> f64 {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
}

/// Attention, merge and scores as the step runs them.
pub(super) fn attend(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let case = Case::draw(draw, 90);
    compare(&case, shim, draw, order)
}

/// No tokens at all: no output, no log-sum-exp, no scores.
pub(super) fn nothing(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let case = Case::draw(draw, 0);
    compare(&case, shim, draw, order)
}

fn compare(case: &Case, shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let stride = 200;
    let before: Vec<f32> = (0..case.sequences() * stride)
        .map(|_| draw.unit().abs() as f32)
        .collect();
    let mut score: Vec<f64> = before.iter().map(|s| f64::from(*s)).collect();
    let got = case.launch(shim, order, &Mem::of(&before), stride)?;
    for seq in 0..case.sequences() {
        for head in 0..case.heads() {
            let row = case.plain(seq, head);
            compare_row(case, &got, seq, head, &row)?;
            add_mass(case, &mut score[seq * stride..], seq, &row);
        }
    }
    near("score", &got.score, &score, 2.0 * case.logit_slack())
}

fn compare_row(case: &Case, got: &Got, seq: usize, head: usize, row: &Row) -> Result<(), String> {
    let (at, slack) = (seq * case.heads() + head, case.logit_slack());
    let name = |what| format!("{what} of sequence {seq}, head {head}");
    near(
        &name("output"),
        &got.out[at * case.d..][..case.d],
        &row.out,
        5e-4 + 2.0 * slack,
    )?;
    near(&name("log-sum-exp"), &got.lse[at..=at], &[row.lse], slack)?;
    let mine = &got.logits[at * case.logit_stride()..][..case.logit_stride()];
    let stored: Vec<f32> = (0..2)
        .flat_map(|l| (0..case.lists[l].tokens[seq]).map(move |slot| (l, slot)))
        .map(|(l, slot)| mine[case.logit_at(seq, l, slot)])
        .collect();
    near(&name("logit"), &stored, &row.logits, slack)
}

/// Adds the row's weights, divided by the number of heads, to its positions.
fn add_mass(case: &Case, score: &mut [f64], seq: usize, row: &Row) {
    let positions = case.lists.iter().flat_map(|l| {
        let from = seq * l.stride * case.page_tokens;
        l.positions[from..from + l.tokens[seq]].iter()
    });
    for (position, logit) in positions.zip(&row.logits) {
        score[*position as usize] += (logit - row.lse).exp() / case.heads() as f64;
    }
}

/// Any partial results, some that say nothing and hold NaN.
pub(super) fn merge(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (d, heads, sequences) = (
        draw.one_of(&[64, 128]),
        draw.within(1, 3),
        draw.within(1, 2),
    );
    let (parts, rows) = (draw.within(1, 9), heads * sequences);
    let silent = |draw: &mut Draw| draw.within(0, 2) == 0;
    let lse: Vec<f32> = (0..rows * parts)
        .map(|_| {
            if silent(draw) {
                f32::NEG_INFINITY
            } else {
                (draw.unit() * 8.0) as f32
            }
        })
        .collect();
    let number = |i: usize, draw: &mut Draw| {
        if lse[i / d].is_finite() {
            draw.unit() as f32
        } else {
            f32::NAN
        }
    };
    let part: Vec<f32> = (0..rows * parts * d).map(|i| number(i, draw)).collect();
    let (part_mem, lse_mem) = (Mem::of(&part), Mem::of(&lse));
    let (out, joint) = (Mem::unset::<f32>(rows * d), Mem::unset::<f32>(rows));
    let list = args![&part_mem, &lse_mem, int(parts), &out, &joint];
    shim.launch("kv_merge", shape([heads, sequences, 1], d), order, list)?;
    let (out, joint): (Vec<f32>, Vec<f32>) = (out.read()?, joint.read()?);
    for row in 0..rows {
        let mine: Vec<f64> = lse[row * parts..][..parts]
            .iter()
            .map(|l| f64::from(*l))
            .collect();
        let whole = log_sum_exp(&mine);
        let loud = || (0..parts).filter(|p| mine[*p].is_finite());
        let at = |p: usize, i: usize| f64::from(part[(row * parts + p) * d + i]);
        let mean = |i| loud().map(|p| (mine[p] - whole).exp() * at(p, i)).sum();
        near(
            "merged",
            &out[row * d..][..d],
            &(0..d).map(mean).collect::<Vec<_>>(),
            1e-5,
        )?;
        near("log-sum-exp", &joint[row..=row], &[whole], 1e-5)?;
    }
    Ok(())
}

/// Any logits: what lies in the gap between the lists is not looked at.
pub(super) fn score(shim: &Shim, draw: &mut Draw, order: u32) -> Result<(), String> {
    let (heads, sequences, room) = (draw.within(1, 5), draw.within(1, 3), 70);
    let stride = 2 * room + 20;
    let mut count = || {
        (0..sequences)
            .map(|_| draw.within(0, room))
            .collect::<Vec<_>>()
    };
    let (res, pre) = (count(), count());
    let logits: Vec<f32> = (0..sequences * heads * stride)
        .map(|_| (draw.unit() * 5.0) as f32)
        .collect();
    let lse: Vec<f32> = (0..sequences * heads)
        .map(|_| (5.0 + draw.unit()) as f32)
        .collect();
    let positions: Vec<Vec<i32>> = (0..sequences)
        .map(|_| draw.distinct(2 * room, 2 * room))
        .collect();
    let half_of = |from: usize| {
        positions
            .iter()
            .flat_map(|p| p[from..from + room].to_vec())
            .collect::<Vec<i32>>()
    };
    let ints = |n: &[usize]| Mem::of(&n.iter().map(|n| int(*n)).collect::<Vec<_>>());
    let (res_at, pre_at) = (Mem::of(&half_of(0)), Mem::of(&half_of(room)));
    let (res_n, pre_n, score) = (
        ints(&res),
        ints(&pre),
        Mem::of(&vec![0.5f32; sequences * 2 * room]),
    );
    let (l, z, weight) = (Mem::of(&logits), Mem::of(&lse), 0.25f32);
    let list = args![
        &l,
        int(stride),
        &z,
        int(heads),
        weight,
        &res_at,
        &res_n,
        int(room),
        &pre_at,
        &pre_n,
        int(room),
        &score,
        int(2 * room)
    ];
    shim.launch(
        "kv_score",
        shape([draw.within(1, 3), sequences, 1], draw.one_of(&[32, 100])),
        order,
        list,
    )?;
    let mut want = vec![0.5; sequences * 2 * room];
    for seq in 0..sequences {
        let padded = res[seq].div_ceil(16) * 16;
        let slots = (0..res[seq])
            .map(|i| (i, i))
            .chain((0..pre[seq]).map(|i| (padded + i, room + i)));
        for (at, place) in slots {
            let weight = |h| {
                (f64::from(logits[(seq * heads + h) * stride + at])
                    - f64::from(lse[seq * heads + h]))
                .exp()
            };
            let mass: f64 = (0..heads).map(weight).sum();
            want[seq * 2 * room + positions[seq][place] as usize] += 0.25 * mass;
        }
    }
    near("score", &score.read()?, &want, 1e-5)
}

/// The shim's matrix step rounds nothing: whole numbers come out whole, in the right place.
#[test]
fn whole_numbers_attend_exactly() {
    let Some(shim) = Shim::whole() else {
        skip!("no C++ compiler")
    };
    // One token: its weight is 1 whatever its key, so the output is its V to the bit.
    let mut case = Case::draw(&mut Draw(3), 1);
    let row = [case.kv_heads, case.page_tokens, case.d];
    case.lists = [
        List::draw(&mut Draw(1), vec![1], &[vec![4]], row),
        List::draw(&mut Draw(2), vec![0], &[vec![]], row),
    ];
    case.q = vec![half(1.0); case.heads() * case.d];
    let got = case.launch(shim, 0, &Mem::of(&[0f32; 200]), 200).unwrap();
    for head in 0..case.heads() {
        let v = &case.rows(0, head / case.group, 1)[0];
        assert!(
            got.out[head * case.d..][..case.d]
                .iter()
                .zip(v)
                .all(|(o, v)| f64::from(*o).to_bits() == v.to_bits())
        );
    }
}
