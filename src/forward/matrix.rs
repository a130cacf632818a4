//! A weight matrix in the format of its file, and products with several vectors.
//!
//! Four rows at a time are widened into a buffer that stays in the first cache and multiplied with every item of the
//! step; tasks are ranges of rows, so threads share nothing. The rival, widening all weights once, takes two to seven
//! times the memory and, decode being bound by memory, more time.

use rayon::prelude::*;

use crate::simd::dense::{Dense, Format};

/// Rows of as many numbers, a whole number of blocks each.
#[derive(Clone, Debug)]
pub struct Matrix {
    format: Format,
    rows: usize,
    k: usize,
    bytes: Vec<u8>,
}

/// Rows widened at a time.
const BAND: usize = 4;

impl Matrix {
    /// A matrix of `rows` rows of `k` numbers; nothing if the bytes are not exactly that, or a row is no whole number of
    /// blocks or of 16.
    pub fn new(format: Format, rows: usize, k: usize, bytes: Vec<u8>) -> Option<Self> {
        let row = row_bytes(format, k)?;
        let fits = row.checked_mul(rows)? == bytes.len();
        fits.then_some(Self {
            format,
            rows,
            k,
            bytes,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Writes row `r` as binary32.
    ///
    /// # Panics
    /// If there is no such row, or `out` is shorter than it.
    pub fn row(&self, dense: &Dense, r: usize, out: &mut [f32]) {
        dense.widen(self.format, self.band(r, 1), &mut out[..self.k]);
    }

    /// Bytes of `count` rows from row `first` on.
    fn band(&self, first: usize, count: usize) -> &[u8] {
        let row = self.bytes.len() / self.rows;
        &self.bytes[first * row..(first + count) * row]
    }

    /// Products of rows `first..` with all items; `out` has as many numbers a row as there are items.
    fn part(&self, dense: &Dense, first: usize, x: &[f32], out: &mut [f32], wide: &mut Vec<f32>) {
        let items = x.len() / self.k;
        wide.resize(BAND * self.k, 0.0);
        for (i, out) in out.chunks_mut(BAND * items).enumerate() {
            let count = out.len() / items;
            let wide = &mut wide[..count * self.k];
            dense.widen(self.format, self.band(first + BAND * i, count), wide);
            dense.products(wide, x, self.k, out);
        }
    }
}

/// Bytes of a row.
pub(super) fn row_bytes(format: Format, k: usize) -> Option<usize> {
    let (numbers, bytes) = format.block();
    let whole = k > 0 && k.is_multiple_of(numbers) && k.is_multiple_of(16);
    whole.then(|| k / numbers * bytes)
}

/// Weights a task has at least, so that handing it out costs little beside it.
const GRAIN: usize = 1 << 15;

/// Products of several matrices with the same items (`x`, items of `k` numbers): for each matrix, items of as many
/// numbers as it has rows.
pub(super) fn multiply<const N: usize>(
    dense: &Dense,
    matrices: [&Matrix; N],
    x: &[f32],
) -> [Vec<f32>; N] {
    let items = x.len() / matrices[0].k;
    let mut raw = matrices.map(|m| vec![0.0; m.rows * items]);
    let tasks: Vec<(&Matrix, usize, &mut [f32])> = matrices
        .iter()
        .zip(&mut raw)
        .flat_map(|(m, out)| {
            let rows = (GRAIN / m.k).next_multiple_of(BAND);
            let parts = out.chunks_mut(rows * items).enumerate();
            parts.map(move |(i, out)| (*m, i * rows, out))
        })
        .collect();
    tasks
        .into_par_iter()
        .for_each_init(Vec::new, |wide, (m, first, out)| {
            m.part(dense, first, x, out, wide);
        });
    if items == 1 {
        return raw;
    }
    raw.map(|r| by_item(&r, items))
}

/// Rows of items to items of rows.
fn by_item(raw: &[f32], items: usize) -> Vec<f32> {
    let rows = raw.len() / items;
    let mut out = vec![0.0; raw.len()];
    for (r, row) in raw.chunks_exact(items).enumerate() {
        for (c, v) in row.iter().enumerate() {
            out[c * rows + r] = *v;
        }
    }
    out
}
