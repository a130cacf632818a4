//! The published prototype's decode, sample by sample, part by part.
//!
//! `hf-eager-int8` on an RTX 5080 at batch 1, serial: a forward pass over all tokens, the fetch of what is on the host, what
//! goes down, and the policy's own work (`service::eager_tier`). The software's figures are fitted on two published runs;
//! others are predicted from their lengths. Units: seconds, tokens.

use std::sync::Arc;

use super::machine::{Machine, Setup};
use crate::catalog;
use crate::error::Result;
use crate::model::{KvFormat, Model, WeightFormat};
use crate::service::{Prepared, eager_tier};

/// The card of the published runs.
pub const GPU: &str = "rtx-5080";
/// Their software.
pub const SOFTWARE: &str = "hf-eager-int8";
/// Their model.
pub const MODEL: &str = "deepseek-r1-distill-qwen-7b";
/// Tokens of a prompt.
pub const PROMPT: u32 = 100;

/// First step with a token on the host: the third re-tier, once sinks, window and 10 candidates are there.
const FIRST: f64 = 192.0;
/// Steps between re-tiers.
const INTERVAL: f64 = 64.0;

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Tokens generated.
    pub tokens: f64,
    /// Tokens that go down.
    pub demoted: f64,
    /// Tokens that come up over all its steps.
    pub fetched: f64,
    /// Share of its tokens kept in HBM, where the rest is destroyed.
    pub kept: f64,
    /// Whether a policy ranks tokens.
    pub ranked: bool,
}

/// Where its time goes (s).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Forward passes.
    pub forward: f64,
    /// Fetching what is on the host.
    pub fetch: f64,
    /// Sending down.
    pub demote: f64,
    /// The policy's own work.
    pub books: f64,
}

impl Parts {
    /// All of it.
    pub fn total(self) -> f64 {
        self.forward + self.fetch + self.demote + self.books
    }
}

/// The model of the runs as they loaded it.
pub fn setup(model: Arc<Model>) -> Setup {
    Setup {
        model,
        gpus: 1,
        weights: WeightFormat::Int8,
        kv: KvFormat::Fp16,
        memory_fraction: 1.0,
    }
}

/// The machine and the model of the published runs.
///
/// # Errors
/// Internal: an embedded file is broken.
pub fn published() -> Result<Prepared> {
    let machine = Machine {
        hardware: Arc::new(catalog::hardware(GPU)?),
        runtime: Arc::new(catalog::runtime(SOFTWARE)?),
    };
    let setup = setup(Arc::new(catalog::model(MODEL)?));
    Ok(Prepared::new(&machine.deploy(&setup)))
}

/// Where the time of a sample goes; none if the software keeps no such tier.
pub fn parts(prepared: &Prepared, s: Sample) -> Option<Parts> {
    let d = &prepared.deployment;
    let tier = d.runtime.offload.as_ref()?;
    let classes = prepared.classes.iter();
    let token: f64 = classes.map(|c| c.kv_token * f64::from(c.count)).sum();
    let layers = prepared.order.len() as f64;
    let middle = f64::from(PROMPT) + 0.5 * s.tokens * s.kept;
    let ranked = if s.ranked { s.tokens } else { 0.0 };
    let out = if s.fetched > 0.0 {
        (s.tokens - FIRST).max(0.0)
    } else {
        0.0
    };
    let (calls, down) = (out / INTERVAL, s.demoted * token);
    Some(Parts {
        forward: s.tokens * prepared.step(1, middle) + eager_tier::scores(tier, ranked),
        fetch: eager_tier::fetch(tier, layers, out, s.fetched * token),
        demote: eager_tier::demote(tier, &d.hardware.link, layers, calls, down),
        books: eager_tier::books(tier, ranked),
    })
}
