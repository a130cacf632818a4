//! Reads a Hugging Face config.json.
use super::Model;
use crate::error::{Error, Result};
/// Reads a config.
///
/// # Errors
/// Always, for now.
pub fn read(_text: &str, path: &str) -> Result<Model> {
    Err(Error::usage(format!("{path}: cannot be read yet")))
}
