//! Many deployments at once: a grid of settings, a cell each.
//!
//! What is modelled: nothing of its own. A cell is one `simulate`, with the same figures to the bit; this module only
//! says which cells there are ([`grid`]), in which order they share replays (`work`), which of them are not dominated
//! ([`pareto`]), how policies are brought to something equal ([`equal`]), and what survives a kill ([`journal`]). A cell
//! that cannot be asked (a contradiction, GPUs that do not divide the heads) is a cell with its reason: one bad corner
//! must not cost the grid. A broken file among the values of an axis stops the sweep before any cell runs, if a look at it
//! tells; damage that only running comes upon (a chunk of a recording) is a reason of the cells that rest on that file, and
//! in a file that all cells rest on it stops the sweep. Beyond one machine a grid is cut into shards ([`shard`]) that an
//! existing scheduler runs, and [`merge`] joins them.
//!
//! Rival design: a shell loop over `simulate`; it opens and replays the recording in every cell, and a value that makes
//! no sense is found an hour in. Ignored: cells that could be left out because a neighbour decides them (the grid is
//! small enough). Deterministic: the answer is ordered by index and has no trace of threads, order or interruption.

pub mod answer;
pub mod axis;
pub mod by_counts;
pub mod equal;
pub mod figure;
pub mod grid;
pub mod head;
pub mod journal;
mod knob;
pub mod merge;
pub mod pareto;
pub mod shard;
mod work;

pub use work::{run, run_shard};

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::journal::Mark;
use crate::plan::answer::Setting;
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, Verb, keys, resolve};

use answer::{Aim, Answer, Cell, EqualBy, Range, SWEEP_SCHEMA};
use axis::Axis;
use equal::Equal;
use grid::Grid;
use pareto::Objective;

/// Most cells of a sweep: their outcomes are held until the answer is written, at some ten kilobytes each.
pub const MOST_CELLS: usize = 100_000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The cells.
    pub grid: Grid,
    /// What the policies are made equal by.
    pub equal: Option<Equal>,
    /// Objectives of the front.
    pub pareto: Option<Vec<Objective>>,
}

impl Sweep {
    /// A sweep.
    ///
    /// # Errors
    /// Usage: policies to be made equal, and only one or none of them.
    pub fn new(grid: Grid, equal: Option<Equal>, pareto: Option<Vec<Objective>>) -> Result<Self> {
        let policies = grid
            .policy_axis()
            .map_or(1, |at| grid.axes[at].values.len());
        if equal.is_some_and(|e| e.target.is_none()) && policies < 2 {
            return Err(Error::usage("--equal compares policies, and there is one")
                .help("name several: --vary policy=four-tier,h2o-mean (the first is the reference), or give a value: --equal hbm-peak=120GiB"));
        }
        Ok(Self {
            grid,
            equal,
            pareto,
        })
    }

    /// The question inside an answer.
    ///
    /// # Errors
    /// Usage: it cannot be asked (any more).
    pub fn of(answer: &Answer) -> Result<Self> {
        let mut base = Settings::defaults(Verb::Simulate);
        for setting in answer.question.iter().filter(|s| s.from != "default") {
            let texts: Vec<String> = match setting.name.as_str() {
                "trace" => setting.value.split(", ").map(String::from).collect(),
                _ => vec![setting.value.clone()],
            };
            if !keys::names().any(|name| name == setting.name) {
                return Err(Error::usage(format!("`{}` is not a setting", setting.name)));
            }
            base.set(&setting.name, &texts, Origin::Flag)?;
        }
        let axes = answer.vary.iter().map(Axis::of).collect::<Result<_>>()?;
        let equal = answer.equal.as_ref().map(Equal::of).transpose()?;
        let aims = answer.pareto.as_ref();
        let keys = aims.map(|list| list.iter().map(|a| a.key.as_str()).collect::<Vec<_>>());
        let pareto = keys
            .map(|keys| pareto::parse(&keys.join(",")))
            .transpose()?;
        Self::new(Grid::new(base, axes)?, equal, pareto)
    }

    /// The files that its cells read.
    pub fn reads(&self) -> Vec<String> {
        head::names(&self.grid)
    }

