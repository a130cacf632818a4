//! Recorded requests from a file: when each came, how long it was, which prompt blocks it shares.
//!
//! JSON lines or CSV with a header; columns by name, as public traces spell them: arrival in seconds (`arrival_s`), in
//! milliseconds (`timestamp`, `timestamp_ms`) or as a date and time; prompt and output tokens (`input_toks`,
//! `ContextTokens`, `input_length`, `prompt_tokens`, ...); ids of prompt blocks of 16 (`block16_ids`) or 512 tokens
//! (`hash_ids`), equal ids meaning equal text from the start on. They are those of the whole prompt, the last block begun or
//! left out, or none: other numbers mean blocks of another size, which would share too much or too little, and are refused,
//! as are blocks of two sizes in one file. The first arrival is the start of the run. A request of no output is refused: it
//! failed or was never served, and a server makes a token for what it serves. Read whole and bounded, each refusal at its
//! line. Rival: an engine's own log, which holds what that engine did with the load, not the load.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::units::Ps;

use super::Request;
use super::whole::Kind;

/// The file.
const FILE: Kind = Kind {
    word: "arrivals",
    mebibytes: 64,
    takes: "--arrivals takes all, poisson:RATE, or a file of requests (.jsonl or .csv)",
    shorten: "cut the recording: an hour of it is enough for a tail",
};
/// Most requests in a file.
const MAX_LINES: usize = 1 << 20;
/// Longest prompt or output (tokens).
const MAX_TOKENS: u64 = 1 << 24;
/// Longest recording (s): a month.
const MAX_SECONDS: f64 = 31.0 * 86_400.0;

/// Names of a column in lower case, by what it means.
const SECONDS: &[&str] = &["arrival_s", "arrival", "arrived_at"];
const MILLISECONDS: &[&str] = &["timestamp_ms", "arrival_ms"];
const STAMP: &[&str] = &["timestamp"];
const PROMPT: &[&str] = &[
    "input_toks",
    "input_length",
    "input_tokens",
    "contexttokens",
    "prompt_tokens",
    "prompt",
];
const OUTPUT: &[&str] = &[
    "output_toks",
    "output_length",
    "output_tokens",
    "generatedtokens",
    "output",
];
/// Ids of prompt blocks, and the tokens of a block.
const BLOCKS: [(&str, u32); 2] = [("block16_ids", 16), ("hash_ids", 512)];

/// The requests of a file in order of arrival; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    file: PathBuf,
    /// Requests, the first at the start.
    pub requests: Vec<Request>,
    /// Ids of the prompt blocks of each request; empty if the file has none.
    pub blocks: Vec<Vec<u32>>,
    /// Tokens of a block.
    pub block_tokens: u32,
}

/// One line.
struct Entry {
    at: f64,
    prompt: u32,
    output: u32,
    blocks: Option<(Vec<u32>, u32)>,
}

type Line<T> = std::result::Result<T, String>;

impl Recorded {
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
        let text = text.trim_start_matches('\u{feff}');
        let mut entries: Vec<Entry> = Vec::new();
        let mut head: Option<Vec<String>> = None;
        let mut size = None;
        for (number, line) in (1usize..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| {
                Error::data(format!("arrivals {name}, line {number}: {why}")).help(
                    "a line is JSON with arrival_s, input_toks and output_toks, or CSV under a header of such names; leave out requests that got no answer",
                )
            };
            if entries.len() == MAX_LINES {
                return Err(wrong("more than 1,048,576 requests".into()));
            }
            if line.starts_with('{') {
                let entry = object(line).map_err(wrong)?;
                one_size(&mut size, &entry).map_err(wrong)?;
                entries.push(entry);
            } else if let Some(head) = &head {
                entries.push(row(head, line).map_err(wrong)?);
            } else {
                head = Some(header(line).map_err(wrong)?);
            }
        }
        if entries.is_empty() {
            return Err(Error::data(format!("arrivals {name}: no request in it")));
        }
        Ok(Self::of(name, entries))
    }

    fn of(name: &str, mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.at.total_cmp(&b.at));
        let start = entries.first().map_or(0.0, |e| e.at);
        let request = |e: &Entry| Request {
            prompt: e.prompt,
            output: e.output,
            arrival: Ps::from_secs((e.at - start).min(MAX_SECONDS)),
            generated: 0,
        };
        let requests = entries.iter().map(request).collect();
        let block_tokens = entries
            .iter()
            .find_map(|e| e.blocks.as_ref().map(|b| b.1))
            .unwrap_or(0);
        let blocks = if block_tokens > 0 {
            let ids = |e: Entry| e.blocks.map_or_else(Vec::new, |b| b.0);
            entries.into_iter().map(ids).collect()
        } else {
            Vec::new()
        };
        Self {
            file: PathBuf::from(name),
            requests,
            blocks,
            block_tokens,
        }
    }

    /// The file, as named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The first `n` requests; all of them where there are fewer.
    #[must_use]
    pub fn first(mut self, n: u32) -> Self {
        self.requests.truncate(n as usize);
        self.blocks.truncate(n as usize);
        self
    }
}

