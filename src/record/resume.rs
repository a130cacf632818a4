//! What an earlier run left of a text.

use std::path::{Path, PathBuf};

use super::Settings;
use crate::error::{Error, Result};
use crate::trace::section::{KEYS, LAYERS, QUERIES};
use crate::trace::{Header, Sampler, TraceReader};

/// What is there of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A finished trace of so many rows.
    Whole(u32),
    /// The first tokens.
    Part(Vec<u32>),
}

/// Parts of a trace that killed runs left (`FILE.PID.part`), in the order of their names.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| {
            let own = p
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let pid = own
                .strip_prefix(&name)
                .and_then(|r| r.strip_prefix('.')?.strip_suffix(".part"));
            pid.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
        })
        .collect();
    found.sort();
    found
}

/// What is there of a text with this prompt, to go on from. A damaged part is passed over.
///
/// # Errors
/// Usage: what is there is of another model, prompt or way of drawing, or lacks a section that is asked for. Data: a finished trace that is damaged.
pub fn found(
    path: &Path,
    model: &Header,
    prompt: &[u32],
    sampler: Option<&Sampler>,
    settings: &Settings,
) -> Result<Found> {
    if path.exists() {
        let trace = TraceReader::open(path)?;
        agree(&trace, model, prompt, sampler)?;
        complete(&trace, settings)?;
        return Ok(Found::Whole(trace.rows()));
    }
    let mut best = Vec::new();
    for part in parts(path) {
        let Ok(trace) = TraceReader::open(&part) else {
            continue;
        };
        agree(&trace, model, prompt, sampler)?;
        let tokens: Vec<u32> = trace
            .tokens()?
            .unwrap_or_default()
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        if tokens.len() > best.len() {
            best = tokens;
        }
    }
    Ok(if best.is_empty() {
        Found::Nothing
    } else {
        Found::Part(best)
    })
}

fn agree(
    trace: &TraceReader,
    model: &Header,
    prompt: &[u32],
    sampler: Option<&Sampler>,
) -> Result<()> {
    let there = trace.header();
    let differs = if there.weights_sha256 != model.weights_sha256 {
        "model"
    } else if there.prompt_ids.as_deref() != Some(prompt) {
        "prompt"
    } else if there.sampler.as_ref() != sampler {
        "way of drawing"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "{}: was recorded with another {differs}",
        trace.label()
    ))
    .help("record into another folder, or remove it"))
}

/// Refuses a finished trace without something that is asked for; more than that does no harm.
fn complete(trace: &TraceReader, settings: &Settings) -> Result<()> {
    let header = trace.header();
    let there = |kind| header.section(kind).map(|i| &header.sections[i]);
    let enough = |window: u32| {
        let queries =
            there(QUERIES).map_or(0, |s| s.bytes_once / u64::from(s.bytes_per_row.max(1)));
        there(KEYS).is_some()
            && there(QUERIES).is_some()
            && queries >= u64::from(window.min(header.prompt_length))
    };
    let lacks = if settings.layers && there(LAYERS).is_none() {
        "rows of every layer"
    } else if !settings.keys.is_none_or(enough) {
        "keys and as many queries"
    } else {
        return Ok(());
    };
    Err(
        Error::usage(format!("{}: was recorded without {lacks}", trace.label()))
            .help("record into another folder, or remove it"),
    )
}
