//! Recording a real model: prompts in, traces out.
//!
//! One `.kvt` a text: mean attention rows, the tokens and their log-probabilities; optionally a row a layer, and keys and
//! queries. A text is
//! decoded by sampling, or *given* and only scored, in chunks: the rows are the same to the bit and come many times
//! faster, so long chains of reasoning are recorded without decoding them again. Several texts decode together, because
//! reading the weights is what a step costs.
//!
//! A kill loses nothing that was written: rows go out in chunks, and a resumed recording scores the tokens it finds and
//! goes on from there. Draws depend on seed, text and step alone, so its file equals that of an uninterrupted run byte by
//! byte. Nothing here depends on time, threads or which texts run together. Lengths are in tokens.

mod facts;
mod lines;
mod prompts;
mod resume;
mod running;
mod vectors;

use std::path::PathBuf;

use crate::error::Result;
use crate::forward::{Cache, Item, Model, Sampler};
use running::{Row, Running};

pub use facts::facts;
pub use lines::{Line, lines, not_json};
pub use prompts::{Prompt, read};
pub use resume::{Found, found, parts};

/// What is recorded of every text.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Tokens drawn at most.
    pub max_new: u32,
    /// How they are drawn.
    pub sampler: Sampler,
    /// Whether every layer's rows are kept.
    pub layers: bool,
    /// Whether keys and queries are kept, and if so the queries of how many of the last prompt positions (tokens).
    pub keys: Option<u32>,
    /// Texts that decode together, at least 1.
    pub together: usize,
}

/// A text to record.
#[derive(Clone, Debug)]
pub struct Task {
    /// Number of the text: its own stream of draws.
    pub number: u64,
    /// Trace to write.
    pub path: PathBuf,
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Tokens that follow it without being drawn.
    pub given: Vec<u32>,
    /// Whether the given tokens are all there is; otherwise they are those of an earlier run, and drawing goes on.
    pub scored: bool,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Model,
    /// It reached the most tokens.
    Limit,
    /// It was given whole.
    Given,
    /// It was there already.
    Kept,
}

impl End {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Model => "ended",
            Self::Limit => "at the limit",
            Self::Given => "scored",
            Self::Kept => "was there",
        }
    }
}

/// A finished trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The trace.
    pub path: PathBuf,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Rows written.
    pub rows: u32,
    /// Why it ended.
    pub end: End,
    /// Tokens that followed the prompt.
    pub tokens: Vec<u32>,
}

/// Records texts, `header` being what all traces say of the model; `is_end` knows the tokens that end a text, and `tell`
/// hears of every group of tokens that was run. Results are in the order of the tasks.
///
/// # Errors
/// Usage: a text longer than the model's context, or a file that cannot be written. Data: logits that are not finite.
pub fn record(
    model: &Model,
    header: &crate::trace::Header,
    settings: &Settings,
    tasks: Vec<Task>,
    is_end: &dyn Fn(u32) -> bool,
    tell: &mut dyn FnMut(u64),
) -> Result<Vec<Done>> {
    let mut waiting = tasks.into_iter().enumerate();
    let mut done: Vec<(usize, Done)> = Vec::new();
    let mut running: Vec<(usize, Running)> = Vec::new();
    let mut caches: Vec<Cache> = Vec::new();
    loop {
        while running.len() < settings.together.max(1) {
            let Some((at, task)) = waiting.next() else {
                break;
            };
            let mut cache = [Cache::new(
                model.shape(),
                task.prompt.len() + task.given.len(),
            )];
            let text = Running::begin(model, header, settings, task, &mut cache, tell)?;
            running.push((at, text));
            caches.extend(cache);
        }
        if running.is_empty() {
            break;
        }
        let ended = draw(settings, is_end, &mut running)?;
        for (i, end) in ended.into_iter().rev() {
            let (at, text) = running.remove(i);
            caches.remove(i);
            done.push((at, text.finish(end)?));
        }
        advance(model, settings, &mut running, &mut caches)?;
        tell(running.len() as u64);
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, d)| d).collect())
}

/// Draws a token for every text; those that end, with their index, ascending.
fn draw(
    settings: &Settings,
    is_end: &dyn Fn(u32) -> bool,
    running: &mut [(usize, Running)],
) -> Result<Vec<(usize, End)>> {
    let mut ended = Vec::new();
    for (i, (_, text)) in running.iter_mut().enumerate() {
        if let Some(end) = text.draw(settings, is_end)? {
            ended.push((i, end));
        }
    }
    Ok(ended)
}

/// Runs the drawn tokens together.
fn advance(
    model: &Model,
    settings: &Settings,
    running: &mut [(usize, Running)],
    caches: &mut [Cache],
) -> Result<()> {
    let items: Vec<Item> = running
        .iter()
        .enumerate()
        .map(|(sequence, (_, text))| Item {
            detail: running::detail(settings),
            queries: settings.keys.is_some(),
            ..Item::new(sequence, text.drawn())
        })
        .collect();
    if items.is_empty() {
        return Ok(());
    }
    let step = model.step(caches, &items)?;
    let logits = step.logits.chunks_exact(model.shape().vocab);
    for (i, ((_, text), logits)) in running.iter_mut().zip(logits).enumerate() {
        let row = Row {
            weights: &step.rows[i],
            queries: &step.queries[i],
            logits,
        };
        text.push(model.shape(), &caches[i], &row)?;
    }
    Ok(())
}
