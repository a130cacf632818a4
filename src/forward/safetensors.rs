//! A Hugging Face folder as a checkpoint: `config.json` and one or more `.safetensors` files.
//!
//! Headers are parsed by the `safetensors` crate, tensors are read by offset. A key of the config that changes what a
//! layer computes and is not understood here is refused by name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;

use super::checkpoint::{Checkpoint, Stored};
use super::gguf::{ARCHITECTURES, unsupported};
use super::names::Names;
use super::shape::{Rope, Scaling, Shape};
use crate::error::{Error, Result};
use crate::simd::dense::Format;

/// Longest header, config or index taken [bytes].
const LIMIT: u64 = 64 << 20;

pub(super) fn open(folder: &Path) -> Result<Checkpoint> {
    let label = folder.display().to_string();
    let config = json(&folder.join("config.json"))?;
    let keys = Keys {
        label: &label,
        config: &config,
    };
    let architecture = keys.architecture()?;
    keys.refuse()?;
    let shape = keys.shape(architecture)?.check(&label)?;
    let mut tensors = BTreeMap::new();
    for file in files(folder)? {
        for (name, tensor) in header(&file)? {
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(Error::data(format!(
                    "{label}: tensor `{name}` is stored twice"
                )));
            }
        }
    }
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned());
    Ok(Checkpoint {
        name: name.unwrap_or_default(),
        licence: None,
        shape,
        tied: Some(keys.flag("tie_word_embeddings", false)?),
        biases: architecture == "qwen2",
        names: Names::HuggingFace,
        tensors,
        label,
        metadata: BTreeMap::new(),
    })
}

/// A JSON file of the folder.
///
/// # Errors
/// Usage: it cannot be read. Data: not JSON, or too long.
pub(super) fn json(path: &Path) -> Result<Value> {
    let shown = path.display();
    let failed = |e: std::io::Error| {
        Error::usage(format!("{shown}: cannot be read: {e}"))
            .help("a model's folder holds config.json and .safetensors files")
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LIMIT).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|e| Error::data(format!("{shown}: not JSON: {e}")))
}

/// All `.safetensors` files, in order; those that an index names must be there.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder)
        .map_err(|e| Error::usage(format!("{shown}: cannot be read: {e}")))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    found.sort();
    let index = folder.join("model.safetensors.index.json");
    if index.exists() {
        let index = json(&index)?;
        let named = index.get("weight_map").and_then(Value::as_object);
        for file in named
            .into_iter()
            .flat_map(|m| m.values())
            .filter_map(Value::as_str)
        {
            if !found
                .iter()
                .any(|p| p.file_name().is_some_and(|n| n == file))
            {
                return Err(Error::data(format!(
                    "{shown}: its index names `{file}`, which is missing"
                )));
            }
        }
    }
    if found.is_empty() {
        return Err(Error::usage(format!("{shown}: holds no .safetensors file")));
    }
    Ok(found)
}

