//! The cells of a grid: every combination of the axes' values, by number.
//!
//! Cells are numbered in row-major order, the first axis slowest. They are *worked on* in another order: what a replay
//! depends on is walked slowest, so that cells that share a replay follow each other and few timelines are held at a
//! time. Both orders are arithmetic on the number; no list of cells is kept.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::scenario::settings::{Given, Origin};
use crate::scenario::{Settings, Verb, inputs, resolve};
use crate::units::text::group;

use super::MOST_CELLS;
use super::axis::{Axis, Varied};

/// Settings, and axes over them.
#[derive(Clone, Debug)]
pub struct Grid {
    /// What all cells share.
    pub base: Settings,
    /// The axes, the slowest first.
    pub axes: Vec<Axis>,
    cells: usize,
}

impl Grid {
    /// A grid.
    ///
    /// # Errors
    /// Usage: no axis, two axes of one key, too many cells, a value that no deployment could have.
    pub fn new(base: Settings, axes: Vec<Axis>) -> Result<Self> {
        if axes.is_empty() {
            return Err(Error::usage("nothing varies")
                .help("add --vary KEY=VALUE,VALUE, such as --vary batch=1,2,4; `kvplan simulate` runs one deployment"));
        }
        for (i, axis) in axes.iter().enumerate() {
            if axes[..i].iter().any(|a| a.varied == axis.varied) {
                let key = axis.key();
                return Err(
                    Error::usage(format!("`{key}` is varied twice")).help(format!(
                        "write all its values in one: --vary {key}=VALUE,VALUE"
                    )),
                );
            }
        }
        let cells = count(&axes)?;
        for axis in &axes {
            check(axis)?;
        }
        check_base(&base)?;
        Ok(Self { base, axes, cells })
    }

    /// The cells of axes alone, for who only counts them.
    ///
    /// # Errors
    /// Usage: too many cells.
    pub(super) fn bare(axes: Vec<Axis>) -> Result<Self> {
        let cells = count(&axes)?;
        let base = Settings::defaults(Verb::Simulate);
        Ok(Self { base, axes, cells })
    }

    /// How many cells.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// Which value of each axis a cell has.
    pub fn place(&self, index: usize) -> Vec<usize> {
        let mut rest = index;
        let mut place = vec![0; self.axes.len()];
        for (at, axis) in self.axes.iter().enumerate().rev() {
            place[at] = rest % axis.values.len();
            rest /= axis.values.len();
        }
        place
    }

    /// The cell at a place.
    pub fn index(&self, place: &[usize]) -> usize {
        let axes = self.axes.iter().zip(place);
        axes.fold(0, |index, (axis, at)| index * axis.values.len() + at)
    }

    /// The cell that is worked on as number `turn`.
    pub(super) fn at_turn(&self, turn: usize) -> usize {
        let (slow, fast): (Vec<usize>, Vec<usize>) =
            (0..self.axes.len()).partition(|a| self.axes[*a].replays());
        let mut rest = turn;
        let mut place = vec![0; self.axes.len()];
        for at in slow.into_iter().chain(fast).rev() {
            place[at] = rest % self.axes[at].values.len();
            rest /= self.axes[at].values.len();
        }
        self.index(&place)
    }

    /// Position of the policy among the axes, if it is one.
    pub fn policy_axis(&self) -> Option<usize> {
        let mut axes = self.axes.iter();
        axes.position(|a| a.varied == Varied::Setting("policy"))
    }

    /// The varied keys of a cell with their values.
    pub fn vary(&self, index: usize) -> BTreeMap<String, String> {
        let axes = self.axes.iter().zip(self.place(index));
        axes.map(|(axis, at)| (axis.key(), axis.values[at].clone()))
            .collect()
    }

    /// The files that the values of a place name, but not those that all cells share.
    pub(super) fn own_files(&self, place: &[usize]) -> Vec<String> {
        let axes = self.axes.iter().zip(place);
        axes.flat_map(|(axis, at)| inputs::files(&axis.key(), &axis.values[*at..=*at]))
            .filter(|name| std::path::Path::new(name).is_file())
            .collect()
    }

