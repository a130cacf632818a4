//! Bytes of weights and of KV by format, the two independent of each other.
//!
//! What is modelled: what a loader puts into memory. `fp8` and `int8` quantise the linear operations of the layers with
//! one f32 scale an output channel; `int4` in groups of 128 with an f16 scale and a 4-bit zero; all three leave
//! embeddings, head, router, norms and biases at 16 bits, as the usual checkpoints do. `mxfp4` quantises routed experts
//! only (blocks of 32 with an 8-bit scale, 4.25 bits): the format gpt-oss ships in. `bf16` of such a model means the
//! weights dequantised, which is larger than what its authors publish. GGUF types follow llama.cpp's mixtures
//! ([`super::gguf::Mixture`]); a `.gguf` file weighs what its own tensors weigh. Ignored: padding to alignment,
//! 128 x 128 block scales (0.02 %), llama.cpp's exceptions for 8-expert models.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::gguf::{GgufFile, Mixture};
use super::{KvRule, Layer, Matrix, MatrixKind, Model};
use crate::error::{Error, Result, did_you_mean};

/// Format of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 16-bit floats (fp16 and bf16 weigh the same).
    Fp16,
    /// 8-bit floats, one scale a tensor.
    Fp8,
    /// 8-bit integers with one 16-bit scale a vector.
    Int8,
    /// llama.cpp `Q8_0`: 34 bytes per 32 elements.
    Q8_0,
    /// llama.cpp `Q4_0`: 18 bytes per 32 elements.
    Q4_0,
}

const KV_NAMES: &[(&str, KvFormat)] = &[
    ("fp16", KvFormat::Fp16),
    ("fp8", KvFormat::Fp8),
    ("int8", KvFormat::Int8),
    ("q8_0", KvFormat::Q8_0),
    ("q4_0", KvFormat::Q4_0),
    ("bf16", KvFormat::Fp16),
    ("f16", KvFormat::Fp16),
    ("fp8_e4m3", KvFormat::Fp8),
    ("fp8_e5m2", KvFormat::Fp8),
];

impl KvFormat {
    /// All formats, widest first.
    pub const ALL: [Self; 5] = [Self::Fp16, Self::Int8, Self::Q8_0, Self::Fp8, Self::Q4_0];

    /// Reads a format's name.
    ///
    /// # Errors
    /// Usage: no such format, with a suggestion.
    pub fn parse(text: &str) -> Result<Self> {
        let word = text.trim().to_ascii_lowercase();
        let found = KV_NAMES.iter().find(|(name, _)| *name == word);
        found.map(|(_, f)| *f).ok_or_else(|| {
            unknown(
                "KV format",
                text,
                KV_NAMES.iter().map(|(n, _)| *n),
                "fp16 (or bf16), fp8, int8, q8_0, q4_0",
            )
        })
    }

    /// Bytes of `elements` elements that fall into `vectors` vectors \[bytes\].
    pub fn bytes(self, elements: f64, vectors: f64) -> f64 {
        match self {
            Self::Fp16 => 2.0 * elements,
            Self::Fp8 => elements,
            Self::Int8 => elements + 2.0 * vectors,
            Self::Q8_0 => elements * 34.0 / 32.0,
            Self::Q4_0 => elements * 18.0 / 32.0,
        }
    }

    /// Bytes one token stores in a layer \[bytes\].
    pub fn rule_bytes(self, rule: KvRule) -> f64 {
        self.bytes(f64::from(rule.elements), f64::from(rule.vectors))
    }

    /// Nominal bits of an element, which choose the kernel.
    pub fn bits(self) -> u32 {
        match self {
            Self::Fp16 => 16,
            Self::Fp8 | Self::Int8 | Self::Q8_0 => 8,
            Self::Q4_0 => 4,
        }
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KV_NAMES
            .iter()
            .find(|(_, k)| k == self)
            .map_or("fp16", |(n, _)| *n);
        f.pad(name)
    }
}

/// Format of the weights.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightFormat {
    /// bfloat16.
    Bf16,
    /// IEEE half; weighs what bfloat16 weighs.
    Fp16,
    /// 8-bit floats, one f32 scale an output channel.
    Fp8,
    /// 8-bit integers, one f32 scale an output channel.
    Int8,
    /// 4-bit integers in groups of 128: f16 scale and 4-bit zero.
    Int4,
    /// Routed experts in MXFP4 (4.25 bits), the rest 16 bits.
    Mxfp4,
    /// One of llama.cpp's mixtures.
    Gguf(Mixture),
    /// A file, which weighs what its tensors weigh.
    File(Arc<GgufFile>),
}

