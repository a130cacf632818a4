//! Where the mean decode step goes, way by way.

use rayon::prelude::*;

use super::{Words, calibration, deployment};
use crate::deploy::T1Mode;
use crate::error::Result;
use crate::metrics::StepParts;
use crate::plan::outcome;
use crate::plan::recordings::Recordings;
use crate::plan::run::{Case, with};
use crate::scenario::{Scenario, TraceRef};

/// A part of a step: name and value (s).
pub type Part = (&'static str, fn(&StepParts) -> f64);

/// Parts of a step.
pub const PARTS: [Part; 8] = [
    ("linear layers", |p| p.linear_s),
    ("attention in HBM", |p| p.attention_s),
    ("norms, launches", |p| p.other_s),
    ("all-reduce", |p| p.collective_s),
    ("gap between steps", |p| p.gap_s),
    ("waiting for the link", |p| p.exposed_transfer_s),
    ("waiting for the host", |p| p.exposed_host_s),
    ("re-tiering", |p| p.retier_s),
];

/// One way to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// Seconds of each of [`PARTS`].
    pub parts: Vec<f64>,
    /// Whether the card holds it.
    pub fits: bool,
}

/// All ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// Its words.
    pub words: Words,
    /// The full cache first.
    pub ways: Vec<Way>,
}

/// Runs the T1 modes with the scenario's policy, and everything in an HBM of unlimited size.
///
/// # Errors
/// As `simulate`.
pub fn steps(base: &Scenario) -> Result<Steps> {
    let base = Scenario {
        trace: TraceRef::None,
        ..base.in_lockstep()
    };
    let modes = [
        ("stream", T1Mode::Stream),
        ("staged", T1Mode::Staged(None)),
        ("host-attention", T1Mode::HostAttention),
    ];
    let mut ways = vec![full(&base)?];
    ways.extend(
        modes
            .par_iter()
            .map(|(name, mode)| way(&with(&base, |d| d.t1 = *mode), name))
            .collect::<Result<Vec<Way>>>()?,
    );
    Ok(Steps {
        words: Words {
            title: "Where a decode step goes".into(),
            subtitle: deployment(&base),
            caption: format!(
                "Mean over the steps of a run, {}. Everything in HBM is a run on a card with room for it. Transfers that hide \
                 behind compute take no time here. Lockstep, counts from lengths, n = 1; {}.",
                base.policy,
                calibration(&base)
            ),
        },
        ways,
    })
}

fn full(base: &Scenario) -> Result<Way> {
    let s = Scenario {
        policy: "full".into(),
        ..base.clone()
    };
    let case = Case::new(&s, &Recordings::default())?;
    let room = case.ledger.holds(s.batch, u32::MAX / 4);
    Ok(Way {
        name: "everything in HBM".into(),
        parts: of(&outcome::parts(&case.run_full()?)),
        fits: u64::from(room) >= s.tokens(),
    })
}

fn way(s: &Scenario, name: &str) -> Result<Way> {
    let case = Case::new(s, &Recordings::default())?;
    let run = case.run()?;
    Ok(Way {
        name: name.into(),
        parts: of(&outcome::parts(&run)),
        fits: run.peak.hbm.total() <= case.ledger.pool(),
    })
}

fn of(parts: &StepParts) -> Vec<f64> {
    PARTS.iter().map(|(_, part)| part(parts)).collect()
}
