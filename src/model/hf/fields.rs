//! The keys of a config.json, read one by one, so that what is wrong can be named.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::file::LARGEST;

/// An object of the file, with its name for messages.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) path: &'a str,
}

impl<'a> Fields<'a> {
    /// An error that names the key.
    pub(super) fn wrong(&self, key: &str, why: &str) -> Error {
        Error::data(format!("{}: `{key}` {why}", self.path))
    }

    /// The value of a key that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// A positive whole number that may be missing.
    pub(super) fn maybe(&self, key: &str) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        let limit = if key == "max_position_embeddings" {
            1 << 30
        } else {
            LARGEST
        };
        match number {
            Some(n) if (1..=limit).contains(&n) => Ok(Some(n)),
            _ => {
                let shown: String = value.to_string().chars().take(40).collect();
                Err(self.wrong(
                    key,
                    &format!("is {shown}: it must be a whole number in 1..={limit}"),
                ))
            }
        }
    }

    /// A positive whole number.
    pub(super) fn need(&self, key: &str) -> Result<u32> {
        self.maybe(key)?.ok_or_else(|| {
            self.wrong(key, "is missing")
                .help("a config.json of the model's own repository has it; nothing is guessed")
        })
    }

    /// A number of layers or experts that may be 0 or missing.
    pub(super) fn count(&self, key: &str, default: u32) -> Result<u32> {
        match self.get(key) {
            Some(v) if v.as_u64() == Some(0) => Ok(0),
            _ => Ok(self.maybe(key)?.unwrap_or(default)),
        }
    }

    /// Yes or no.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(v) => v
                .as_bool()
                .ok_or_else(|| self.wrong(key, "must be true or false")),
        }
    }

    /// A word that may be missing.
    pub(super) fn word(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Refuses keys that mean a kind of layer this program does not know.
    pub(super) fn refuse(&self, keys: &[&str]) -> Result<()> {
        let set = |v: &Value| match v {
            Value::Bool(b) => *b,
            Value::Array(a) => !a.is_empty(),
            Value::Number(n) => n.as_f64() != Some(0.0),
            other => !other.is_null(),
        };
        match keys.iter().find(|k| self.map.get(**k).is_some_and(set)) {
            None => Ok(()),
            Some(key) => Err(Error::data(format!(
                "{}: `{key}` describes layers that are not supported",
                self.path
            ))
            .help(
                "their KV or parameters follow rules this program does not know; it does not guess",
            )),
        }
    }
}
