//! The journal of a sweep: its first line is the whole question, with length and checksum of every file named in it.
//!
//! How lines are written, checked and read back is [`crate::journal`].

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::journal::{self, Journal, Words, checksum, differs};

use super::answer::{Cell, EqualBy, Range};
use super::{Sweep, ranges};

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    schema: String,
    kvplan_version: String,
    settings: BTreeMap<String, String>,
    audit: bool,
    vary: Vec<Range>,
    equal: Option<EqualBy>,
    files: BTreeMap<String, (u64, u32)>,
}

/// Opens the journal of a sweep; with `resume`, what it holds is given back.
///
/// # Errors
/// As [`Journal::open`].
pub fn open(path: &Path, sweep: &Sweep, resume: bool) -> Result<(Journal, Vec<Cell>)> {
    let cells = sweep.grid.cells();
    let key = |cell: &Cell| {
        let ours = cell.index < cells && cell.vary == sweep.grid.vary(cell.index);
        ours.then_some(cell.index)
    };
    Journal::open(path, &Head::of(sweep)?, resume, key)
}

impl Head {
    fn of(sweep: &Sweep) -> Result<Self> {
        let grid = &sweep.grid;
        let varied = |name: &str| grid.axes.iter().any(|a| a.key() == name);
        let settings: BTreeMap<String, String> = grid
            .base
            .iter()
            .filter(|(key, _)| !varied(key.name))
            .map(|(key, given)| (key.name.to_string(), given.text()))
            .collect();
        let mut files = BTreeMap::new();
        let mut named: Vec<&str> = Vec::new();
        for (_, given) in grid.base.iter() {
            named.extend(given.texts.iter().map(String::as_str));
        }
        for axis in &grid.axes {
            named.extend(axis.values.iter().map(String::as_str));
        }
        for name in named {
            let path = Path::new(name);
            if path.is_file() && !files.contains_key(name) {
                let sum =
                    checksum(path).map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
                files.insert(name.to_string(), sum);
            }
        }
        Ok(Self {
            schema: <Self as journal::Head>::SCHEMA.into(),
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            settings,
            audit: grid.base.audit,
            vary: ranges(grid),
            equal: sweep.equal.map(|e| e.describe()),
            files,
        })
    }
}

impl journal::Head for Head {
    const SCHEMA: &'static str = "kvplan/sweep-journal/1";
    const WORDS: Words = Words {
        what: "sweep",
        one: "a sweep",
    };

    fn difference(&self, found: &Self) -> Option<String> {
        let vary = |h: &Self| {
            let axes = h.vary.iter();
            let texts = axes.map(|a| format!("{}={}", a.name, a.values.join(",")));
            texts.collect::<Vec<_>>().join(" ")
        };
        let equal = |h: &Self| {
            h.equal.as_ref().map_or("nothing".into(), |e| {
                let target = e.target.map_or(String::new(), |t| format!("={t}"));
                format!("{}{target}", e.by)
            })
        };
        let setting = || {
            let mut names = self.settings.keys().chain(found.settings.keys());
            let value =
                |h: &Self, name: &str| h.settings.get(name).cloned().unwrap_or("open".into());
            names.find_map(|n| differs(n, &value(found, n), &value(self, n)))
        };
        differs("its form", &found.schema, &self.schema)
            .or_else(|| differs("kvplan", &found.kvplan_version, &self.kvplan_version))
            .or_else(|| differs("the grid", &vary(found), &vary(self)))
            .or_else(setting)
            .or_else(|| differs("the equality", &equal(found), &equal(self)))
            .or_else(|| (self.files != found.files).then(|| "a file it reads has changed".into()))
            .or_else(|| (self != found).then(|| "its question differs".into()))
    }
}