const WEIGHT_NAMES: &[(&str, WeightFormat)] = &[
    ("bf16", WeightFormat::Bf16),
    ("fp16", WeightFormat::Fp16),
    ("fp8", WeightFormat::Fp8),
    ("int8", WeightFormat::Int8),
    ("int4", WeightFormat::Int4),
    ("mxfp4", WeightFormat::Mxfp4),
    ("f16", WeightFormat::Fp16),
    ("awq", WeightFormat::Int4),
    ("gptq", WeightFormat::Int4),
];

impl WeightFormat {
    /// The formats that have a name, in the order they are listed.
    pub fn named() -> Vec<Self> {
        let own = WEIGHT_NAMES[..6].iter().map(|(_, f)| f.clone());
        own.chain(Mixture::ALL.into_iter().map(Self::Gguf))
            .collect()
    }

    /// Reads a format's name or the path of a `.gguf` file.
    ///
    /// # Errors
    /// Usage: no such format (with a suggestion), a file that cannot be opened. Data: a damaged file.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let word = text.to_ascii_lowercase();
        if Path::new(&word).extension().is_some_and(|e| e == "gguf") {
            return Ok(Self::File(Arc::new(GgufFile::read(Path::new(text))?)));
        }
        if word == "native" {
            return Err(Error::usage("weight format `native` is not one format").help(
                "name the one the model ships in: mxfp4 for gpt-oss, fp8 for DeepSeek-V3 and R1, bf16 for the others",
            ));
        }
        let found = WEIGHT_NAMES.iter().find(|(name, _)| *name == word);
        let mixture = || {
            Mixture::ALL
                .into_iter()
                .find(|m| m.name() == word)
                .map(Self::Gguf)
        };
        found
            .map(|(_, f)| f.clone())
            .or_else(mixture)
            .ok_or_else(|| {
                let names = WEIGHT_NAMES
                    .iter()
                    .map(|(n, _)| *n)
                    .chain(Mixture::ALL.map(Mixture::name));
                let list = format!(
                    "bf16, fp16, fp8, int8, int4, mxfp4, {}, or the path of a .gguf file",
                    Mixture::ALL.map(Mixture::name).join(", ")
                );
                unknown("weight format", text, names, &list)
            })
    }

    /// Bytes of one copy of a matrix, mean over layers where a mixture gives some layers more bits \[bytes\].
    pub fn matrix_bytes(&self, matrix: &Matrix) -> f64 {
        self.copy_bytes(matrix, 0.5)
    }

    /// Nominal bits of an element of such a matrix (16, 8 or 4), which choose the kernel.
    pub fn bits(&self, kind: MatrixKind) -> u32 {
        let in_layer = kind != MatrixKind::Head && kind != MatrixKind::Router;
        match self {
            Self::Fp8 | Self::Int8 if in_layer => 8,
            Self::Int4 if in_layer => 4,
            Self::Mxfp4 if kind == MatrixKind::Expert => 4,
            Self::Bf16 | Self::Fp16 | Self::Fp8 | Self::Int8 | Self::Int4 | Self::Mxfp4 => 16,
            Self::Gguf(m) => nominal(m.base().bytes(256) / 32.0),
            Self::File(f) => nominal(f.bits_per_layer_element()),
        }
    }

    /// One copy; `wide` is the share of layers (or this layer, 0 or 1) to which a mixture gives more bits.
    fn copy_bytes(&self, m: &Matrix, wide: f64) -> f64 {
        let (out, inp) = (f64::from(m.out), f64::from(m.inp));
        let elements = out * inp;
        let plain = matches!(m.kind, MatrixKind::Head | MatrixKind::Router);
        match self {
            Self::Fp8 | Self::Int8 if !plain => elements + 4.0 * out,
            Self::Int4 if !plain => elements / 2.0 + out * (inp / 128.0).ceil() * 2.5,
            Self::Mxfp4 if m.kind == MatrixKind::Expert => out * (inp / 32.0).ceil() * 17.0,
            Self::Bf16 | Self::Fp16 | Self::Fp8 | Self::Int8 | Self::Int4 | Self::Mxfp4 => {
                2.0 * elements
            }
            Self::Gguf(mixture) => mixture.matrix_bytes(m, wide),
            Self::File(file) => match m.kind {
                MatrixKind::Head => file.head_bytes() as f64,
                _ => elements * file.bits_per_layer_element() / 8.0,
            },
        }
    }

    /// Bytes of one norm or bias element.
    fn small(&self) -> u64 {
        if matches!(self, Self::Gguf(_)) { 4 } else { 2 }
    }
}

