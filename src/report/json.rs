//! JSON: the result struct as it is, indented, keys in the order of the struct.

use crate::error::{Error, Result};

/// Indented JSON with a final line break.
///
/// # Errors
/// A value that JSON cannot hold: a bug (exit 70).
pub fn pretty(result: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string_pretty(result)
        .map(|text| text + "\n")
        .map_err(|e| Error::internal(format!("the result is no JSON: {e}")))
}
