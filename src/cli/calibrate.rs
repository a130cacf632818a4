//! `kvplan calibrate`: this machine, measured and fitted into a profile.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use clap::{Args, ValueHint};

use crate::calibrate::cuda::Gpu;
use crate::calibrate::probe::{RecordedProbe, measure};
use crate::calibrate::raw::{Raw, tidy};
use crate::calibrate::{Calibrated, import};
use crate::catalog::{self, Shelf};
use crate::error::{Cause, Error, Result};
use crate::report::plot::calibration as drawing;
use crate::report::{Style, calibrate as page, json, md, table};
use crate::validate::holdout;

use super::flags::Format;
use super::measured::{Asked, checked, measured};
use super::out::Out;
use super::pair::{self, Pair};
use super::plot;
use super::record::whole;

/// Card whose GPU and link stand under a measured host where none is named: the one of the default question.
const CARD: &str = "h200-sxm";

/// Arguments of `calibrate`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan calibrate\n  kvplan calibrate --host-only --quick --gpu rtx-5080\n  kvplan calibrate --from calibration/raw/build-7-rtx-5080-2026-11-30.csv\n  \
    nvbandwidth -j > report.json && kvplan calibrate --from report.json --gpu h100-sxm\n  \
    kvplan plan --hardware calibration/build-7-rtx-5080-2026-11-30.toml\n\n\
    Writes DIR/HOST-CARD-DATE.toml and DIR/raw/HOST-CARD-DATE.csv; older ones of the\n    same name are kept as HOST-CARD-DATE.1.toml and raw/HOST-CARD-DATE.1.csv, .2 and so on"
)]
#[allow(clippy::struct_excessive_bools)] // switches
pub struct CalibrateArgs {
    /// A look in under a minute; else a few minutes
    #[arg(long)]
    quick: bool,
    /// Measure memory and cores only; GPU and link are the catalog's
    #[arg(long, conflicts_with = "from")]
    host_only: bool,
    /// Measure the GPU and its link only; memory and cores are the catalog's
    #[arg(long, conflicts_with_all = ["from", "host_only"])]
    gpu_only: bool,
    /// Only run the tier loop in every mode against attention over everything, and say how near it comes
    #[arg(long, conflicts_with_all = ["from", "host_only", "gpu_only", "unchecked"])]
    check_only: bool,
    /// GPU to measure, as CUDA counts them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<usize>, conflicts_with_all = ["from", "host_only"])]
    device: usize,
    /// Card under the measurements: what was not measured is its
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// Fit what was measured before: a raw file, nvbandwidth's JSON, or rows `direction,bytes,GB/s`; `-` is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "quick")]
    from: Option<PathBuf>,
    /// Folder of the profile and of raw/
    #[arg(short, long = "out", value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "calibration")]
    out: PathBuf,
    /// Leave out the host's name
    #[arg(long)]
    anonymous: bool,
    /// Do not hold the outputs of the tier loop against attention over everything
    #[arg(long, hide = true)]
    unchecked: bool,
    /// Seed of the order of measurements
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>)]
    seed: u64,
    /// Draw the fit, its residuals and its predictions into FILE (.svg or .png) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "check_only")]
    plot: Option<PathBuf>,
    /// Form of the answer
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

/// Refuses what can be no folder, before minutes of measuring.
fn takes_files(out: &Path) -> Result<()> {
    let raw = out.join("raw");
    let is_file = |p: &&Path| p.exists() && !p.is_dir();
    match raw.ancestors().find(is_file) {
        Some(file) => Err(Error::usage(format!("{}: is a file", file.display()))
            .help("name a folder with -o, the profile and raw/ are made in it")),
        None => Ok(()),
    }
}

