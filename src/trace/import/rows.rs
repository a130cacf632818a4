//! From an array's shape to checked rows.
//!
//! Two forms are taken. *Padded*: one line a row, as long as the last row or longer, zeros (or NaN) after the row's own
//! end. *Flat*: rows one after another with nothing between. A padded array says its prompt length by its shape; a flat
//! one does not, and guessing it from where sums reach 1 would be wrong exactly for damaged files, so it is asked for.

use crate::error::{Error, Result};
use crate::trace::half;
use crate::trace::import::numbers::Numbers;

/// Longest sequence taken by an import (tokens).
const MAX_POSITIONS: u64 = 1 << 24;
/// Most layers taken by an import.
const MAX_LAYERS: u64 = 4096;

/// Prompt and number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Prompt tokens.
    pub prompt: u32,
    /// Decode rows.
    pub rows: u32,
}

/// Rows of one array: means (one lane) or one lane a layer.
pub(crate) struct RowStream<'a> {
    pub(crate) numbers: Numbers<'a>,
    lanes: usize,
    /// Line length of the padded form.
    columns: Option<u64>,
    prompt: u32,
    padding: Vec<u16>,
}

/// Weights of rows `0..rows`, one lane.
pub(crate) fn weights(extent: Extent) -> u64 {
    let (p, n) = (u64::from(extent.prompt), u64::from(extent.rows));
    n * p + n * (n + 1) / 2
}

/// Prompt and rows of an array of mean rows.
pub(crate) fn extent(label: &str, shape: &[u64], prompt: Option<u32>) -> Result<Extent> {
    let (prompt, rows) = match *shape {
        [rows, columns] => {
            let prompt = match prompt {
                Some(p) => u64::from(p),
                None => columns
                    .checked_sub(rows)
                    .ok_or_else(|| too_narrow(label, rows, columns))?,
            };
            if prompt.checked_add(rows).is_none_or(|n| n > columns) {
                return Err(too_narrow(label, rows, columns));
            }
            (prompt, rows)
        }
        [count] => {
            let prompt = u64::from(prompt.ok_or_else(|| {
                Error::usage(format!(
                    "{label}: rows in one dimension do not tell the prompt length"
                ))
                .help("add --prompt N, or save them as a padded array of rows x positions")
            })?);
            (prompt, flat_rows(label, count, prompt)?)
        }
        _ => {
            return Err(Error::data(format!(
                "{label} has {} dimensions; rows have 2 (padded) or 1 (one after another)",
                shape.len()
            )));
        }
    };
    bounded(label, prompt, rows)
}

pub(crate) fn bounded(label: &str, prompt: u64, rows: u64) -> Result<Extent> {
    if rows == 0 {
        return Err(Error::data(format!("{label} holds no rows")));
    }
    let positions = prompt.saturating_add(rows);
    match (u32::try_from(prompt), u32::try_from(rows)) {
        (Ok(prompt), Ok(rows)) if positions <= MAX_POSITIONS => Ok(Extent { prompt, rows }),
        _ => Err(Error::data(format!(
            "{label}: a sequence of {positions} tokens is over the limit of {MAX_POSITIONS}"
        ))),
    }
}

/// Number of rows n with n * prompt + n (n + 1) / 2 = count.
fn flat_rows(label: &str, count: u64, prompt: u64) -> Result<u64> {
    let mut left = count;
    let mut rows = 0;
    while left > prompt + rows && rows < MAX_POSITIONS {
        left -= prompt + rows + 1;
        rows += 1;
    }
    if left == 0 {
        Ok(rows)
    } else {
        Err(Error::data(format!(
            "{label}: {count} weights are no whole number of rows after a prompt of {prompt}"
        ))
        .help("row t has prompt + t + 1 weights: check --prompt"))
    }
}

