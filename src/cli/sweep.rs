//! `kvplan sweep`: a grid of deployments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::report::{Style, csv, json, md, table};
use crate::scenario::{Settings, print, resolve};
use crate::sweep::axis::{Axis, Varied};
use crate::sweep::equal::Equal;
use crate::sweep::grid::Grid;
use crate::sweep::journal;
use crate::sweep::{Sweep, pareto};

use super::Answer;
use super::flags::{Deployment, Format, ResultArgs};
use super::out::Out;
use super::{interrupt, progress};

/// Arguments of `sweep`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("policy", |a| a.action(clap::ArgAction::Append)),
    after_long_help = "VALUES\n  \
    Split on commas; the parameters of a policy stay with it: policy=full,four-tier:hbm=0.5,window=64\n  \
    are two. batch=1..9+2 is 1,3,5,7,9 and output=1Ki..16Ki*2 doubles. policy.KEY varies a parameter\n  \
    of the policy. The first --vary is the slowest; a repeated --policy is an axis too, slower still.\n\n\
    EQUAL\n  \
    The first policy is the reference; the budget of each other one is solved for the same\n    \
    hbm-peak     HBM at its largest (four-tier's hbm, the budget of those that destroy)\n    \
    total-bytes  HBM and host memory at their largest, together (four-tier's evict)\n    \
    retained     live tokens a request, mean over steps (four-tier's evict)\n    \
    tpot         mean time per output token (four-tier's hbm)\n  \
    to within 0.5 %; a cell that cannot come as near is refused. With a value (hbm-peak=120GiB,\n  \
    retained=4000, tpot=20ms) all policies are brought to it. policy.KEY varies the reference alone.\n\n\
    PARETO\n  \
    A cell is on the front if no other is at least as good in every objective and better in one.\n  \
    Cells that do not fit, or destroy tokens without a recording to say what that costs, take no\n  \
    part. The table shows the front; json and csv have every cell with its mark. Objectives:\n  \
    tokens-per-s, hbm-peak, destroyed-mass (these by default), destroyed-share, tpot, tpot-p99,\n  \
    makespan, ddr-peak, saved-moved, link-bytes, batch, output, gpus\n\n\
    STOPPED\n  \
    With -o FILE finished cells are kept in FILE.part; after Ctrl-C or a kill, --resume goes on.\n\n\
    EXAMPLES:\n  \
    kvplan sweep --vary batch=1,2,4,8 --vary hardware=h100-sxm,gh200\n  \
    kvplan sweep --hardware gh200 --vary policy.hbm=0.2..0.8+0.2 --vary batch=4,8 --pareto\n  \
    kvplan sweep --prompt 128 --output 4096 --vary policy=four-tier,h2o-mean --equal hbm-peak\n  \
    kvplan sweep --vary output=1Ki..16Ki*2 --vary gpus=1,2 -o sweep.json --resume"
)]
pub struct SweepArgs {
    /// Setting and its values, or `policy.` and a parameter; repeatable
    #[arg(long, value_name = "KEY=VALUE,...")]
    vary: Vec<String>,
    /// Bring the policies to the same: hbm-peak, total-bytes, retained or tpot
    #[arg(long, value_name = "WHAT[=VALUE]")]
    equal: Option<String>,
    /// Keep the cells that no other beats [default objectives: tokens-per-s,hbm-peak,destroyed-mass]
    #[arg(long, value_name = "OBJECTIVES", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pareto: Option<String>,
    /// Go on with what a stopped sweep left beside the result (FILE.part)
    #[arg(long)]
    resume: bool,
    /// Threads, at most one a core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    deployment: Deployment<false>,
    #[command(flatten)]
    result: ResultArgs,
}

