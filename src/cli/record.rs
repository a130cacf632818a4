//! `kvplan record`: traces of a real model.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{ArgGroup, Args, ValueHint};

use super::out::Out;
use super::{interrupt, progress};
use crate::error::{Error, Result};
use crate::forward::{Checkpoint, Model, Sampler, Text};
use crate::record::{self, Done, End, Found, Prompt, Settings, Task};
use crate::trace;
use crate::units::text::{group, printable};

/// Arguments of `record`.
#[derive(Clone, Debug, Args)]
#[command(
    group(ArgGroup::new("what").required(true).args(["prompts", "text", "score"])),
    after_long_help = "EXAMPLES:\n  kvplan record --model smollm2.gguf --text 'Why is the sky blue?' --max-new 200 -o traces\n  \
        kvplan record --model smollm2.gguf --prompts prompts.jsonl --temperature 0.6 --seed 1 -o traces\n  \
        kvplan record --model smollm2.gguf --score finished.jsonl -o traces\n\n\
        A file of prompts is JSON lines: a text, or an object with `prompt`, `question` or `problem`; for\n\
        --score also `completion`, `response`, `solution`, `answer` or `text`."
)]
#[allow(clippy::struct_excessive_bools)] // switches
pub struct RecordArgs {
    /// A .gguf file, or a folder with config.json, tokenizer.json and .safetensors files
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::AnyPath)]
    model: PathBuf,
    /// File of prompts, decoded one trace each
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    prompts: Option<PathBuf>,
    /// A prompt; may be repeated
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,
    /// File of prompts with finished texts: the same rows without decoding, many times faster
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["max_new", "temperature", "top_p", "seed"])]
    score: Option<PathBuf>,
    /// Tokens drawn at most
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    max_new: u32,
    /// Softmax temperature; 0 takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,
    /// Share of the probability that is drawn from, the likeliest tokens first
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, allow_negative_numbers = true, value_parser = top_p)]
    top_p: f64,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>)]
    seed: u64,
    /// Texts as they are, not put through the model's chat template
    #[arg(long)]
    raw: bool,
    /// Also the rows of every layer
    #[arg(long)]
    layers: bool,
    /// Also keys and queries, from which every single head's attention follows (for r-kv, snap-kv and h2o)
    #[arg(long)]
    keys: bool,
    /// Queries of so many of the last prompt tokens, not of all (h2o needs all, the others their window)
    #[arg(long, value_name = "N", requires = "keys", value_parser = clap::value_parser!(u32).range(1..))]
    queries: Option<u32>,
    /// What the traces call the model, instead of the name in its file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Texts that decode together
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    together: u16,
    /// Keep traces that are there, and go on with those that a kill cut off
    #[arg(long)]
    resume: bool,
    /// Folder of the traces: 0001.kvt, 0002.kvt, ...
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
}

pub(super) fn temperature(text: &str) -> std::result::Result<f64, String> {
    within(text, |x| (0.0..=100.0).contains(&x), "0 to 100")
}

pub(super) fn top_p(text: &str) -> std::result::Result<f64, String> {
    within(text, |x| x > 0.0 && x <= 1.0, "over 0 and at most 1")
}

/// A whole number of a kind.
pub(super) fn whole<T: std::str::FromStr>(text: &str) -> std::result::Result<T, String> {
    let wrong = |_| "it takes a whole number, at least 0 and below 2^64".to_string();
    text.trim().parse().map_err(wrong)
}

fn within(text: &str, ok: fn(f64) -> bool, range: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number".to_string())?;
    if ok(number) {
        Ok(number + 0.0) // -0 is 0
    } else {
        Err(format!("it lies outside {range}"))
    }
}

impl RecordArgs {
    fn settings(&self) -> Settings {
        Settings {
            max_new: self.max_new,
            sampler: Sampler {
                temperature: self.temperature,
                top_p: self.top_p,
                seed: self.seed,
            },
            layers: self.layers,
            keys: self.keys.then(|| self.queries.unwrap_or(u32::MAX)),
            together: self.together.into(),
        }
    }

    fn prompts(&self) -> Result<Vec<Prompt>> {
        let plain = |t: &String| Prompt {
            prompt: t.clone(),
            finished: None,
        };
        match (&self.prompts, &self.score) {
            (Some(path), _) => record::read(path, false),
            (_, Some(path)) => record::read(path, true),
            _ if self.text.iter().any(|t| t.trim().is_empty()) => {
                Err(Error::usage("--text: it is empty"))
            }
            _ => Ok(self.text.iter().map(plain).collect()),
        }
    }

    /// The sampler as traces have it; nothing for texts that are scored.
    fn sampler(&self) -> Option<trace::Sampler> {
        self.score.is_none().then_some(trace::Sampler {
            temperature: Some(self.temperature),
            top_p: Some(self.top_p),
            seed: Some(self.seed),
        })
    }

