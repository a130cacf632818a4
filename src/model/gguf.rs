//! llama.cpp's weight formats: the block types, its named mixtures, and the header of a `.gguf` file.
//!
//! A mixture is not one width: `q4_k_m` gives `Q6_K` to the output, and to V and down in half of the layers (the first and
//! last eighth and every third between); the rest is `Q4_K`. Rows that do not divide into blocks of 256 fall back to the
//! 32-wide type next above, as the quantiser does. Norms, biases and routers stay f32. Of a file only the header is
//! read, bounded in every count and length; its tensors must lie inside the file.
//! Ignored: the exceptions for 8 experts and for 70B's V (`Q5_K`; 0.1 % of the bytes).

use std::path::Path;

pub mod header;

use super::weights::WeightBytes;
use super::{Matrix, MatrixKind};
use crate::error::{Error, Result};
use header::{Contents, Tensor};

/// A block type: bytes per block of so many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    elements: u32,
    bytes: u32,
}

const fn block(elements: u32, bytes: u32) -> Block {
    Block { elements, bytes }
}

const Q4_0: Block = block(32, 18);
const Q4_1: Block = block(32, 20);
const Q5_0: Block = block(32, 22);
const Q5_1: Block = block(32, 24);
const Q8_0: Block = block(32, 34);
const Q4_K: Block = block(256, 144);
const Q5_K: Block = block(256, 176);
const Q6_K: Block = block(256, 210);
const F16: Block = block(1, 2);
const F32: Block = block(1, 4);

impl Block {
    /// Bytes of one row of so many elements.
    pub fn bytes(self, row: u32) -> f64 {
        let fit = self.fallback(row);
        f64::from(row.div_ceil(fit.elements)) * f64::from(fit.bytes)
    }

    /// The type the quantiser takes for rows that this one does not divide.
    fn fallback(self, row: u32) -> Self {
        if row.is_multiple_of(self.elements) {
            return self;
        }
        let next = match self {
            Q4_K => Q5_0,
            Q5_K => Q5_1,
            Q6_K => Q8_0,
            _ => return F16,
        };
        next.fallback(row)
    }
}

/// A named mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mixture {
    /// 4.5 bits, plain.
    Q4_0,
    /// 5 bits, plain with offset.
    Q4_1,
    /// 5.5 bits, plain.
    Q5_0,
    /// 6 bits, plain with offset.
    Q5_1,
    /// 8.5 bits, plain.
    Q8_0,
    /// `Q4_K` with `Q6_K` where it matters.
    Q4KM,
    /// `Q5_K` with `Q6_K` where it matters.
    Q5KM,
    /// `Q6_K` throughout.
    Q6K,
}

impl Mixture {
    /// All of them, by name.
    pub const ALL: [Self; 8] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4KM,
        Self::Q5KM,
        Self::Q6K,
    ];

    /// The name in flags, as llama.cpp writes it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
            Self::Q5_0 => "q5_0",
            Self::Q5_1 => "q5_1",
            Self::Q8_0 => "q8_0",
            Self::Q4KM => "q4_k_m",
            Self::Q5KM => "q5_k_m",
            Self::Q6K => "q6_k",
        }
    }

    /// The type of most tensors.
    pub fn base(self) -> Block {
        match self {
            Self::Q4_0 => Q4_0,
            Self::Q4_1 => Q4_1,
            Self::Q5_0 => Q5_0,
            Self::Q5_1 => Q5_1,
            Self::Q8_0 => Q8_0,
            Self::Q4KM => Q4_K,
            Self::Q5KM => Q5_K,
            Self::Q6K => Q6_K,
        }
    }

    /// The type of V and down in the layers that get more bits.
    fn wide(self) -> Block {
        match self {
            Self::Q4KM | Self::Q5KM => Q6_K,
            other => other.base(),
        }
    }

    /// The type of the output head.
    fn output(self) -> Block {
        if self == Self::Q8_0 { Q8_0 } else { Q6_K }
    }

    /// Whether layer `index` of `count` is one that gets more bits.
    pub fn more_bits(index: usize, count: usize) -> bool {
        let eighth = count / 8;
        index < eighth || index >= 7 * count / 8 || (index - eighth) % 3 == 2
    }

    /// Bytes of one copy of a matrix in a layer whose share `wide` (0..=1) gets more bits.
    pub(super) fn matrix_bytes(self, m: &Matrix, wide: f64) -> f64 {
        let rows = f64::from(m.out);
        match m.kind {
            MatrixKind::Head => rows * self.output().bytes(m.inp),
            MatrixKind::Router => rows * F32.bytes(m.inp),
            _ => {
                let more = self.wide().bytes(m.inp) - self.base().bytes(m.inp);
                rows * self.base().bytes(m.inp) + wide * f64::from(m.wide_rows) * more
            }
        }
    }

    /// Bytes of an embedding that is not shared with the head.
    pub(super) fn embedding_bytes(self, vocab: u32, hidden: u32) -> f64 {
        f64::from(vocab) * self.base().bytes(hidden)
    }
}

