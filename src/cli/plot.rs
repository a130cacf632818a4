//! `kvplan plot`.

use std::io::Write;

use crate::error::{Error, Result};

/// Arguments of `plot`.
#[derive(Clone, Debug, clap::Args)]
pub struct PlotArgs {}

/// Not in yet.
///
/// # Errors
/// Always.
pub fn run(_args: &PlotArgs, _out: &mut dyn Write) -> Result<()> {
    Err(Error::usage("`plot` is not in yet"))
}
