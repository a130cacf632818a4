//! `kvplan selfcheck`: the laws of the simulator on the user's own scenario.

use clap::Args;

use crate::error::Result;
use crate::plan::selfcheck::{Held, SelfCheck, selfcheck};
use crate::report::json;
use crate::scenario::{print, resolve};

use super::Answer;
use super::flags::Deployment;
use super::grid::{Cell, Column, Form, Grid};
use super::out::Out;
use super::progress;

/// Arguments of `selfcheck`.
#[derive(Clone, Debug, Args)]
#[command(
    after_long_help = "EXAMPLES:\n  kvplan selfcheck\n  kvplan selfcheck --hardware gh200 --batch 4\n  kvplan selfcheck --policy four-tier:evict=0.03,semantics=cumulative"
)]
pub struct SelfcheckArgs {
    #[command(flatten)]
    deployment: Deployment<false>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    format: Form,
}

/// Checks; the answer is no if a law is broken.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces.
pub fn run(args: &SelfcheckArgs, out: &mut Out) -> Result<Answer> {
    let mut settings = args.deployment.settings()?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        out.result(&print::config(&settings))?;
        return Ok(Answer::Yes);
    }
    let scenario = resolve::scenario(&settings)?;
    let watch = progress::watch("checking", scenario.trace.bytes(), out.quiet());
    let answer = selfcheck(&scenario)?;
    drop(watch);
    out.result(&match args.format {
        Form::Json => json::pretty(&answer)?,
        form => grid(&answer).render(form)?,
    })?;
    Ok(Answer::of(answer.is_sound()))
}

fn grid(answer: &SelfCheck) -> Grid {
    let mut grid = Grid::new(&[
        Column("law", "LAW", false),
        Column("held", "HELD", false),
        Column("detail", "WHAT WAS COMPARED", false),
    ]);
    for l in &answer.laws {
        let held = match l.held {
            Held::Yes => "yes",
            Held::No => "NO",
            Held::NotAsked => "not asked",
        };
        grid.row(vec![
            Cell::text(&l.law),
            Cell::text(held),
            Cell::text(&l.detail),
        ]);
    }
    grid
}
