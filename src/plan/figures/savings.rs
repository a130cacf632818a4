//! HBM saved by model, batch and context: what the ledger says at its peak, not the nominal share.
//!
//! Moved and destroyed are apart, and staging is taken off what is moved. Counts follow from the lengths, so no trace is
//! read; the machine enters by the runtime's page and staging alone, and nothing has to fit.

use std::sync::Arc;

use rayon::prelude::*;

use super::Words;
use crate::catalog;
use crate::error::Result;
use crate::plan::run::simulate;
use crate::scenario::{Scenario, TraceRef};
use crate::units::text::group;

/// Models of the figure: label and id.
pub const MODELS: [(&str, &str); 5] = [
    ("7B", "deepseek-r1-distill-qwen-7b"),
    ("Llama-8B", "deepseek-r1-distill-llama-8b"),
    ("14B", "deepseek-r1-distill-qwen-14b"),
    ("32B", "deepseek-r1-distill-qwen-32b"),
    ("70B", "deepseek-r1-distill-llama-70b"),
];

/// Batches, one panel each.
pub const BATCHES: [u32; 3] = [1, 8, 32];

/// Contexts, prompt included (tokens).
pub const CONTEXTS: [u32; 3] = [4096, 16_384, 32_768];

/// What one deployment saves (bytes; moved may be negative where staging costs more than it saves).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Moved to the host, staging taken off.
    pub moved: i64,
    /// Destroyed.
    pub destroyed: i64,
    /// Peak of the full cache.
    pub full: i64,
}

/// Savings of each model and context in each batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Savings {
    /// Its words.
    pub words: Words,
    /// One panel a batch, models from the smallest, contexts from the shortest.
    pub panels: Vec<Vec<Saved>>,
}

/// Runs them all under the scenario's policy and T1 mode.
///
/// # Errors
/// As [`simulate`].
pub fn savings(base: &Scenario) -> Result<Savings> {
    let mut cells = Vec::new();
    for batch in BATCHES {
        for (_, id) in MODELS {
            let model = Arc::new(catalog::model(id)?);
            for context in CONTEXTS {
                let mut s = base.in_lockstep();
                s.deployment.model = Arc::clone(&model);
                s.prompt = base.prompt.min(context / 4);
                (s.batch, s.output) = (batch, context - s.prompt);
                s.trace = TraceRef::None;
                cells.push(s);
            }
        }
    }
    let saved = cells
        .par_iter()
        .map(saved)
        .collect::<Result<Vec<Saved>>>()?;
    let panel = MODELS.len() * CONTEXTS.len();
    Ok(Savings {
        words: words(base),
        panels: saved.chunks(panel).map(<[Saved]>::to_vec).collect(),
    })
}

fn saved(s: &Scenario) -> Result<Saved> {
    let m = simulate(s)?.memory;
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    Ok(Saved {
        moved: m.hbm_saved_moved_bytes,
        destroyed: m.hbm_saved_destroyed_bytes,
        full: signed(m.kv_full_bytes),
    })
}

fn words(base: &Scenario) -> Words {
    let d = &base.deployment;
    Words {
        title: "HBM saved by tiering the KV cache".into(),
        subtitle: format!("{}, t1 {}, {} KV", base.policy, d.t1.word(), d.kv),
        caption: format!(
            "GiB of HBM: peak of the full cache less the peak with tiers, staging and spare pages taken off; under it, +GiB freed by \
             destroying tokens, which are lost. Columns: context, prompt included; shades: GiB moved, logarithmic. Prompt {} tokens of each context, or a quarter of it. KV heads as the models have them. \
             Counts follow from lengths: no trace, n = 1. Whether a deployment fits a card is another question: kvplan plan.",
            group(&base.prompt.to_string())
        ),
    }
}
