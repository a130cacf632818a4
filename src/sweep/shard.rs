//! One of n pieces of a sweep: which cells it has, and its result (schema `kvplan/sweep-shard/1`).
//!
//! The cells are cut into n stretches in the order in which a sweep works on them, as equal in number as can be: neighbours
//! share replays, so that a shard replays little that another replays too. Shards know nothing of each other; each has its own
//! result, its own journal, and can be killed and gone on with alone. Any n gives the same cells, and more shards than cells
//! leave some of them empty. Rival: every n-th cell, which balances what costs differ by and replays everything n times.
//! Ignored: what cells cost; cut finer than there are machines where they differ much.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan::answer::Setting;

use super::answer::{Aim, Cell};
use super::axis::Axis;
use super::grid::Grid;
use super::head::Head;
use super::{MOST_CELLS, Sweep, question};

/// Schema id of [`Part`].
pub const SHARD_SCHEMA: &str = "kvplan/sweep-shard/1";

/// Which piece of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Shard {
    /// From 1 to `of`.
    pub number: usize,
    /// Pieces in all.
    pub of: usize,
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Reads `2/8`.
    ///
    /// # Errors
    /// Usage: no two numbers, a number that is not from 1 to n, more shards than a sweep has cells at most.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| {
            Error::usage(format!("--shard `{text}`: {why}")).help(
                "write i/n with i from 1 to n: the shards of a sweep in three are 1/3, 2/3 and 3/3",
            )
        };
        let number = |t: &str| {
            let digits = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| t.parse::<usize>().unwrap_or(usize::MAX))
        };
        let pair = text.trim().split_once('/');
        let pair = pair.and_then(|(i, n)| Some((number(i)?, number(n)?)));
        let (number, of) = pair.ok_or_else(|| wrong("is not two numbers, i/n".into()))?;
        if of == 0 || of > MOST_CELLS {
            return Err(wrong(format!(
                "a sweep is cut into 1 to {MOST_CELLS} shards"
            )));
        }
        if number == 0 || number > of {
            return Err(wrong(format!("there is no shard {number} of {of}")));
        }
        Ok(Self { number, of })
    }

    /// Its stretch of `cells` cells, as turns of work.
    pub fn turns(self, cells: usize) -> Range<usize> {
        let end = |n: usize| n * cells / self.of; // at most 10^10
        end(self.number - 1)..end(self.number)
    }
}

/// The result of one shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Part {
    /// Always `kvplan/sweep-shard/1`.
    pub schema: String,
    /// Which piece it is.
    pub shard: Shard,
    /// The whole sweep's question: shards of one sweep have the same.
    pub sweep: Head,
    /// What all cells share, with every default spelt out and who decided.
    pub question: Vec<Setting>,
    /// Objectives of the front, which only the merged answer has.
    pub pareto: Option<Vec<Aim>>,
    /// CRC-32 of the cells as JSON without spaces, eight hexadecimal digits.
    pub cells_crc32: String,
    /// Its cells, by their index in the whole sweep.
    pub cells: Vec<Cell>,
}

impl Part {
    /// The result of a shard from its cells.
    ///
    /// # Errors
    /// Internal: a cell is missing. Usage: a file that the sweep reads is gone.
    pub fn new(sweep: &Sweep, shard: Shard, mut cells: Vec<Cell>) -> Result<Self> {
        cells.sort_unstable_by_key(|c| c.index);
        if !holds(&sweep.grid, shard, &cells) {
            return Err(Error::internal("a cell of the shard is missing"));
        }
        Ok(Self {
            schema: SHARD_SCHEMA.into(),
            shard,
            sweep: Head::of(sweep)?,
            question: question(&sweep.grid),
            pareto: sweep.aims(),
            cells_crc32: sum(&cells)?,
            cells,
        })
    }

    /// Reads what was written; `name` is the file's.
    ///
    /// # Errors
    /// Data: it is no shard's result, or was changed after it was written.
    pub fn read(text: &str, name: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::data(format!("{name}: not the result of a shard: {why}"))
                .help("make one with `kvplan sweep --shard i/n -o FILE`")
        };
        let part: Self = serde_json::from_str(text).map_err(|e| wrong(&format!("{e}")))?;
        if part.schema != SHARD_SCHEMA {
            return Err(wrong(&format!("it has the schema `{}`", part.schema)));
        }
        if sum(&part.cells)? != part.cells_crc32 {
            return Err(wrong(
                "its cells fail their checksum: it was changed after it was written",
            ));
        }
        let axes = part.sweep.vary.iter().map(Axis::of).collect::<Result<_>>();
        let grid = axes.and_then(Grid::bare).map_err(|e| wrong(&e.message))?;
        let sound = Shard::parse(&part.shard.to_string()).is_ok();
        if !sound || !holds(&grid, part.shard, &part.cells) {
            return Err(wrong(&format!(
                "it does not hold the cells of shard {}",
                part.shard
            )));
        }
        Ok(part)
    }

    /// Whether it is the result of this shard of this sweep.
    pub fn answers(&self, sweep: &Sweep, shard: Shard) -> bool {
        let asked = Head::of(sweep).is_ok_and(|head| head == self.sweep);
        asked && self.shard == shard && self.pareto == sweep.aims()
    }
}

/// Whether cells in order of their index are those of a shard, all of them.
fn holds(grid: &Grid, shard: Shard, cells: &[Cell]) -> bool {
    let turns = shard.turns(grid.cells());
    let mut own: Vec<usize> = turns.map(|turn| grid.at_turn(turn)).collect();
    own.sort_unstable();
    let named = |c: &Cell| c.vary == grid.vary(c.index);
    cells.iter().map(|c| c.index).eq(own) && cells.iter().all(named)
}

fn sum(cells: &[Cell]) -> Result<String> {
    let text = serde_json::to_string(cells)
        .map_err(|e| Error::internal(format!("a cell is no JSON: {e}")))?;
    Ok(format!("{:08x}", crc32fast::hash(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_follow_each_other_and_differ_by_one_cell() {
        // 10 cells in 4: ends at 2.5, 5, 7.5 and 10, rounded down.
        let turns = |n| Shard { number: n, of: 4 }.turns(10);
        assert_eq!(
            [turns(1), turns(2), turns(3), turns(4)],
            [0..2, 2..5, 5..7, 7..10]
        );
        assert_eq!(Shard { number: 1, of: 3 }.turns(1), 0..0);
        assert_eq!(Shard { number: 3, of: 3 }.turns(1), 0..1);
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        assert_eq!(Shard::parse(" 2/3 ").unwrap(), Shard { number: 2, of: 3 });
        for text in [
            "",
            "/",
            "2",
            "0/3",
            "4/3",
            "1/0",
            "-1/3",
            "+1/3",
            "1/3/3",
            "a/b",
            "1/100001",
            "99999999999999999999999/3",
        ] {
            let error = Shard::parse(text).unwrap_err();
            assert!(error.help.unwrap().contains("1/3, 2/3 and 3/3"), "{text}");
        }
    }
}
