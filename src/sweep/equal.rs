//! Policies compared at something equal: each policy's own budget is solved for it.
//!
//! In each place of the grid the first policy is the reference and runs as asked; every other policy's budget is searched
//! so that it comes to the same peak HBM, bytes, live tokens or time per token. Or a value is given, and all are brought
//! to it. What is searched is one whole number (tokens, or hundred-thousandths of a share), by bisection between its ends
//! down to the two neighbours around the target; the nearer one is taken. Every step of the search is a run of the engine:
//! on counts by length where those are exact (memory of packed pages, live tokens), else on the recordings (time, whole
//! pages). The outcome that is shown comes from a full simulation, and its value is held against the target: over
//! [`TOLERANCE`] the cell is refused, since it would not be equal. Rival: equal parameters (`hbm=0.5`
//! everywhere), which mean another thing in each policy.

use crate::deploy::Compact;
use crate::error::{Error, Result, did_you_mean};
use crate::plan::{Measure, Recordings, measure};
use crate::policy;
use crate::scenario::Scenario;
use crate::units::Bytes;
use crate::units::text::{bytes, seconds, show_bytes, show_seconds, significant, tokens};

use super::answer::{EqualBy, Solved};
use super::knob::Knob;

/// Largest difference that passes as equal, as a share of the target.
pub const TOLERANCE: f64 = 0.005;

/// What is made equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// HBM at its largest.
    HbmPeak,
    /// HBM and host memory at their largest, together.
    TotalBytes,
    /// Live tokens.
    Retained,
    /// Time per output token.
    Tpot,
}

/// What is made equal, and to what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equal {
    /// The figure.
    pub by: By,
    /// The value, in its base unit; that of the first policy if none is given.
    pub target: Option<f64>,
}

const NAMES: &[(&str, By)] = &[
    ("hbm-peak", By::HbmPeak),
    ("total-bytes", By::TotalBytes),
    ("retained", By::Retained),
    ("tpot", By::Tpot),
];

impl By {
    /// The word of the flag.
    pub fn word(self) -> &'static str {
        let found = NAMES.iter().find(|(_, by)| *by == self);
        found.map_or("", |(word, _)| word)
    }

    /// What a word names.
    pub(super) fn named(word: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(name, _)| *name == word);
        found.map(|(_, by)| *by)
    }

    /// Unit of a value, as it is written behind it.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::HbmPeak | Self::TotalBytes => "B",
            Self::Retained => "",
            Self::Tpot => "s",
        }
    }

    fn definition(self) -> &'static str {
        match self {
            Self::HbmPeak => {
                "memory.hbm_peak_bytes: HBM at its largest, weights and staging included, all GPUs (bytes)"
            }
            Self::TotalBytes => {
                "memory.hbm_peak_bytes + memory.ddr_peak_bytes: HBM and host memory, each at its largest (bytes)"
            }
            Self::Retained => {
                "tokens not destroyed (T0 + T1 + T2) a request, mean over decode steps (tokens)"
            }
            Self::Tpot => "throughput.tpot_mean_s: mean time per output token (s)",
        }
    }

    /// The figure of a measured run.
    fn of(self, m: &Measure) -> f64 {
        match self {
            Self::HbmPeak => m.hbm_peak,
            Self::TotalBytes => m.hbm_peak + m.ddr_peak,
            Self::Retained => m.retained,
            Self::Tpot => m.tpot,
        }
    }

    /// The figure for people.
    fn show(self, value: f64) -> String {
        match self {
            Self::HbmPeak | Self::TotalBytes => show_bytes(Bytes::ceil(value)),
            Self::Retained => format!("{} tokens", significant(value)),
            Self::Tpot => show_seconds(value),
        }
    }
}

