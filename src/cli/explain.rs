//! `kvplan explain`: placeholder for the next commit.

use crate::error::Result;

use super::out::Out;

/// Arguments of `explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {}

/// Nothing yet.
///
/// # Errors
/// Never.
pub fn run(_args: &ExplainArgs, _out: &mut Out) -> Result<()> {
    Ok(())
}
