//! What the page offers: names of the catalog with the one fact that tells them apart, formats, defaults.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::catalog;
use crate::error::Result;
use crate::model::WeightFormat;
use crate::report::json;
use crate::scenario::keys::{KEYS, Verb, find};

#[derive(Serialize)]
struct Choices {
    kvplan_version: &'static str,
    models: Vec<ModelChoice>,
    hardware: Vec<CardChoice>,
    runtimes: Vec<&'static str>,
    weights: Vec<String>,
    kv: &'static [&'static str],
    defaults: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct ModelChoice {
    id: &'static str,
    family: String,
    parameters: u64,
    max_context_tokens: u32,
}

#[derive(Serialize)]
struct CardChoice {
    id: &'static str,
    name: String,
    memory_bytes: f64,
    /// Whether several are joined: `gpus` over 1.
    joined: bool,
}

/// The choices as JSON.
///
/// # Errors
/// Internal: an embedded file is broken.
pub(super) fn text() -> Result<String> {
    json::pretty(&Choices {
        kvplan_version: env!("CARGO_PKG_VERSION"),
        models: catalog::model_ids()
            .into_iter()
            .map(model)
            .collect::<Result<_>>()?,
        hardware: catalog::hardware_ids()
            .into_iter()
            .map(card)
            .collect::<Result<_>>()?,
        runtimes: catalog::runtime_ids(),
        weights: WeightFormat::named()
            .iter()
            .map(ToString::to_string)
            .collect(),
        kv: find("kv").map_or(&[], |k| k.words),
        defaults: KEYS
            .iter()
            .filter_map(|k| Some((k.name, k.default(Verb::Simulate)?)))
            .collect(),
    })
}

fn model(id: &'static str) -> Result<ModelChoice> {
    let model = catalog::model(id)?;
    Ok(ModelChoice {
        id,
        parameters: model.parameters(),
        max_context_tokens: model.max_context,
        family: model.family,
    })
}

fn card(id: &'static str) -> Result<CardChoice> {
    let card = catalog::hardware(id)?;
    Ok(CardChoice {
        id,
        memory_bytes: card.gpu.memory.get(),
        joined: card.interconnect.is_some(),
        name: card.name,
    })
}
