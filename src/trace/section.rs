//! What a chunk group holds besides mean rows: sections described by their size alone.
//!
//! A section says how many bytes row `t` takes by four numbers, so that offsets are closed form for kinds this reader
//! has never heard of, and a copy carries them through unread. The rival, a table of offsets at the end of the file, is
//! lost with the end of the file; a recording must survive that. Known kinds are checked against the model's shape.
//! Sizes are in bytes, computed in `u128` and refused beyond `u64`: no header can make them wrap.

use crate::trace::header::Header;
use serde::{Deserialize, Serialize};

/// Size law of one section: row `t` of a trace with prompt P takes
/// `lanes * ceil(bits_per_position * (P + t + 1) / 8) + bytes_per_row` bytes; `bytes_once` precede the first chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Kind tag: `rows`, `layers`, `tokens`, `keys`, `queries`, `kept`, or one of the writer's own.
    pub kind: String,
    /// Parallel rows: 1 for the mean, L for per-layer rows.
    #[serde(default)]
    pub lanes: u32,
    /// Bits a position takes in one lane: 0, 1 or a multiple of 8.
    #[serde(default)]
    pub bits_per_position: u32,
    /// Bytes a row takes besides its positions.
    #[serde(default)]
    pub bytes_per_row: u32,
    /// Bytes stored once, before the first chunk.
    #[serde(default)]
    pub bytes_once: u64,
}

/// Mean attention rows, binary16: every trace has them, first.
pub const ROWS: &str = "rows";
/// One row a layer (mean over its query heads), layer-major, binary16.
pub const LAYERS: &str = "layers";
/// Generated token: `u32` id, `f32` natural log-probability.
pub const TOKENS: &str = "tokens";
/// Keys after rotation, binary16: the prompt's once, then one position a row; `[layer][kv head][dim]`.
pub const KEYS: &str = "keys";
/// Queries after rotation, binary16: the prompt's last window once, then one position a row; `[layer][head][dim]`.
pub const QUERIES: &str = "queries";
/// Positions a policy kept during recording: one bit a position for each layer and KV head.
pub const KEPT: &str = "kept";

impl Section {
    fn new(kind: &str, lanes: u32, bits_per_position: u32, bytes_per_row: u32) -> Self {
        Self {
            kind: kind.into(),
            lanes,
            bits_per_position,
            bytes_per_row,
            bytes_once: 0,
        }
    }

    /// Mean rows.
    pub fn rows() -> Self {
        Self::new(ROWS, 1, 16, 0)
    }

    /// Per-layer rows of a model with this many layers.
    pub fn layers(layers: u32) -> Self {
        Self::new(LAYERS, layers, 16, 0)
    }

    /// Token ids and log-probabilities.
    pub fn tokens() -> Self {
        Self::new(TOKENS, 0, 0, 8)
    }

    /// Keys after rotation of a model whose shape the header knows; nothing if it does not, or a row is over 4 GiB.
    pub fn keys(header: &Header) -> Option<Self> {
        let row = vector_bytes(header, header.kv_heads?)?;
        Some(Self {
            bytes_once: u64::from(row) * u64::from(header.prompt_length),
            ..Self::new(KEYS, 0, 0, row)
        })
    }

    /// Queries after rotation, with those of the last `window` prompt positions; nothing as with [`Section::keys`].
    pub fn queries(header: &Header, window: u32) -> Option<Self> {
        let row = vector_bytes(header, header.heads?)?;
        Some(Self {
            bytes_once: u64::from(row) * u64::from(window.min(header.prompt_length)),
            ..Self::new(QUERIES, 0, 0, row)
        })
    }

    /// Positions kept by each KV head; nothing as with [`Section::keys`].
    pub fn kept(header: &Header) -> Option<Self> {
        let lanes = header.layers?.checked_mul(header.kv_heads?)?;
        Some(Self::new(KEPT, lanes, 1, 0))
    }

    /// Refuses sizes outside the format, and known kinds that contradict the model's shape.
    pub(crate) fn validate(&self, header: &Header) -> Result<(), String> {
        let bits = self.bits_per_position;
        if bits != 1 && !bits.is_multiple_of(8) {
            return Err(format!(
                "section `{}` has {bits} bits a position, allowed are 0, 1 and multiples of 8",
                self.kind
            ));
        }
        let Some(expected) = self.expected(header) else {
            return Ok(());
        };
        if self == &expected {
            Ok(())
        } else {
            Err(format!(
                "section `{}` has other sizes than the model's shape gives",
                self.kind
            ))
        }
    }

    /// The size law a known kind must have, as far as the header knows the shape.
    fn expected(&self, header: &Header) -> Option<Self> {
        match self.kind.as_str() {
            ROWS => Some(Self::rows()),
            LAYERS => header.layers.map(Self::layers),
            TOKENS => Some(Self::tokens()),
            KEYS => Self::keys(header),
            QUERIES => {
                // Their window follows from the size: any that is whole and within the prompt.
                let row = u64::from(vector_bytes(header, header.heads?)?).max(1);
                let window = u32::try_from(self.bytes_once / row).unwrap_or(u32::MAX);
                Self::queries(header, window)
            }
            KEPT => Self::kept(header),
            _ => None,
        }
    }

    /// Bytes of rows `0..rows`, in closed form.
    pub(crate) fn bytes_before(&self, prompt: u32, rows: u32) -> u128 {
        let (p, n) = (u128::from(prompt), u128::from(rows));
        let lane = self.lane_bytes(p + n) - self.lane_bytes(p);
        u128::from(self.lanes) * lane + n * u128::from(self.bytes_per_row)
    }

    /// Sum over `k` in `1..=positions` of `ceil(bits * k / 8)`.
    fn lane_bytes(&self, positions: u128) -> u128 {
        if self.bits_per_position == 1 {
            // Eight lengths in a row take the same number of bytes: 1 for 1..=8, 2 for 9..=16, ...
            let (whole, rest) = (positions / 8, positions % 8);
            8 * whole * (whole + 1) / 2 + rest * (whole + 1)
        } else {
            u128::from(self.bits_per_position / 8) * positions * (positions + 1) / 2
        }
    }

    /// Bytes of row `t`.
    pub fn row_bytes(&self, prompt: u32, t: u32) -> Option<usize> {
        let bytes = self.bytes_before(prompt, t.checked_add(1)?) - self.bytes_before(prompt, t);
        bytes.try_into().ok()
    }
}

/// Bytes of one position's vectors: binary16, this many heads in each layer.
fn vector_bytes(header: &Header, heads: u32) -> Option<u32> {
    header
        .layers?
        .checked_mul(heads)?
        .checked_mul(header.head_dim?)?
        .checked_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_form_equals_adding_row_by_row() {
        for bits in [0, 1, 8, 16, 24] {
            let section = Section {
                bytes_once: 3,
                ..Section::new("x", 3, bits, 5)
            };
            for prompt in 0..20 {
                let mut added = 0;
                for t in 0..70 {
                    assert_eq!(section.bytes_before(prompt, t), added);
                    let positions = u128::from(prompt) + u128::from(t) + 1;
                    let row = 3 * (u128::from(bits) * positions).div_ceil(8) + 5;
                    assert_eq!(section.row_bytes(prompt, t).unwrap() as u128, row);
                    added += row;
                }
            }
        }
    }

    #[test]
    fn the_size_of_the_published_recording() {
        // smol_1: prompt 128, 1000 rows: sum of 129..=1128 is 1000 * (129 + 1128) / 2 = 628,500 weights of 2 bytes.
        assert_eq!(Section::rows().bytes_before(128, 1000), 1_257_000);
    }
}
