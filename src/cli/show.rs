//! `kvplan show`.

use std::io::Write;

use crate::error::{Error, Result};

/// Arguments of `show`.
#[derive(Clone, Debug, clap::Args)]
pub struct ShowArgs {}

/// Not in yet.
///
/// # Errors
/// Always.
pub fn run(_args: &ShowArgs, _out: &mut dyn Write) -> Result<()> {
    Err(Error::usage("`show` is not in yet"))
}
