//! Finished cells beside the result, one line each, so that a stopped sweep goes on where it was.
//!
//! The first line holds the whole question: version, settings, axes, equality, and length and checksum of every file
//! named in them. A journal of another question is refused, and the refusal says what differs; there is no hash that could
//! agree by chance or disagree without a reason. Cells are written whole and at once, as they finish, in any order. A
//! process that is killed leaves at most one line without an end: it is cut off and that cell runs again. A cell's line
//! ends in its checksum; any other line that fails it, or is no cell, is damage. The lock keeps two sweeps from writing one journal; it goes with the process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::answer::{Cell, EqualBy, Range};
use super::{Sweep, ranges};

const SCHEMA: &str = "kvplan/sweep-journal/1";

/// Longest line that is read (bytes): a cell takes some thousand.
const MOST_LINE: u64 = 16 << 20;

/// Bytes of a file that enter its checksum, at each end.
const CHECKED: u64 = 32 << 20;

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

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Where the journal of a result lies: `FILE.part`.
    pub fn beside(result: &Path) -> PathBuf {
        let mut name = result.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        result.with_file_name(name)
    }

    /// Opens the journal of a sweep; with `resume`, what it holds is given back.
    ///
    /// # Errors
    /// Usage: one is there and `resume` is not wanted, it is of another question, another sweep writes it, it cannot be
    /// written. Data: it is no journal, or is damaged.
    pub fn open(path: &Path, sweep: &Sweep, resume: bool) -> Result<(Self, Vec<Cell>)> {
        let shown = path.display().to_string();
        if path.exists() && !path.is_file() {
            return Err(Error::usage(format!("{shown} is no file")).help(
                "the journal of a sweep lies beside its result: name another result with -o",
            ));
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| failed(&shown, &e))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Error::usage(format!("another sweep is writing {shown}"))
                .help("wait for it, or name another result with -o"));
        }
        let length = file.metadata().map_err(|e| failed(&shown, &e))?.len();
        if length > 0 && !resume {
            return Err(Error::usage(format!(
                "{shown} holds finished cells of a sweep that was stopped"
            ))
            .help("add --resume to go on with it, or remove the file to start afresh"));
        }
        let head = Head::of(sweep)?;
        let (whole, cells) = read(&mut file, &shown, &head, sweep)?;
        file.set_len(whole).map_err(|e| failed(&shown, &e))?;
        file.seek(SeekFrom::End(0))
            .map_err(|e| failed(&shown, &e))?;
        let journal = Self {
            path: path.to_path_buf(),
            file: Mutex::new(file),
        };
        if whole == 0 {
            journal.line(json(&head)?)?;
        }
        Ok((journal, cells))
    }

    /// Adds a finished cell.
    ///
    /// # Errors
    /// Usage: it cannot be written.
    pub fn add(&self, cell: &Cell) -> Result<()> {
        let text = json(cell)?;
        let sum = crc32fast::hash(text.as_bytes());
        self.line(format!("{text}\t{sum:08x}"))
    }

    /// Removes it: the result is in its place.
    pub fn remove(self) {
        std::fs::remove_file(&self.path).ok(); // left behind, it is refused next time with the way out
    }

    fn line(&self, mut text: String) -> Result<()> {
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes())
            .map_err(|e| failed(&self.path.display().to_string(), &e))
    }
}

fn json(entry: &impl Serialize) -> Result<String> {
    serde_json::to_string(entry).map_err(|e| Error::internal(format!("a cell is no JSON: {e}")))
}

/// The JSON of a cell's line, if it is what was written.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let text = line.strip_suffix(b"\n")?;
    let at = text.iter().rposition(|b| *b == b'\t')?;
    let sum = std::str::from_utf8(&text[at + 1..]).ok()?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32fast::hash(&text[..at]) == sum).then_some(&text[..at])
}

fn failed(shown: &str, error: &std::io::Error) -> Error {
    Error::usage(format!("cannot write {shown}: {error}")).help(
        "finished cells are kept beside the result: name a file in a folder you may write to with -o",
    )
}

fn damaged(shown: &str, line: usize, why: &str) -> Error {
    Error::data(format!("{shown}, line {line}: {why}")).help("remove the file to start afresh")
}

/// Whole lines of a journal: their length in bytes, and their cells. An empty one has none.
fn read(file: &mut File, shown: &str, head: &Head, sweep: &Sweep) -> Result<(u64, Vec<Cell>)> {
    let mut reader = BufReader::new(file);
    let (mut whole, mut number) = (0u64, 0usize);
    let mut cells: Vec<Cell> = Vec::new();
    let mut seen = vec![false; sweep.grid.cells()];
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(MOST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|e| damaged(shown, number + 1, &e.to_string()))?;
        number += 1;
        if line.last() != Some(&b'\n') {
            if read as u64 == MOST_LINE || number == 1 && read > 0 && !begins(&line) {
                return Err(damaged(shown, number, "is no line of a journal"));
            }
            return Ok((whole, cells)); // the end, or a line that was being written
        }
        whole += read as u64;
        if number == 1 {
            head.check(&line, shown)?;
            continue;
        }
        let text = checked(&line).ok_or_else(|| {
            damaged(
                shown,
                number,
                "fails its checksum: it was changed after it was written",
            )
        })?;
        let cell: Cell = serde_json::from_slice(text)
            .map_err(|e| damaged(shown, number, &format!("is no cell: {e}")))?;
        if cell.index >= seen.len() || cell.vary != sweep.grid.vary(cell.index) {
            return Err(damaged(shown, number, "is no cell of this sweep"));
        }
        if !std::mem::replace(&mut seen[cell.index], true) {
            cells.push(cell);
        }
    }
}

/// Whether a cut first line is the beginning of a journal.
fn begins(line: &[u8]) -> bool {
    let start = format!("{{\"schema\":\"{SCHEMA}\"");
    let n = line.len().min(start.len());
    line[..n] == start.as_bytes()[..n]
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
            schema: SCHEMA.into(),
            kvplan_version: env!("CARGO_PKG_VERSION").into(),
            settings,
            audit: grid.base.audit,
            vary: ranges(grid),
            equal: sweep.equal.map(|e| e.describe()),
            files,
        })
    }

    /// Refuses the journal of another question.
    fn check(&self, line: &[u8], shown: &str) -> Result<()> {
        let found: Self = serde_json::from_slice(line)
            .map_err(|e| damaged(shown, 1, &format!("is not the head of a journal: {e}")))?;
        match self.difference(&found) {
            None => Ok(()),
            Some(what) => Err(Error::usage(format!("{shown} is of another sweep: {what}"))
                .help("ask as before, name another result with -o, or remove the file to start afresh")),
        }
    }

    /// The first thing that differs, in words.
    fn difference(&self, found: &Self) -> Option<String> {
        let differs = |what: &str, then: &str, now: &str| {
            (then != now).then(|| format!("{what} was {then}, is {now}"))
        };
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

/// Length and CRC-32 of a file; of a long one, of its two ends.
fn checksum(path: &Path) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut crc = crc32fast::Hasher::new();
    let mut add = |file: &mut File| -> std::io::Result<()> {
        let mut bytes = Vec::new();
        file.take(CHECKED).read_to_end(&mut bytes)?;
        crc.update(&bytes);
        Ok(())
    };
    add(&mut file)?;
    if length > CHECKED {
        file.seek(SeekFrom::Start(length.saturating_sub(CHECKED).max(CHECKED)))?;
        add(&mut file)?;
    }
    Ok((length, crc.finalize()))
}
