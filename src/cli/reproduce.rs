//! `kvplan reproduce`: the published figures beside ours.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::error::{Error, Result};
use crate::report::plot::reproduce as drawing;
use crate::report::{Style, json, md, reproduce as page, table};

use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::plot;

/// Arguments of `reproduce`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan reproduce\n  kvplan reproduce --format md -o reproduce.md --plot reproduce.svg"
)]
pub struct ReproduceArgs {
    #[command(flatten)]
    result: ResultArgs,
    /// Draw published over ours into FILE (.svg or .png) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// Computes and writes it.
///
/// # Errors
/// A file cannot be written (exit 2).
pub fn run(args: &ReproduceArgs, out: &mut Out) -> Result<()> {
    if args.plot.is_some() && args.plot == args.result.out {
        return Err(
            Error::usage("the drawing and the result cannot be one file")
                .help("name another file with --plot"),
        );
    }
    args.result.open(out)?;
    let mut figure = None;
    if let Some(path) = &args.plot {
        let file = Out::beside(path)?;
        figure = Some((file, plot::image(path)?));
    }
    let answer = crate::reproduce::reproduce()?;
    if let Some((mut file, image)) = figure {
        file.bytes(&drawing::draw(&answer, image)?)?;
        file.finish()?;
    }
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::render(&page::page(&answer), style),
        Format::Json => json::pretty(&answer)?,
        Format::Csv => page::csv(&answer)?,
        Format::Md => md::render(&page::page(&answer)),
    })
}
