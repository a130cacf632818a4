//! Policies at equal peak HBM, for the figure: the first is the reference, the others' budgets are solved for its peak.

use super::axis::{Axis, Varied};
use super::equal::{By, Equal, TOLERANCE};
use super::grid::Grid;
use super::{Sweep, run};
use crate::error::Result;
use crate::plan::figures::Words;
use crate::scenario::Settings;
use crate::units::GIB;

/// Policies compared unless the user names others: the reference first, then what destroys.
pub const POLICIES: [&str; 9] = [
    "four-tier:hbm=0.3",
    "four-tier:evict=0.03,semantics=cumulative",
    "h2o-mean",
    "tova-mean",
    "lru",
    "raas",
    "r-kv-importance",
    "stream-evict",
    "streaming-llm",
];

/// One policy at the peak of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The policy as asked.
    pub policy: String,
    /// The parameter that was solved for, with its value.
    pub solved: Option<String>,
    /// Mean and 99th percentile of the mass on destroyed tokens.
    pub mass: Option<(f64, f64)>,
    /// Destroyed tokens over generated ones.
    pub destroyed_share: f64,
    /// Output tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Why it could not be made equal.
    pub refused: Option<String>,
}

/// All policies at one peak.
#[derive(Clone, Debug, PartialEq)]
pub struct Equals {
    /// Its words.
    pub words: Words,
    /// In the order asked.
    pub rows: Vec<Row>,
}

/// Solves and runs them.
///
/// # Errors
/// As [`run`].
pub fn equals(settings: &Settings) -> Result<Equals> {
    let axis = Axis::new(
        Varied::Setting("policy"),
        POLICIES.map(String::from).to_vec(),
    )?;
    let by = Equal {
        by: By::HbmPeak,
        target: None,
    };
    let sweep = Sweep::new(Grid::new(settings.clone(), vec![axis])?, Some(by), None)?;
    let answer = sweep.answer(run(&sweep, Vec::new(), &|_| Ok(()))?)?;
    let peak = answer
        .cells
        .first()
        .and_then(|c| c.outcome.as_ref())
        .map_or(0.0, |o| o.memory.hbm_peak_bytes as f64 / GIB);
    let about = answer.cells.iter().find_map(|c| c.outcome.as_ref());
    let trace = about.map_or(String::new(), |o| {
        format!(
            "{} ({} rows of {})",
            o.trace.name.as_deref().unwrap_or("none"),
            o.trace.rows,
            o.trace
                .recorded_model
                .as_deref()
                .unwrap_or("an unknown model")
        )
    });
    let subtitle = about.map_or(String::new(), |o| {
        format!(
            "{} on {}, {} x ({} + {}) tokens, peak {peak:.2} GiB each",
            o.model, o.hardware, o.batch, o.prompt_tokens, o.output_tokens
        )
    });
    let rows = answer.cells.into_iter().map(|cell| {
        let quality = cell.outcome.as_ref().map(|o| &o.quality);
        Row {
            policy: cell.vary.get("policy").cloned().unwrap_or_default(),
            solved: cell.equal.map(|s| format!("{}={}", s.parameter, s.value)),
            mass: quality.and_then(|q| q.destroyed_mass_mean.zip(q.destroyed_mass_p99)),
            destroyed_share: quality.map_or(0.0, |q| q.destroyed_share),
            tokens_per_s: cell
                .outcome
                .as_ref()
                .and_then(|o| o.throughput.output_tokens_per_s),
            refused: cell.refused,
        }
    });
    Ok(Equals {
        rows: rows.collect(),
        words: Words {
            title: "Policies at equal peak HBM".into(),
            subtitle,
            caption: format!(
                "Equal: HBM peak, weights and staging included, to within {:.1} %. Bars: mean attention that the full cache puts \
                 on destroyed tokens, whisker 99th percentile over steps; recording {trace}, n = 1. First order and \
                 teacher-forced: it compares settings of one policy and does NOT rank policies by accuracy. Names ending in \
                 -mean or -importance are mean-row approximations.",
                100.0 * TOLERANCE
            ),
        },
    })
}
