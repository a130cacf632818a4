//! Files of problems: JSON lines with a question, its right answer and, where there is one, a reference text.
//!
//! | keys | kind | right answer | reference text |
//! |---|---|---|---|
//! | `question`, `answer`, `final` | GSM8K | the number `final`, or the one behind `####` | `answer` |
//! | `problem`, `answer`, `solution` | MATH | the expression `answer`, or what `solution` boxes | `solution` |
//! | `query`, `choices`, `gold` | ARC | the choice of that index | none |
//! | `prompt`, `text` | prompts of `record` | none | `text`, `completion` or `response` |
//!
//! Other keys are the author's own. A question is asked as it stands; choices are listed under it with letters, and the
//! letter is asked for. Nothing is asked of the form of the others: a file that wants a box says so in its problems.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::record::{lines, not_json};

use super::grade::{Gold, letter};

const FORMS: &str = "a line is {\"question\", \"final\"}, {\"problem\", \"answer\"}, {\"query\", \"choices\", \"gold\"} or {\"prompt\"}";

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its line in the file, from 1.
    pub line: u32,
    /// The user's message.
    pub message: String,
    /// The right answer, where one is known.
    pub gold: Option<Gold>,
    /// A text that answers it, where there is one.
    pub reference: Option<String>,
}

/// Reads the first `limit` problems of a file, all of them if there are fewer.
///
/// # Errors
/// Usage: the file cannot be read. Data: it holds none, or a line that is no problem, by its number and key.
pub fn read(path: &Path, limit: usize) -> Result<Vec<Problem>> {
    let shown = path.display();
    let mut all = Vec::new();
    for line in lines(path, limit)? {
        let number = line.number;
        let wrong = |why| Error::data(format!("{shown}, line {number}: {why}")).help(FORMS);
        all.push(parse(&line.text, number).map_err(wrong)?);
    }
    if all.is_empty() {
        return Err(Error::data(format!("{shown}: holds no problem")).help(FORMS));
    }
    Ok(all)
}

type Parsed<T> = std::result::Result<T, String>;

fn parse(line: &str, number: u32) -> Parsed<Problem> {
    let value: Value = serde_json::from_str(line).map_err(|e| not_json(&e))?;
    let (message, gold, reference) = match &value {
        Value::String(text) => (text.clone(), None, None),
        Value::Object(keys) if keys.contains_key("question") => gsm8k(&value)?,
        Value::Object(keys) if keys.contains_key("problem") => math(&value)?,
        Value::Object(keys) if keys.contains_key("query") => choices(&value)?,
        Value::Object(keys) if keys.contains_key("prompt") => prompt(&value)?,
        Value::Object(_) => return Err("none of the keys question, problem, query, prompt".into()),
        _ => return Err("neither an object nor a text".into()),
    };
    if message.trim().is_empty() {
        return Err("its question is empty".into());
    }
    Ok(Problem {
        line: number,
        message,
        gold,
        reference,
    })
}

type Parts = (String, Option<Gold>, Option<String>);

/// The text under a key; none if the key is absent.
fn text(value: &Value, key: &str) -> Parsed<Option<String>> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("`{key}` is no text")),
    }
}

fn needed(value: &Value, key: &str) -> Parsed<String> {
    text(value, key)?.ok_or_else(|| format!("`{key}` is missing"))
}

fn gsm8k(value: &Value) -> Parsed<Parts> {
    let question = needed(value, "question")?;
    let answer = text(value, "answer")?;
    let gold = match (text(value, "final")?, &answer) {
        (Some(number), _) => Gold::number(&number).map_err(|e| format!("`final`: {e}"))?,
        (None, Some(answer)) => Gold::number(answer).map_err(|e| format!("`answer`: {e}"))?,
        (None, None) => return Err("neither `final` nor `answer`: there is no right answer".into()),
    };
    Ok((question, Some(gold), answer))
}

fn math(value: &Value) -> Parsed<Parts> {
    let problem = needed(value, "problem")?;
    let solution = text(value, "solution")?;
    let boxed = || solution.as_deref().and_then(Gold::boxed_in);
    let gold = match text(value, "answer")? {
        Some(answer) if !answer.trim().is_empty() => Some(Gold::expression(&answer)),
        _ => boxed(),
    };
    let gold =
        gold.ok_or("no `answer`, and no \\boxed{} in `solution`: there is no right answer")?;
    Ok((problem, Some(gold), solution))
}

fn choices(value: &Value) -> Parsed<Parts> {
    let query = needed(value, "query")?;
    let list = value.get("choices").and_then(Value::as_array);
    let list = list.ok_or("`choices` is missing or no list")?;
    let of = |c: &Value| c.as_str().map(String::from);
    let choices: Option<Vec<String>> = list.iter().map(of).collect();
    let choices = choices.ok_or("`choices` holds what is no text")?;
    if !(2..=26).contains(&choices.len()) {
        return Err(format!("`choices` holds {}, not 2 to 26", choices.len()));
    }
    let right = value.get("gold").and_then(Value::as_u64);
    let right = right
        .and_then(|g| usize::try_from(g).ok())
        .filter(|g| *g < choices.len())
        .ok_or_else(|| format!("`gold` is no index below {}", choices.len()))?;
    let mut message = query;
    for (i, choice) in choices.iter().enumerate() {
        write!(message, "\n{}. {choice}", letter(i)).map_err(|e| e.to_string())?;
    }
    message.push_str("\nAnswer with the letter of the right choice.");
    Ok((message, Some(Gold::Choice { right, choices }), None))
}

fn prompt(value: &Value) -> Parsed<Parts> {
    let mut reference = None;
    for key in ["text", "completion", "response"] {
        reference = reference.or(text(value, key)?);
    }
    Ok((needed(value, "prompt")?, None, reference))
}
