//! The published figures of the paper beside ours, each with its arithmetic.
//!
//! The paper is "Not All Thoughts Need HBM" (arXiv 2605.09490), its draft and its code (github.com `tkv`), from which its
//! figures are taken as facts. A figure that follows from ours is reproduced; one that does not survive arithmetic is shown
//! corrected, with the arithmetic; accuracy is never recomputed here: it takes a model of 7 B and its answers, so each claim
//! says what stands in the way. The rival is to quote published figures as a planner's own. Everything is computed when
//! asked: models, policies and engine are those of every other verb. Counting KV by query heads, as the draft does, lives
//! only here.

mod accuracy;
mod claim;
mod eviction;
mod link;
mod memory;
pub mod prototype;

use serde::{Deserialize, Serialize};

pub use claim::{Claim, Status, Topic};

use crate::error::Result;
use crate::metrics::Outcome;
use crate::plan::simulate;
use crate::scenario::settings::Origin;
use crate::scenario::{Settings, Verb, resolve};

/// Schema id of [`Reproduction`].
pub const SCHEMA: &str = "kvplan/reproduce/1";

/// Every claim, by topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reproduction {
    /// `kvplan/reproduce/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// What the published figures are from.
    pub paper: String,
    /// In order of topic.
    pub claims: Vec<Claim>,
}

/// Computes every figure.
///
/// # Errors
/// Internal only: all inputs are embedded.
pub fn reproduce() -> Result<Reproduction> {
    let mut claims = memory::claims()?;
    claims.extend(link::claims()?);
    claims.extend(prototype::claims()?);
    claims.extend(eviction::claims()?);
    claims.extend(accuracy::claims());
    Ok(Reproduction {
        schema: SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        paper: "Yuan, Shen, Zhang: Not All Thoughts Need HBM, arXiv 2605.09490v1, 10 May 2026; draft and results of the authors' repository tkv".into(),
        claims,
    })
}

/// The outcome of `simulate` with these settings, `name value name value ...`.
fn outcome(words: &str) -> Result<Outcome> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut settings = Settings::defaults(Verb::Simulate);
    for pair in words.chunks_exact(2) {
        settings.set(pair[0], &[pair[1].to_string()], Origin::Flag)?;
    }
    simulate(&resolve::scenario(&settings)?)
}
