//! `kvplan eval`: what policies do to a real model.

mod asked;
mod job;

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::flags::{Format, ResultArgs};
use super::out::Out;
use super::resumed::{another, resumed};
use super::{explain, interrupt, plot, record};
use crate::error::{Error, Result};
use crate::eval::answer::{EqualBy, Question};
use crate::eval::problems;
use crate::eval::{self, Asked, Cell, EVAL_SCHEMA, Evaluation, figure, journal, policies};
use crate::forward::{Checkpoint, Model, Positions, Quantiser, Text};
use crate::journal::Journal;
use crate::record::facts;
use crate::report::plot::{Image, eval as drawing, policies as side_by_side};
use crate::report::{Style, eval as page, json, md, table};
use asked::{Posed, resolved};
use job::Job;

/// Shares of HBM and of evicted tokens that `--grid` runs.
const GRID: ([&str; 3], [&str; 4]) = (["0.3", "0.5", "0.7"], ["0.01", "0.03", "0.05", "0.1"]);

/// Arguments of `eval`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "PROBLEMS\n  \
    JSON lines: {\"question\", \"final\"} (a number, as GSM8K), {\"problem\", \"answer\"} (an expression in \\boxed{}, as MATH),\n  \
    {\"query\", \"choices\", \"gold\"} (as ARC), or {\"prompt\"} as of `record`, which has no right answer.\n\n\
    WHAT IS RUN\n  \
    The full cache answers every problem. Each policy runs along that text (KL, agreement, mass on destroyed tokens) and\n  \
    writes a text of its own (accuracy, equal texts). --teacher-forced runs along given texts alone: the `answer`,\n  \
    `solution` or `text` of a problem, else the full cache's text.\n\n\
    EQUAL\n  \
    The first policy is the reference; the budget of each other one is solved for as many tokens retained (mean over\n  \
    steps), or in HBM at the peak, over the lengths of all problems; free texts count as --max-new long.\n\n\
    STOPPED\n  \
    With -o FILE finished cells are kept in FILE.part; after Ctrl-C or a kill, --resume goes on to the same bytes. What is\n  \
    finished is not run again, and the result of another evaluation is not replaced.\n\n\
    EXAMPLES:\n  \
    kvplan eval --model smollm2.gguf --problems gsm8k.jsonl --limit 20 \\\n    \
    --policy four-tier:evict=0.03,semantics=per-interval --policy h2o:heavy=100,recent=100\n  \
    kvplan eval --model smollm2.gguf --problems gsm8k.jsonl --grid -o grid.json --plot grid.svg\n  \
    kvplan eval --from grid.json --format md -o grid.md\n  \
    kvplan eval --model smollm2.gguf --problems math.jsonl --teacher-forced --equal retained \\\n    \
    --policy four-tier:evict=0.5,semantics=cumulative --policy streaming-llm --policy h2o")]
pub struct EvalArgs {
    /// A .gguf file, or a folder with config.json, tokenizer.json and .safetensors files
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::AnyPath, required_unless_present = "from")]
    model: Option<PathBuf>,
    /// File of problems
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "from")]
    problems: Option<PathBuf>,
    /// Print or draw a saved evaluation (.json) again; nothing is run
    #[arg(long, value_name = "RESULT", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["model", "problems", "policy", "grid", "equal", "resume", "teacher_forced", "max_new", "limit",
              "temperature", "top_p", "seed", "t2", "positions", "together", "raw"])]
    from: Option<PathBuf>,
    /// Policy beside the full cache: NAME[:key=value,...]; repeatable (`kvplan list policies`)
    #[arg(long, value_name = "POLICY")]
    policy: Vec<String>,
    /// Add four-tier at hbm 30, 50, 70 % by evict 1, 3, 5, 10 % per interval; further parameters after `=`
    #[arg(long, value_name = "PARAMETERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    grid: Option<String>,
    /// Run along given texts only; no policy writes one of its own
    #[arg(long)]
    teacher_forced: bool,
    /// Bring the policies to the same: retained or hbm-peak
    #[arg(long, value_name = "WHAT", conflicts_with = "grid")]
    equal: Option<String>,
    /// Tokens of a text at most
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    max_new: u32,
    /// Only the first N problems
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Softmax temperature; 0 takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true, value_parser = record::temperature)]
    temperature: f64,
    /// Share of the probability that is drawn from, the likeliest tokens first
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, allow_negative_numbers = true, value_parser = record::top_p)]
    top_p: f64,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = record::whole::<u64>)]
    seed: u64,
    /// What T2 does to keys and values: per-token, per-channel or per-tensor, then -8 or -4
    #[arg(long, value_name = "QUANTISER", default_value = "per-token-8", value_parser = Quantiser::parse)]
    t2: Quantiser,
    /// Positions of new tokens: kept, or restart at the number of live tokens as in the published run
    #[arg(long, value_name = "WHICH", default_value = "kept", value_parser = Positions::parse)]
    positions: Positions,
    /// Sequences that step together; more is faster and takes more memory, the result is the same
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    together: u16,
    /// Problems as they are, not put through the model's chat template
    #[arg(long)]
    raw: bool,
    /// Go on with what a stopped run left beside the result (FILE.part)
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    result: ResultArgs,
    /// Write every text, a row a policy and problem, into FILE (.csv) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    answers: Option<PathBuf>,
    /// Draw divergence against what policies keep into FILE (.svg or .png) as well
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    plot: Option<PathBuf>,
}

