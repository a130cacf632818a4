//! The work of each measurement of the host, once.

use std::hint::black_box;

use memmap2::MmapMut;
use rayon::prelude::*;

use super::refused;
use crate::calibrate::facts::Facts;
use crate::calibrate::host_attention::{Shape, attend};
use crate::calibrate::pages;
use crate::calibrate::probe::{Field, Measurement, Point};
use crate::error::Result;
use crate::simd::Kernels;
use crate::simd::dense::{Dense, ROUND_FLOPS};

/// Least memory that is measured on \[bytes\].
const LEAST: u64 = 64 << 20;

/// Usual least, and most \[bytes\].
const USUAL: (u64, u64) = (512 << 20, 8 << 30);

/// Times the last cache.
const CACHES: u64 = 8;

/// Share of the memory at hand that is taken at most: one in so many.
const SHARE: u64 = 4;

/// Scores to take from.
const SCORES: usize = 1 << 20;

/// Memory to measure on: numbers of 16 bits, and as much again to write to as one sample needs.
#[derive(Debug)]
pub(super) struct Memory {
    all: MmapMut,
    next: usize,
    target: Vec<u8>,
    wide: Vec<f32>,
    source: Vec<f32>,
    scores: Vec<f32>,
    state: u64,
}

impl Memory {
    /// Several times the last cache, if there is so much; touched by the threads of the pool.
    pub(super) fn new(facts: &Facts) -> Result<Self> {
        let wanted = facts.last_cache.unwrap_or(0).saturating_mul(CACHES);
        let wanted = wanted.clamp(USUAL.0, USUAL.1);
        let at_hand = facts.available.unwrap_or(u64::MAX) / SHARE;
        let bytes = wanted.min(at_hand) / LEAST * LEAST;
        let bytes = usize::try_from(bytes).unwrap_or(0);
        if (bytes as u64) < LEAST {
            return Err(refused(
                "too little memory is free to measure it: 256 MiB are needed",
            ));
        }
        let all = pages::large(bytes);
        let mut all = all.map_err(|e| refused(&format!("no memory to measure: {e}")))?;
        all.par_chunks_mut(1 << 20).enumerate().for_each(fill);
        let mut target = vec![0; bytes / 4];
        target.par_chunks_mut(1 << 20).for_each(|c| c.fill(1));
        let mut wide = vec![0.0; bytes / 8 / 4];
        wide.par_chunks_mut(1 << 18).for_each(|c| c.fill(1.0));
        let mut memory = Self {
            all,
            next: 0,
            target,
            wide,
            source: Vec::new(),
            scores: Vec::new(),
            state: 0x9e37_79b9_7f4a_7c15,
        };
        for _ in 0..SCORES {
            let [.., a, b, c] = memory.random().to_le_bytes();
            let score = u32::from_le_bytes([a, b, c, 0]) as f32;
            memory.source.push(score);
        }
        Ok(memory)
    }

    /// Bytes that can be measured on.
    pub(super) fn bytes(&self) -> u64 {
        self.all.len() as u64
    }

