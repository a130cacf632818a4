//! `kvplan plan`: one question, every way to serve it, several cards.

use clap::Args;

use crate::error::Result;
use crate::report::{Style, csv, json, md, table};
use crate::scenario::{print, resolve};

use super::Answer;
use super::find::{FindArgs, refuse_load, refuse_weights};
use super::flags::{Deployment, Format, ResultArgs};
use super::out::Out;
use super::progress;

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan plan\n  kvplan plan --hardware h100-sxm --gpus 1,2,4\n  \
    kvplan plan --model llama-3.1-8b --weights bf16 --hardware rtx-4090,l40s --batch 16 --output 30k\n  \
    kvplan plan long-chain --format md -o answer.md\n  \
    kvplan plan --intervals full --hardware h200-sxm,gh200\n  \
    kvplan plan --find max-batch --tpot-p99 30ms\n  \
    kvplan plan --find max-rate --ttft-p99 10s --lengths servegen-r1 --requests 1000 --price 2.5\n  \
    kvplan plan --find min-hbm --tpot-p99 60ms --hardware gh200\n  \
    kvplan plan --find max-batch --weights-in-ddr fit --hardware gh200"
)]
pub struct PlanArgs {
    #[command(flatten)]
    deployment: Deployment<true>,
    #[command(flatten)]
    find: FindArgs,
    #[command(flatten)]
    result: ResultArgs,
}

/// Runs it; the answer is no if nothing fits on any card.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces.
pub fn run(args: &PlanArgs, out: &mut Out) -> Result<Answer> {
    let mut settings = args.deployment.settings()?;
    args.find.adapt(&mut settings)?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        args.result
            .open_scenario(&settings, &args.deployment, out)?;
        out.result(&print::config(&settings))?;
        // Shown first, so that one sees where a contradiction comes from.
        resolve::question(&settings)?;
        return Ok(Answer::Yes);
    }
    let question = resolve::question(&settings)?;
    args.result.keep(&question.base.named, &args.deployment)?;
    let find = args.find.find();
    if find.is_none() {
        refuse_load(&question)?;
        refuse_weights(&settings)?;
    }
    args.result.open(out)?;
    if let Some(find) = find {
        let _watch = progress::watch("searching", 0, out.quiet());
        let format = args.result.format();
        return args.find.run(find, &question, &settings, format, out);
    }
    let begun = std::time::Instant::now();
    let watch = progress::watch("replaying", question.base.trace.bytes(), out.quiet());
    let plan = crate::plan::plan(&question)?;
    drop(watch);
    out.detail(&format!("answered in {:.1?}", begun.elapsed()));
    if args.result.format() != Format::Table {
        plan.notes.iter().for_each(|n| out.note(n)); // a page shows its own
    }
    let style = Style { color: out.color() };
    out.result(&match args.result.format() {
        Format::Table => table::plan(&plan, style),
        Format::Json => json::pretty(&plan)?,
        Format::Csv => csv::plan(&plan)?,
        Format::Md => md::plan(&plan),
    })?;
    Ok(Answer::of(plan.runs_somewhere()))
}