impl Equal {
    /// Reads `hbm-peak`, or `hbm-peak=20GiB`.
    ///
    /// # Errors
    /// Usage: an unknown word; a value without its unit, or 0.
    pub fn parse(text: &str) -> Result<Self> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (text, None),
        };
        let Some(by) = By::named(word) else {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let near = did_you_mean(word, names.iter().copied())
                .map_or(String::new(), |n| format!("did you mean `{n}`? "));
            return Err(Error::usage(format!("--equal: unknown `{word}`"))
                .help(format!("{near}it takes {}", names.join(", "))));
        };
        let target = value.map(|v| target(by, v)).transpose()?;
        Ok(Self { by, target })
    }

    /// As an answer has it.
    ///
    /// # Errors
    /// Usage: an unknown word.
    pub(super) fn of(answer: &EqualBy) -> Result<Self> {
        let mut equal = Self::parse(&answer.by)?;
        equal.target = answer.target.filter(|t| *t > 0.0 && t.is_finite());
        Ok(equal)
    }

    /// As part of the answer.
    pub(super) fn describe(&self) -> EqualBy {
        EqualBy {
            by: self.by.word().into(),
            definition: self.by.definition().into(),
            target: self.target,
            tolerance_share: TOLERANCE,
        }
    }

    /// What the reference comes to.
    ///
    /// # Errors
    /// As `simulate`; usage: a time per token where the reference does not fit.
    pub(super) fn reference(&self, scenario: &Scenario, traces: &Recordings) -> Result<f64> {
        let m = measure(scenario, traces)?;
        let value = self.by.of(&m);
        if self.by == By::Tpot && !(m.fits && value.is_finite()) {
            let why = if m.fits {
                "never finishes"
            } else {
                "does not fit"
            };
            return Err(Error::usage(format!(
                "the reference policy {why} here: there is no time per token to be equal with"
            )));
        }
        Ok(value)
    }

    /// The scenario with its policy's budget solved for `target`.
    ///
    /// # Errors
    /// Usage: a policy without a budget, a target that it cannot reach.
    pub(super) fn solve(
        &self,
        scenario: &Scenario,
        traces: &Recordings,
        target: f64,
    ) -> Result<(Scenario, String, String)> {
        let knob = Knob::of(&policy::parse(&scenario.policy)?, self.by, scenario)?;
        let by_length = self.by != By::Tpot && scenario.deployment.compact == Compact::Retier;
        let rows = if by_length {
            Recordings::default()
        } else {
            traces.aside()
        };
        let at = |n: u32| -> Result<f64> {
            let turned = turned(scenario, &knob, n);
            Ok(self.by.of(&measure(&turned, &rows)?))
        };
        let n = self.search(&knob, target, at)?;
        let (parameter, value) = knob.setting(n);
        Ok((turned(scenario, &knob, n), parameter, value))
    }

    fn search(&self, knob: &Knob, target: f64, at: impl Fn(u32) -> Result<f64>) -> Result<u32> {
        let (low, high) = (knob.low, knob.high);
        let (at_low, at_high) = (at(low)?, at(high)?);
        let (least, most) = (at_low.min(at_high), at_low.max(at_high));
        let reach = TOLERANCE * target;
        if target < least - reach || target > most + reach {
            let ends = [low, high].map(|n| knob.setting(n));
            return Err(Error::usage(format!(
                "{} {} is out of reach: {}={} gives {}, {}={} gives {}",
                self.by.word(),
                self.by.show(target),
                ends[0].0,
                ends[0].1,
                self.by.show(at_low),
                ends[1].0,
                ends[1].1,
                self.by.show(at_high)
            )));
        }
        knob.nearest(target, at)
    }

    /// Holds what a full simulation came to against the target.
    ///
    /// # Errors
    /// Usage: the nearest setting is further off than the tolerance.
    pub(super) fn judge(
        &self,
        scenario: &Scenario,
        traces: &Recordings,
        (parameter, value, target): (String, String, f64),
    ) -> Result<Solved> {
        let achieved = self.by.of(&measure(scenario, traces)?);
        let difference_share = achieved / target - 1.0;
        if difference_share.abs() > TOLERANCE || !difference_share.is_finite() {
            return Err(Error::usage(format!(
                "{} {} is not met: the nearest setting, {parameter}={value}, gives {}",
                self.by.word(),
                self.by.show(target),
                self.by.show(achieved)
            )));
        }
        Ok(Solved {
            parameter,
            value,
            target,
            achieved,
            difference_share,
        })
    }
}

/// A target in its base unit.
fn target(by: By, text: &str) -> Result<f64> {
    let value = match by {
        By::HbmPeak | By::TotalBytes => bytes(text).map(Bytes::as_f64),
        By::Retained => tokens(text).map(f64::from),
        By::Tpot => seconds(text),
    };
    let value = value.map_err(|e| Error::usage(format!("--equal {}: {e}", by.word())))?;
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(Error::usage(format!(
            "--equal {}: `{text}` is nothing to be equal at",
            by.word()
        )))
    }
}

/// The scenario with its policy's budget at `n`.
fn turned(scenario: &Scenario, knob: &Knob, n: u32) -> Scenario {
    Scenario {
        policy: knob.turn(&scenario.policy, n),
        ..scenario.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values() {
        assert_eq!(Equal::parse("tpot").unwrap().target, None);
        let gib = Equal::parse("hbm-peak=1GiB").unwrap().target;
        assert_eq!(gib, Some(1_073_741_824.0));
        assert_eq!(Equal::parse("tpot=20ms").unwrap().target, Some(0.02));
        for text in [
            "",
            "hbm",
            "hbm-peak=",
            "hbm-peak=3",
            "tpot=0ms",
            "retained=-4",
            "retained=1GiB",
        ] {
            assert!(Equal::parse(text).is_err(), "{text}");
        }
    }
}
