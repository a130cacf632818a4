//! Names to things: the one place where a scenario asks the catalog, the formats, the policies and the traces.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hardware::{Hardware, Runtime};
use crate::model::{KvFormat, Model, WeightFormat};

pub(super) fn model(name: &str) -> Result<Arc<Model>> {
    Err(Error::internal(format!("no catalog yet: model {name}")))
}

pub(super) fn hardware(name: &str) -> Result<Arc<Hardware>> {
    Err(Error::internal(format!("no catalog yet: hardware {name}")))
}

pub(super) fn runtime(name: &str) -> Result<Arc<Runtime>> {
    Err(Error::internal(format!("no catalog yet: runtime {name}")))
}

pub(super) fn weights(text: &str) -> Result<WeightFormat> {
    Err(Error::internal(format!("no formats yet: {text}")))
}

pub(super) fn kv(text: &str) -> Result<KvFormat> {
    Err(Error::internal(format!("no formats yet: {text}")))
}

pub(super) fn policy(text: &str) -> Result<String> {
    Ok(text.to_string())
}

/// Prompt and rows of a trace file.
pub(super) fn lengths(path: &Path) -> Result<(u32, u32)> {
    Err(Error::internal(format!(
        "no traces yet: {}",
        path.display()
    )))
}