fn too_narrow(label: &str, rows: u64, columns: u64) -> Error {
    Error::data(format!(
        "{label}: {rows} rows x {columns} positions cannot hold the last row"
    ))
    .help("row t has prompt + t + 1 weights, so positions are at least prompt + rows")
}

impl<'a> RowStream<'a> {
    /// Mean rows.
    pub(crate) fn means(numbers: Numbers<'a>, shape: &[u64], extent: Extent) -> Self {
        let columns = if let [_, columns] = *shape {
            Some(columns)
        } else {
            None
        };
        Self::new(numbers, 1, columns, extent.prompt)
    }

    /// Per-layer rows, `[rows, layers, positions]` padded or flat, and their number of layers.
    pub(crate) fn layers(
        numbers: Numbers<'a>,
        shape: &[u64],
        extent: Extent,
    ) -> Result<(Self, u32)> {
        let label = &numbers.label;
        let (layers, columns) = match *shape {
            [rows, layers, columns] => {
                let needed = u64::from(extent.prompt) + u64::from(extent.rows);
                if rows != u64::from(extent.rows) || columns < needed {
                    return Err(Error::data(format!(
                        "{label}: shape {rows} x {layers} x {columns} does not match {} rows of up to {needed} positions",
                        extent.rows
                    )));
                }
                (layers, Some(columns))
            }
            [count] if count % weights(extent) == 0 => (count / weights(extent), None),
            [count] => {
                return Err(Error::data(format!(
                    "{label}: {count} weights are no whole number of layers of {} weights",
                    weights(extent)
                )));
            }
            _ => {
                return Err(Error::data(format!(
                    "{label} has {} dimensions; layers have 3 (rows x layers x positions) or 1",
                    shape.len()
                )));
            }
        };
        let lanes = u32::try_from(layers)
            .ok()
            .filter(|_| (1..=MAX_LAYERS).contains(&layers));
        let lanes = lanes.ok_or_else(|| {
            Error::data(format!(
                "{label}: {layers} layers; 1 to {MAX_LAYERS} are taken"
            ))
        })?;
        Ok((
            Self::new(numbers, lanes as usize, columns, extent.prompt),
            lanes,
        ))
    }

    fn new(numbers: Numbers<'a>, lanes: usize, columns: Option<u64>, prompt: u32) -> Self {
        Self {
            numbers,
            lanes,
            columns,
            prompt,
            padding: Vec::new(),
        }
    }

    /// Reads row `t` (all lanes) into `out`; every lane is checked as it comes.
    pub(crate) fn next(&mut self, t: u32, out: &mut Vec<u16>) -> Result<()> {
        out.clear();
        let length = self.prompt as usize + t as usize + 1;
        for lane in 0..self.lanes {
            let at = self.numbers.at;
            self.numbers.take(length, out)?;
            let row = &out[lane * length..];
            let place = || {
                let layer = if self.lanes > 1 {
                    format!(", layer {lane}")
                } else {
                    String::new()
                };
                format!("{}: row {t}{layer} (byte {at})", self.numbers.label)
            };
            half::check_weights(row, &place)?;
            half::check_sum(row, &place)?;
            self.skip_padding(t, length)?;
        }
        Ok(())
    }

    fn skip_padding(&mut self, t: u32, length: usize) -> Result<()> {
        let mut left = self.columns.map_or(0, |c| c.saturating_sub(length as u64));
        while left > 0 {
            let now = left.min(1 << 15);
            self.padding.clear();
            let at = self.numbers.at;
            self.numbers.take(now as usize, &mut self.padding)?;
            // Zero of either sign or NaN.
            let empty = |w: &u16| matches!(w & 0x7FFF, 0 | 0x7C01..);
            if !self.padding.iter().all(empty) {
                return Err(Error::data(format!(
                    "{}: row {t} has weights after its own position {} (from byte {at})",
                    self.numbers.label,
                    length - 1
                ))
                .help("row t ends at position prompt + t: check --prompt, or mask the future"));
            }
            left -= now;
        }
        Ok(())
    }
}
