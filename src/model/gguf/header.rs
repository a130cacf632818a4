//! The header of a `.gguf` file: metadata, and where each tensor lies.
//!
//! Bounded in every count and length, because a header is what a stranger wrote: at most 256 MiB of it are read, names
//! have at most 64 KiB, kept arrays at most [`ARRAY_LIMIT`] values, and every tensor lies inside the file. Whoever only
//! weighs a file skips the values; whoever runs it keeps them. Order of tensors is the file's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::tensor_type;
use crate::error::{Error, Result};

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any whole number that is not negative, and truth values.
    Count(u64),
    /// A negative whole number.
    Negative(i64),
    /// A floating number.
    Float(f64),
    /// Text, broken UTF-8 replaced.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of numbers or truth values.
    Numbers(Vec<f64>),
}

/// A tensor as the header describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Elements a dimension, the fastest first.
    pub shape: Vec<u64>,
    /// Number of the type in the file.
    pub kind: u32,
    /// All elements.
    pub elements: u64,
    /// Bytes they take.
    pub bytes: u64,
    /// Where they start in the file.
    pub start: u64,
}

/// What a header holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// Values by key; empty unless they were asked for.
    pub metadata: BTreeMap<String, Value>,
    /// Tensors, in the file's order.
    pub tensors: Vec<Tensor>,
}

impl Value {
    /// A whole number that is not negative.
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Self::Count(n) => Some(*n),
            _ => None,
        }
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(n) => Some(*n as f64),
            Self::Negative(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// Text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(t) => Some(t),
            _ => None,
        }
    }
}

impl Contents {
    /// Reads the header of a file, its metadata only if `keep`.
    ///
    /// # Errors
    /// Usage: it cannot be opened, or is one shard of several. Data: not GGUF, damaged, or cut off.
    pub fn read(path: &Path, keep: bool) -> Result<Self> {
        let shown = path.display().to_string();
        if let Some(shard) = shard_of(&shown) {
            return Err(Error::usage(format!("{shown} is {shard} of a split file"))
                .help("join the shards with `llama-gguf-split --merge` and give the result"));
        }
        if path.exists() && !path.is_file() {
            return Err(Error::usage(format!("{shown} is not a file")));
        }
        let file = File::open(path)
            .map_err(|e| Error::usage(format!("{shown}: cannot be opened: {e}")))?;
        let length = file
            .metadata()
            .map_err(|e| Error::usage(format!("{shown}: cannot be read: {e}")))?
            .len();
        Self::parse(BufReader::new(file), length, &shown, keep)
    }

    /// Reads a header from the first bytes of a file of this length, which messages call `shown`.
    ///
    /// # Errors
    /// Data: not GGUF, damaged, or cut off.
    pub fn parse(from: impl Read, length: u64, shown: &str, keep: bool) -> Result<Self> {
        let mut header = Header {
            from: from.take(HEADER_LIMIT),
            alignment: 32,
            keep,
            metadata: BTreeMap::new(),
        };
        let mut tensors = header
            .tensors()
            .map_err(|e| Error::data(format!("{shown}: {e}")))?;
        let start =
            (HEADER_LIMIT - header.from.limit()).next_multiple_of(u64::from(header.alignment));
        let mut end = start;
        for t in &mut tensors {
            t.start = start.saturating_add(t.start);
            end = end.max(t.start.saturating_add(t.bytes));
        }
        if end > length {
            return Err(Error::data(format!(
                "{shown}: cut off: its tensors end at byte {end}, the file at {length}"
            ))
            .help("download it again"));
        }
        Ok(Self {
            metadata: header.metadata,
            tensors,
        })
    }
}

/// `shard 1 of 3` for a name ending in `-00001-of-00003.gguf`.
fn shard_of(path: &str) -> Option<String> {
    let stem = path.to_ascii_lowercase();
    let stem = stem.strip_suffix(".gguf")?;
    let (rest, of) = stem.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    let (of, number): (u32, u32) = (of.parse().ok()?, number.parse().ok()?);
    (of > 1).then(|| format!("shard {number} of {of}"))
}

/// Most header bytes that are read (tokenizers take a few MB).
const HEADER_LIMIT: u64 = 256 << 20;
/// Most metadata entries or tensors.
const COUNT_LIMIT: u64 = 1 << 20;

/// Most values of a kept array (vocabularies have up to 300,000 entries, merges as many).
pub const ARRAY_LIMIT: u64 = 1 << 21;

/// A reader of the header's little-endian fields; errors are sentences without the path.
struct Header<R> {
    from: R,
    /// Data starts at a multiple of this.
    alignment: u32,
    keep: bool,
    metadata: BTreeMap<String, Value>,
}

impl<R: Read> Header<R> {
    fn take<const N: usize>(&mut self) -> std::result::Result<[u8; N], String> {
        let mut buffer = [0; N];
        self.from
            .read_exact(&mut buffer)
            .map_err(|_| "the header is cut off".to_string())?;
        Ok(buffer)
    }

    fn u32(&mut self) -> std::result::Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> std::result::Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn count(&mut self, what: &str) -> std::result::Result<u64, String> {
        let n = self.u64()?;
        if n > COUNT_LIMIT {
            Err(format!("the header claims {n} {what}"))
        } else {
            Ok(n)
        }
    }

