//! The question of a sweep in a form that outlives its process: what its journal and its shards begin with.
//!
//! Every setting as text and which of them somebody asked for, the axes, what is made equal, and length and checksum of
//! every file that is read. Two heads of one question are equal in all of it; else the first thing that differs is said in
//! words. The version of kvplan is part of it, since another may answer otherwise. From a head the command line can be told
//! again, which is how a merge says what makes a missing shard.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::journal::{Mark, differs, marks};
use crate::scenario::inputs;
use crate::scenario::settings::Origin;

use super::answer::{Aim, EqualBy, Range};
use super::equal::By;
use super::grid::Grid;
use super::shard::Shard;
use super::{Sweep, ranges};

/// Everything that decides the cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Head {
    /// Version of kvplan.
    pub kvplan_version: String,
    /// What all cells share, as text, before a trace decides what was left open.
    pub settings: BTreeMap<String, String>,
    /// Those of the settings that are no defaults.
    pub asked: Vec<String>,
    /// Whether the laws are checked.
    pub audit: bool,
    /// The axes, the slowest first.
    pub vary: Vec<Range>,
    /// By what the policies are made equal.
    pub equal: Option<EqualBy>,
    /// Files that are read.
    pub files: BTreeMap<String, Mark>,
}

impl Head {
    /// That of a sweep.
    ///
    /// # Errors
    /// Usage: a file cannot be read.
    pub(super) fn of(sweep: &Sweep) -> Result<Self> {
        let grid = &sweep.grid;
        let varied = |name: &str| grid.axes.iter().any(|a| a.key() == name);
        let shared = || grid.base.iter().filter(|(key, _)| !varied(key.name));
        let asked = shared().filter(|(_, given)| given.origin != Origin::Default);
        Ok(Self {
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            settings: shared()
                .map(|(key, given)| (key.name.into(), given.text()))
                .collect(),
            asked: asked.map(|(key, _)| key.name.into()).collect(),
            audit: grid.base.audit,
            vary: ranges(grid),
            equal: sweep.equal.map(|e| e.describe()),
            files: files(grid)?,
        })
    }

    /// The first thing that differs from a head that was found, in words; none if nothing does.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        let vary = |h: &Self| h.vary.iter().map(axis).collect::<Vec<_>>().join(" ");
        let equal = |h: &Self| h.equal.as_ref().map_or("nothing".into(), equality);
        let asked = |h: &Self| h.asked.join(", ");
        let setting = || {
            let mut names = self.settings.keys().chain(found.settings.keys());
            let value =
                |h: &Self, name: &str| h.settings.get(name).cloned().unwrap_or("open".into());
            names.find_map(|n| differs(n, &value(found, n), &value(self, n)))
        };
        differs("kvplan", &found.kvplan_version, &self.kvplan_version)
            .or_else(|| differs("the grid", &vary(found), &vary(self)))
            .or_else(setting)
            .or_else(|| differs("the equality", &equal(found), &equal(self)))
            .or_else(|| differs("what was asked for", &asked(found), &asked(self)))
            .or_else(|| (self.files != found.files).then(|| "a file it reads has changed".into()))
            .or_else(|| (self != found).then(|| "its question differs".into()))
    }

    /// The command line that makes a shard of it.
    pub(super) fn command(&self, pareto: Option<&[Aim]>, shard: Shard) -> String {
        let mut words = vec!["kvplan".to_string(), "sweep".into()];
        let mut flag = |name: &str, value: &str| {
            words.extend([format!("--{name}"), quoted(value)]);
        };
        for name in &self.asked {
            let text = self.settings.get(name).map_or("", String::as_str);
            for value in text.split(", ").filter(|_| !text.is_empty()) {
                flag(name, value);
            }
        }
        self.vary.iter().for_each(|a| flag("vary", &axis(a)));
        self.equal.iter().for_each(|e| flag("equal", &equality(e)));
        flag("shard", &shard.to_string());
        flag("out", &format!("shard-{}.json", shard.number));
        if self.audit {
            words.push("--audit".into());
        }
        if let Some(aims) = pareto {
            let keys: Vec<&str> = aims.iter().map(|a| a.key.as_str()).collect();
            words.push(format!("--pareto={}", keys.join(",")));
        }
        words.join(" ")
    }
}

/// The marks of all files that a grid names.
///
/// # Errors
/// Usage: a file cannot be read.
pub(super) fn files(grid: &Grid) -> Result<BTreeMap<String, Mark>> {
    marks(names(grid))
}

/// What may be files in the settings of a grid.
pub(super) fn names(grid: &Grid) -> Vec<String> {
    let varied = grid
        .axes
        .iter()
        .flat_map(|a| inputs::files(&a.key(), &a.values));
    inputs::named(&grid.base)
        .into_iter()
        .chain(varied)
        .collect()
}

/// `KEY=VALUE,VALUE` as `--vary` takes it.
fn axis(range: &Range) -> String {
    format!("{}={}", range.name, range.values.join(","))
}

/// `WHAT` or `WHAT=VALUE` as `--equal` takes it.
fn equality(equal: &EqualBy) -> String {
    let unit = By::named(&equal.by).map_or("", By::unit);
    let target = equal.target.map(|t| format!("={t}{unit}"));
    format!("{}{}", equal.by, target.unwrap_or_default())
}

/// A word for a shell, quoted where it has to be.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("batch=1,2"), "batch=1,2");
        assert_eq!(quoted("traces/*.kvt"), "'traces/*.kvt'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