    /// The answer, from all its cells.
    ///
    /// # Errors
    /// Internal: a cell is missing. Usage: a file that it reads is gone.
    pub fn answer(&self, cells: Vec<Cell>) -> Result<Answer> {
        self.frame()?.answer(cells)
    }

    /// Whether an answer is this sweep's, by this version of kvplan and from the files as they are.
    pub fn answered_by(&self, answer: &Answer) -> bool {
        let own = |f: Frame| {
            (f.question == answer.question)
                && (f.inputs, f.vary, f.equal)
                    == (
                        answer.inputs.clone(),
                        answer.vary.clone(),
                        answer.equal.clone(),
                    )
        };
        let version = answer.kvplan_version == env!("CARGO_PKG_VERSION");
        version && self.aims() == answer.pareto && self.frame().is_ok_and(own)
    }

    fn frame(&self) -> Result<Frame> {
        Ok(Frame {
            question: question(&self.grid),
            inputs: head::files(&self.grid)?,
            vary: ranges(&self.grid),
            equal: self.equal.map(|e| e.describe()),
            pareto: self.pareto.clone(),
        })
    }

    /// The objectives of the front, as part of an answer.
    fn aims(&self) -> Option<Vec<Aim>> {
        let list = self.pareto.as_ref();
        list.map(|list| list.iter().map(Objective::aim).collect())
    }
}

/// An answer before its cells.
struct Frame {
    question: Vec<Setting>,
    inputs: BTreeMap<String, Mark>,
    vary: Vec<Range>,
    equal: Option<EqualBy>,
    pareto: Option<Vec<Objective>>,
}

impl Frame {
    /// The answer with all its cells, in any order.
    ///
    /// # Errors
    /// Internal: a cell is missing.
    fn answer(self, mut cells: Vec<Cell>) -> Result<Answer> {
        cells.sort_unstable_by_key(|c| c.index);
        let all: usize = self.vary.iter().map(|a| a.values.len()).product();
        if cells.iter().map(|c| c.index).ne(0..all) {
            return Err(Error::internal("a cell of the sweep is missing"));
        }
        if let Some(objectives) = &self.pareto {
            pareto::mark(&mut cells, objectives);
        }
        Ok(Answer {
            schema: SWEEP_SCHEMA.into(),
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            question: self.question,
            inputs: self.inputs,
            vary: self.vary,
            equal: self.equal,
            pareto: self
                .pareto
                .map(|list| list.iter().map(Objective::aim).collect()),
            notes: notes(&cells),
            cells,
        })
    }
}

/// What all cells share. Settings that depend on a trace and were left open are left open here too.
fn question(grid: &Grid) -> Vec<Setting> {
    let varied = |name: &str| grid.axes.iter().any(|a| a.key() == name);
    let mut settings = grid.base.clone();
    // What a trace decides is decided for all cells alike, unless traces vary; an unreadable one has its say in the cells.
    if !varied("trace") {
        resolve::adapt(&mut settings).ok();
    }
    settings
        .iter()
        .filter(|(key, _)| !varied(key.name))
        .map(|(key, given)| Setting {
            name: key.name.into(),
            value: given.text(),
            from: given.origin.word(),
        })
        .collect()
}

fn ranges(grid: &Grid) -> Vec<Range> {
    let range = |a: &axis::Axis| Range {
        name: a.key(),
        values: a.values.clone(),
    };
    grid.axes.iter().map(range).collect()
}

/// Notes that every answered cell carries, and those on a mix.
fn notes(cells: &[Cell]) -> Vec<String> {
    let outcomes = || cells.iter().filter_map(|c| c.outcome.as_ref());
    let mut common: Vec<String> = outcomes().next().map_or_else(Vec::new, |o| o.notes.clone());
    for outcome in outcomes() {
        common.retain(|note| outcome.notes.contains(note));
    }
    let destroys = outcomes()
        .filter(|o| o.quality.destroyed_share > 0.0 || o.fetched.tokens_mean.is_some())
        .count();
    if destroys > 0 && destroys < outcomes().count() {
        common.push(
            "some of these cells destroy tokens (or attend to a part of them) and some do not: tokens/s alone does not rank them"
                .into(),
        );
    }
    common
}