/// Reads the model and the problems, runs them and writes the answer.
///
/// # Errors
/// A model, a problem, a policy or a file that cannot be used (exit 2); damaged files, logits that are not finite (exit 3).
pub fn run(args: &EvalArgs, out: &mut Out) -> Result<()> {
    args.keep()?;
    let image = args.plot.as_deref().map(plot::image).transpose()?;
    if let Some(saved) = &args.from {
        let answer = again(saved)?;
        let more = args.opened(image, out)?;
        return args.finish(&answer, more, out);
    }
    let asked = args.asked()?;
    let limit = args.limit.map_or(usize::MAX, |n| n as usize);
    let problems = problems::read(args.file_of_problems(), limit)?;
    let checkpoint = Checkpoint::open(args.model.as_deref().unwrap_or(Path::new("")))?;
    let text = Text::open(&checkpoint)?;
    let context = checkpoint.shape.context;
    let posed = args.posed(&problems, &text, context)?;
    let (asked, equal) = args.brought(asked, &posed)?;
    let policies = resolved(&asked)?;
    let question = args.question(&checkpoint, equal, &posed)?;
    if args.is_there(&question, &policies, problems.len())? {
        out.note("the evaluation was finished before");
        return Ok(());
    }
    let more = args.opened(image, out)?;
    let (kept, finished) = args.journal(&question, &policies, problems.len(), out)?;
    let job = Job {
        args,
        policies: &policies,
        text: &text,
        journal: kept.as_ref(),
    };
    let model = Model::load(&checkpoint)?;
    let cells = job.cells(
        &model,
        job.tasks(&problems, posed, &finished),
        finished,
        out,
    )?;
    let answer = eval::evaluation(question, &policies, &problems, cells)?;
    args.finish(&answer, more, out)?;
    if let Some(journal) = kept {
        interrupt::promise(None);
        journal.remove(); // only now is the result in its place
    }
    Ok(())
}

/// Files beside the result.
struct More {
    answers: Option<Out>,
    drawn: Option<(Out, Image)>,
}

/// A saved evaluation.
fn again(path: &Path) -> Result<Evaluation> {
    let saved = explain::read(path)?;
    let wrong = |why: String| {
        Error::data(format!("{}: no evaluation: {why}", path.display()))
            .help("give a result of `kvplan eval --format json`")
    };
    match saved["schema"].as_str() {
        Some(EVAL_SCHEMA) => serde_json::from_value(saved).map_err(|e| wrong(e.to_string())),
        other => Err(wrong(format!(
            "its schema is `{}`",
            other.unwrap_or_default()
        ))),
    }
}

impl EvalArgs {
    /// Opens the files of the answer, so that none fails after the work.
    fn opened(&self, image: Option<Image>, out: &mut Out) -> Result<More> {
        self.result.open(out)?;
        let drawn = self.plot.as_deref().map(Out::beside).transpose()?;
        Ok(More {
            answers: self.answers.as_deref().map(Out::beside).transpose()?,
            drawn: drawn.zip(image),
        })
    }

