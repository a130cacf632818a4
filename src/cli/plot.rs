//! `kvplan plot`: figures.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::error::{Error, Result, did_you_mean};
use crate::plan::curve;
use crate::report::plot::{Image, how_far};
use crate::scenario::{print, resolve};

use super::Answer;
use super::flags::Deployment;
use super::out::Out;

/// Kinds of figure: name and what it shows.
const KINDS: &[(&str, &str)] = &[(
    "how-far",
    "tokens per request against tokens/s on one card: wall, free zone, T1 modes, the engine as it is",
)];

/// Settings that the figure varies itself.
const COMPARED: &[&str] = &["policy", "t1", "occupancy", "trace"];

/// Arguments of `plot`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan plot --list\n  kvplan plot --hardware gh200 -o how-far.svg\n  \
    kvplan plot --kind how-far --hardware h100-sxm --batch 4 -o how-far.png"
)]
pub struct PlotArgs {
    /// Kind of figure (see --list)
    #[arg(long, value_name = "KIND", default_value = "how-far")]
    kind: String,
    /// List the kinds of figure and stop
    #[arg(long)]
    list: bool,
    /// Write the figure to FILE; .svg or .png chooses the format
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    #[command(flatten)]
    deployment: Deployment<false>,
}

/// Draws it.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces.
pub fn run(args: &PlotArgs, out: &mut Out) -> Result<Answer> {
    if args.list {
        let lines: Vec<String> = KINDS
            .iter()
            .map(|(name, what)| format!("{name:<10} {what}\n"))
            .collect();
        out.result(&lines.concat())?;
        return Ok(Answer::Yes);
    }
    if !KINDS.iter().any(|(name, _)| *name == args.kind) {
        let guess = did_you_mean(&args.kind, KINDS.iter().map(|k| k.0))
            .map_or(String::new(), |g| format!("did you mean `{g}`? "));
        return Err(Error::usage(format!("figure `{}` is not known", args.kind))
            .help(format!("{guess}`kvplan plot --list` shows all")));
    }
    let path = args.out.as_ref().ok_or_else(|| {
        Error::usage("a figure needs a file").help("add `-o FILE.svg` or `-o FILE.png`")
    })?;
    let image = image(path)?;
    let mut settings = args.deployment.settings()?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        out.result(&print::config(&settings))?;
        // Shown first, so that one sees where a contradiction comes from.
        resolve::scenario(&settings)?;
        return Ok(Answer::Yes);
    }
    let scenario = resolve::scenario(&settings)?;
    for name in COMPARED.iter().filter(|n| settings.asked(n).is_some()) {
        out.note(&format!(
            "--{name} is not used: the figure compares the ways to run it"
        ));
    }
    out.to_file(path)?;
    let curve = curve::curve(&scenario, scenario.prompt + scenario.output)?;
    out.bytes(&how_far::draw(&curve, image)?)?;
    Ok(Answer::Yes)
}

/// The format a file name asks for.
pub(super) fn image(path: &std::path::Path) -> Result<Image> {
    match path
        .extension()
        .and_then(|e| e.to_str())
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("svg") => Ok(Image::Svg),
        Some("png") => Ok(Image::Png),
        _ => Err(
            Error::usage(format!("{}: a figure is .svg or .png", path.display()))
                .help("name the file FILE.svg or FILE.png"),
        ),
    }
}