/// A CSV header that names what is needed.
fn header(line: &str) -> Line<Vec<String>> {
    let head: Vec<String> = line
        .split(',')
        .map(|c| c.trim().to_ascii_lowercase())
        .collect();
    let has = |names: &[&str]| head.iter().any(|h| names.contains(&h.as_str()));
    let arrival = has(SECONDS) || has(MILLISECONDS) || has(STAMP);
    for (what, there, example) in [
        ("arrival", arrival, "arrival_s"),
        ("prompt", has(PROMPT), "input_toks"),
        ("output", has(OUTPUT), "output_toks"),
    ] {
        if !there {
            return Err(format!(
                "the header has no column of the {what}, such as `{example}`"
            ));
        }
    }
    for names in [SECONDS, MILLISECONDS, STAMP, PROMPT, OUTPUT] {
        twice(head.iter().map(String::as_str), names)?;
    }
    Ok(head)
}

/// Refuses two columns that mean the same: one of them would be dropped.
fn twice<'a>(all: impl Iterator<Item = &'a str>, names: &[&str]) -> Line<()> {
    let mut own = all.filter(|n| names.contains(n));
    match (own.next(), own.next()) {
        (Some(one), Some(other)) => Err(format!("`{one}` and `{other}` say the same: leave one")),
        _ => Ok(()),
    }
}

fn row(head: &[String], line: &str) -> Line<Entry> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != head.len() {
        return Err(format!(
            "{} fields where the header has {}",
            cells.len(),
            head.len()
        ));
    }
    let cell = |names: &[&str]| {
        let at = head.iter().position(|h| names.contains(&h.as_str()))?;
        Some(cells[at])
    };
    let at = match (cell(SECONDS), cell(MILLISECONDS), cell(STAMP)) {
        (Some(s), _, _) => number(s)?,
        (None, Some(ms), _) => number(ms)? / 1e3,
        (None, None, stamp) => instant(stamp.unwrap_or_default())?,
    };
    entry(
        at,
        number(cell(PROMPT).unwrap_or_default())?,
        number(cell(OUTPUT).unwrap_or_default())?,
    )
}

fn object(line: &str) -> Line<Entry> {
    let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let find = |names: &[&str]| {
        let fields = value.as_object()?;
        let named = |k: &str| names.contains(&k.to_ascii_lowercase().as_str());
        fields.iter().find(|(k, _)| named(k)).map(|(_, v)| v)
    };
    let keys: Vec<String> = value.as_object().map_or_else(Vec::new, |fields| {
        fields.keys().map(|k| k.to_ascii_lowercase()).collect()
    });
    for names in [SECONDS, MILLISECONDS, STAMP, PROMPT, OUTPUT] {
        twice(keys.iter().map(String::as_str), names)?;
    }
    let figure = |names: &[&str]| -> Line<f64> {
        let v = find(names).ok_or_else(|| format!("`{}` is missing", names[0]))?;
        v.as_f64()
            .ok_or_else(|| format!("`{}` is no number", names[0]))
    };
    let at = match (find(SECONDS), find(MILLISECONDS), find(STAMP)) {
        (Some(_), _, _) => figure(SECONDS)?,
        (None, Some(_), _) => figure(MILLISECONDS)? / 1e3,
        (None, None, Some(Value::String(stamp))) => instant(stamp)?,
        (None, None, Some(_)) => figure(STAMP)? / 1e3,
        (None, None, None) => return Err("`arrival_s` is missing".into()),
    };
    let mut entry = entry(at, figure(PROMPT)?, figure(OUTPUT)?)?;
    for (name, tokens) in BLOCKS {
        if let Some(ids) = value.get(name) {
            let ids = self::ids(name, ids)?;
            whole_prompt(name, ids.len(), tokens, entry.prompt)?;
            if entry.blocks.replace((ids, tokens)).is_some() {
                return Err(two_sizes());
            }
        }
    }
    Ok(entry)
}