    /// Where the next `bytes` are that no recent sample used.
    fn window(&mut self, bytes: usize) -> std::ops::Range<usize> {
        let bytes = bytes.min(self.all.len());
        if self.next + bytes > self.all.len() {
            self.next = 0;
        }
        let from = self.next;
        self.next = (self.next + bytes).next_multiple_of(pages::SMALL);
        from..from + bytes
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random() % end as u64).unwrap_or(0)
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

/// Finite binary16 numbers of either sign.
fn fill((chunk, to): (usize, &mut [u8])) {
    let mut state = (chunk as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for pair in to.chunks_exact_mut(2) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let [.., high] = state.to_le_bytes();
        let [_, _, _, _, _, low, ..] = state.to_le_bytes();
        let bits = u16::from_le_bytes([low, high]) & 0x83ff | 0x3000;
        pair.copy_from_slice(&bits.to_le_bytes());
    }
}

fn whole(point: &Point, field: Field) -> usize {
    usize::try_from(point.get(field).unwrap_or(1)).unwrap_or(0)
}

/// Parts of `bytes` for the threads of the pool, whole multiples of `unit`.
fn part(bytes: usize, unit: usize) -> usize {
    let threads = rayon::current_num_threads();
    bytes.div_ceil(threads).next_multiple_of(unit).max(unit)
}

/// Does a point's work once, on the threads of the current pool.
pub(super) fn once(point: &Point, memory: &mut Memory) {
    let bytes = whole(point, Field::Bytes);
    let pieces = whole(point, Field::Pieces);
    match point.measurement {
        Measurement::DdrRead => read(memory, bytes),
        Measurement::DdrCopy => copy(memory, bytes),
        Measurement::DdrGather => gather(memory, bytes, pieces),
        Measurement::Select => select(memory, pieces),
        Measurement::Sort => sort(memory, pieces),
        Measurement::HostQuant => quant(memory, bytes, whole(point, Field::HeadDim)),
        Measurement::HostDequant => dequant(memory, bytes),
        Measurement::MultiplyAdd => multiply_add(pieces),
        Measurement::HostAttention => attention(memory, point),
        // No other is among the host's points.
        _ => {}
    }
}

fn read(memory: &mut Memory, bytes: usize) {
    let window = memory.window(bytes);
    let kernels = Kernels::best();
    let parts = memory.all[window].par_chunks(part(bytes, 512));
    let sum = parts
        .map(|p| kernels.total(p))
        .reduce(|| 0, u64::wrapping_add);
    black_box(sum);
}

fn copy(memory: &mut Memory, bytes: usize) {
    let bytes = bytes.min(memory.target.len());
    let window = memory.window(bytes);
    let each = part(bytes, pages::SMALL);
    let to = memory.target[..bytes].par_chunks_mut(each);
    to.zip(memory.all[window].par_chunks(each))
        .for_each(|(to, from)| to.copy_from_slice(from));
    black_box(&memory.target);
}

/// Pages at random places, no two the same as far as they reach: a walk by an odd stride through all of them.
fn gather(memory: &mut Memory, bytes: usize, pieces: usize) {
    let pages = (memory.all.len() / bytes.max(1)).max(1);
    let (start, stride) = (memory.below(pages), memory.below(pages) | 1);
    let pieces = pieces.min(memory.target.len() / bytes.max(1));
    let each = pieces.div_ceil(rayon::current_num_threads()).max(1);
    let from = &memory.all;
    let to = memory.target[..pieces * bytes].par_chunks_mut(each * bytes.max(1));
    to.enumerate().for_each(|(thread, to)| {
        let mut page = (start + (thread * each % pages) * (stride % pages)) % pages;
        for to in to.chunks_exact_mut(bytes.max(1)) {
            to.copy_from_slice(&from[page * bytes..(page + 1) * bytes]);
            page = (page + stride) % pages;
        }
    });
    black_box(&memory.target);
}

/// A copy of as many scores as asked, from another place each time.
fn take(memory: &mut Memory, pieces: usize) {
    let pieces = pieces.min(memory.source.len());
    let from = memory.below(memory.source.len() - pieces + 1);
    memory.scores.clear();
    let scores = &memory.source[from..from + pieces];
    memory.scores.extend_from_slice(scores);
}

/// The copy is measured too: a re-tier works on one.
fn select(memory: &mut Memory, pieces: usize) {
    take(memory, pieces);
    let half = memory.scores.len() / 2;
    if half > 0 {
        let found = memory.scores.select_nth_unstable_by(half, f32::total_cmp);
        black_box(found);
    }
}

fn sort(memory: &mut Memory, pieces: usize) {
    take(memory, pieces);
    memory.scores.sort_unstable_by(f32::total_cmp);
    black_box(&memory.scores);
}

fn quant(memory: &mut Memory, bytes: usize, width: usize) {
    let bytes = bytes.min(2 * memory.target.len());
    let window = memory.window(bytes);
    let (dense, row) = (Dense::best(), 2 * width.max(16));
    let each = part(bytes, row);
    let to = memory.target[..bytes / 2].par_chunks_mut(each / 2);
    to.zip(memory.all[window].par_chunks(each))
        .for_each(|(to, from)| {
            for (to, from) in to.chunks_exact_mut(row / 2).zip(from.chunks_exact(row)) {
                black_box(dense.pack(from, to));
            }
        });
    black_box(&memory.target);
}

fn dequant(memory: &mut Memory, bytes: usize) {
    let bytes = bytes.min(memory.wide.len());
    let window = memory.window(bytes);
    let dense = Dense::best();
    let each = part(bytes, 128);
    let to = memory.wide[..bytes].par_chunks_mut(each);
    to.zip(memory.all[window].par_chunks(each))
        .for_each(|(to, from)| {
            for (to, from) in to.chunks_mut(128).zip(from.chunks(128)) {
                dense.unpack(from, [-1.0, 0.01], to);
            }
        });
    black_box(&memory.wide);
}

fn multiply_add(flops: usize) {
    let (dense, threads) = (Dense::best(), rayon::current_num_threads());
    let round = usize::try_from(ROUND_FLOPS).unwrap_or(1);
    let rounds = flops / threads / round;
    let sum: f32 = (0..threads)
        .into_par_iter()
        .map(|_| dense.multiply_add(black_box(rounds)))
        .sum();
    black_box(sum);
}

fn attention(memory: &mut Memory, point: &Point) {
    let shape = Shape {
        batch: whole(point, Field::Batch),
        context: whole(point, Field::Context),
        kv_heads: whole(point, Field::KvHeads),
        group: whole(point, Field::Group),
        head_dim: whole(point, Field::HeadDim),
    };
    let window = memory.window(shape.bytes());
    if window.len() < shape.bytes() {
        return;
    }
    let width = shape.width();
    let queries: Vec<f32> = (0..width).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect();
    let mut out = vec![0.0; width];
    attend(
        Dense::best(),
        shape,
        &memory.all[window],
        &queries,
        &mut out,
    );
    black_box(&out);
}