    /// The settings of the cell at a place, parameters of the policy put in unless `bare`.
    ///
    /// # Errors
    /// Usage: a setting that takes no such value; a trace that cannot be read.
    pub fn settings(&self, place: &[usize], bare: bool) -> Result<Settings> {
        let mut settings = self.base.clone();
        let mut params = Vec::new();
        for (axis, at) in self.axes.iter().zip(place) {
            let value = &axis.values[*at];
            match &axis.varied {
                Varied::Setting(name) => {
                    settings.set(name, std::slice::from_ref(value), Origin::Flag)?;
                }
                Varied::Param(key) => params.push((key, value)),
            }
        }
        if !bare && !params.is_empty() {
            let mut policy = policy(&settings)?;
            for (key, value) in params {
                policy = with_param(&policy, key, value);
            }
            settings.set("policy", &[policy], Origin::Flag)?;
        }
        Ok(settings)
    }
}

/// The policy of settings, after what a trace decides.
fn policy(settings: &Settings) -> Result<String> {
    let mut adapted = settings.clone();
    resolve::adapt(&mut adapted)?;
    let given = adapted.get("policy");
    given
        .map(Given::text)
        .ok_or_else(|| Error::internal("no policy after the defaults"))
}

/// A policy's text with one parameter put in or replaced.
pub(super) fn with_param(policy: &str, key: &str, value: &str) -> String {
    let (name, params) = policy.split_once(':').unwrap_or((policy, ""));
    let other = |p: &&str| !p.is_empty() && p.split('=').next() != Some(key);
    let mut params: Vec<&str> = params.split(',').filter(other).collect();
    let own = format!("{key}={value}");
    params.push(&own);
    format!("{name}:{}", params.join(","))
}

fn count(axes: &[Axis]) -> Result<usize> {
    let sizes = axes.iter().map(|a| a.values.len());
    let cells = sizes.fold(1usize, usize::saturating_mul);
    if cells > MOST_CELLS {
        let each: Vec<String> = axes
            .iter()
            .map(|a| format!("{} of {}", group(&a.values.len().to_string()), a.key()))
            .collect();
        return Err(Error::usage(format!(
            "{} are too many cells: at most {}",
            each.join(" times "),
            group(&MOST_CELLS.to_string())
        ))
        .help("vary less at a time, or run several sweeps"));
    }
    Ok(cells)
}

/// Keys whose values can be judged alone. Others (GPUs, weights, depth, split, reserve) depend on the rest.
const ALONE: &[&str] = &[
    "model",
    "hardware",
    "runtime",
    "kv",
    "batch",
    "prompt",
    "output",
    "policy",
    "t1",
    "overlap",
    "write-back",
    "compact",
    "layout",
    "occupancy",
    "arrivals",
    "lengths",
    "phase",
    "memory-fraction",
    "trace",
    "seed",
];

/// Refuses what all cells share and no deployment could have.
fn check_base(base: &Settings) -> Result<()> {
    for name in ALONE {
        if let Some(given) = base.asked(name) {
            alone(name, &given.texts, given.origin.clone())?;
        }
    }
    Ok(())
}

fn alone(name: &str, texts: &[String], origin: Origin) -> Result<()> {
    let mut settings = Settings::defaults(Verb::Simulate);
    settings.set(name, texts, origin)?;
    if name == "lengths" {
        settings.set("arrivals", &["all".into()], Origin::Flag)?; // it says how long those that come are
    }
    if name == "trace" {
        // Traces of several prompt lengths are no mistake where the sweep names a prompt; its cells know.
        let prompt = settings.get("prompt").map(Given::text);
        settings.set(
            "prompt",
            &prompt.into_iter().collect::<Vec<_>>(),
            Origin::Flag,
        )?;
    }
    resolve::scenario(&settings).map(|_| ())
}

/// Values of an axis that are all judged beforehand; of a longer one, the first and the last.
const JUDGED: usize = 256;

/// Refuses a value that would be wrong in every cell, before any cell runs.
fn check(axis: &Axis) -> Result<()> {
    let Varied::Setting(name) = axis.varied else {
        return Ok(());
    };
    if !ALONE.contains(&name) {
        return Ok(());
    }
    let last = axis.values.len() - 1;
    let step = if last < JUDGED { 1 } else { last };
    for value in axis.values.iter().step_by(step) {
        alone(name, std::slice::from_ref(value), Origin::Flag)
            .map_err(|e| named(name, value, e))?;
    }
    Ok(())
}

/// An error about a value that may be a file, with the flag and the value where it does not say so itself.
fn named(name: &str, value: &str, e: Error) -> Error {
    if inputs::files(name, &[value.into()]).is_empty() || e.message.starts_with("--") {
        return e;
    }
    let known = e.message.contains(value);
    let flag = format!("--vary {name}");
    e.about(&if known {
        flag
    } else {
        format!("{flag}={value}")
    })
}
