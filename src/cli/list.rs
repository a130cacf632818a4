//! `kvplan list`.

use std::io::Write;

use crate::error::{Error, Result};

/// Arguments of `list`.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArgs {}

/// Not in yet.
///
/// # Errors
/// Always.
pub fn run(_args: &ListArgs, _out: &mut dyn Write) -> Result<()> {
    Err(Error::usage("`list` is not in yet"))
}
