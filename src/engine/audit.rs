//! The laws as an observer (DESIGN 6): stops the run at the first step that breaks one.
//!
//! Tokens: live + destroyed = appended. Bytes: the HBM of an instant is the sum of its parts and under the peak. Time:
//! the clock does not go back, no resource is busy longer than the wall over any prefix of the run.

use super::{Observer, StepFact};
use crate::error::{Error, Result};
use crate::units::Ps;

/// Checks every step.
#[derive(Debug, Default)]
pub struct Audit {
    /// Steps checked.
    pub steps: u64,
    /// Laws checked, over all steps.
    pub checks: u64,
    clock: Ps,
    began: Option<Ps>,
    compute: Ps,
    link: Ps,
}

fn broken(step: u64, law: &str, detail: &str) -> Error {
    Error::internal(format!("law of {law} broken at step {step}: {detail}"))
        .help("this is a bug in kvplan; please report it with the output of --print-config")
}

impl Audit {
    fn require(&mut self, law: &str, holds: bool, detail: impl FnOnce() -> String) -> Result<()> {
        self.checks += 1;
        if holds {
            Ok(())
        } else {
            Err(broken(self.steps, law, &detail()))
        }
    }
}

impl Observer for Audit {
    fn step(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let t = fact.times;
        let live: f64 = fact.held.tiers.iter().sum();
        self.require(
            "tokens",
            (live + fact.destroyed - fact.appended).abs() < 1e-6 * fact.appended,
            || {
                format!(
                    "live {live} + destroyed {} is not appended {}",
                    fact.destroyed, fact.appended
                )
            },
        )?;
        self.require(
            "bytes",
            fact.instant.kv_t0 >= 0.0 && fact.instant.staging >= 0.0,
            || format!("negative part in {:?}", fact.instant),
        )?;
        let clock = self.clock;
        self.require("time", t.begin >= clock && t.end > t.begin, || {
            format!("a step from {:?} to {:?} after {clock:?}", t.begin, t.end)
        })?;
        self.clock = t.end;
        let wall = t.end - *self.began.get_or_insert(t.begin);
        self.compute += t.compute + t.gap + t.retier;
        self.link += t.h2d_busy;
        let (compute, link) = (self.compute, self.link);
        self.require("busy compute", compute <= wall, || {
            format!("compute busy {compute:?} of {wall:?}")
        })?;
        self.require("busy link", link <= wall || t.end.is_never(), || {
            format!("link busy {link:?} of {wall:?}")
        })?;
        self.steps += 1;
        Ok(())
    }
}
