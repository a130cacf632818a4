//! From .kvt back to a raw pair: `OUT.json`, `OUT.rows.f16`, and `OUT.layers.f16` where there are per-layer rows.
//!
//! Rows come back byte for byte. The JSON holds the same facts under the keys that import reads. All files are written
//! beside and renamed, the JSON last, so that a pair is never half there.

use crate::error::{Error, Result};
use crate::trace::beside::{self, Half};
use crate::trace::header::Header;
use crate::trace::import::raw::{FORMAT, RawMeta, sibling};
use crate::trace::reader::TraceReader;
use crate::trace::section::LAYERS;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The files of the pair, the JSON last; `out` ends in `.json`.
///
/// # Errors
/// Usage if `out` is no .json path.
pub fn targets(reader: &TraceReader, out: &Path) -> Result<Vec<PathBuf>> {
    if out.extension().is_none_or(|e| e != "json") {
        return Err(
            Error::usage(format!("{} does not end in .json", out.display()))
                .help("name the JSON of the pair; rows go beside it, into .rows.f16"),
        );
    }
    let mut targets = vec![sibling(out, "rows.f16")];
    if reader.header().section(LAYERS).is_some() {
        targets.push(sibling(out, "layers.f16"));
    }
    targets.push(out.to_path_buf());
    Ok(targets)
}

/// Writes the pair.
///
/// # Errors
/// Usage if `out` is no .json path or a file cannot be written; data if the trace is damaged.
pub fn export(reader: &TraceReader, out: &Path) -> Result<()> {
    let targets = targets(reader, out)?;
    let meta = meta(reader)?;
    let result = write_all(reader, &meta, &targets);
    if result.is_err() {
        for target in &targets {
            beside::discard(target);
        }
    }
    result
}

fn write_all(reader: &TraceReader, meta: &RawMeta, targets: &[PathBuf]) -> Result<()> {
    let json = serde_json::to_vec(meta)
        .map_err(|e| Error::internal(format!("the JSON of a raw pair cannot be written: {e}")))?;
    let mut files = Vec::new();
    for target in targets {
        files.push(beside::create(target, Half::Stale)?);
    }
    for (section, (file, target)) in files.iter_mut().zip(targets).enumerate() {
        let is_json = section + 1 == targets.len();
        if is_json {
            put(file, &json, target)?;
        } else {
            rows(reader, section, file, target)?;
        }
    }
    for (file, target) in files.iter().zip(targets) {
        beside::publish(file, target, Half::Stale)?;
    }
    Ok(())
}

/// Copies the rows of the mean (0) or per-layer section.
fn rows(reader: &TraceReader, which: usize, file: &mut File, target: &Path) -> Result<()> {
    let section = match which {
        0 => 0,
        _ => reader.header().section(LAYERS).unwrap_or(0),
    };
    reader.for_each_chunk(section, 0..reader.rows(), &mut |chunk| {
        put(file, chunk.bytes, target)
    })
}

fn put(file: &mut File, bytes: &[u8], target: &Path) -> Result<()> {
    file.write_all(bytes)
        .map_err(|e| beside::cannot_write(target, &e))
}

fn meta(reader: &TraceReader) -> Result<RawMeta> {
    let header = reader.header();
    let tokens = reader.tokens()?;
    let logp: Option<Vec<f32>> = tokens.as_ref().map(|all| all.iter().map(|t| t.1).collect());
    let mut extra = header.extra.clone();
    let original = extra
        .remove("model")
        .and_then(|m| Some(m.as_str()?.to_string()));
    let sampler = header.sampler.clone().unwrap_or_default();
    Ok(RawMeta {
        format: Some(FORMAT.into()),
        model: Some(original.unwrap_or_else(|| model_text(header))),
        arch: header.architecture.clone(),
        gguf_sha256: header.weights_sha256.clone(),
        layers: header.layers,
        heads: header.heads,
        kv_heads: header.kv_heads,
        head_dim: header.head_dim,
        prompt_len: header.prompt_length,
        rows: reader.rows(),
        row_dtype: Some("<f2".into()),
        row_layout: Some(
            "rows without gaps; row t: prompt_len + t + 1 weights, positions ascending, the step's own position at the end"
                .into(),
        ),
        averaged: Some(header.averaging.clone()),
        temp: sampler.temperature,
        top_p: sampler.top_p,
        seed: sampler.seed,
        prompt: header.prompt_ids.clone(),
        prompt_scores: header.prompt_column_sums.clone(),
        tokens: tokens.map(|all| all.iter().map(|t| t.0).collect()),
        logp: logp.filter(|all| all.iter().all(|p| p.is_finite())),
        forced: header.forced.iter().copied().filter(|t| *t < reader.rows()).collect(),
        extra,
    })
}

fn model_text(header: &Header) -> String {
    let mut text = header.model.clone();
    if let Some(q) = &header.quantisation {
        text = format!("{text} {q} GGUF");
    }
    match &header.licence {
        Some(licence) => format!("{text} ({licence})"),
        None => text,
    }
}
