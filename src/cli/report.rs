//! `kvplan report`: saved results as one file that people read.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::error::{Error, Result};
use crate::report::document::source::Source;
use crate::report::{document, html, json, md};
use crate::scenario::{Settings, Verb, resolve};

use super::out::Out;
use super::same::keep;
use super::{ending, progress, saved};

/// Results that one report takes.
const MOST: usize = 64;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One file with everything in it; light, dark, print, phone.
    Html,
    /// Markdown tables.
    Md,
}

/// Endings of a report's name, and the format that each asks for.
const ENDINGS: [(&str, Format); 3] = [
    ("html", Format::Html),
    ("htm", Format::Html),
    ("md", Format::Md),
];

/// Arguments of `report`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "EXAMPLES:\n  kvplan report -o report.html\n  \
    kvplan plan --model llama-3.1-8b --weights bf16 --hardware rtx-4090,l40s \\\n    \
    --batch 16 --format json -o plan.json\n  \
    kvplan report plan.json -o report.html\n  \
    kvplan report plan-h100.json plan-mine.json -o both.html\n  \
    kvplan report sweep.json --format md\n\n\
    Plans of one question stand side by side, so do simulated runs; other results follow one another.")]
pub struct ReportArgs {
    /// Results of plan, simulate, sweep or plan --find in JSON [default: the default question, planned]
    #[arg(value_name = "RESULT", value_hint = ValueHint::FilePath)]
    results: Vec<PathBuf>,
    /// Format of the report [default: by the ending of --out (.html, .md), else html]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Report file, written whole or not at all; `-` is stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Reads the results and lays them out.
///
/// # Errors
/// No such file, or the report would replace a result (exit 2); not a result that a report takes (exit 3).
pub fn run(args: &ReportArgs, out: &mut Out) -> Result<()> {
    if args.results.len() > MOST {
        return Err(Error::usage(format!(
            "{} results are more than one report takes",
            args.results.len()
        ))
        .help(format!(
            "give at most {MOST}; a sweep holds more deployments in one result"
        )));
    }
    let read = args.results.iter().map(PathBuf::as_path);
    let what = "the report would replace a result that it reads";
    keep(read, args.out.as_deref(), what)?;
    let format = args.format()?;
    let watch = progress::watch("reading", 0, out.quiet());
    let sources = sources(&args.results)?;
    drop(watch);
    if let Some(path) = &args.out {
        out.to_file(path)?;
    }
    let document = document::document(&sources);
    out.result(&match format {
        Format::Html => html::render(&document)?,
        Format::Md => md::document(&document),
    })
}

impl ReportArgs {
    fn format(&self) -> Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let otherwise = ", or say which with --format html or md";
        let of = |path: &PathBuf| ending::format(path, &ENDINGS, otherwise);
        let by_name = self.out.as_ref().map(of).transpose()?.flatten();
        Ok(by_name.unwrap_or(Format::Html))
    }
}

/// The results named, or that of the default question.
fn sources(paths: &[PathBuf]) -> Result<Vec<Source>> {
    if !paths.is_empty() {
        return paths.iter().map(|p| saved::source(p)).collect();
    }
    let question = resolve::question(&Settings::defaults(Verb::Plan))?;
    let text = json::pretty(&crate::plan::plan(&question)?)?;
    Ok(vec![saved::parsed("plan.json", "plan.json".into(), &text)?])
}
