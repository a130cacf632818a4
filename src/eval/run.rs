//! Sequences of all problems and policies, stepping together.
//!
//! Units of work are a problem along one text (`group`) and a policy's own text (`solo`); each owns its
//! caches. A unit starts whenever there is room for it, texts that are left over before new problems, so that few cells
//! are half done when a run is stopped. What a sequence computes does not depend on what steps beside it, so the order of
//! work shows in nothing but the order in which cells finish.

use std::collections::VecDeque;

use super::Cell;
use super::group::{Ended, Group};
use super::solo::{Solo, Writing};
use crate::error::Result;
use crate::forward::{Cache, Item, Model, Sampler, Step, Storage};
use crate::policy::PolicySpec;

/// How problems are run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How tokens are drawn.
    pub sampler: Sampler,
    /// How tiered caches keep tokens.
    pub storage: Storage,
    /// Whether policies write texts of their own, too.
    pub free: bool,
    /// Sequences that step together, where a problem has no more of them.
    pub together: usize,
}

/// A problem to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// Index of the problem.
    pub problem: usize,
    /// Its line, for messages.
    pub line: u32,
    /// Number of the text: its own stream of draws.
    pub number: u64,
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// The text to run along; that of the full run if there is none.
    pub given: Option<Vec<u32>>,
    /// Tokens drawn at most.
    pub most: u32,
    /// Policies whose cells are wanted, by index; 0 is the full cache.
    pub todo: Vec<usize>,
}

enum Unit {
    Group(Box<Group>),
    Writing(Box<Writing>),
}

impl Unit {
    fn caches(&mut self) -> &mut Vec<Cache> {
        match self {
            Self::Group(g) => &mut g.caches,
            Self::Writing(w) => &mut w.caches,
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Group(g) => g.caches.len(),
            Self::Writing(w) => w.caches.len(),
        }
    }

    fn items(&self, first: usize) -> Vec<Item> {
        match self {
            Self::Group(g) => g.items(first),
            Self::Writing(w) => w.items(first),
        }
    }

    fn take(&mut self, step: &Step, first: usize, vocab: usize) -> Result<()> {
        match self {
            Self::Group(g) => g.take(step, first, vocab),
            Self::Writing(w) => w.take(step, first, vocab),
        }
    }
}

/// What a run needs of the model's tokenizer.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// Whether a token ends an answer.
    pub is_end: &'a dyn Fn(u32) -> bool,
    /// The text of tokens.
    pub decode: &'a dyn Fn(&[u32]) -> String,
}

/// Runs problems under `policies`, the first of which must be the full cache; `finished` is handed each cell as it is
/// done, in no promised order, and `tell` hears of every group of tokens that was run.
///
/// # Errors
/// Usage: a text longer than the model's context, a policy that reads the future. Data: logits that are not finite.
/// Whatever `finished` refuses with.
pub fn run(
    model: &Model,
    settings: &Settings,
    policies: &[PolicySpec],
    tasks: Vec<Task>,
    words: Words<'_>,
    finished: &mut dyn FnMut(Cell) -> Result<()>,
    tell: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut work = Work {
        model,
        settings,
        policies,
        tasks: tasks.into(),
        solos: VecDeque::new(),
        units: Vec::new(),
    };
    loop {
        work.fill(tell)?;
        if work.units.is_empty() {
            return Ok(());
        }
        for cell in work.advance(words)? {
            finished(cell)?;
        }
        tell(work.step()?);
    }
}

struct Work<'a> {
    model: &'a Model,
    settings: &'a Settings,
    policies: &'a [PolicySpec],
    tasks: VecDeque<Task>,
    solos: VecDeque<Solo>,
    units: Vec<Unit>,
}

impl Work<'_> {
    /// Starts units while there is room, one at least.
    fn fill(&mut self, tell: &mut dyn FnMut(u64)) -> Result<()> {
        loop {
            let busy: usize = self.units.iter().map(Unit::width).sum();
            let room = self.settings.together.saturating_sub(busy);
            let unit = if !self.solos.is_empty() && (room >= 1 || busy == 0) {
                let solo = self.solos.pop_front();
                let begin = |s| Writing::begin(self.model, self.settings, self.policies, s, tell);
                solo.map(begin)
                    .transpose()?
                    .map(|w| Unit::Writing(Box::new(w)))
            } else {
                let wide = |t: &Task| 1 + t.todo.iter().filter(|p| **p != 0).count();
                let fits = self
                    .tasks
                    .front()
                    .is_some_and(|t| wide(t) <= room || busy == 0);
                let task = if fits { self.tasks.pop_front() } else { None };
                let begin = |t| Group::begin(self.model, self.settings, self.policies, t, tell);
                task.map(begin)
                    .transpose()?
                    .map(|g| Unit::Group(Box::new(g)))
            };
            match unit {
                Some(unit) => self.units.push(unit),
                None => return Ok(()),
            }
        }
    }

    /// Settles the next token of every unit; those that end go, and their cells come.
    fn advance(&mut self, words: Words<'_>) -> Result<Vec<Cell>> {
        let (settings, policies) = (self.settings, self.policies);
        let mut cells = Vec::new();
        let mut kept = Vec::with_capacity(self.units.len());
        for mut unit in self.units.drain(..) {
            let ended = match &mut unit {
                Unit::Group(g) => g.advance(settings, policies, words)?,
                Unit::Writing(w) => w.advance(settings, policies, words)?.map(|cell| Ended {
                    cells: vec![cell],
                    solos: Vec::new(),
                }),
            };
            match ended {
                None => kept.push(unit),
                Some(ended) => {
                    cells.extend(ended.cells);
                    self.solos.extend(ended.solos);
                }
            }
        }
        self.units = kept;
        Ok(cells)
    }

    /// Runs the settled tokens together; how many there were.
    fn step(&mut self) -> Result<u64> {
        let (mut caches, mut items) = (Vec::new(), Vec::new());
        for unit in &mut self.units {
            items.extend(unit.items(caches.len()));
            caches.append(unit.caches());
        }
        if items.is_empty() {
            return Ok(0);
        }
        let step = self.model.step(&mut caches, &items)?;
        let vocab = self.model.shape().vocab;
        let mut caches = caches.into_iter();
        let mut first = 0;
        for unit in &mut self.units {
            let width = unit.items(first).len();
            unit.caches().extend(caches.by_ref().take(width));
            unit.take(&step, first, vocab)?;
            first += width;
        }
        Ok(items.len() as u64)
    }
}
