//! `kvplan sweep`: a grid of deployments.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::report::{Style, csv, json, md, table};
use crate::scenario::{Settings, print, resolve};
use crate::sweep::answer::{Answer as SweepAnswer, Cell};
use crate::sweep::axis::{Axis, Varied};
use crate::sweep::equal::Equal;
use crate::sweep::grid::Grid;
use crate::sweep::journal;
use crate::sweep::merge::merge;
use crate::sweep::shard::{Part, Shard};
use crate::sweep::{Sweep, pareto, run_shard};

use super::Answer;
use super::flags::{Deployment, Format, ResultArgs};
use super::out::Out;
use super::resumed::{another, resumed};
use super::same::keep;
use super::{explain, interrupt, progress, saved};

/// A sweep in one piece.
const WHOLE: Shard = Shard { number: 1, of: 1 };

/// Arguments of `sweep`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("policy", |a| a.action(clap::ArgAction::Append)),
    after_long_help = "VALUES\n  \
    Split on commas; the parameters of a policy stay with it: policy=full,four-tier:hbm=0.5,window=64\n  \
    are two. batch=1..9+2 is 1,3,5,7,9 and output=1Ki..16Ki*2 doubles. policy.KEY varies a parameter\n  \
    of the policy. The first --vary is the slowest; a repeated --policy is an axis too, slower still.\n  \
    A value that no deployment could have, a broken file among them, is refused before any cell runs;\n  \
    a recording that turns out damaged while they run costs its own cells alone.\n\n\
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
    With -o FILE finished cells are kept in FILE.part; after Ctrl-C or a kill, --resume goes on. What is\n  \
    finished is not run again, and the result of another sweep is not replaced.\n\n\
    SHARDS\n  \
    --shard i/n runs the i-th of n pieces of the same sweep, i from 1 to n, anywhere; its result is JSON\n  \
    that only --merge reads. The pieces are stretches of the cells, equal in number; cut finer than\n  \
    there are machines where cells differ much in cost. A piece goes on with --resume like a sweep, and\n  \
    is not run again if its result is there. A piece that ran exits with 0 whether or not a cell fits.\n  \
    --merge joins all n, in any order, to the bytes of one run, names what is missing and the command\n  \
    that makes it, and refuses what is of another sweep, another cut or another version of kvplan.\n  \
    models/scenarios/cluster has a Slurm array and a Kubernetes indexed Job.\n\n\
    EXAMPLES:\n  \
    kvplan sweep --vary batch=1,2,4,8 --vary hardware=h100-sxm,gh200\n  \
    kvplan sweep --hardware gh200 --vary policy.hbm=0.2..0.8+0.2 --vary batch=4,8 --pareto\n  \
    kvplan sweep --prompt 128 --output 4096 --vary policy=four-tier,h2o-mean --equal hbm-peak\n  \
    kvplan sweep --vary output=1Ki..16Ki*2 --vary gpus=1,2 -o sweep.json --resume\n  \
    kvplan sweep --vary batch=1,2,4 --shard 1/2 -o shard-1.json\n  \
    kvplan sweep --vary batch=1,2,4 --shard 2/2 -o shard-2.json\n  \
    kvplan sweep --merge shard-1.json shard-2.json -o sweep.json"
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
    /// Run the i-th of n pieces, i from 1 to n; its result is for --merge
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// Join the results of all shards to that of one run; nothing else is asked
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = clap::ValueHint::FilePath,
        conflicts_with_all = ["vary", "equal", "pareto", "resume", "shard", "jobs"])]
    merge: Option<Vec<PathBuf>>,
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
/// Exit 2 for what cannot be asked, 3 for broken files, journals and shards.
pub fn run(args: &SweepArgs, out: &mut Out) -> Result<Answer> {
    if let Some(files) = &args.merge {
        return args.merged(files, out);
    }
    let (mut settings, axes) = args.question()?;
    if args.deployment.print_config {
        resolve::adapt(&mut settings)?;
        args.result
            .open_scenario(&settings, &args.deployment, out)?;
        out.result(&print::config(&settings))?;
        return Ok(Answer::Yes);
    }
    let sweep = Sweep::new(
        Grid::new(settings, axes)?,
        args.equal.as_deref().map(Equal::parse).transpose()?,
        args.pareto.as_deref().map(pareto::parse).transpose()?,
    )?;
    args.result.keep(&sweep.reads(), &args.deployment)?;
    let shard = args.shard.as_deref().map(Shard::parse).transpose()?;
    if let Some(shard) = shard {
        args.as_json()?;
        if args.is_there(&sweep, shard)? {
            out.note(&format!("shard {shard} was finished before"));
            return Ok(Answer::Yes);
        }
    } else if let Some(answer) = args.finished(&sweep)? {
        out.note("the sweep was finished before");
        return Ok(Answer::of(answer.any_fits()));
    }
    args.result.open(out)?;
    let begun = std::time::Instant::now();
    let (cells, journal) = args.cells(&sweep, shard.unwrap_or(WHOLE), out)?;
    let answer = match shard {
        None => args.told(&sweep.answer(cells)?, out)?,
        Some(shard) => {
            out.result(&json::pretty(&Part::new(&sweep, shard, cells)?)?)?;
            Answer::Yes
        }
    };
    out.detail(&format!("answered in {:.1?}", begun.elapsed()));
    out.finish()?;
    if let Some(journal) = journal {
        interrupt::promise(None);
        journal.remove(); // only now is the result in its place
    }
    Ok(answer)
}

