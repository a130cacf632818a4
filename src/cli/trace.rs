//! `kvplan trace`.

use std::io::Write;

use crate::error::{Error, Result};

/// Verbs of `trace`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TraceCommand {
    /// Not in yet.
    Info,
}

/// Not in yet.
///
/// # Errors
/// Always.
pub fn run(_args: &TraceCommand, _out: &mut dyn Write) -> Result<()> {
    Err(Error::usage("`trace` is not in yet"))
}
