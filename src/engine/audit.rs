//! The laws as an observer (DESIGN 6): stops the run at the first step that breaks one.
//!
//! Tokens: live + destroyed = appended, and while the same sequences run nothing destroyed returns. Bytes: no part of
//! an instant is negative, none exceeds the peak, the link carried no more than its rate allows for the time it was
//! busy, and host memory holds no more than came down. Time: the clock does not go back, a step is the sum of its parts,
//! no resource is busy longer than the wall over any prefix of the run. Once a run never ends (a link of zero
//! bandwidth) its clock is saturated and only the laws of tokens and bytes are left to check. Not checked: host memory
//! under `at-demotion` (costs of a decision fall due after its moves), and after sequences were exchanged.

use super::{Observer, StepFact};
use crate::deploy::WriteBack;
use crate::error::{Error, Result};
use crate::service::Prepared;
use crate::units::Ps;

/// Room for the rounding of sums in floating point.
const SLACK: f64 = 1e-6;

/// Checks every step.
#[derive(Debug, Default)]
pub struct Audit {
    /// Steps checked.
    pub steps: u64,
    /// Laws checked, over all steps.
    pub checks: u64,
    /// Bytes per second host to device, all GPUs.
    rate: f64,
    /// Whether every new token goes down at birth.
    through: bool,
    clock: Ps,
    began: Option<Ps>,
    compute: Ps,
    link: Ps,
    retier: Ps,
    up: f64,
    /// Bytes that came down, those in host memory at the start included.
    down: f64,
    last: Option<Count>,
}

/// Tokens of the step before.
#[derive(Clone, Copy, Debug)]
struct Count {
    sequences: f64,
    appended: f64,
    destroyed: f64,
}

fn broken(step: u64, law: &str, detail: &str) -> Error {
    Error::internal(format!("law of {law} broken at step {step}: {detail}"))
        .help("this is a bug in kvplan; please report it with the output of --print-config")
}

impl Audit {
    /// An audit of runs on this machine.
    pub fn new(prepared: &Prepared) -> Self {
        let d = &prepared.deployment;
        Self {
            rate: prepared.h2d_rate * f64::from(d.gpus),
            through: d.write_back == WriteBack::Through,
            ..Self::default()
        }
    }

    fn require(&mut self, law: &str, holds: bool, detail: impl FnOnce() -> String) -> Result<()> {
        self.checks += 1;
        if holds {
            Ok(())
        } else {
            Err(broken(self.steps, law, &detail()))
        }
    }

    fn tokens(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let live: f64 = fact.held.tiers.iter().sum();
        let (destroyed, appended) = (fact.destroyed, fact.appended);
        let missing = (live + destroyed - appended).abs();
        self.require("tokens", missing < SLACK * appended.max(1.0), || {
            format!("live {live} + destroyed {destroyed} is not appended {appended}")
        })?;
        let same = self.same(fact);
        if let Some(before) = self.last.filter(|_| same) {
            let kept = destroyed >= before.destroyed - SLACK;
            self.require("tokens", kept, || {
                format!("{} destroyed, then {destroyed}", before.destroyed)
            })?;
        }
        Ok(())
    }

    /// Whether the sequences of the step before run, each one token longer.
    fn same(&self, fact: &StepFact<'_>) -> bool {
        let n = fact.held.sequences;
        self.last.is_some_and(|l| {
            (l.sequences - n).abs() < 0.5 && (l.appended + n - fact.appended).abs() < 0.5
        })
    }

    fn memory(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let (now, peak) = (fact.instant, fact.peak);
        self.require("bytes", now.kv_t0 >= 0.0 && now.staging >= 0.0, || {
            format!("negative part in {now:?}")
        })?;
        self.require("bytes", now.total() <= peak.total(), || {
            format!("{now:?} is over the peak {peak:?}")
        })
    }

    /// What crossed the links against what they can carry and what lies in host memory.
    fn traffic(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let t = fact.times;
        self.up += t.h2d_bytes;
        let (up, carried) = (self.up, self.rate * (self.link + self.retier).secs());
        let free = t.end.is_never() || self.rate.is_infinite();
        self.require("bytes", free || up <= carried * (1.0 + SLACK), || {
            format!("{up} bytes came up a link that could carry {carried}")
        })?;
        if self.last.is_none() {
            self.down = fact.ddr;
        }
        if self.last.is_some() && !self.same(fact) {
            self.through = false;
        }
        self.down += t.d2h_bytes;
        let (down, ddr) = (self.down, fact.ddr);
        let known = !self.through || ddr <= down * (1.0 + SLACK);
        self.require("bytes", known, || {
            format!("{ddr} bytes in host memory of which {down} came down")
        })
    }

    fn time(&mut self, fact: &StepFact<'_>) -> Result<()> {
        let t = fact.times;
        let (clock, never) = (self.clock, t.end.is_never());
        self.require(
            "time",
            t.begin >= clock && (never || t.end > t.begin),
            || format!("a step from {:?} to {:?} after {clock:?}", t.begin, t.end),
        )?;
        let parts = t.gap + t.retier + t.compute + t.exposed;
        self.require("time", never || t.end == t.begin + parts, || {
            format!(
                "a step from {:?} to {:?} of parts {parts:?}",
                t.begin, t.end
            )
        })?;
        self.clock = t.end;
        let wall = t.end - *self.began.get_or_insert(t.begin);
        self.compute += t.compute + t.gap + t.retier;
        self.link += t.h2d_busy;
        self.retier += t.retier;
        let (compute, link) = (self.compute, self.link);
        self.require("busy compute", never || compute <= wall, || {
            format!("compute busy {compute:?} of {wall:?}")
        })?;
        self.require("busy link", never || link <= wall, || {
            format!("link busy {link:?} of {wall:?}")
        })
    }
}

impl Observer for Audit {
    fn step(&mut self, fact: &StepFact<'_>) -> Result<()> {
        self.tokens(fact)?;
        self.memory(fact)?;
        self.time(fact)?;
        self.traffic(fact)?;
        self.last = Some(Count {
            sequences: fact.held.sequences,
            appended: fact.appended,
            destroyed: fact.destroyed,
        });
        self.steps += 1;
        Ok(())
    }
}
