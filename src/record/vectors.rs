//! Keys and queries beside the rows of a trace, from which the attention of every single head follows.
//!
//! Both are taken after rotation, as attention uses them, and rounded to binary16: rows of every head would say the same
//! at 9 to 64 times the size, and grow with the square of the length where these grow with the length. Keys are read
//! from the cache, which holds them as they were appended; queries are handed out by the step that computed them. Keys
//! of all positions are written; queries from so many tokens before the end of the prompt on, because policies that
//! look at the prompt look at its last queries (H2O at all of them).
//!
//! Values that binary16 cannot hold are refused, not cut. Nothing depends on which texts run together.

use crate::error::{Error, Result};
use crate::forward::{Cache, Shape};
use crate::trace::section::{KEYS, QUERIES};
use crate::trace::{Header, Section, TraceWriter, half};

/// Most bytes that stand before the first row, and of one chunk as the format advises [bytes].
const ONCE: u64 = 1 << 30;
const CHUNK: u32 = 32 << 20;

/// Announces both sections, `window` prompt positions having queries; chunks become shorter where rows are wide.
///
/// # Errors
/// Usage: more than the format holds.
pub(super) fn announce(header: &mut Header, window: u32) -> Result<()> {
    let both = Section::keys(header).zip(Section::queries(header, window));
    let fits = |s: &Section| s.bytes_once <= ONCE;
    let (keys, queries) = both
        .filter(|(k, q)| fits(k) && fits(q))
        .ok_or_else(too_long)?;
    let widest = keys.bytes_per_row.max(queries.bytes_per_row).max(1);
    header.chunk_rows = header.chunk_rows.min(CHUNK / widest).max(1);
    header.sections.extend([keys, queries]);
    Ok(())
}

fn too_long() -> Error {
    Error::usage(
        "keys and queries of the prompt take more than the 1 GiB that a trace holds of them",
    )
    .help("shorten the prompt, or give --queries a smaller number")
}

/// Writes the keys of the whole prompt, then the queries of its last positions as they came.
pub(super) fn prompt(
    writer: &mut TraceWriter,
    shape: &Shape,
    cache: &Cache,
    queries: &[f32],
) -> Result<()> {
    let length = writer.header().prompt_length as usize;
    let keys: Vec<f32> = (0..length).flat_map(|p| keys(shape, cache, p)).collect();
    for (kind, numbers) in [(KEYS, &keys[..]), (QUERIES, queries)] {
        let halves = halves(numbers);
        if let Some(at) = halves.iter().position(|v| v & 0x7C00 == 0x7C00) {
            return Err(Error::data(format!(
                "`{kind}` of the prompt: {} is outside binary16, which holds up to 65504",
                numbers[at]
            ))
            .help("record this model without --keys"));
        }
        if !halves.is_empty() {
            let bytes: Vec<u8> = halves.iter().flat_map(|v| v.to_le_bytes()).collect();
            writer.put_once(kind, &bytes)?;
        }
    }
    Ok(())
}

/// Writes the key and the query of a row's own position.
pub(super) fn row(
    writer: &mut TraceWriter,
    shape: &Shape,
    cache: &Cache,
    position: usize,
    queries: &[f32],
) -> Result<()> {
    writer.push_vectors(KEYS, &halves(&keys(shape, cache, position)))?;
    writer.push_vectors(QUERIES, &halves(queries))
}

/// Keys of a position, `[layer][KV head][dim]`.
fn keys(shape: &Shape, cache: &Cache, position: usize) -> Vec<f32> {
    let heads = (0..shape.layers).flat_map(|l| (0..shape.kv_heads).map(move |h| (l, h)));
    heads.flat_map(|(l, h)| cache.key(l, h, position)).collect()
}

fn halves(numbers: &[f32]) -> Vec<u16> {
    let half = |x: &f32| half::from_f64(f64::from(*x));
    numbers.iter().map(half).collect()
}
