//! Files of prompts and of finished texts: JSON lines.
//!
//! A line is a text, or an object whose prompt is under `prompt`, `question` or `problem` and whose finished text is
//! under `completion`, `response`, `solution`, `answer` or `text`. Other keys are the author's own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// Longest file of prompts taken [bytes].
const LIMIT: u64 = 1 << 30;
const PROMPT: [&str; 3] = ["prompt", "question", "problem"];
const FINISHED: [&str; 5] = ["completion", "response", "solution", "answer", "text"];

/// A prompt, and the text that follows it where one is scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The user's message, or the text as it is.
    pub prompt: String,
    /// What follows.
    pub finished: Option<String>,
}

/// Reads a file of prompts; with `finished`, each must hold a finished text as well.
///
/// # Errors
/// Usage: the file cannot be read, or holds nothing. Data: a line that is no prompt, by its number.
pub fn read(path: &Path, finished: bool) -> Result<Vec<Prompt>> {
    let shown = path.display();
    let failed = |e: std::io::Error| Error::usage(format!("{shown}: cannot be read: {e}"));
    let lines = BufReader::new(File::open(path).map_err(failed)?.take(LIMIT)).lines();
    let mut all = Vec::new();
    for (i, line) in lines.enumerate() {
        let line = line.map_err(failed)?;
        if !line.trim().is_empty() {
            let wrong = |why: &str| Error::data(format!("{shown}, line {}: {why}", i + 1));
            all.push(parse(&line, finished).map_err(|why| wrong(&why))?);
        }
    }
    if all.is_empty() {
        return Err(Error::usage(format!("{shown}: holds no prompt")));
    }
    Ok(all)
}

fn parse(line: &str, finished: bool) -> std::result::Result<Prompt, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    let under = |keys: &[&str]| {
        let text = keys.iter().find_map(|k| value.get(k)?.as_str());
        text.map(String::from)
    };
    let prompt = value.as_str().map(String::from).or_else(|| under(&PROMPT));
    let prompt = prompt.ok_or_else(|| format!("no text under {}", PROMPT.join(", ")))?;
    let text = if finished {
        Some(under(&FINISHED).ok_or_else(|| format!("no text under {}", FINISHED.join(", ")))?)
    } else {
        None
    };
    Ok(Prompt {
        prompt,
        finished: text,
    })
}
