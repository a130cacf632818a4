//! Files of prompts and of finished texts: JSON lines.
//!
//! A line is a text, or an object whose prompt is under `prompt`, `question` or `problem` and whose finished text is
//! under `completion`, `response`, `solution`, `answer` or `text`. Other keys are the author's own.

use std::path::Path;

use serde_json::Value;

use super::lines::{lines, not_json};
use crate::error::{Error, Result};

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
/// Usage: the file cannot be read. Data: it holds nothing, or a line that is no prompt, by its number.
pub fn read(path: &Path, finished: bool) -> Result<Vec<Prompt>> {
    let shown = path.display();
    let mut all = Vec::new();
    for line in lines(path, usize::MAX)? {
        let wrong = |why| Error::data(format!("{shown}, line {}: {why}", line.number));
        all.push(parse(&line.text, finished).map_err(wrong)?);
    }
    if all.is_empty() {
        return Err(Error::data(format!("{shown}: holds no prompt")));
    }
    Ok(all)
}

fn parse(line: &str, finished: bool) -> std::result::Result<Prompt, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| not_json(&e))?;
    let under = |keys: &[&str]| {
        let text = keys.iter().find_map(|k| value.get(k)?.as_str());
        text.map(String::from)
    };
    let prompt = value.as_str().map(String::from).or_else(|| under(&PROMPT));
    let prompt = prompt.ok_or_else(|| format!("no text under {}", PROMPT.join(", ")))?;
    if prompt.trim().is_empty() {
        return Err("its prompt is empty".into());
    }
    let text = if finished {
        Some(under(&FINISHED).ok_or_else(|| format!("no text under {}", FINISHED.join(", ")))?)
    } else {
        None
    };
    if text.as_ref().is_some_and(String::is_empty) {
        return Err("its finished text is empty: there is no row to record".into());
    }
    Ok(Prompt {
        prompt,
        finished: text,
    })
}