    /// Writes the texts, the figure and the answer.
    fn finish(&self, answer: &Evaluation, more: More, out: &mut Out) -> Result<()> {
        if let Some(mut file) = more.answers {
            file.result(&page::answers(answer)?)?;
            file.finish()?;
        }
        if let Some((mut file, image)) = more.drawn {
            let drawn = if policies::side_by_side(answer) {
                side_by_side::draw(&policies::policies(answer), image)?
            } else {
                drawing::draw(&figure::figure(answer), image)?
            };
            file.bytes(&drawn)?;
            file.finish()?;
        }
        self.write(answer, out)?;
        out.finish()
    }

    /// The file of problems, which is given unless a saved evaluation is.
    fn file_of_problems(&self) -> &Path {
        self.problems.as_deref().unwrap_or(Path::new(""))
    }

    fn question(
        &self,
        checkpoint: &Checkpoint,
        equal: Option<EqualBy>,
        posed: &[Posed],
    ) -> Result<Question> {
        let without = posed.iter().filter(|p| p.given.is_none()).count();
        let header = facts(checkpoint)?;
        let positions = match self.positions {
            Positions::Kept => "kept",
            Positions::Restart => "restart",
        };
        Ok(Question {
            model: checkpoint.name.clone(),
            weights_sha256: header.weights_sha256.unwrap_or_default(),
            quantisation: checkpoint.quantisation(),
            problems: self.file_of_problems().display().to_string(),
            raw: self.raw,
            teacher_forced: self.teacher_forced,
            problems_without_given_text: self
                .teacher_forced
                .then(|| u32::try_from(without).unwrap_or(u32::MAX)),
            max_new_tokens: self.max_new,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            t2: self.t2.to_string(),
            positions: positions.into(),
            equal,
        })
    }

    /// Whether the result of this very evaluation is there already, where finished work counts.
    fn is_there(&self, question: &Question, policies: &[Asked], problems: usize) -> Result<bool> {
        let Some(file) = resumed(&self.result, self.resume) else {
            return Ok(false);
        };
        let found = again(file)
            .ok()
            .filter(|_| self.result.format() == Format::Json);
        let own = |e: &Evaluation| {
            let asked = policies.iter().map(|p| p.spec.to_string());
            let ran = e.policies.iter().map(|p| p.resolved.clone());
            e.question == *question && e.problems.len() == problems && asked.eq(ran)
        };
        match found.filter(own) {
            Some(_) if self.answers.is_none() && self.plot.is_none() => Ok(true),
            Some(_) => Err(
                Error::usage(format!("{}: is finished", file.display())).help(
                    "kvplan eval --from FILE draws it and writes its texts; nothing is run again",
                ),
            ),
            None => Err(another(
                file,
                "is there, and is not the result of this evaluation in JSON",
            )),
        }
    }

    fn journal(
        &self,
        question: &Question,
        policies: &[Asked],
        problems: usize,
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
        let of = (self.file_of_problems(), problems);
        let (journal, finished) = journal::open(&path, question, policies, of, self.resume)?;
        if !finished.is_empty() {
            let all = problems * policies.len();
            out.note(&format!(
                "{} of {all} cells were finished before",
                finished.len()
            ));
        }
        interrupt::promise(Some(format!(
            "finished cells are kept in {}: the same command with --resume goes on",
            path.display()
        )));
        Ok((Some(journal), finished))
    }

    fn write(&self, answer: &Evaluation, out: &mut Out) -> Result<()> {
        let format = self.result.format();
        if !matches!(format, Format::Table | Format::Md) {
            answer.notes.iter().for_each(|n| out.note(n)); // a page shows its own
        }
        let style = Style { color: out.color() };
        out.result(&match format {
            Format::Table => table::render(&page::page(answer), style),
            Format::Json => json::pretty(answer)?,
            Format::Csv => page::csv(answer)?,
            Format::Md => md::render(&page::page(answer)),
        })
    }

    /// Refuses to write over what the run reads, or twice into one file.
    fn keep(&self) -> Result<()> {
        let real = |p: &Path| std::fs::canonicalize(p).unwrap_or_else(|_| p.to_path_buf());
        let sources = [&self.model, &self.problems, &self.from];
        let mut taken: Vec<PathBuf> = sources.into_iter().flatten().map(|p| real(p)).collect();
        let written = [&self.result.out, &self.answers, &self.plot];
        for file in written.into_iter().flatten() {
            let path = real(file);
            if taken.contains(&path) {
                return Err(Error::usage(format!(
                    "{}: is read by this run, or written twice",
                    file.display()
                ))
                .help("name another file"));
            }
            taken.push(path);
        }
        Ok(())
    }
}
