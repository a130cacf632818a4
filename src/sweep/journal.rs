//! The journal of a sweep, or of one of its shards: its first line is the whole question.
//!
//! How lines are written, checked and read back is [`crate::journal`]; what the question is, [`super::head`].

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::journal::{self, Journal, Words, differs};

use super::Sweep;
use super::answer::Cell;
use super::head::Head;
use super::shard::Shard;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct First {
    schema: String,
    shard: Shard,
    sweep: Head,
}

/// Opens the journal of a shard of a sweep; with `resume`, what it holds is given back.
///
/// # Errors
/// As [`Journal::open`].
pub fn open(
    path: &Path,
    sweep: &Sweep,
    shard: Shard,
    resume: bool,
) -> Result<(Journal, Vec<Cell>)> {
    let grid = &sweep.grid;
    let turns = shard.turns(grid.cells());
    let own: BTreeSet<usize> = turns.map(|turn| grid.at_turn(turn)).collect();
    let key = |cell: &Cell| {
        let ours = own.contains(&cell.index) && cell.vary == grid.vary(cell.index);
        ours.then_some(cell.index)
    };
    let first = First {
        schema: <First as journal::Head>::SCHEMA.into(),
        shard,
        sweep: Head::of(sweep)?,
    };
    Journal::open(path, &first, resume, key)
}

impl journal::Head for First {
    const SCHEMA: &'static str = "kvplan/sweep-journal/2";
    const WORDS: Words = Words {
        what: "sweep",
        one: "a sweep",
    };

    fn difference(&self, found: &Self) -> Option<String> {
        let shard = |f: &Self| f.shard.to_string();
        differs("its form", &found.schema, &self.schema)
            .or_else(|| self.sweep.difference(&found.sweep))
            .or_else(|| differs("the shard", &shard(found), &shard(self)))
    }
}
