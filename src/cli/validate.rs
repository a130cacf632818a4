//! `kvplan validate`: predictions against tables of real measurements.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use crate::error::{Error, Result};
use crate::report::plot::validate as drawing;
use crate::report::{Style, json, md, table, validate as page};
use crate::validate::expected::expected;
use crate::validate::validate;

use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::{plot, progress};

/// Arguments of `validate`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan validate ../shared/reference\n  kvplan validate tables --format json -o validation.json --rows rows.csv --plot validation.svg"
)]
pub struct ValidateArgs {
    /// Folder of tables, known by the end of their names (`decode_attn.csv`, `linear_layers.csv`, ...)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Predict each card as if it had not been measured, from the laws of its class (all spellings of a card are one)
    #[arg(long, value_name = "WHAT", value_parser = ["card"])]
    leave_out: Option<String>,
    #[command(flatten)]
    result: ResultArgs,
    /// Write every row, measured and predicted with its interval, into FILE (.csv) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    rows: Option<PathBuf>,
    /// Write the errors that `plan` quotes, by card and of cards predicted from others, into FILE (.toml) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "leave_out")]
    expected: Option<PathBuf>,
    /// Draw predicted over measured into FILE (.svg or .png) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// Reads, predicts and writes.
///
/// # Errors
/// No such folder or no known table in it, or a file that cannot be written (exit 2); a damaged table (exit 3).
pub fn run(args: &ValidateArgs, out: &mut Out) -> Result<()> {
    let files = [&args.result.out, &args.rows, &args.plot, &args.expected];
    for file in files.into_iter().flatten() {
        keep(&args.dir, file)?;
    }
    args.result.open(out)?;
    let rows = args.rows.as_deref().map(Out::beside).transpose()?;
    let image = args.plot.as_deref().map(plot::image).transpose()?;
    let figure = args.plot.as_deref().map(Out::beside).transpose()?;
    let quoted = args.expected.as_deref().map(Out::beside).transpose()?;
    let watch = progress::watch("predicting", 0, out.quiet());
    let run = validate(&args.dir, args.leave_out.is_some())?;
    if let Some(mut file) = quoted {
        let errors = expected(&run, &validate(&args.dir, true)?);
        file.result(&page::expected(&errors)?)?;
        file.finish()?;
    }
    drop(watch);
    if let Some(mut file) = rows {
        file.result(&page::rows(&run.rows)?)?;
        file.finish()?;
    }
    if let (Some(mut file), Some(image)) = (figure, image) {
        file.bytes(&drawing::draw(&run, image)?)?;
        file.finish()?;
    }
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::render(&page::page(&run.answer), style),
        Format::Json => json::pretty(&run.answer)?,
        Format::Csv => page::csv(&run.answer)?,
        Format::Md => md::render(&page::page(&run.answer)),
    })
}

/// Refuses to write over a table that the run reads.
fn keep(dir: &Path, file: &Path) -> Result<()> {
    let real = |p: &Path| std::fs::canonicalize(p).ok();
    let inside = real(file).is_some_and(|f| f.parent().map(Path::to_path_buf) == real(dir));
    if inside {
        return Err(Error::usage(format!(
            "{}: the result would replace a file in the folder that the run reads",
            file.display()
        ))
        .help("write into another folder"));
    }
    Ok(())
}