impl SweepArgs {
    /// Joins shards.
    fn merged(&self, files: &[PathBuf], out: &mut Out) -> Result<Answer> {
        if let Some(given) = self.deployment.anything() {
            return Err(Error::usage(format!(
                "--merge and {given}: the shards hold their question"
            ))
            .help("name the results of the shards alone, and -o or --format for the answer"));
        }
        let over = self.result.out.as_deref();
        let shards = files.iter().map(PathBuf::as_path);
        keep(shards, over, "the answer would replace a shard")?;
        let read = |path: &PathBuf| part(path).map(|p| (path.display().to_string(), p));
        let parts = files.iter().map(read).collect::<Result<Vec<_>>>()?;
        let answer = merge(parts)?;
        self.result.open(out)?;
        self.told(&answer, out)
    }

    /// Writes the answer as asked.
    fn told(&self, answer: &SweepAnswer, out: &mut Out) -> Result<Answer> {
        let format = self.result.format();
        if format != Format::Table {
            answer.notes.iter().for_each(|n| out.note(n)); // a page shows its own
        }
        let style = Style { color: out.color() };
        out.result(&match format {
            Format::Table => table::sweep(answer, style),
            Format::Json => json::pretty(answer)?,
            Format::Csv => csv::sweep(answer)?,
            Format::Md => md::sweep(answer),
        })?;
        Ok(Answer::of(answer.any_fits()))
    }

    /// Refuses a shard in a form that --merge does not read.
    fn as_json(&self) -> Result<()> {
        let asked = self
            .result
            .format
            .map_or_else(|| self.result.by_name(), |f| Ok(Some(f)))?;
        if asked.is_some_and(|f| f != Format::Json) {
            return Err(Error::usage("the result of a shard is JSON")
                .help("name a .json file with -o; --merge writes tables, CSV and markdown"));
        }
        Ok(())
    }

    /// Whether the result of this very shard is there already, where finished work counts.
    fn is_there(&self, sweep: &Sweep, shard: Shard) -> Result<bool> {
        let Some(file) = resumed(&self.result, self.resume) else {
            return Ok(false);
        };
        match part(file) {
            Ok(found) if found.answers(sweep, shard) => Ok(true),
            Ok(_) => Err(another(
                file,
                "is a shard of another sweep or another shard of this one",
            )),
            Err(_) => Err(another(file, "is there, and is no shard of this sweep")),
        }
    }

    /// The result of this very sweep where it is there already and finished work counts.
    fn finished(&self, sweep: &Sweep) -> Result<Option<SweepAnswer>> {
        let Some(file) = resumed(&self.result, self.resume) else {
            return Ok(None);
        };
        if self.result.format() != Format::Json {
            return Err(another(
                file,
                "is there, and only a result in JSON says which sweep it is of",
            ));
        }
        let value = explain::read(file).ok();
        let answer: Option<SweepAnswer> = value.and_then(|v| serde_json::from_value(v).ok());
        match answer.filter(|a| sweep.answered_by(a)) {
            Some(answer) => Ok(Some(answer)),
            None => Err(another(
                file,
                "is there, and is not the result of this sweep",
            )),
        }
    }

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

    /// All cells, and the journal they were kept in meanwhile.
    fn cells(
        &self,
        sweep: &Sweep,
        shard: Shard,
        out: &Out,
    ) -> Result<(Vec<Cell>, Option<Journal>)> {
        let (journal, finished) = self.journal(sweep, shard, out)?;
        let done = Arc::new(AtomicU64::new(finished.len() as u64));
        let all = shard.turns(sweep.grid.cells()).len() as u64;
        let watch = progress::cells(all, Arc::clone(&done), out.quiet());
        let sink = |cell: &Cell| {
            if let Some(journal) = &journal {
                journal.add(cell)?;
            }
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let cells = match self.jobs {
            None => run_shard(sweep, shard, finished, &sink),
            Some(jobs) => pool(jobs)?.install(|| run_shard(sweep, shard, finished, &sink)),
        };
        drop(watch);
        Ok((cells?, journal))
    }

    fn journal(
        &self,
        sweep: &Sweep,
        shard: Shard,
        out: &Out,
    ) -> Result<(Option<Journal>, Vec<Cell>)> {
        let Some(file) = self.result.file() else {
            if self.resume {
                return Err(Error::usage("--resume goes on with a file")
                    .help("name the result with -o FILE: finished cells are kept in FILE.part"));
            }
            return Ok((None, Vec::new()));
        };
        let path = Journal::beside(file);
        let (journal, finished) = journal::open(&path, sweep, shard, self.resume)?;
        if !finished.is_empty() {
            out.note(&format!(
                "{} of {} cells were finished before",
                finished.len(),
                shard.turns(sweep.grid.cells()).len()
            ));
        }
        interrupt::promise(Some(format!(
            "finished cells are kept in {}: the same command with --resume goes on",
            path.display()
        )));
        Ok((Some(journal), finished))
    }
}

/// The result of a shard in a file.
fn part(path: &Path) -> Result<Part> {
    let shown = path.display().to_string();
    let text = saved::text(path, "name results of `kvplan sweep --shard i/n -o FILE`")?;
    Part::read(&text, &shown)
}

fn pool(jobs: u16) -> Result<rayon::ThreadPool> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(jobs).min(cores))
        .build()
        .map_err(|e| Error::usage(format!("--jobs {jobs}: {e}")))
}
