//! A raw pair: `X.json` beside `X.rows.f16`, and `X.layers.f16` for per-layer rows.
//!
//! The rows file is nothing but binary16 rows one after another; everything else is in the JSON, under the keys of
//! [`RawMeta`]. Keys it does not name are carried in the trace's `extra` and come back on export.

use crate::error::{Error, Result};
use crate::trace::header::{Header, Sampler};
use crate::trace::import::numbers::{Numbers, Width};
use crate::trace::import::rows::{Extent, RowStream, bounded, weights};
use crate::trace::import::{Job, Options};
use crate::trace::source::open_regular;
use serde::{Deserialize, Serialize};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Value of `format` in the JSON.
pub(crate) const FORMAT: &str = "attn-trace-f16-v0";
/// Longest JSON taken (bytes).
const MAX_JSON: u64 = 256 << 20;

/// The JSON of a raw pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RawMeta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gguf_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layers: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kv_heads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head_dim: Option<u32>,
    pub(crate) prompt_len: u32,
    pub(crate) rows: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) row_dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) row_layout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) averaged: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) temp: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_scores: Option<Vec<f32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) logp: Option<Vec<f32>>,
    #[serde(default)]
    pub(crate) forced: Vec<u32>,
    #[serde(flatten)]
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
}

/// `X.json` becomes `X.rows.f16`.
pub(crate) fn sibling(json: &Path, ending: &str) -> PathBuf {
    json.with_extension(ending)
}

pub(crate) fn import(path: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let label = path.display().to_string();
    let meta = read(path, &label)?;
    options.agree(&label, meta.prompt_len)?;
    let extent = bounded(&label, meta.prompt_len.into(), meta.rows.into())?;
    if let Some(t) = meta.forced.iter().find(|t| **t >= meta.rows) {
        return Err(Error::data(format!(
            "{label}: `forced` names row {t} of {}",
            meta.rows
        )));
    }
    let numbers = floats(&sibling(path, "rows.f16"), weights(extent), &label)?;
    let means = RowStream::means(numbers, &[], extent);
    let layers_path = sibling(path, "layers.f16");
    let layers = if layers_path.exists() {
        Some(per_layer(&layers_path, meta.layers, extent, &label)?)
    } else {
        None
    };
    let tokens = tokens(&meta, &label)?;
    let mut header = header(meta, options);
    if tokens.is_some() {
        header = header.with_tokens();
    }
    let mut job = Job::new(header, extent, means, layers)?;
    job.tokens = tokens;
    job.write(out)
}

fn read(path: &Path, label: &str) -> Result<RawMeta> {
    let (file, length) = open_regular(path)?;
    if length > MAX_JSON {
        return Err(Error::data(format!(
            "{label} has {length} bytes; at most {MAX_JSON} are taken"
        )));
    }
    let meta: RawMeta = serde_json::from_reader(BufReader::new(file))
        .map_err(|e| Error::data(format!("{label} is not the JSON of a raw pair: {e}")))?;
    match meta.format.as_deref() {
        None | Some(FORMAT) => {}
        Some(other) => {
            return Err(Error::data(format!(
                "{label} has format `{other}`; `{FORMAT}` is read"
            )));
        }
    }
    match meta.row_dtype.as_deref() {
        None | Some("<f2") => Ok(meta),
        Some(other) => Err(Error::data(format!(
            "{label} has row_dtype `{other}`; rows are `<f2`"
        ))),
    }
}

/// Opens a file of binary16 and checks its length.
fn floats(path: &Path, count: u64, json: &str) -> Result<Numbers<'static>> {
    let (file, length) = open_regular(path)?;
    let label = path.display().to_string();
    if Some(length) != count.checked_mul(2) {
        return Err(Error::data(format!(
            "{label} has {length} bytes; prompt_len and rows of {json} make {} bytes",
            u128::from(count) * 2
        ))
        .help("row t has prompt_len + t + 1 weights of 2 bytes: the file is cut, or the JSON is another's"));
    }
    Ok(Numbers::new(
        BufReader::with_capacity(1 << 16, file),
        Width::F16,
        label,
        0,
    ))
}

