//! A set of traces by name: paths, names in the binary, and quoted patterns.
//!
//! Patterns (`*`, `?`, `[..]`) are expanded here and not left to the shell, because a scenario file has no shell and a
//! quoted pattern means the same on every system. A file that has the very name goes first. Matches come in the order of
//! their paths, so that request i uses the same trace on every machine.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// The paths that the texts stand for, in order.
///
/// # Errors
/// Usage: a pattern that is none, matches nothing, or meets a folder that cannot be read.
pub fn expand(texts: &[String]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for text in texts {
        if text.contains(['*', '?', '[']) && !Path::new(text).exists() {
            paths.extend(matches(text)?);
        } else {
            paths.push(PathBuf::from(text));
        }
    }
    Ok(paths)
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>> {
    let found = glob::glob(pattern).map_err(|e| {
        Error::usage(format!("`{pattern}` is not a pattern: {}", e.msg))
            .help("write `*`, `?` or `[..]`, as in traces/*.kvt")
    })?;
    let paths: Vec<PathBuf> = found
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| Error::usage(format!("cannot read {}: {}", e.path().display(), e.error())))?;
    if paths.is_empty() {
        return Err(Error::usage(format!("no file matches `{pattern}`"))
            .help("quote the pattern; it is relative to the working folder"));
    }
    Ok(paths)
}
