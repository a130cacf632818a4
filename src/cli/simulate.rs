//! `kvplan simulate`: one deployment.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::error::{Error, Result};
use crate::replay::npz;
use crate::report::{Style, csv, json, md, table};
use crate::scenario::{print, resolve};

use super::Answer;
use super::drawing::DrawingArgs;
use super::flags::{Deployment, Format, ResultArgs, read_by_the_run};
use super::out::Out;
use super::progress;

/// Arguments of `simulate`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan simulate\n  kvplan simulate --hardware h100-sxm --t1 host-attention --split 2\n  kvplan simulate --hardware gh200 --t1 direct\n  \
    kvplan simulate --hardware h100-sxm --t1 selective:top-k=512 --home peer\n  \
    kvplan simulate --hardware gh200 --batch 16 --weights-in-ddr fit\n  \
    kvplan simulate --policy four-tier:evict=0.5,semantics=cumulative --length-factor 1.8\n  \
    kvplan simulate --occupancy lengths.csv --batch 32\n  \
    kvplan simulate --hardware h100-sxm --gpus 2 --kv fp8 --format json -o result.json\n  \
    kvplan simulate desktop --batch 2 --print-config\n  \
    kvplan simulate --hardware h100-sxm --perfetto steps.json --perfetto-steps 60..70\n  \
    kvplan simulate --trace smol_1_t9_s5 --policy four-tier:hbm=0.3 --export-decisions kept.npz"
)]
pub struct SimulateArgs {
    #[command(flatten)]
    deployment: Deployment<false>,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    drawing: DrawingArgs,
    /// Write what the policy kept where, decision by decision, to FILE.npz (recorded rows only)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    export_decisions: Option<PathBuf>,
}

/// Runs it; the answer is no if it does not fit.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces.
pub fn run(args: &SimulateArgs, out: &mut Out) -> Result<Answer> {
    let mut settings = args.deployment.settings()?;
    args.drawing.adapt(&mut settings)?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        args.result
            .open_scenario(&settings, &args.deployment, out)?;
        out.result(&print::config(&settings))?;
        // Shown first, so that one sees where a contradiction comes from.
        resolve::scenario(&settings)?;
        return Ok(Answer::Yes);
    }
    let scenario = resolve::scenario(&settings)?;
    args.result.keep(&scenario.named, &args.deployment)?;
    for other in [&args.result.out, &args.export_decisions] {
        args.drawing
            .keep(&scenario.named, &args.deployment, other.as_deref())?;
    }
    args.result.open(out)?;
    if let Some(path) = &args.export_decisions {
        let read = read_by_the_run(path, &scenario.named, &args.deployment).is_some();
        if read || args.result.out.as_ref() == Some(path) {
            return Err(Error::usage(format!(
                "{}: the decisions need a file of their own",
                path.display()
            ))
            .help("name another file with --export-decisions"));
        }
        let mut file = Out::beside(path)?;
        let decided = crate::plan::decisions(&scenario);
        let (decisions, meta) = decided.map_err(|e| e.about("--export-decisions"))?;
        file.bytes(&npz::decisions(&decisions, &meta)?)?;
        file.finish()?;
    }
    let begun = std::time::Instant::now();
    let watch = progress::watch("replaying", scenario.trace.bytes(), out.quiet());
    let outcome = args.drawing.simulate(&scenario, out)?;
    drop(watch);
    out.detail(&format!("answered in {:.1?}", begun.elapsed()));
    if args.result.format() != Format::Table {
        outcome.notes.iter().for_each(|n| out.note(n)); // a page shows its own
    }
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::outcome(&outcome, style),
        Format::Json => json::pretty(&outcome)?,
        Format::Csv => csv::outcome(&outcome)?,
        Format::Md => md::outcome(&outcome),
    })?;
    Ok(Answer::of(outcome.fits))
}
