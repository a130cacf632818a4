//! Tier occupancy and destroyed mass over the decode steps of one request.

use super::{Words, deployment};
use crate::error::Result;
use crate::plan::recordings::Recordings;
use crate::plan::run::Case;
use crate::scenario::Scenario;

/// Most points across.
const POINTS: u32 = 480;

/// What a request holds, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// Its words.
    pub words: Words,
    /// Steps of the points, ascending.
    pub steps: Vec<u32>,
    /// Tokens in T0..T3 at each point.
    pub tokens: Vec<[f64; 4]>,
    /// Mean mass on destroyed tokens since the point before; empty without a trace.
    pub destroyed_mass: Vec<f64>,
    /// First step that is not from recorded rows.
    pub synthetic_from: Option<u32>,
}

/// The placement of the scenario's policy under its first recording.
///
/// # Errors
/// As `simulate`.
pub fn tiers(base: &Scenario) -> Result<Tiers> {
    let case = Case::new(base, &Recordings::open(&base.trace)?)?;
    let t = &case.timelines[0];
    let stride = t.steps.div_ceil(POINTS).max(1);
    let last = t.steps.checked_sub(1).filter(|last| last % stride != 0);
    let steps: Vec<u32> = (0..t.steps).step_by(stride as usize).chain(last).collect();
    let tokens = steps.iter().map(|s| t.tokens_at(*s)).collect();
    let mut from = 0;
    let mut mass = Vec::new();
    for s in &steps {
        let until = (*s as usize + 1).min(t.mass.len());
        let seen = &t.mass[from.min(until)..until];
        mass.push(seen.iter().map(|m| m[3]).sum::<f64>() / seen.len().max(1) as f64);
        from = until;
    }
    if t.mass.is_empty() {
        mass.clear();
    }
    let source = case.traces.first().map_or("no trace".to_string(), |r| {
        format!("recording {} of {}", r.name(), r.header().model)
    });
    Ok(Tiers {
        words: Words {
            title: "Where the tokens of a request live".into(),
            subtitle: deployment(base),
            caption: format!(
                "{}; {source}, n = 1. Destroyed mass: what the full cache's attention puts on destroyed tokens, mean between \
                 two points; first order, teacher-forced, of the recorded model; extrapolated past its rows.",
                base.policy
            ),
        },
        steps,
        tokens,
        destroyed_mass: mass,
        synthetic_from: t.synthetic_from.filter(|_| !t.mass.is_empty()),
    })
}
