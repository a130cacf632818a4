//! A model on disk: its shape, where each tensor lies, and what its files say about text.
//!
//! Opening reads headers only. Nothing here trusts a file: tensors lie inside it (checked by the readers of both forms),
//! formats that cannot be computed with are kept by name and refused when their tensor is asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::names::{Names, Role};
use super::shape::Shape;
use super::{gguf, safetensors};
use crate::error::{Error, Result};
use crate::model::gguf::header::Value;
use crate::simd::dense::Format;

/// Where a tensor lies and what it looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// File that holds it.
    pub file: PathBuf,
    /// First byte in the file.
    pub start: u64,
    /// Bytes it takes.
    pub bytes: u64,
    /// Format of its numbers, or the name of one that cannot be computed with.
    pub format: std::result::Result<Format, String>,
    /// Elements a dimension, the slowest first.
    pub dims: Vec<u64>,
}

/// A model on disk, its weights unread.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Path as given.
    pub label: String,
    /// The model's own name for itself, or the file's.
    pub name: String,
    /// Licence, as far as the files say.
    pub licence: Option<String>,
    /// The numbers that decide every shape.
    pub shape: Shape,
    /// Whether the output projection is the embedding, where the files say so.
    pub(super) tied: Option<bool>,
    /// Whether queries, keys and values must have biases; others have them if they are there.
    pub(super) biases: bool,
    pub(super) names: Names,
    pub(super) tensors: BTreeMap<String, Stored>,
    /// Metadata of a GGUF file; empty for a folder.
    pub(super) metadata: BTreeMap<String, Value>,
}

impl Checkpoint {
    /// Opens a `.gguf` file or a folder with `config.json` and `.safetensors` files.
    ///
    /// # Errors
    /// Usage: nothing there. Data: damaged or contradictory headers, an architecture that is not supported.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return safetensors::open(path);
        }
        if !path.exists() {
            return Err(Error::usage(format!("{}: no such model", path.display()))
                .help("name a .gguf file, or a folder with config.json and .safetensors files"));
        }
        gguf::open(path)
    }

    /// The files that hold weights, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.tensors.values().map(|t| t.file.clone()).collect();
        files.sort();
        files.dedup();
        files
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors
            .values()
            .fold(0, |sum, t| sum.saturating_add(t.bytes))
    }

    /// Formats of the layers' matrices, the most frequent one first: `Q4_1`, `Q4_K+Q6_K`.
    pub fn quantisation(&self) -> String {
        let mut counts = BTreeMap::<&str, u64>::new();
        for t in self.tensors.values().filter(|t| t.dims.len() == 2) {
            let name = t.format.as_ref().map_or_else(String::as_str, |f| f.name());
            *counts.entry(name).or_default() += t.bytes;
        }
        let mut names: Vec<(&str, u64)> = counts.into_iter().collect();
        names.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
        let words: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
        words.join("+")
    }

    /// A metadata value of a GGUF file; nothing for a folder.
    pub fn metadata(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    pub(super) fn find(&self, role: Role, layer: usize) -> Option<&Stored> {
        self.tensors.get(&self.names.of(role, layer))
    }
}

impl Stored {
    /// The tensor's bytes.
    ///
    /// # Errors
    /// Data: the file is shorter than its header said. Usage: it cannot be read.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let shown = self.file.display();
        let failed = |e: std::io::Error| Error::usage(format!("{shown}: cannot be read: {e}"));
        let mut file = File::open(&self.file).map_err(failed)?;
        file.seek(SeekFrom::Start(self.start)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(self.bytes)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 == self.bytes {
            Ok(bytes)
        } else {
            Err(Error::data(format!(
                "{shown}: cut off inside tensor `{name}`: {} of {} bytes are there",
                bytes.len(),
                self.bytes
            ))
            .help("download it again"))
        }
    }
}