fn per_layer(
    path: &Path,
    layers: Option<u32>,
    extent: Extent,
    json: &str,
) -> Result<(RowStream<'static>, u32)> {
    let layers = layers.filter(|n| *n > 0).ok_or_else(|| {
        Error::data(format!(
            "{json} names no `layers`, but {} is there",
            path.display()
        ))
    })?;
    let count = weights(extent).checked_mul(layers.into()).ok_or_else(|| {
        Error::data(format!(
            "{json}: `layers` {layers} is more than any file holds"
        ))
    })?;
    RowStream::layers(floats(path, count, json)?, &[count], extent)
}

/// Generated ids with log-probabilities (NaN where unknown), checked against the number of rows.
fn tokens(meta: &RawMeta, label: &str) -> Result<Option<Vec<(u32, f32)>>> {
    let rows = meta.rows as usize;
    let lengths = [
        ("tokens", meta.tokens.as_ref().map(Vec::len)),
        ("logp", meta.logp.as_ref().map(Vec::len)),
    ];
    for (key, length) in lengths {
        if let Some(n) = length.filter(|n| *n != rows) {
            return Err(Error::data(format!(
                "{label}: `{key}` has {n} entries, `rows` is {rows}"
            )));
        }
    }
    let Some(ids) = &meta.tokens else {
        return Ok(None);
    };
    let unknown = vec![f32::NAN; rows];
    let logp = meta.logp.as_ref().unwrap_or(&unknown);
    Ok(Some(
        ids.iter().copied().zip(logp.iter().copied()).collect(),
    ))
}

fn header(meta: RawMeta, options: &Options) -> Header {
    let mut header = Header::new("", meta.prompt_len);
    header.extra = meta.extra;
    name_model(&mut header, meta.model);
    if let Some(model) = &options.model {
        header.model.clone_from(model);
    }
    if let Some(averaged) = meta.averaged {
        header.averaging = averaged;
    }
    if (meta.temp, meta.top_p, meta.seed) != (None, None, None) {
        header.sampler = Some(Sampler {
            temperature: meta.temp,
            top_p: meta.top_p,
            seed: meta.seed,
        });
    }
    Header {
        architecture: meta.arch,
        weights_sha256: meta.gguf_sha256,
        layers: meta.layers,
        heads: meta.heads,
        kv_heads: meta.kv_heads,
        head_dim: meta.head_dim,
        prompt_ids: meta.prompt,
        prompt_column_sums: meta.prompt_scores,
        forced: meta.forced,
        ..header
    }
}

/// Splits `SmolLM2-135M-Instruct Q4_1 GGUF (apache-2.0)` into its facts; the text as given stays in `extra`.
fn name_model(header: &mut Header, text: Option<String>) {
    let Some(text) = text else { return };
    let is_type = |w: &str| w.starts_with('Q') && w[1..].starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.iter().position(|w| is_type(w)) {
        Some(at) if at > 0 => {
            header.model = words[..at].join(" ");
            header.quantisation = Some(words[at].into());
            let licence = text
                .split_once('(')
                .and_then(|(_, rest)| rest.strip_suffix(')'));
            header.licence = licence.map(String::from);
        }
        _ => header.model.clone_from(&text),
    }
    header.extra.insert("model".into(), text.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_texts() {
        let mut h = Header::new("", 1);
        name_model(
            &mut h,
            Some("SmolLM2-135M-Instruct Q4_1 GGUF (apache-2.0)".into()),
        );
        assert_eq!(h.model, "SmolLM2-135M-Instruct");
        assert_eq!(
            (h.quantisation.as_deref(), h.licence.as_deref()),
            (Some("Q4_1"), Some("apache-2.0"))
        );
        name_model(&mut h, Some("Qwen".into()));
        assert_eq!(h.model, "Qwen");
        name_model(&mut h, Some("Q4_1".into()));
        assert_eq!(h.model, "Q4_1");
        name_model(&mut h, Some("a Qé (".into()));
        assert_eq!(h.model, "a Qé (");
    }
}
