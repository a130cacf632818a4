//! A GGUF file as a checkpoint: its metadata as a shape.
//!
//! Keys begin with the architecture's name. Those that change what a layer computes and are not understood here are
//! refused by name; a key that is missing is taken as a default only where the format defines one.

use std::collections::BTreeMap;
use std::path::Path;

use super::checkpoint::{Checkpoint, Stored};
use super::names::{Names, Role};
use super::shape::{Rope, Scaling, Shape};
use crate::error::{Error, Result, did_you_mean};
use crate::model::gguf::header::{Contents, Tensor, Value};
use crate::simd::dense::Format;

/// Architectures that can be run.
pub(super) const ARCHITECTURES: [&str; 2] = ["llama", "qwen2"];

/// An architecture that cannot be run.
pub(super) fn unsupported(label: &str, given: &str) -> Error {
    let shown: String = given.chars().take(60).collect();
    let near = did_you_mean(given, ARCHITECTURES)
        .map_or(String::new(), |n| format!("the nearest is `{n}`; "));
    Error::data(format!("{label}: architecture `{shown}` cannot be run"))
        .help(format!("{near}supported: {}", ARCHITECTURES.join(", ")))
}

/// Metadata with the names for messages.
struct Keys<'a> {
    label: &'a str,
    architecture: &'a str,
    metadata: &'a BTreeMap<String, Value>,
}

impl Keys<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(&format!("{}.{key}", self.architecture))
    }

    fn wrong(&self, key: &str, why: &str) -> Error {
        let full = format!("{}.{key}", self.architecture);
        Error::data(format!("{}: `{full}` {why}", self.label))
    }

    fn maybe_count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let count = value.as_count().and_then(|n| usize::try_from(n).ok());
        count
            .map(Some)
            .ok_or_else(|| self.wrong(key, "is not a whole number of at least 0"))
    }

    fn count(&self, key: &str) -> Result<usize> {
        self.maybe_count(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    fn number(&self, key: &str, default: Option<f64>) -> Result<f64> {
        match self.get(key) {
            Some(value) => value
                .as_f64()
                .ok_or_else(|| self.wrong(key, "is not a number")),
            None => default.ok_or_else(|| self.wrong(key, "is missing")),
        }
    }

    /// Keys that mean a kind of layer that is not computed here.
    fn refuse(&self) -> Result<()> {
        let refused = [
            ("expert_count", "a mixture of experts"),
            ("attention.sliding_window", "sliding windows"),
            ("attention.logit_softcapping", "capped logits"),
            ("attn_logit_softcapping", "capped logits"),
        ];
        for (key, what) in refused {
            let set = self.get(key).and_then(Value::as_f64).unwrap_or(0.0);
            if set.abs() > 0.0 {
                return Err(self
                    .wrong(key, &format!("describes {what}, which cannot be run"))
                    .help("dense models of the Llama and Qwen2 families can"));
            }
        }
        Ok(())
    }
}

pub(super) fn open(path: &Path) -> Result<Checkpoint> {
    let label = path.display().to_string();
    let contents = Contents::read(path, true)?;
    let text = |key: &str| contents.metadata.get(key).and_then(Value::as_text);
    let Some(architecture) = text("general.architecture") else {
        return Err(Error::data(format!(
            "{label}: `general.architecture` is missing"
        )));
    };
    if !ARCHITECTURES.contains(&architecture) {
        return Err(unsupported(&label, architecture));
    }
    let keys = Keys {
        label: &label,
        architecture,
        metadata: &contents.metadata,
    };
    keys.refuse()?;
    let tensors = contents
        .tensors
        .iter()
        .map(|t| (t.name.clone(), stored(t, path)))
        .collect();
    let shape = shape(&keys, &tensors)?;
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
    Ok(Checkpoint {
        name: text("general.name")
            .map(String::from)
            .or(stem)
            .unwrap_or_default(),
        licence: text("general.license").map(String::from),
        shape: shape.check(&label)?,
        tied: None,
        biases: architecture == "qwen2",
        names: Names::Gguf,
        tensors,
        label,
        metadata: contents.metadata,
    })
}

fn shape(keys: &Keys<'_>, tensors: &BTreeMap<String, Stored>) -> Result<Shape> {
    let (hidden, heads) = (
        keys.count("embedding_length")?,
        keys.count("attention.head_count")?,
    );
    let head_dim = match keys.maybe_count("attention.key_length")? {
        Some(width) => width,
        None => hidden / heads.max(1),
    };
    if keys
        .maybe_count("attention.value_length")?
        .is_some_and(|v| v != head_dim)
    {
        return Err(keys.wrong("attention.value_length", "differs from the width of keys"));
    }
    if keys
        .maybe_count("rope.dimension_count")?
        .is_some_and(|d| d != head_dim)
    {
        let why = format!("is not the head's width {head_dim}: partial rotation cannot be run");
        return Err(keys.wrong("rope.dimension_count", &why));
    }
    let embedding = tensors.get(&Names::Gguf.of(Role::Embedding, 0));
    let vocab = embedding.and_then(|t| t.dims.first()).copied().unwrap_or(0);
    if embedding.is_none() {
        return Err(super::load::missing(
            keys.label,
            &Names::Gguf.of(Role::Embedding, 0),
        ));
    }
    Ok(Shape {
        architecture: keys.architecture.into(),
        layers: keys.count("block_count")?,
        hidden,
        heads,
        kv_heads: keys.maybe_count("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        ff: keys.count("feed_forward_length")?,
        vocab: usize::try_from(vocab).unwrap_or(usize::MAX),
        #[allow(clippy::cast_possible_truncation)] // to the precision that is computed in
        epsilon: keys.number("attention.layer_norm_rms_epsilon", None)? as f32,
        rope: Rope {
            base: keys.number("rope.freq_base", Some(10_000.0))?,
            interleaved: keys.architecture == "llama",
            scaling: scaling(keys)?,
        },
        context: keys.count("context_length")?,
    })
}

/// Scaling by metadata; divisors stored as a tensor are read with the weights.
fn scaling(keys: &Keys<'_>) -> Result<Scaling> {
    let kind = keys.get("rope.scaling.type").and_then(Value::as_text);
    match kind {
        None | Some("none") => Ok(Scaling::None),
        Some("linear") => Ok(Scaling::Linear(keys.number("rope.scaling.factor", None)?)),
        Some(other) => {
            let why = format!(
                "is `{}`, which cannot be run",
                other.chars().take(40).collect::<String>()
            );
            Err(keys.wrong("rope.scaling.type", &why))
        }
    }
}

fn stored(t: &Tensor, path: &Path) -> Stored {
    let format = match t.kind {
        0 => Ok(Format::F32),
        1 => Ok(Format::F16),
        2 => Ok(Format::Q4_0),
        3 => Ok(Format::Q4_1),
        6 => Ok(Format::Q5_0),
        7 => Ok(Format::Q5_1),
        8 => Ok(Format::Q8_0),
        12 => Ok(Format::Q4K),
        13 => Ok(Format::Q5K),
        14 => Ok(Format::Q6K),
        30 => Ok(Format::Bf16),
        other => Err(format!("GGUF type {other}")),
    };
    Stored {
        file: path.into(),
        start: t.start,
        bytes: t.bytes,
        format,
        dims: t.shape.iter().rev().copied().collect(),
    }
}
