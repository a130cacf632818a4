//! Names to things: the one place where a scenario asks the catalog, the formats, the policies and the traces.

use std::path::Path;
use std::sync::Arc;

use crate::catalog;
use crate::error::Result;
use crate::hardware::{Hardware, Runtime};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::policy::PolicySpec;

pub(super) fn model(name: &str) -> Result<Arc<Model>> {
    catalog::model(name).map(Arc::new)
}

pub(super) fn hardware(name: &str) -> Result<Arc<Hardware>> {
    catalog::hardware(name).map(Arc::new)
}

pub(super) fn runtime(name: &str) -> Result<Arc<Runtime>> {
    catalog::runtime(name).map(Arc::new)
}

pub(super) fn weights(text: &str) -> Result<WeightFormat> {
    WeightFormat::parse(text)
}

pub(super) fn kv(text: &str) -> Result<KvFormat> {
    KvFormat::parse(text)
}

pub(super) fn policy(text: &str) -> Result<PolicySpec> {
    crate::policy::parse(text)
}

/// Prompt and rows of a trace, by path or by the name of one in the binary.
pub(super) fn lengths(path: &Path) -> Result<(u32, u32)> {
    let reader = crate::trace::find(&path.to_string_lossy())?;
    Ok((reader.prompt(), reader.rows()))
}
