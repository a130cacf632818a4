//! Attention of one layer of decode on the host, over binary16 KV in its memory: what `host-attention` would run.
//!
//! A task is a sequence, a KV head and a part of its context; parts are split only where there are fewer heads than
//! threads keep busy, and are merged by log-sum-exp in order, so that the result depends on the shape and the split and
//! not on who ran when. The loop over tokens is [`crate::simd::dense::Dense::attend`]. KV of a head is token-major, keys
//! then values, as a copy engine leaves it. Ignored: appending the new token, the merge with T0 on the GPU, and any
//! pinning of threads to cores. Rival: a transposed key layout, which needs no sums across lanes but a pass over every
//! key that arrives. Bytes, tokens; nothing here knows a clock.

use rayon::prelude::*;

use crate::simd::dense::{Attend, Dense, Running, TILE};

/// Fewest tokens of a part.
const PART: usize = 512;

/// Share of the threads' time that a split must keep busy.
const BUSY: f64 = 0.9;

/// What one call attends over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of each.
    pub context: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Query heads a KV head.
    pub group: usize,
    /// Numbers of a head, a multiple of 16.
    pub head_dim: usize,
}

impl Shape {
    /// Bytes of keys and values of one head of one sequence.
    pub fn head_bytes(&self) -> usize {
        self.context * self.head_dim * 4
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.heads() * self.head_bytes()
    }

    /// Multiplications and additions: two products a key and query.
    pub fn flops(&self) -> usize {
        self.heads() * self.group * self.context * self.head_dim * 4
    }

    /// Numbers of all queries, and of all outputs.
    pub fn width(&self) -> usize {
        self.heads() * self.group * self.head_dim
    }

    fn heads(&self) -> usize {
        self.batch * self.kv_heads
    }

    /// Parts of each context: the fewest that keep `threads` busy, else those that come nearest.
    pub fn parts(&self, threads: usize) -> usize {
        let most = (self.context / PART).max(1);
        let busy = |parts: usize| {
            let tasks = self.heads() * parts;
            tasks as f64 / (tasks.div_ceil(threads.max(1)) * threads.max(1)) as f64
        };
        let mut best = 1;
        for parts in 1..=most.min(4 * threads.max(1)) {
            if busy(best) >= BUSY {
                break;
            }
            if busy(parts) > busy(best) {
                best = parts;
            }
        }
        best
    }
}

/// Outputs of a part, not yet divided, and its softmax.
struct Part {
    out: Vec<f32>,
    runs: Vec<Running>,
}

/// Keys and values of one sequence and KV head: rows of binary16 numbers, as many of both.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Keys.
    pub keys: &'a [u8],
    /// Values.
    pub values: &'a [u8],
}

/// Attends on the threads of the current pool: `queries` by sequence, KV head and query head, `kv` by sequence and KV
/// head, keys then values. Outputs lie as the queries; an empty context gives zeros.
///
/// # Panics
/// If a slice is shorter than the shape says.
pub fn attend(dense: &Dense, shape: Shape, kv: &[u8], queries: &[f32], out: &mut [f32]) {
    let one = |head: usize| {
        let kv = &kv[head * shape.head_bytes()..(head + 1) * shape.head_bytes()];
        let (keys, values) = kv.split_at(kv.len() / 2);
        Head { keys, values }
    };
    let heads: Vec<Head<'_>> = (0..shape.heads()).map(one).collect();
    let mut lse = vec![0.0; shape.heads() * shape.group];
    attend_heads(dense, shape, &heads, queries, out, &mut lse);
}

/// The same over heads that lie apart and may differ in length; `shape` has the longest context. `lse` gets the natural
/// logarithm of each query's sum of exponentials, by which its output is merged with others; minus infinity for none.
///
/// # Panics
/// If a slice is shorter than the shape says.
pub fn attend_heads(
    dense: &Dense,
    shape: Shape,
    heads: &[Head<'_>],
    queries: &[f32],
    out: &mut [f32],
    lse: &mut [f32],
) {
    let parts = shape.parts(rayon::current_num_threads());
    let width = shape.group * shape.head_dim;
    let all: Vec<Part> = (0..heads.len() * parts)
        .into_par_iter()
        .map(|task| {
            let head = task / parts;
            let queries = &queries[head * width..(head + 1) * width];
            part(dense, shape, heads[head], queries, (task % parts, parts))
        })
        .collect();
    let rows = out
        .chunks_exact_mut(width.max(1))
        .zip(lse.chunks_exact_mut(shape.group.max(1)));
    for ((out, lse), parts) in rows.zip(all.chunks(parts)) {
        merge(shape, parts, out, lse);
    }
}

/// Part `which.0` of `which.1` of one head's context; parts begin at whole tiles.
fn part(
    dense: &Dense,
    shape: Shape,
    head: Head<'_>,
    queries: &[f32],
    which: (usize, usize),
) -> Part {
    let row = 2 * shape.head_dim;
    let context = head.keys.len() / row.max(1);
    let tokens = (context.div_ceil(which.1)).next_multiple_of(TILE);
    let first = (which.0 * tokens).min(context);
    let last = (first + tokens).min(context);
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    let scaled: Vec<f32> = queries.iter().map(|q| q * scale).collect();
    let mut part = Part {
        out: vec![0.0; queries.len()],
        runs: vec![Running::NEW; shape.group],
    };
    let over = Attend {
        queries: &scaled,
        keys: &head.keys[first * row..last * row],
        values: &head.values[first * row..last * row],
        width: shape.head_dim,
    };
    dense.attend(over, &mut part.out, &mut part.runs);
    part
}

/// Joins the parts of a head by their maxima and sums.
fn merge(shape: Shape, parts: &[Part], out: &mut [f32], lse: &mut [f32]) {
    for (query, out) in out.chunks_exact_mut(shape.head_dim.max(1)).enumerate() {
        let of = |p: &Part| p.runs[query];
        let high = parts
            .iter()
            .fold(f32::NEG_INFINITY, |h, p| h.max(of(p).high));
        let keep = |p: &Part| libm::expf(of(p).high - high);
        let total: f32 = parts.iter().map(|p| keep(p) * of(p).total()).sum();
        lse[query] = if total > 0.0 {
            high + libm::logf(total)
        } else {
            f32::NEG_INFINITY
        };
        out.fill(0.0);
        for p in parts.iter().filter(|_| total > 0.0) {
            let weight = keep(p) / total;
            let from = &p.out[query * shape.head_dim..(query + 1) * shape.head_dim];
            for (out, x) in out.iter_mut().zip(from) {
                *out += weight * x;
            }
        }
    }
}