    /// The text's task, or what is already there of it.
    fn task(
        &self,
        number: usize,
        prompt: &Prompt,
        text: &Text,
        model: &trace::Header,
    ) -> Result<(Task, Option<Done>)> {
        let path = self.out.join(format!("{:04}.kvt", number + 1));
        let ids = if self.raw {
            text.raw(&prompt.prompt)?
        } else {
            text.chat(&prompt.prompt)?
        };
        let given = prompt
            .finished
            .as_deref()
            .map(|t| text.encode(t))
            .transpose()?;
        let mut task = Task {
            number: number as u64,
            scored: given.is_some(),
            given: given.unwrap_or_default(),
            prompt: ids,
            path,
        };
        if !self.resume {
            let left = record::parts(&task.path);
            return match left.first() {
                _ if task.path.exists() => Err(exists(&task.path)),
                Some(part) => Err(left_over(part)),
                None => Ok((task, None)),
            };
        }
        let sampler = self.sampler();
        let done = match record::found(
            &task.path,
            model,
            &task.prompt,
            sampler.as_ref(),
            &self.settings(),
        )? {
            Found::Whole(rows) => Some(Done {
                path: task.path.clone(),
                prompt: u32::try_from(task.prompt.len()).unwrap_or(u32::MAX),
                rows,
                end: End::Kept,
                tokens: Vec::new(),
            }),
            Found::Part(tokens) if !task.scored => {
                task.given = tokens;
                None
            }
            Found::Part(_) | Found::Nothing => None,
        };
        Ok((task, done))
    }
}

/// Keeps other recordings out of a folder for as long as it lives; it goes with the process.
///
/// # Errors
/// Another one is at work there (exit 2).
fn hold(folder: &Path) -> Result<Option<File>> {
    // Where a folder cannot be opened or locked, the names of the traces are all there is.
    let Ok(open) = File::open(folder) else {
        return Ok(None);
    };
    match open.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::usage(format!(
            "another `kvplan record` is writing into {}",
            folder.display()
        ))
        .help("wait for it, or name another folder with -o")),
        _ => Ok(Some(open)),
    }
}

fn exists(path: &Path) -> Error {
    Error::usage(format!("{}: is there already", path.display()))
        .help("--resume keeps finished traces and goes on; or name another folder")
}

/// A run without `--resume` would draw again, and at last remove, what a stopped one has kept.
fn left_over(part: &Path) -> Error {
    Error::usage(format!(
        "{}: a run that was stopped, or still goes on, keeps its rows there",
        part.display()
    ))
    .help("--resume goes on from it; or remove it, or name another folder")
}

/// Reads the model, records every text and lists the traces.
///
/// # Errors
/// A model, a prompt or a folder that cannot be used (exit 2); damaged files (exit 3).
pub fn run(args: &RecordArgs, out: &mut Out) -> Result<()> {
    let prompts = args.prompts()?;
    let checkpoint = Checkpoint::open(&args.model)?;
    let text = Text::open(&checkpoint)?;
    std::fs::create_dir_all(&args.out).map_err(|e| {
        Error::usage(format!("{}: cannot be made: {e}", args.out.display()))
            .help("name a folder with -o")
    })?;
    let _held = hold(&args.out)?;
    let mut header = record::facts(&checkpoint)?;
    if let Some(name) = &args.name {
        header.model.clone_from(name);
    }
    let (mut tasks, mut kept) = (Vec::new(), Vec::new());
    for (number, prompt) in prompts.iter().enumerate() {
        match args.task(number, prompt, &text, &header)? {
            (_, Some(done)) => kept.push(done),
            (task, None) => tasks.push(task),
        }
    }
    let model = Model::load(&checkpoint)?;
    let most = |t: &Task| {
        t.prompt.len() as u64
            + if t.scored {
                t.given.len() as u64
            } else {
                args.max_new.into()
            }
    };
    let seen = Arc::new(AtomicU64::new(0));
    let watch = progress::tokens(tasks.iter().map(most).sum(), Arc::clone(&seen), out.quiet());
    interrupt::promise(Some("the same command with --resume goes on".into()));
    let begun = std::time::Instant::now();
    let mut tell = |n| {
        seen.fetch_add(n, Ordering::Relaxed);
    };
    let mut done = record::record(
        &model,
        &header,
        &args.settings(),
        tasks,
        &|t| text.is_end(t),
        &mut tell,
    )?;
    drop(watch);
    interrupt::promise(None);
    let ran = seen.load(Ordering::Relaxed);
    let rate = ran as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    out.detail(&format!(
        "{} tokens at {rate:.1} tokens/s",
        group(&ran.to_string())
    ));
    done.extend(kept);
    done.sort_by(|a, b| a.path.cmp(&b.path));
    out.result(&table(&done))
}

/// A line a trace.
fn table(done: &[Done]) -> String {
    let mut lines = vec!["trace  prompt  rows".to_string()];
    lines.extend(done.iter().map(line));
    lines.push(String::new());
    lines.join("\n")
}

fn line(d: &Done) -> String {
    let name = d.path.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = printable(&name.unwrap_or_default());
    format!("{name}  {}  {}  {}", d.prompt, d.rows, d.end.word())
}
