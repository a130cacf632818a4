//! `kvplan doctor`: what this machine is, and whether it can be calibrated.

use clap::Args;

use crate::calibrate::device::checkup;
use crate::calibrate::facts::Facts;
use crate::error::Result;
use crate::units::text::printable;

use super::grid::{Cell, Column, Form, Grid};
use super::out::Out;

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan doctor\n  kvplan doctor --format json")]
pub struct DoctorArgs {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    format: Form,
}

/// Prints it; what cannot be done is an answer too.
///
/// # Errors
/// The result cannot be written.
pub fn run(args: &DoctorArgs, out: &mut Out) -> Result<()> {
    let found = checkup(&Facts::here());
    if args.format == Form::Table {
        let line = |(what, found): &(String, String)| format!("{what}: {}\n", printable(found));
        return out.result(&found.iter().map(line).collect::<String>());
    }
    let mut grid = Grid::new(&[
        Column("what", "WHAT", false),
        Column("found", "FOUND", false),
    ]);
    for (what, found) in found {
        grid.row(vec![Cell::text(what), Cell::text(found)]);
    }
    out.result(&grid.render(args.format)?)
}