/// Runs it; the answer is no if no cell fits.
///
/// # Errors
/// Exit 2 for what cannot be asked, 3 for damaged traces and journals.
pub fn run(args: &SweepArgs, out: &mut Out) -> Result<Answer> {
    let (mut settings, axes) = args.question()?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        args.result.open(out)?;
        out.result(&print::config(&settings))?;
        return Ok(Answer::Yes);
    }
    let sweep = Sweep::new(
        Grid::new(settings, axes)?,
        args.equal.as_deref().map(Equal::parse).transpose()?,
        args.pareto.as_deref().map(pareto::parse).transpose()?,
    )?;
    args.keep_recordings(&sweep)?;
    args.result.open(out)?;
    let begun = std::time::Instant::now();
    let (cells, journal) = args.cells(&sweep, out)?;
    let answer = sweep.answer(cells)?;
    out.detail(&format!("answered in {:.1?}", begun.elapsed()));
    let format = args.result.format();
    if format != Format::Table {
        answer.notes.iter().for_each(|n| out.note(n)); // a page shows its own
    }
    let style = Style { color: out.color() };
    out.result(&match format {
        Format::Table => table::sweep(&answer, style),
        Format::Json => json::pretty(&answer)?,
        Format::Csv => csv::sweep(&answer)?,
        Format::Md => md::sweep(&answer),
    })?;
    out.finish()?;
    if let Some(journal) = journal {
        interrupt::promise(None);
        journal.remove(); // only now is the result in its place
    }
    Ok(Answer::of(answer.any_fits()))
}

impl SweepArgs {
    /// What all cells share, and the axes; a setting that is both given and varied is refused.
    fn question(&self) -> Result<(Settings, Vec<Axis>)> {
        let mut deployment = self.deployment.clone();
        let mut axes = Vec::new();
        if let Some(policies) = deployment.take_several("policy") {
            axes.push(Axis::new(Varied::Setting("policy"), policies)?);
        }
        for text in &self.vary {
            let parsed = Axis::parse(text)?;
            if deployment.gives(&parsed.key()) {
                let key = parsed.key();
                return Err(Error::usage(format!("--{key} is given and varied"))
                    .help(format!("leave --{key} out: the cells decide")));
            }
            axes.push(parsed);
        }
        Ok((deployment.settings()?, axes))
    }

    /// Refuses to write over what some cell reads.
    fn keep_recordings(&self, sweep: &Sweep) -> Result<()> {
        let grid = &sweep.grid;
        let base = grid.base.get("trace").map_or(&[][..], |g| &g.texts);
        let axes = grid.axes.iter();
        let varied = axes.filter(|a| a.varied == Varied::Setting("trace"));
        let all = base.iter().chain(varied.flat_map(|a| &a.values));
        let paths = all.map(std::path::PathBuf::from).collect();
        self.result
            .keep(&crate::scenario::TraceRef::Paths(paths), &self.deployment)
    }

    /// All cells, and the journal they were kept in meanwhile.
    fn cells(
        &self,
        sweep: &Sweep,
        out: &Out,
    ) -> Result<(Vec<crate::sweep::answer::Cell>, Option<Journal>)> {
        let (journal, finished) = self.journal(sweep, out)?;
        let done = Arc::new(AtomicU64::new(finished.len() as u64));
        let watch = progress::cells(sweep.grid.cells() as u64, Arc::clone(&done), out.quiet());
        let sink = |cell: &crate::sweep::answer::Cell| {
            if let Some(journal) = &journal {
                journal.add(cell)?;
            }
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let cells = match self.jobs {
            None => crate::sweep::run(sweep, finished, &sink),
            Some(jobs) => pool(jobs)?.install(|| crate::sweep::run(sweep, finished, &sink)),
        };
        drop(watch);
        Ok((cells?, journal))
    }

    fn journal(
        &self,
        sweep: &Sweep,
        out: &Out,
    ) -> Result<(Option<Journal>, Vec<crate::sweep::answer::Cell>)> {
        let Some(file) = self.result.file() else {
            if self.resume {
                return Err(Error::usage("--resume goes on with a file")
                    .help("name the result with -o FILE: finished cells are kept in FILE.part"));
            }
            return Ok((None, Vec::new()));
        };
        let path = Journal::beside(file);
        let (journal, finished) = journal::open(&path, sweep, self.resume)?;
        if !finished.is_empty() {
            out.note(&format!(
                "{} of {} cells were finished before",
                finished.len(),
                sweep.grid.cells()
            ));
        }
        interrupt::promise(Some(format!(
            "finished cells are kept in {}: the same command with --resume goes on",
            path.display()
        )));
        Ok((Some(journal), finished))
    }
}

fn pool(jobs: u16) -> Result<rayon::ThreadPool> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(jobs).min(cores))
        .build()
        .map_err(|e| Error::usage(format!("--jobs {jobs}: {e}")))
}