/// Refuses ids that are not those of all blocks of a prompt: with the last block that is begun, without it, or none at all.
fn whole_prompt(name: &str, ids: usize, block: u32, prompt: u32) -> Line<()> {
    let (full, begun) = (prompt / block, prompt.div_ceil(block));
    if ids == 0 || [full, begun].iter().any(|n| ids == *n as usize) {
        return Ok(());
    }
    let blocks = if full == begun {
        format!("{full}")
    } else {
        format!("{full} or {begun}")
    };
    let (other, size) = BLOCKS[usize::from(name == BLOCKS[0].0)];
    Err(format!(
        "`{name}` has {ids} ids, and a prompt of {prompt} tokens has {blocks} blocks of {block}: name blocks of {size} \
         `{other}`, or leave the ids out"
    ))
}

/// Refuses blocks of another size than those of the lines before.
fn one_size(size: &mut Option<u32>, entry: &Entry) -> Line<()> {
    let own = entry.blocks.as_ref().map(|b| b.1);
    if size.is_some() && own.is_some() && *size != own {
        return Err(two_sizes());
    }
    *size = size.or(own);
    Ok(())
}

fn two_sizes() -> String {
    let [(one, _), (other, _)] = BLOCKS;
    format!("`{one}` and `{other}` are blocks of two sizes: leave those of one")
}

fn ids(name: &str, value: &Value) -> Line<Vec<u32>> {
    let wrong = || format!("`{name}` is no list of numbers below 2^32");
    let list = value.as_array().ok_or_else(wrong)?;
    let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    list.iter().map(id).collect::<Option<_>>().ok_or_else(wrong)
}

fn entry(at: f64, prompt: f64, output: f64) -> Line<Entry> {
    if !(0.0..=1e12).contains(&at) {
        return Err(format!("arrival {at} s is out of range"));
    }
    Ok(Entry {
        at,
        prompt: tokens("prompt", prompt)?,
        output: tokens("output", output)?,
        blocks: None,
    })
}

#[allow(clippy::cast_possible_truncation)] // within the range just checked
fn tokens(what: &str, n: f64) -> Line<u32> {
    if n.fract() == 0.0 && (1.0..=MAX_TOKENS as f64).contains(&n) {
        Ok(n as u32)
    } else {
        Err(format!("{what} {n} is no number of tokens from 1 to 2^24"))
    }
}

fn number(text: &str) -> Line<f64> {
    let short: String = text.chars().take(40).collect();
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite())
        .ok_or_else(|| format!("`{short}` is no number"))
}

/// Seconds of a date and time (`2023-11-16 18:17:03.97`), or of milliseconds.
fn instant(text: &str) -> Line<f64> {
    let Some((date, time)) = text.split_once([' ', 'T']) else {
        return Ok(number(text)? / 1e3);
    };
    let short: String = text.chars().take(40).collect();
    let wrong = || format!("`{short}` is no date and time");
    let parts = |text: &str, by: char| -> Line<Vec<f64>> {
        let parts: Vec<f64> = text.split(by).map(number).collect::<Line<_>>()?;
        let low = parts.iter().all(|p| (0.0..10_000.0).contains(p));
        (parts.len() == 3 && low).then_some(parts).ok_or_else(wrong)
    };
    let (d, t) = (
        parts(date, '-')?,
        parts(
            time.trim_end_matches('Z')
                .split('+')
                .next()
                .unwrap_or_default(),
            ':',
        )?,
    );
    Ok(days(d[0], d[1], d[2]) * 86_400.0 + t[0] * 3600.0 + t[1] * 60.0 + t[2])
}

