//! Which parameter of a policy is its budget, and between which ends it may be searched.
//!
//! A policy that only destroys has one budget, whatever is made equal. Four-tier has two: `hbm` decides what lies in HBM
//! and how fast a step is, `evict` what is left at all (`semantics` is cumulative unless named: a budget that compounds
//! cannot be solved for). H2O's two halves are scaled together, at the ratio they were given in.

use crate::error::{Error, Result};
use crate::policy::PolicySpec;
use crate::policy::registry::Kind;
use crate::scenario::Scenario;

use super::equal::By;
use super::grid::with_param;

/// Steps of a share: a hundred-thousandth.
const STEPS: u32 = 100_000;

/// A budget as a whole number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Knob {
    /// Least value.
    pub low: u32,
    /// Most.
    pub high: u32,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// Tokens under a key, followed by a suffix.
    Tokens(&'static str, &'static str),
    /// A share in [`STEPS`] under a key.
    Share(&'static str),
    /// `evict`, with the semantics it needs.
    Evict { named: bool },
    /// `heavy` and `recent` together, at the ratio given.
    Halves { heavy: u32, recent: u32 },
}

impl Knob {
    /// The budget of a policy for what is made equal.
    ///
    /// # Errors
    /// Usage: it has none.
    pub(super) fn of(spec: &PolicySpec, by: By, scenario: &Scenario) -> Result<Self> {
        Self::at(spec, by, scenario.prompt, scenario.output)
    }

    /// As [`Knob::of`], at a prompt and an output (tokens).
    ///
    /// # Errors
    /// As [`Knob::of`].
    pub(super) fn at(spec: &PolicySpec, by: By, prompt: u32, output: u32) -> Result<Self> {
        let whole = prompt.saturating_add(output);
        let tokens = |key, least: u32| Self {
            low: least.min(whole),
            high: whole,
            what: What::Tokens(key, ""),
        };
        Ok(match *spec.kind() {
            Kind::Full(_) => {
                return Err(Error::usage(
                    "policy `full` has no budget: it cannot be brought to anything",
                ));
            }
            Kind::FourTier(p) | Kind::Oracle(p) => match by {
                By::HbmPeak | By::Tpot => Self {
                    low: spec.least_hbm_tokens(prompt).min(whole),
                    high: whole,
                    what: What::Tokens("hbm", "tok"),
                },
                By::TotalBytes | By::Retained => Self {
                    low: 0,
                    high: STEPS,
                    what: What::Evict {
                        named: p.semantics.is_some(),
                    },
                },
            },
            Kind::StreamEvict(_) => Self {
                low: 1,
                high: STEPS,
                what: What::Share("budget"),
            },
            Kind::StreamingLlm(_) => tokens("window", 1),
            Kind::H2o(p) | Kind::H2oMean(p) => Self {
                low: 1,
                high: whole,
                what: What::Halves {
                    heavy: p.heavy,
                    recent: p.recent,
                },
            },
            Kind::RKv(p) | Kind::RKvImportance(p) => tokens("budget", p.window.saturating_add(1)),
            Kind::SnapKv(p) | Kind::SnapKvMean(p) => tokens("budget", p.window.saturating_add(1)),
            Kind::Random(p) => tokens("budget", p.sinks.saturating_add(p.window)),
            Kind::Tova(_) | Kind::TovaMean(_) | Kind::Raas(_) | Kind::Lru(_) => tokens("budget", 1),
        })
    }

    /// The value whose figure is nearest to `target`, by bisection; an end where the target is beyond it.
    ///
    /// # Errors
    /// As `at`.
    pub(super) fn nearest(&self, target: f64, at: impl Fn(u32) -> Result<f64>) -> Result<u32> {
        let (mut low, mut high) = (self.low, self.high);
        let (mut at_low, mut at_high) = (at(low)?, at(high)?);
        let rises = at_high >= at_low;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let value = at(middle)?;
            if (value >= target) == rises {
                (high, at_high) = (middle, value);
            } else {
                (low, at_low) = (middle, value);
            }
        }
        Ok(if (at_high - target).abs() < (at_low - target).abs() {
            high
        } else {
            low
        })
    }

    /// The parameter and its value at `n`.
    pub(super) fn setting(&self, n: u32) -> (String, String) {
        let share = || format!("{}", f64::from(n) / f64::from(STEPS));
        match self.what {
            What::Tokens(key, suffix) => (key.into(), format!("{n}{suffix}")),
            What::Share(key) => (key.into(), share()),
            What::Evict { .. } => ("evict".into(), share()),
            What::Halves { .. } => {
                let (heavy, recent) = self.halves(n);
                ("heavy+recent".into(), format!("{heavy}+{recent}"))
            }
        }
    }

    /// A policy's text with its budget at `n`.
    pub(super) fn turn(&self, policy: &str, n: u32) -> String {
        let (key, value) = self.setting(n);
        match self.what {
            What::Evict { named: false } => {
                with_param(&with_param(policy, "semantics", "cumulative"), &key, &value)
            }
            What::Halves { .. } => {
                let (heavy, recent) = self.halves(n);
                let policy = with_param(policy, "heavy", &heavy.to_string());
                with_param(&policy, "recent", &recent.to_string())
            }
            _ => with_param(policy, &key, &value),
        }
    }

    /// `n` tokens in two parts, the latest at least one.
    fn halves(&self, n: u32) -> (u32, u32) {
        let What::Halves { heavy, recent } = self.what else {
            return (0, n);
        };
        let all = u64::from(heavy) + u64::from(recent);
        let latest = u64::from(n) * u64::from(recent) / all.max(1);
        let latest = u32::try_from(latest).unwrap_or(n).clamp(1, n.max(1));
        (n - latest.min(n), latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_keep_their_ratio() {
        let knob = Knob {
            low: 1,
            high: 100,
            what: What::Halves {
                heavy: 300,
                recent: 100,
            },
        };
        // A quarter of 40 is recent; of 1 token, the latest.
        assert_eq!(knob.turn("h2o-mean", 40), "h2o-mean:heavy=30,recent=10");
        assert_eq!(
            knob.turn("h2o-mean:recent=7", 1),
            "h2o-mean:heavy=0,recent=1"
        );
    }

    #[test]
    fn a_parameter_is_replaced_where_it_stands_already() {
        let knob = Knob {
            low: 0,
            high: STEPS,
            what: What::Evict { named: false },
        };
        assert_eq!(
            knob.turn("four-tier:evict=0,hbm=0.5", 2_500),
            "four-tier:hbm=0.5,semantics=cumulative,evict=0.025"
        );
    }
}
