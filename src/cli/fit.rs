//! `kvplan fit`: the laws of kernels from tables of measurements.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::error::{Error, Result};
use crate::fit::fit;
use crate::report::{Style, fit as page, json, md, table};

use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::progress;

/// Arguments of `fit`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan fit ../shared/reference\n  kvplan fit ../shared/reference --profiles models/kernels\n\nA profile is read when kvplan is built; to use one at once, put its tables under [gpu.kernels] of a\nmachine file."
)]
pub struct FitArgs {
    /// Folder of tables, known by the end of their names (`decode_attn.csv`, `linear_layers.csv`, `prefill_ops.csv`, ...)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    #[command(flatten)]
    result: ResultArgs,
    /// Write the fitted laws into FOLDER as well, a file a card and one for classes; files there are replaced
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    profiles: Option<PathBuf>,
}

/// Reads, fits and writes.
///
/// # Errors
/// No such folder, no table with enough rows in it, or a file that cannot be written (exit 2); a damaged table (exit 3).
pub fn run(args: &FitArgs, out: &mut Out) -> Result<()> {
    args.result.open(out)?;
    if let Some(folder) = &args.profiles {
        std::fs::create_dir_all(folder).map_err(|e| {
            Error::usage(format!("{}: cannot be made: {e}", folder.display()))
                .help("name a folder with --profiles")
        })?;
    }
    let watch = progress::watch("fitting", 0, out.quiet());
    let profiles = fit(&args.dir)?;
    drop(watch);
    for (name, text) in &profiles.files {
        if let Some(folder) = &args.profiles {
            let mut file = Out::beside(&folder.join(name))?;
            file.result(text)?;
            file.finish()?;
        }
    }
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::render(&page::page(&profiles.fit), style),
        Format::Json => json::pretty(&profiles.fit)?,
        Format::Csv => page::csv(&profiles.fit)?,
        Format::Md => md::render(&page::page(&profiles.fit)),
    })
}
