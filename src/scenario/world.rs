//! Names to things: the one place where a scenario asks the catalog, the formats, the policies and the traces.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::{self, Shelf};
use crate::error::{Error, Result};
use crate::hardware::{Hardware, Runtime};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::policy::four_tier::Hbm;

pub(super) fn model(name: &str) -> Result<Arc<Model>> {
    catalog::model(name).map(Arc::new)
}

pub(super) fn hardware(name: &str) -> Result<Arc<Hardware>> {
    catalog::hardware(name).map(Arc::new)
}

/// Labels machines that were read from files where their ids are others', too (a calibrated profile has its card's): by the
/// file's name, or by its path where that is not one machine's either.
pub(super) fn tell_apart(names: &[String], machines: &mut [Arc<Hardware>]) {
    let is_file = |name: &str| catalog::extension(name).is_some();
    for (name, machine) in names.iter().zip(machines.iter_mut()) {
        if is_file(name) && Shelf::Hardware.has(&machine.id) {
            let stem = Path::new(name.trim()).file_stem();
            Arc::make_mut(machine).label = stem.map(|s| s.to_string_lossy().into_owned());
        }
    }
    let labels: Vec<String> = machines.iter().map(|m| m.label().to_lowercase()).collect();
    for (at, name) in names.iter().enumerate() {
        let twin = |i: usize| labels[i] == labels[at] && names[i] != *name;
        if is_file(name) && (0..names.len()).any(twin) {
            Arc::make_mut(&mut machines[at]).label = Some(name.clone());
        }
    }
}

pub(super) fn runtime(name: &str) -> Result<Arc<Runtime>> {
    catalog::runtime(name).map(Arc::new)
}

/// A weight format that can be this model's (a .gguf file may be of another).
pub(super) fn weights(text: &str, model: &Model) -> Result<WeightFormat> {
    let format = WeightFormat::parse(text)?;
    model.accepts(&format)?;
    Ok(format)
}

pub(super) fn kv(text: &str) -> Result<KvFormat> {
    KvFormat::parse(text)
}

/// Checks a policy; its text stays as asked, since `hbm=fit` is resolved against memory later.
pub(super) fn policy(text: &str) -> Result<String> {
    crate::policy::parse(text)?;
    Ok(text.to_string())
}

/// A policy that is known to parse, with every parameter spelt out.
pub(super) fn policy_in_full(text: &str) -> String {
    crate::policy::parse(text).map_or_else(|_| text.to_string(), |spec| spec.to_string())
}

/// The files that traces given by path, name or pattern stand for.
pub(super) fn traces(texts: &[String]) -> Result<Vec<std::path::PathBuf>> {
    crate::trace::set::expand(texts)
}

/// Whether a policy that is known to parse leaves its budget to the memory there is.
pub(super) fn fits_to_memory(text: &str) -> bool {
    crate::policy::parse(text).is_ok_and(|spec| spec.hbm() == Some(Hbm::Fit))
}

/// Prompt and rows of a trace, by path or by the name of one in the binary.
pub(super) fn lengths(path: &Path) -> Result<(u32, u32)> {
    let reader = crate::trace::find(&path.to_string_lossy())?;
    if reader.rows() == 0 {
        let why = if reader.is_partial() {
            ": it is unfinished, and cut before its first chunk was whole"
        } else {
            ""
        };
        return Err(
            Error::data(format!("{}: holds no row{why}", path.display())).help(
                "record it again; `kvplan record --resume` goes on with what a stopped run left",
            ),
        );
    }
    Ok((reader.prompt(), reader.rows()))
}
