//! Keys and queries of a trace, a KV head at a time.
//!
//! With them the rows of any head follow exactly, at a size that grows with the length and not with its square. They are
//! recorded after rotation, so position is already in them. Held in memory as binary32, head by head, because a policy
//! that looks at keys looks at all of a head's at once. Refused over 4 GiB.

use crate::error::{Error, Result};
use crate::simd::Kernels;
use crate::trace::reader::TraceReader;
use crate::trace::section::{KEYS, QUERIES};

/// Most numbers held.
const MAX_VALUES: u64 = 1 << 30;

/// Keys and queries of every KV head.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// Entries of one key or query.
    pub head_dim: usize,
    /// Query heads a KV head.
    pub group: usize,
    /// Position of the first query: the prompt less its recorded window (tokens).
    pub first_query: u32,
    /// One list a lane (layer-major, then KV head): `[position][dim]`.
    keys: Vec<Vec<f32>>,
    /// One list a lane: `[position from first_query][head of the group][dim]`.
    queries: Vec<Vec<f32>>,
}

impl Vectors {
    /// From lists by lane, as the fields say.
    pub fn new(
        head_dim: usize,
        group: usize,
        first_query: u32,
        keys: Vec<Vec<f32>>,
        queries: Vec<Vec<f32>>,
    ) -> Self {
        Self {
            head_dim,
            group,
            first_query,
            keys,
            queries,
        }
    }

    /// KV heads over all layers.
    pub fn lanes(&self) -> usize {
        self.keys.len()
    }

    /// Keys of positions `0..length`.
    pub fn keys(&self, lane: usize, length: u32) -> &[f32] {
        &self.keys[lane][..length as usize * self.head_dim]
    }

    /// Queries of positions `first_query..length`.
    pub fn queries(&self, lane: usize, length: u32) -> &[f32] {
        let positions = length.saturating_sub(self.first_query) as usize;
        &self.queries[lane][..positions * self.group * self.head_dim]
    }

    pub(crate) fn read(reader: &TraceReader, limit: u32) -> Result<Option<Self>> {
        let (Some(window), Some(shape)) = (reader.query_window(), Shape::of(reader)) else {
            return Ok(None);
        };
        let rows = u64::from(limit.min(reader.rows()));
        let positions = u64::from(reader.prompt()) + rows;
        let values = positions * (shape.key_values() + shape.query_values()) as u64;
        if values > MAX_VALUES {
            return Err(Error::usage(format!(
                "{}: keys and queries of {positions} positions take {values} numbers, the limit is {MAX_VALUES}",
                reader.label()
            ))
            .help("replay fewer rows, or ask for the policy's approximation on mean rows"));
        }
        let mut vectors = Self {
            head_dim: shape.head_dim,
            group: shape.group,
            first_query: reader.prompt() - window,
            keys: vec![Vec::new(); shape.lanes],
            queries: vec![Vec::new(); shape.lanes],
        };
        fill(reader, KEYS, limit, shape.head_dim, &mut vectors.keys)?;
        let wide = shape.group * shape.head_dim;
        fill(reader, QUERIES, limit, wide, &mut vectors.queries)?;
        Ok(Some(vectors))
    }
}

/// What the header says of the heads.
struct Shape {
    lanes: usize,
    group: usize,
    head_dim: usize,
}

impl Shape {
    fn of(reader: &TraceReader) -> Option<Self> {
        let header = reader.header();
        let (layers, kv_heads) = (header.layers?, header.kv_heads?);
        let group = header.heads?.checked_div(kv_heads)?;
        Some(Self {
            lanes: layers as usize * kv_heads as usize,
            group: group as usize,
            head_dim: header.head_dim? as usize,
        })
    }

    fn key_values(&self) -> usize {
        self.lanes * self.head_dim
    }

    fn query_values(&self) -> usize {
        self.key_values() * self.group
    }
}

/// Deals a section's positions out to the lanes, `width` numbers to each in turn.
fn fill(
    reader: &TraceReader,
    kind: &str,
    limit: u32,
    width: usize,
    lanes: &mut [Vec<f32>],
) -> Result<()> {
    let section = reader.section(kind)?;
    let once = reader.once(kind)?;
    deal(&once, width, lanes).map_err(|at| fault(reader, kind, at))?;
    let row = lanes.len() * width * 2;
    reader.for_each_chunk(section, 0..limit, &mut |chunk| {
        let wanted = (limit.min(chunk.rows.end) - chunk.rows.start) as usize * row;
        deal(&chunk.bytes[..wanted], width, lanes).map_err(|at| fault(reader, kind, at))
    })
}

/// Appends binary16 numbers to the lanes in turn; the index of the first that is not finite, if there is one.
fn deal(bytes: &[u8], width: usize, lanes: &mut [Vec<f32>]) -> std::result::Result<(), usize> {
    let bits: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    if let Some(at) = bits.iter().position(|b| b & 0x7C00 == 0x7C00) {
        return Err(at);
    }
    let mut wide = vec![0f32; width];
    for (i, piece) in bits.chunks_exact(width).enumerate() {
        Kernels::best().widen(piece, &mut wide);
        lanes[i % lanes.len()].extend_from_slice(&wide);
    }
    Ok(())
}

fn fault(reader: &TraceReader, kind: &str, at: usize) -> Error {
    Error::data(format!(
        "{}: section `{kind}` has a number that is not finite ({at} numbers into a block)",
        reader.label()
    ))
    .help("keys and queries are finite: the recorder overflowed or wrote another type")
}

impl TraceReader {
    /// Prompt positions whose queries are recorded, if keys and queries are and the shape is known (tokens).
    pub(crate) fn query_window(&self) -> Option<u32> {
        self.header.section(KEYS)?;
        let queries = &self.header.sections[self.header.section(QUERIES)?];
        Shape::of(self)?;
        let row = u64::from(queries.bytes_per_row);
        u32::try_from(queries.bytes_once.checked_div(row)?).ok()
    }
}
