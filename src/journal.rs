//! Finished work beside a result, one line each, so that what was stopped goes on where it was.
//!
//! The first line holds the whole question. A journal of another question is refused, and the refusal says what differs;
//! there is no hash that could agree by chance or disagree without a reason. Entries are written whole and at once, as
//! they finish, in any order. A process that is killed leaves at most one line without an end: it is cut off and that work
//! runs again. An entry's line ends in its checksum; any other line that fails it, or is no entry, is damage. The lock
//! keeps two runs from writing one journal; it goes with the process. Rival: one file an entry, which litters a folder.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Longest line that is read (bytes): an entry takes some thousand.
const MOST_LINE: u64 = 16 << 20;

/// Bytes of a file that enter its checksum, at each end.
const CHECKED: u64 = 32 << 20;

/// The first line: everything that decides the entries.
pub trait Head: Serialize + DeserializeOwned {
    /// Value of its first field, `schema`.
    const SCHEMA: &'static str;
    /// What is journalled, in words.
    const WORDS: Words;

    /// The first thing that differs from a journal that was found, in words; none if nothing does.
    fn difference(&self, found: &Self) -> Option<String>;
}

/// What is journalled, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// `sweep`.
    pub what: &'static str,
    /// `a sweep`.
    pub one: &'static str,
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

    /// Opens a journal; with `resume`, what it holds is given back, less what was there twice. `key` numbers the entries,
    /// none for one that is not of this question.
    ///
    /// # Errors
    /// Usage: one is there and `resume` is not wanted, it is of another question, another run writes it, it cannot be
    /// written. Data: it is no journal, or is damaged.
    pub fn open<H: Head, E: DeserializeOwned>(
        path: &Path,
        head: &H,
        resume: bool,
        key: impl Fn(&E) -> Option<usize>,
    ) -> Result<(Self, Vec<E>)> {
        let shown = path.display().to_string();
        let Words { what, one } = H::WORDS;
        if path.exists() && !path.is_file() {
            return Err(Error::usage(format!("{shown} is no file")).help(format!(
                "the journal of {one} lies beside its result: name another result with -o"
            )));
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
            return Err(Error::usage(format!("another {what} is writing {shown}"))
                .help("wait for it, or name another result with -o"));
        }
        let length = file.metadata().map_err(|e| failed(&shown, &e))?.len();
        if length > 0 && !resume {
            return Err(Error::usage(format!(
                "{shown} holds finished cells of {one} that was stopped"
            ))
            .help("add --resume to go on with it, or remove the file to start afresh"));
        }
        let (whole, entries) = read(&mut file, &shown, head, key)?;
        file.set_len(whole).map_err(|e| failed(&shown, &e))?;
        file.seek(SeekFrom::End(0))
            .map_err(|e| failed(&shown, &e))?;
        let journal = Self {
            path: path.to_path_buf(),
            file: Mutex::new(file),
        };
        if whole == 0 {
            journal.line(json(head)?)?;
        }
        Ok((journal, entries))
    }

    /// Adds a finished entry.
    ///
    /// # Errors
    /// Usage: it cannot be written.
    pub fn add(&self, entry: &impl Serialize) -> Result<()> {
        let text = json(entry)?;
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

/// The JSON of an entry's line, if it is what was written.
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

/// Whole lines of a journal: their length in bytes, and their entries. An empty one has none.
fn read<H: Head, E: DeserializeOwned>(
    file: &mut File,
    shown: &str,
    head: &H,
    key: impl Fn(&E) -> Option<usize>,
) -> Result<(u64, Vec<E>)> {
    let mut reader = BufReader::new(file);
    let (mut whole, mut number) = (0u64, 0usize);
    let mut entries: Vec<E> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(MOST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|e| damaged(shown, number + 1, &e.to_string()))?;
        number += 1;
        if line.last() != Some(&b'\n') {
            if read as u64 == MOST_LINE || number == 1 && read > 0 && !begins(&line, H::SCHEMA) {
                return Err(damaged(shown, number, "is no line of a journal"));
            }
            return Ok((whole, entries)); // the end, or a line that was being written
        }
        whole += read as u64;
        if number == 1 {
            check(head, &line, shown)?;
            continue;
        }
        let text = checked(&line).ok_or_else(|| {
            damaged(
                shown,
                number,
                "fails its checksum: it was changed after it was written",
            )
        })?;
        let entry: E = serde_json::from_slice(text)
            .map_err(|e| damaged(shown, number, &format!("is no cell: {e}")))?;
        let Some(key) = key(&entry) else {
            let why = format!("is no cell of this {}", H::WORDS.what);
            return Err(damaged(shown, number, &why));
        };
        if seen.insert(key) {
            entries.push(entry);
        }
    }
}

/// Whether a cut first line is the beginning of a journal.
fn begins(line: &[u8], schema: &str) -> bool {
    let start = format!("{{\"schema\":\"{schema}\"");
    let n = line.len().min(start.len());
    line[..n] == start.as_bytes()[..n]
}

/// Refuses the journal of another question.
fn check<H: Head>(head: &H, line: &[u8], shown: &str) -> Result<()> {
    let found: H = serde_json::from_slice(line)
        .map_err(|e| damaged(shown, 1, &format!("is not the head of a journal: {e}")))?;
    match head.difference(&found) {
        None => Ok(()),
        Some(what) => Err(
            Error::usage(format!("{shown} is of another {}: {what}", H::WORDS.what)).help(
                "ask as before, name another result with -o, or remove the file to start afresh",
            ),
        ),
    }
}

/// `WHAT was A, is B`, if they differ.
pub fn differs(what: &str, then: &str, now: &str) -> Option<String> {
    (then != now).then(|| format!("{what} was {then}, is {now}"))
}

/// Length and CRC-32 of a file; of a long one, of its two ends.
///
/// # Errors
/// As reading it.
pub fn checksum(path: &Path) -> std::io::Result<(u64, u32)> {
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

/// What a file was when it was read: enough to see that it is another one now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Mark {
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of it, or of its first and last 32 MiB where it is longer; eight hexadecimal digits.
    pub crc32: String,
}

/// The marks of those of `names` that are files, by name.
///
/// # Errors
/// Usage: a file cannot be read.
pub fn marks(names: impl IntoIterator<Item = String>) -> Result<BTreeMap<String, Mark>> {
    let mut found = BTreeMap::new();
    for name in names {
        let path = Path::new(&name);
        if !path.is_file() || found.contains_key(&name) {
            continue;
        }
        let (bytes, crc) =
            checksum(path).map_err(|e| Error::usage(format!("cannot read {name}: {e}")))?;
        let crc32 = format!("{crc:08x}");
        found.insert(name, Mark { bytes, crc32 });
    }
    Ok(found)
}