/// The kernel class of a mean number of bits.
fn nominal(bits: f64) -> u32 {
    match bits {
        b if b > 12.0 => 16,
        b if b > 6.7 => 8,
        _ => 4,
    }
}

fn unknown<'a>(what: &str, given: &str, names: impl Iterator<Item = &'a str>, list: &str) -> Error {
    let guess =
        did_you_mean(given, names).map_or(String::new(), |g| format!("did you mean `{g}`? "));
    Error::usage(format!("{what} `{given}` is not known")).help(format!("{guess}known: {list}"))
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Gguf(m) => m.name(),
            Self::File(file) => return f.pad(&file.path),
            named => WEIGHT_NAMES
                .iter()
                .find(|(_, k)| k == named)
                .map_or("bf16", |(n, _)| *n),
        };
        f.pad(name)
    }
}

/// Weight bytes by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// All layers, norms and biases included, and the final norm.
    pub layers: u64,
    /// Input embedding.
    pub embedding: u64,
    /// Output head; 0 where tied.
    pub head: u64,
}

impl WeightBytes {
    /// All parts.
    pub fn total(&self) -> u64 {
        self.layers
            .saturating_add(self.embedding)
            .saturating_add(self.head)
    }
}

impl Model {
    /// What the weights occupy in this format, by part.
    pub fn weights_bytes(&self, format: &WeightFormat) -> WeightBytes {
        if let WeightFormat::File(file) = format {
            return file.bytes;
        }
        let small = u64::from(self.hidden) * format.small();
        let head = whole(format.copy_bytes(&self.head_matrix(), 0.0));
        let embedding = match format {
            // llama.cpp quantises a shared embedding as the output it also is.
            WeightFormat::Gguf(_) if self.tied => head,
            WeightFormat::Gguf(m) => whole(m.embedding_bytes(self.vocab, self.hidden)),
            _ => 2 * self.vocab_matrix(),
        };
        WeightBytes {
            layers: self.layers_bytes(format) + small,
            embedding,
            head: if self.tied { 0 } else { head },
        }
    }

    /// All layers; those alike are worked out once.
    fn layers_bytes(&self, format: &WeightFormat) -> u64 {
        let count = self.layers.len();
        let mut known: Vec<(&Layer, bool, u64)> = Vec::new();
        let bytes = self.layers.iter().enumerate().map(|(index, layer)| {
            let more = Mixture::more_bits(index, count);
            if let Some((.., bytes)) = known.iter().find(|(l, m, _)| *l == layer && *m == more) {
                return *bytes;
            }
            let bytes = self.layer_bytes(layer, more, format);
            known.push((layer, more, bytes));
            bytes
        });
        bytes.sum()
    }

    fn layer_bytes(&self, layer: &Layer, more_bits: bool, format: &WeightFormat) -> u64 {
        let wide = if more_bits { 1.0 } else { 0.0 };
        let matrices: u64 = layer
            .matrices(self.hidden)
            .iter()
            .map(|m| {
                let bias = if m.bias {
                    u64::from(m.out) * format.small()
                } else {
                    0
                };
                u64::from(m.copies) * (whole(format.copy_bytes(m, wide)) + bias)
            })
            .sum();
        matrices + layer.small_parameters(self.hidden) * format.small()
    }

    /// Whether a weight format can be this model's.
    ///
    /// # Errors
    /// Usage: a .gguf file whose tensors hold another number of parameters (more than 2 % off).
    pub fn accepts(&self, format: &WeightFormat) -> Result<()> {
        let WeightFormat::File(file) = format else {
            return Ok(());
        };
        let (own, theirs) = (self.parameters() as f64, file.elements as f64);
        if (theirs / own - 1.0).abs() <= 0.02 {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{} holds {:.2} billion parameters, but {} has {:.2} billion",
            file.path,
            theirs / 1e9,
            self.name,
            own / 1e9
        ))
        .help("give the --model that the file is of"))
    }
}

/// Whole bytes, rounded up.
#[allow(clippy::cast_possible_truncation)] // widths are bounded on reading: far below 2^63
fn whole(bytes: f64) -> u64 {
    bytes.ceil() as u64
}