/// Element and byte counts per block of the tensor types, by their number in the file.
pub(crate) fn tensor_type(number: u32) -> Option<Block> {
    Some(match number {
        0 | 26 => F32,
        1 | 25 | 30 => F16,
        2 | 20 => Q4_0,
        3 => Q4_1,
        6 => Q5_0,
        7 => Q5_1,
        8 => Q8_0,
        10 => block(256, 84),
        11 | 21 => block(256, 110),
        12 => Q4_K,
        13 => Q5_K,
        14 => Q6_K,
        16 | 35 => block(256, 66),
        17 => block(256, 74),
        18 => block(256, 98),
        19 => block(256, 50),
        22 => block(256, 82),
        23 => block(256, 136),
        24 => block(1, 1),
        27 | 28 => block(1, 8),
        29 => block(256, 56),
        34 => block(256, 54),
        39 => block(32, 17),
        _ => return None,
    })
}

/// What a `.gguf` file weighs.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufFile {
    /// Path as given.
    pub path: String,
    /// Bytes by part; tensors that are neither embedding nor head count as layers.
    pub bytes: WeightBytes,
    /// Elements of all tensors.
    pub elements: u64,
    /// Elements of the tensors counted as layers.
    layer_elements: u64,
}

impl GgufFile {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// Usage: it cannot be opened, or is one shard of several. Data: not GGUF, damaged, or cut off.
    pub fn read(path: &Path) -> Result<Self> {
        let contents = Contents::read(path, false)?;
        Self::sum(path.display().to_string(), &contents.tensors).checked()
    }

    fn sum(path: String, tensors: &[Tensor]) -> Self {
        let mut all = Self {
            path,
            bytes: WeightBytes::default(),
            elements: 0,
            layer_elements: 0,
        };
        for t in tensors {
            let part = match t.name.as_str() {
                "token_embd.weight" => &mut all.bytes.embedding,
                "output.weight" => &mut all.bytes.head,
                _ => {
                    all.layer_elements = all.layer_elements.saturating_add(t.elements);
                    &mut all.bytes.layers
                }
            };
            *part = part.saturating_add(t.bytes);
            all.elements = all.elements.saturating_add(t.elements);
        }
        all
    }

    fn checked(self) -> Result<Self> {
        if self.layer_elements == 0 || self.bytes.layers == 0 {
            return Err(Error::data(format!("{}: holds no weights", self.path)));
        }
        Ok(self)
    }

    /// Mean bits of an element in the layers.
    pub fn bits_per_layer_element(&self) -> f64 {
        8.0 * self.bytes.layers as f64 / self.layer_elements as f64
    }

    /// Bytes read for the output head: its own, or the embedding it shares.
    pub fn head_bytes(&self) -> u64 {
        if self.bytes.head == 0 {
            self.bytes.embedding
        } else {
            self.bytes.head
        }
    }
}
