//! Series behind the figures: what is varied, and the runs of it. A figure itself computes nothing.
//!
//! Each takes the user's scenario as its base and varies what its axes say; everything else stays as asked and stands in
//! the caption. Points run in parallel and are collected in order, so equal questions give equal figures.

pub mod attention;
pub mod layers;
pub mod price;
pub mod savings;
pub mod steps;
pub mod tiers;
pub mod tornado;

use crate::scenario::Scenario;
use crate::units::text::group;

/// Title, settings and caption of a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// What is shown.
    pub title: String,
    /// On what.
    pub subtitle: String,
    /// What it rests on.
    pub caption: String,
}

/// `DeepSeek-R1-Distill-Llama-70B on H200 SXM, 8 x (1,024 + 15,360) tokens`.
fn deployment(s: &Scenario) -> String {
    let d = &s.deployment;
    let cards = if d.gpus > 1 {
        format!("{} x ", d.gpus)
    } else {
        String::new()
    };
    format!(
        "{} on {cards}{}, {} weights, {} KV, {} x ({} + {}) tokens",
        d.model.name,
        d.hardware.name,
        d.weights,
        d.kv,
        s.batch,
        group(&s.prompt.to_string()),
        group(&s.output.to_string())
    )
}

/// Whether the machine was measured, for captions.
fn calibration(s: &Scenario) -> &'static str {
    if s.deployment.hardware.calibrated.is_some() {
        "calibrated on the machine"
    } else {
        "not calibrated"
    }
}
