//! Lengths of real requests from a file: one request a line.
//!
//! CSV `prompt,output`, with that or any header line of words first, or JSON lines with `prompt_tokens` and
//! `output_tokens` (other keys are skipped); `#` begins a comment, empty lines are skipped. Read whole and bounded: a
//! length decides how much is simulated, so hostile numbers are refused here, each at its line. Rival: a full request
//! trace with arrivals; a static batch needs only the lengths. Units: tokens.

use std::path::{Path, PathBuf};

use super::whole::Kind;
use crate::error::{Error, Result};

/// The file.
const FILE: Kind = Kind {
    word: "lengths",
    mebibytes: 4,
    takes: "--occupancy takes lockstep, staggered, or a file with one `prompt,output` a line",
    shorten: "one line a request; a batch needs no more lines than it has requests",
};
/// Most requests in a file.
const MAX_LINES: usize = 1 << 16;
/// Longest prompt or output (tokens).
const MAX_TOKENS: u64 = 1 << 20;

/// Prompt and output of each request, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    file: PathBuf,
    list: Vec<(u32, u32)>,
}

impl Lengths {
    /// Reads a file.
    ///
    /// # Errors
    /// Usage: no such file. Data: too large, no text, a line that is no request, with its number.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&FILE.read(path)?, &path.to_string_lossy())
    }

    /// Reads the text of a file called `name`.
    ///
    /// # Errors
    /// Data, with the line.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let mut list = Vec::new();
        for (number, line) in (1usize..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || list.is_empty() && header(line) {
                continue;
            }
            let request = request(line).map_err(|why| {
                Error::data(format!("lengths {name}, line {number}: {why}")).help(
                    "a line is `1024,15360`, or JSON with prompt_tokens and output_tokens, each 1 to 1,048,576",
                )
            })?;
            if list.len() == MAX_LINES {
                return Err(Error::data(format!(
                    "lengths {name}, line {number}: more than 65,536 requests"
                )));
            }
            list.push(request);
        }
        if list.is_empty() {
            return Err(Error::data(format!("lengths {name}: no request in it"))
                .help("one request a line: `prompt,output` in tokens"));
        }
        Ok(Self {
            file: PathBuf::from(name),
            list,
        })
    }

    /// The file, as named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Prompt and output of request `i`: line i mod n.
    pub fn of(&self, i: u32) -> (u32, u32) {
        self.list[i as usize % self.list.len()]
    }

    /// Requests in the file.
    pub fn count(&self) -> usize {
        self.list.len()
    }
}

/// A first line of names instead of numbers.
fn header(line: &str) -> bool {
    let word = |field: &str| field.trim().starts_with(|c: char| c.is_ascii_alphabetic());
    line.contains(',') && line.split(',').all(word)
}

fn request(line: &str) -> std::result::Result<(u32, u32), String> {
    if line.starts_with('{') {
        return object(line);
    }
    match line.split(',').map(str::trim).collect::<Vec<_>>()[..] {
        [prompt, output] => Ok((field("prompt", prompt)?, field("output", output)?)),
        ref fields => Err(format!("{} fields instead of prompt,output", fields.len())),
    }
}

fn field(name: &str, text: &str) -> std::result::Result<u32, String> {
    let short: String = text.chars().take(40).collect();
    let n = text
        .parse::<u64>()
        .map_err(|_| format!("{name} `{short}` is no number of tokens"))?;
    tokens(name, n)
}

fn tokens(name: &str, n: u64) -> std::result::Result<u32, String> {
    u32::try_from(n)
        .ok()
        .filter(|_| (1..=MAX_TOKENS).contains(&n))
        .ok_or_else(|| format!("{name} {n} is out of range"))
}

fn object(line: &str) -> std::result::Result<(u32, u32), String> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let get = |key: &str| {
        let n = value
            .get(key)
            .ok_or_else(|| format!("`{key}` is missing"))?;
        let n = n
            .as_u64()
            .ok_or_else(|| format!("`{key}` is no number of tokens"))?;
        tokens(key, n)
    };
    Ok((get("prompt_tokens")?, get("output_tokens")?))
}
