//! The traces in the binary, so that the first command needs no files.

use crate::error::{Error, Result, did_you_mean};
use crate::trace::TraceReader;
use std::path::Path;

/// Name and bytes of each trace in the binary; the first is the default.
pub fn embedded() -> &'static [(&'static str, &'static [u8])] {
    &[(
        "smol_1_t9_s5",
        include_bytes!("../../traces/smol_1_t9_s5.kvt"),
    )]
}

/// The default trace: SmolLM2-135M-Instruct, prompt 128, 1000 rows.
///
/// # Errors
/// None with an undamaged binary.
pub fn default_trace() -> Result<TraceReader> {
    let (name, bytes) = embedded()[0];
    TraceReader::from_bytes(name, bytes)
}

/// Opens a trace by path, or by name one in the binary (a file of that name goes first).
///
/// # Errors
/// Usage if there is neither, with a suggestion; data if the file is damaged.
pub fn find(text: &str) -> Result<TraceReader> {
    let path = Path::new(text);
    let known = embedded().iter().find(|(name, _)| *name == text);
    match known {
        Some((name, bytes)) if !path.exists() => TraceReader::from_bytes(name, bytes),
        _ => TraceReader::open(path).map_err(|e| suggest(e, text)),
    }
}

fn suggest(error: Error, text: &str) -> Error {
    let names = embedded().iter().map(|(name, _)| *name);
    match did_you_mean(text, names) {
        Some(name) if !Path::new(text).exists() => error.help(format!(
            "the binary has a trace `{name}`; a file needs its path"
        )),
        _ => error,
    }
}