/// Measures or reads, fits, writes.
///
/// # Errors
/// No such card, file or folder (exit 2); a damaged file (exit 3); no GPU that could be measured (exit 4).
pub fn run(args: &CalibrateArgs, out: &mut Out) -> Result<()> {
    if let Some(gpu) = &args.gpu {
        catalog::hardware(gpu)?; // before the measurement, not after
    }
    let image = args.plot.as_deref().map(plot::image).transpose()?;
    if args.check_only {
        let found = checked(&Gpu::open(args.device)?, args.quick)?;
        let line = |(mode, found): (&str, String)| format!("{mode}: {found}\n");
        return out.result(&found.into_iter().map(line).collect::<String>());
    }
    takes_files(&args.out)?;
    let raw = if let Some(path) = &args.from {
        recorded(args, path, out)?
    } else {
        pair::writable(&args.out)?;
        measured(args.asked(), CARD, out)?
    };
    if raw.series().is_empty() {
        return Err(Error::new(Cause::Interrupted, "nothing was measured yet"));
    }
    let card = Some(raw.of("gpu_id").to_string()).filter(|c| !c.is_empty());
    let card = card.unwrap_or_else(|| CARD.into());
    let own_file = catalog::extension(&card).is_some();
    let base = catalog::hardware(&card).map_err(|e| match &args.from {
        Some(path) => Error::data(format!("{}: its `gpu_id`: {e}", path.display()))
            .help("name the card with --gpu"),
        None => e,
    })?;
    let done = Calibrated::of(&raw, base, own_file, &holdout::predict)?;
    Pair {
        folder: &args.out,
        stem: &done.stem,
        raw: &raw.text(),
        profile: &done.text,
        from: args.from.as_deref(),
    }
    .keep(out)?;
    let answer = done.answer();
    if let (Some(path), Some(image)) = (&args.plot, image) {
        let mut file = Out::beside(path)?;
        file.bytes(&drawing::draw(&answer, image)?)?;
        file.finish()?;
    }
    let style = Style { color: out.color() };
    out.result(&match args.format {
        Format::Table => table::render(&page::page(&answer), style),
        Format::Json => json::pretty(&answer)?,
        Format::Csv => page::csv(&answer)?,
        Format::Md => md::render(&page::page(&answer)),
    })?;
    if args.from.is_none() && !raw.of("partial").is_empty() {
        let why = "the run was interrupted: what was finished is kept and marked `partial`";
        return Err(Error::new(Cause::Interrupted, why).help("measure again for the rest"));
    }
    Ok(())
}

impl CalibrateArgs {
    fn asked(&self) -> Asked<'_> {
        Asked {
            quick: self.quick,
            host_only: self.host_only,
            gpu_only: self.gpu_only,
            device: self.device,
            card: self.gpu.as_deref(),
            anonymous: self.anonymous,
            check: !self.unchecked,
            seed: self.seed,
        }
    }
}

/// What was measured before.
fn recorded(args: &CalibrateArgs, path: &Path, out: &Out) -> Result<Raw> {
    let shown = path.display().to_string();
    let read = if path.as_os_str() == "-" {
        import::read("stdin", std::io::stdin().lock())?
    } else {
        let cannot = |e: std::io::Error| {
            Error::usage(format!("{shown}: cannot be read: {e}"))
                .help("name a raw file, nvbandwidth's JSON, or rows `direction,bytes,GB/s`")
        };
        if path.is_dir() {
            return Err(Error::usage(format!("{shown}: is a directory")).help("name a file in it"));
        }
        let file = File::open(path).map_err(cannot)?;
        import::read(&shown, BufReader::with_capacity(1 << 16, file))?
    };
    read.notes.iter().for_each(|n| out.note(n));
    let seed = read.raw.of("seed").parse().unwrap_or(args.seed);
    let mut raw = measure(&mut RecordedProbe::new(read.raw), seed, &AtomicU64::new(0))?;
    if let Some(gpu) = &args.gpu {
        let id = Shelf::Hardware.id(gpu).map_or(gpu.clone(), String::from);
        raw.head.insert("gpu_id".into(), tidy(&id));
    }
    if args.anonymous {
        raw.head.insert("host".into(), "host".into());
    }
    Ok(raw)
}