/// Days since year 0 in the Gregorian calendar, years beginning in March.
fn days(year: f64, month: f64, day: f64) -> f64 {
    let (y, m) = if month <= 2.0 {
        (year - 1.0, month + 9.0)
    } else {
        (year, month - 3.0)
    };
    let leap = (y / 4.0).floor() - (y / 100.0).floor() + (y / 400.0).floor();
    365.0 * y + leap + ((153.0 * m + 2.0) / 5.0).floor() + day - 1.0
}

#[cfg(test)]
mod tests {
    use super::{Recorded, instant};

    /// 29 February 2024 to 1 March is one day; a year of 365 days from 1 March 2022 to 1 March 2023.
    #[test]
    fn dates_by_hand() {
        let s = |t: &str| instant(t).unwrap();
        let days = |a: &str, b: &str| (s(b) - s(a)) / 86_400.0;
        assert!((days("2024-02-28 00:00:00", "2024-03-01 00:00:00") - 2.0).abs() < 1e-9);
        assert!((days("2022-03-01 00:00:00", "2023-03-01 12:00:00") - 365.5).abs() < 1e-9);
        assert!((s("1500") - 1.5).abs() < 1e-12);
    }

    /// Blocks of 512: 1,100 tokens are two full ones and one begun, 1,024 are two.
    #[test]
    fn ids_are_those_of_the_whole_prompt() {
        let line = |key: &str, prompt: u32, ids: &str| {
            format!(
                "{{\"arrival_s\":0,\"input_toks\":{prompt},\"output_toks\":1,\"{key}\":[{ids}]}}\n"
            )
        };
        let taken = |text: &str| Recorded::parse(text, "x").map(|r| r.blocks);
        for (prompt, ids) in [
            (1100, "1,2,3"),
            (1100, "1,2"),
            (1024, "1,2"),
            (500, ""),
            (1100, ""),
        ] {
            let blocks = taken(&line("hash_ids", prompt, ids)).unwrap();
            assert_eq!(blocks[0].len(), ids.split_terminator(',').count());
        }
        let first = line("hash_ids", 1100, "1,2,3");
        for (key, prompt, ids, why) in [
            (
                "hash_ids",
                1100,
                "1",
                "has 1 ids, and a prompt of 1100 tokens has 2 or 3 blocks of 512: name blocks of 16 `block16_ids`",
            ),
            ("hash_ids", 1100, "1,2,3,4", "has 4 ids"),
            ("hash_ids", 1024, "1,2,3", "has 2 blocks of 512"),
            (
                "block16_ids",
                40,
                "1",
                "has 2 or 3 blocks of 16: name blocks of 512 `hash_ids`",
            ),
            ("block16_ids", 40, "1,2,3", "blocks of two sizes"),
        ] {
            let e = taken(&(first.clone() + &line(key, prompt, ids))).unwrap_err();
            assert_eq!(e.exit_code(), 3);
            assert!(
                e.message.contains("line 2: ") && e.message.contains(why),
                "{e}"
            );
        }
        let both = first.replace("]}", "],\"block16_ids\":[]}");
        assert!(taken(&both).unwrap_err().message.contains("two sizes"));
    }

    #[test]
    fn every_spelling_is_one_request() {
        for text in [
            "{\"arrival_s\":1.5,\"input_toks\":7,\"output_toks\":3}",
            "{\"timestamp\":1500,\"input_length\":7,\"output_length\":3,\"hash_ids\":[4]}",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,7,3",
            "timestamp_ms,input_length,output_length,n_hash_blocks_512\n1500,7,3,1",
        ] {
            let r = Recorded::parse(text, "x").unwrap();
            assert_eq!(r.requests.len(), 1, "{text}");
            assert_eq!((r.requests[0].prompt, r.requests[0].output), (7, 3));
            assert_eq!(r.requests[0].arrival.0, 0, "the first is the start");
        }
    }
}
