//! What was asked, as text, and where each text came from.
//!
//! A [`Settings`] starts from the defaults of a verb; a scenario file lies over them, flags over both. Each value keeps
//! its origin, so that an error can point into the file and `--print-config` can say who decided. Values are text until
//! `resolve` reads them: a wrong text is reported at its own place, not where it would first hurt.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};

use super::keys::{KEYS, Key, Verb, find};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The table of defaults.
    Default,
    /// The command line.
    Flag,
    /// A scenario file.
    File {
        /// The file.
        file: Arc<Source>,
        /// Byte range of the value.
        span: Range<usize>,
    },
}

/// A file that was read whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// As the user named it.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Line of a byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        let before = self.text.as_bytes().iter().take(byte);
        before.filter(|b| **b == b'\n').count() + 1
    }
}

impl Origin {
    /// For people: `default`, `flag`, `file.toml:3`.
    pub fn word(&self) -> String {
        match self {
            Self::Default => "default".into(),
            Self::Flag => "flag".into(),
            Self::File { file, span } => format!("{}:{}", file.name, file.line(span.start)),
        }
    }
}

/// One value as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// One text, or several for lists.
    pub texts: Vec<String>,
    /// Who gave it.
    pub origin: Origin,
}

impl Given {
    /// The texts joined by `, `.
    pub fn text(&self) -> String {
        self.texts.join(", ")
    }
}

/// Every setting of one call: a value, or none where it was left open.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The verb that asks.
    pub verb: Verb,
    /// Check the laws while running.
    pub audit: bool,
    values: Vec<Option<Given>>,
}

impl Settings {
    /// The defaults of a verb.
    pub fn defaults(verb: Verb) -> Self {
        let value = |key: &Key| {
            key.default(verb).map(|text| Given {
                texts: split(key, verb, text),
                origin: Origin::Default,
            })
        };
        Self {
            verb,
            audit: false,
            values: KEYS.iter().map(value).collect(),
        }
    }

    /// Puts a value over whatever was there; lists are split on commas.
    ///
    /// # Errors
    /// A name that is no setting, several values where one is meant, an empty value.
    pub fn set(&mut self, name: &str, texts: &[String], origin: Origin) -> Result<()> {
        let Some((at, key)) = KEYS.iter().enumerate().find(|(_, k)| k.name == name) else {
            return Err(Error::internal(format!("`{name}` is not a setting")));
        };
        let texts: Vec<String> = texts
            .iter()
            .flat_map(|t| split(key, self.verb, t))
            .collect();
        let given = Given { texts, origin };
        if given.texts.is_empty() || given.texts.iter().any(String::is_empty) {
            return Err(
                blame(name, &given, format!("{} is empty", shown(name, &given)))
                    .help(format!("it takes {}: {}", key.value, key.help)),
            );
        }
        let several = given.texts.len() > 1 || key.lists() && given.texts[0].contains(',');
        if several && !key.many(self.verb) {
            let text = format!(
                "{} takes one value here, not `{}`",
                shown(name, &given),
                given.text()
            );
            return Err(blame(name, &given, text).help(
                "`kvplan plan` compares several machines, `kvplan sweep --vary` any settings",
            ));
        }
        self.values[at] = Some(given);
        Ok(())
    }

    /// Takes a value back to open.
    pub fn clear(&mut self, name: &str) {
        if let Some(at) = KEYS.iter().position(|k| k.name == name) {
            self.values[at] = None;
        }
    }

    /// The value of a setting, if it has one.
    pub fn get(&self, name: &str) -> Option<&Given> {
        let at = KEYS.iter().position(|k| k.name == name)?;
        self.values[at].as_ref()
    }

    /// The value of a setting that somebody gave: not a default.
    pub fn asked(&self, name: &str) -> Option<&Given> {
        self.get(name).filter(|g| g.origin != Origin::Default)
    }

    /// All settings that have a value, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &Given)> {
        let pairs = KEYS.iter().zip(&self.values);
        pairs.filter_map(|(k, v)| v.as_ref().map(|v| (k, v)))
    }

    /// An error about a setting's value, placed in the file where it came from one.
    pub fn wrong(&self, name: &str, message: impl std::fmt::Display) -> Error {
        match self.get(name) {
            Some(given) => blame(name, given, format!("{}: {message}", shown(name, given))),
            None => Error::usage(format!("--{name}: {message}")),
        }
    }
}

/// How a setting is called where it was given: `--batch` or `batch`.
fn shown(name: &str, given: &Given) -> String {
    match given.origin {
        Origin::File { .. } => format!("`{name}`"),
        Origin::Default | Origin::Flag => format!("--{name}"),
    }
}

fn blame(name: &str, given: &Given, message: String) -> Error {
    debug_assert!(find(name).is_some());
    let error = Error::usage(message);
    match &given.origin {
        Origin::File { file, span } => error.at(file.name.clone(), file.text.clone(), span.clone()),
        Origin::Default | Origin::Flag => error,
    }
}

/// One text into its parts where the verb takes several.
fn split(key: &Key, verb: Verb, text: &str) -> Vec<String> {
    let part = |t: &str| t.trim().to_string();
    if key.many(verb) && key.name != "trace" {
        text.split(',').map(part).collect()
    } else {
        vec![part(text)]
    }
}
