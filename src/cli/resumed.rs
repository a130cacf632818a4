//! `--resume` where a result is there already: what is finished is not run again, and what is another's not replaced.
//!
//! Whoever goes on with a run means to lose nothing; without `--resume` a result replaces what was there, as everywhere.

use std::path::Path;

use crate::error::Error;
use crate::journal::Journal;

use super::flags::ResultArgs;

/// A result that is there already where `--resume` would go on with a run that is not: with no journal beside it.
pub(super) fn resumed(result: &ResultArgs, resume: bool) -> Option<&Path> {
    let there = |f: &Path| std::fs::metadata(f).is_ok_and(|m| m.is_file() && m.len() > 0);
    let file = result.file().filter(|f| resume && there(f))?;
    (!Journal::beside(file).exists()).then_some(file)
}

/// Refuses to go on over what is not this run's.
pub(super) fn another(file: &Path, why: &str) -> Error {
    Error::usage(format!("{}: {why}", file.display()))
        .help("name another file with -o, or leave out --resume to replace it")
}