fn header(path: &Path) -> Result<Vec<(String, Stored)>> {
    let shown = path.display();
    let bad = |why: String| {
        Error::data(format!(
            "{shown} is not a readable .safetensors file: {why}"
        ))
    };
    let mut file =
        File::open(path).map_err(|e| Error::usage(format!("{shown}: cannot be opened: {e}")))?;
    let length = file.metadata().map_err(|e| bad(e.to_string()))?.len();
    let mut size = [0; 8];
    file.read_exact(&mut size)
        .map_err(|_| bad("it is shorter than 8 bytes".into()))?;
    let size = u64::from_le_bytes(size);
    if size > LIMIT || size + 8 > length {
        return Err(bad(format!(
            "a header of {size} bytes is announced, the file has {length}"
        )));
    }
    let mut text = Vec::new();
    file.take(size)
        .read_to_end(&mut text)
        .map_err(|e| bad(e.to_string()))?;
    let meta: Metadata = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    if (8 + size).saturating_add(meta.data_len() as u64) > length {
        return Err(bad(format!(
            "cut off: its tensors take {} bytes, {} follow its header",
            meta.data_len(),
            length - 8 - size
        )));
    }
    let mut all: Vec<(String, Stored)> = meta
        .tensors()
        .into_iter()
        .map(|(name, info)| (name, stored(info, path, 8 + size)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

fn stored(info: &TensorInfo, path: &Path, data: u64) -> Stored {
    let format = match info.dtype {
        Dtype::F32 => Ok(Format::F32),
        Dtype::F16 => Ok(Format::F16),
        Dtype::BF16 => Ok(Format::Bf16),
        other => Err(format!("{other:?}")),
    };
    let (start, end) = info.data_offsets;
    Stored {
        file: path.into(),
        start: data.saturating_add(start as u64),
        bytes: end.saturating_sub(start) as u64,
        format,
        dims: info.shape.iter().map(|d| *d as u64).collect(),
    }
}

/// The config with its name for messages.
struct Keys<'a> {
    label: &'a str,
    config: &'a Value,
}

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.config.get(key).filter(|v| !v.is_null())
    }

    fn wrong(&self, key: &str, why: &str) -> Error {
        Error::data(format!("{}: `{key}` of config.json {why}", self.label))
    }

    fn architecture(&self) -> Result<&'a str> {
        let given = self.get("model_type").and_then(Value::as_str);
        let given = given.ok_or_else(|| self.wrong("model_type", "is missing"))?;
        if ARCHITECTURES.contains(&given) {
            Ok(given)
        } else {
            Err(unsupported(self.label, given))
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let value = self.get(key).map(Value::as_bool);
        match value {
            None => Ok(default),
            Some(flag) => flag.ok_or_else(|| self.wrong(key, "must be true or false")),
        }
    }

    fn maybe_count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let count = value.as_u64().and_then(|n| usize::try_from(n).ok());
        count
            .map(Some)
            .ok_or_else(|| self.wrong(key, "is not a whole number of at least 0"))
    }

    fn count(&self, key: &str) -> Result<usize> {
        self.maybe_count(key)?
            .ok_or_else(|| self.wrong(key, "is missing"))
    }

    fn refuse(&self) -> Result<()> {
        for key in [
            "use_sliding_window",
            "attention_bias",
            "mlp_bias",
            "num_local_experts",
        ] {
            let set = |v: &Value| v.as_bool().unwrap_or_else(|| v.as_u64() != Some(0));
            if self.get(key).is_some_and(set) {
                return Err(self.wrong(key, "describes layers that cannot be run"));
            }
        }
        match self.get("hidden_act").and_then(Value::as_str) {
            None | Some("silu") => Ok(()),
            Some(_) => Err(self.wrong("hidden_act", "is not `silu`, the only one that can be run")),
        }
    }

    fn shape(&self, architecture: &str) -> Result<Shape> {
        let (hidden, heads) = (
            self.count("hidden_size")?,
            self.count("num_attention_heads")?,
        );
        let epsilon = self.get("rms_norm_eps").and_then(Value::as_f64);
        Ok(Shape {
            architecture: architecture.into(),
            layers: self.count("num_hidden_layers")?,
            hidden,
            heads,
            kv_heads: self.maybe_count("num_key_value_heads")?.unwrap_or(heads),
            head_dim: self.maybe_count("head_dim")?.unwrap_or(hidden / heads.max(1)),
            ff: self.count("intermediate_size")?,
            vocab: self.count("vocab_size")?,
            #[allow(clippy::cast_possible_truncation)] // to the precision that is computed in
            epsilon: epsilon.ok_or_else(|| self.wrong("rms_norm_eps", "is missing"))? as f32,
            rope: self.rope()?,
            context: self.count("max_position_embeddings")?,
        })
    }

    /// `rope_theta` and `rope_scaling`, or both in `rope_parameters`.
    fn rope(&self) -> Result<Rope> {
        let both = self.get("rope_parameters");
        let base = both
            .and_then(|b| b.get("rope_theta"))
            .or_else(|| self.get("rope_theta"));
        let base = match base {
            None => 10_000.0,
            Some(v) => v
                .as_f64()
                .ok_or_else(|| self.wrong("rope_theta", "is not a number"))?,
        };
        let scaling = match both.or_else(|| self.get("rope_scaling")) {
            None => Scaling::None,
            Some(s) => self.scaling(s)?,
        };
        Ok(Rope {
            base,
            interleaved: false,
            scaling,
        })
    }

    fn scaling(&self, s: &Value) -> Result<Scaling> {
        let number = |key: &str| {
            let value = s.get(key).and_then(Value::as_f64);
            value.ok_or_else(|| self.wrong("rope_scaling", &format!("lacks the number `{key}`")))
        };
        let kind = s
            .get("rope_type")
            .or_else(|| s.get("type"))
            .and_then(Value::as_str);
        match kind.unwrap_or("default") {
            "default" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear(number("factor")?)),
            "llama3" => Ok(Scaling::Llama3 {
                factor: number("factor")?,
                low: number("low_freq_factor")?,
                high: number("high_freq_factor")?,
                original: number("original_max_position_embeddings")?,
            }),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(self.wrong(
                    "rope_scaling",
                    &format!("is of type `{shown}`, which cannot be run"),
                ))
            }
        }
    }
}