    fn skip(&mut self, bytes: u64) -> std::result::Result<(), String> {
        let done = std::io::copy(&mut self.from.by_ref().take(bytes), &mut std::io::sink());
        match done {
            Ok(n) if n == bytes => Ok(()),
            _ => Err("the header is cut off".into()),
        }
    }

    /// A name, at most 64 KiB.
    fn name(&mut self) -> std::result::Result<String, String> {
        self.text("name", 1 << 16)
    }

    fn text(&mut self, what: &str, limit: u64) -> std::result::Result<String, String> {
        let length = self.u64()?;
        if length > limit {
            return Err(format!("the header claims a {what} of {length} bytes"));
        }
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(length).read_to_end(&mut bytes);
        match read {
            Ok(n) if n as u64 == length => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err("the header is cut off".into()),
        }
    }

    /// Skips a metadata value; arrays hold no arrays.
    fn value(&mut self, kind: u32, nested: bool) -> std::result::Result<(), String> {
        match kind {
            0 | 1 | 7 => self.skip(1),
            2 | 3 => self.skip(2),
            4..=6 => self.skip(4),
            10..=12 => self.skip(8),
            8 => {
                let length = self.u64()?;
                self.skip(length)
            }
            9 if !nested => {
                let (kind, n) = (self.u32()?, self.u64()?);
                if n > HEADER_LIMIT {
                    return Err(format!("the header claims an array of {n} values"));
                }
                (0..n).try_for_each(|_| self.value(kind, true))
            }
            other => Err(format!("metadata of unknown type {other}")),
        }
    }

    /// A number or a truth value.
    fn number(&mut self, kind: u32) -> std::result::Result<Value, String> {
        let signed = |n: i64| u64::try_from(n).map_or(Value::Negative(n), Value::Count);
        Ok(match kind {
            0 | 7 => Value::Count(u64::from(self.take::<1>()?[0])),
            1 => signed(i64::from(i8::from_le_bytes(self.take()?))),
            2 => Value::Count(u64::from(u16::from_le_bytes(self.take()?))),
            3 => signed(i64::from(i16::from_le_bytes(self.take()?))),
            4 => Value::Count(u64::from(self.u32()?)),
            5 => signed(i64::from(i32::from_le_bytes(self.take()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.take()?))),
            10 => Value::Count(self.u64()?),
            11 => signed(i64::from_le_bytes(self.take()?)),
            12 => Value::Float(f64::from_le_bytes(self.take()?)),
            other => return Err(format!("metadata of unknown type {other}")),
        })
    }

    /// A metadata value to keep.
    fn kept(&mut self, kind: u32) -> std::result::Result<Value, String> {
        match kind {
            8 => self.text("text", 16 << 20).map(Value::Text),
            9 => self.list(),
            other => self.number(other),
        }
    }

    fn list(&mut self) -> std::result::Result<Value, String> {
        let (kind, n) = (self.u32()?, self.u64()?);
        if n > ARRAY_LIMIT {
            return Err(format!("the header claims an array of {n} values"));
        }
        if kind == 8 {
            let texts = (0..n)
                .map(|_| self.name())
                .collect::<std::result::Result<_, _>>();
            return texts.map(Value::Texts);
        }
        let numbers = (0..n).map(|_| self.number(kind).map(|v| v.as_f64().unwrap_or(0.0)));
        numbers
            .collect::<std::result::Result<_, _>>()
            .map(Value::Numbers)
    }

    fn tensors(&mut self) -> std::result::Result<Vec<Tensor>, String> {
        if &self.take::<4>()? != b"GGUF" {
            return Err("not a GGUF file (its first four bytes differ)".into());
        }
        let version = self.u32()?;
        if !(2..=3).contains(&version) {
            return Err(format!(
                "GGUF version {version} is not supported: 2 and 3 are"
            ));
        }
        let (tensors, entries) = (self.count("tensors")?, self.count("metadata entries")?);
        for _ in 0..entries {
            let (key, kind) = (self.name()?, self.u32()?);
            if key == "general.alignment" && kind == 4 {
                self.alignment = self.u32()?.clamp(1, 1 << 20);
            } else if self.keep {
                let value = self.kept(kind)?;
                self.metadata.insert(key, value);
            } else {
                self.value(kind, false)?;
            }
        }
        (0..tensors).map(|_| self.tensor()).collect()
    }

    fn tensor(&mut self) -> std::result::Result<Tensor, String> {
        let name = self.name()?;
        let dimensions = self.u32()?;
        if dimensions > 8 {
            return Err(format!("tensor `{name}` claims {dimensions} dimensions"));
        }
        let shape = (0..dimensions)
            .map(|_| self.u64())
            .collect::<std::result::Result<Vec<_>, String>>()?;
        let elements = shape
            .iter()
            .try_fold(1u64, |a, b| a.checked_mul(*b))
            .ok_or_else(|| format!("tensor `{name}` claims an impossible shape"))?;
        let kind = self.u32()?;
        let block = tensor_type(kind)
            .ok_or_else(|| format!("tensor `{name}` is of unknown type {kind}"))?;
        let offset = self.u64()?;
        let bytes = elements
            .div_ceil(u64::from(block.elements))
            .checked_mul(u64::from(block.bytes))
            .ok_or_else(|| format!("tensor `{name}` claims an impossible shape"))?;
        Ok(Tensor {
            name,
            shape,
            kind,
            elements,
            bytes,
            start: offset,
        })
    }
}
