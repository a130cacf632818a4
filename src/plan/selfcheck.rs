//! The laws of the simulator, held against the user's own scenario.
//!
//! What the tests hold for random deployments is asked here of one: tokens, bytes and time at every step; mass of the
//! tiers against the rows; monotony in link and HBM (a static batch only: under queueing it is false, and host attention
//! may lose by a token moved up); the cache without T1, the link without bandwidth; Proposition 1; causality; determinism.
//! A law that cannot be asked of the scenario says why. Rival: to trust a simulator because its tests passed elsewhere.

use serde::{Deserialize, Serialize};

use super::placed;
use super::recordings::Recordings;
use super::run::{Case, simulate, with};
use crate::deploy::T1Mode;
use crate::error::{Cause, Error, Result};
use crate::hardware::Hardware;
use crate::policy::PolicySpec;
use crate::policy::four_tier::Preset;
use crate::policy::registry::Kind;
use crate::replay;
use crate::scenario::{Occupancy, Scenario};
use crate::timeline::Timeline;
use crate::trace::half;
use crate::units::Ps;

/// Schema id of [`SelfCheck`].
pub const SELFCHECK_SCHEMA: &str = "kvplan/selfcheck/1";

/// How a law stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// It holds.
    Yes,
    /// It is broken: a bug, or a profile that contradicts itself.
    No,
    /// It says nothing about this scenario.
    NotAsked,
}

/// One law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Law {
    /// Its name.
    pub law: String,
    /// Whether it holds.
    pub held: Held,
    /// What was compared, or why it was not asked.
    pub detail: String,
}

/// All laws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SelfCheck {
    /// `kvplan/selfcheck/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// In a fixed order.
    pub laws: Vec<Law>,
}

impl SelfCheck {
    /// Whether none is broken.
    pub fn is_sound(&self) -> bool {
        self.laws.iter().all(|l| l.held != Held::No)
    }
}

/// What a check found: whether it holds and what was compared, or why it was not asked.
type Found = std::result::Result<(bool, String), String>;

/// Holds every law against a scenario.
///
/// # Errors
/// As [`simulate`]; a broken law is an entry, not an error.
pub fn selfcheck(scenario: &Scenario) -> Result<SelfCheck> {
    let traces = Recordings::open(&scenario.trace)?;
    let case = Case::new(scenario, &traces)?;
    let run = case.run()?;
    let asked = Asked {
        scenario,
        traces: &traces,
        case: &case,
        makespan: run.makespan,
        moves_up: run.sums.h2d_bytes > 0.0,
    };
    let laws: [(&str, Result<Found>); 10] = [
        ("tokens, bytes and time at every step", asked.audit()),
        ("tiers hold every token", Ok(Ok(asked.tokens()))),
        ("mass of the tiers is the row's", Ok(asked.mass())),
        ("a faster link never slows it", asked.faster_link()),
        ("more HBM never slows it", asked.more_hbm()),
        ("without T1 it is the full cache", asked.no_t1()),
        ("a link without bandwidth never finishes", asked.dead_link()),
        (
            "what is destroyed does not depend on HBM",
            asked.proposition(),
        ),
        ("the future does not change the past", asked.causality()),
        ("the same question gives the same bytes", asked.twice()),
    ];
    let mut out = Vec::new();
    for (law, found) in laws {
        let (held, detail) = match found? {
            Ok((true, detail)) => (Held::Yes, detail),
            Ok((false, detail)) => (Held::No, detail),
            Err(why) => (Held::NotAsked, why),
        };
        out.push(Law {
            law: law.into(),
            held,
            detail,
        });
    }
    Ok(SelfCheck {
        schema: SELFCHECK_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        laws: out,
    })
}

fn makespan(case: &Case) -> Result<Ps> {
    Ok(case.run()?.makespan)
}

/// A scenario with its run.
struct Asked<'a> {
    scenario: &'a Scenario,
    traces: &'a Recordings,
    case: &'a Case,
    makespan: Ps,
    /// Whether anything crosses the link on its way up.
    moves_up: bool,
}

impl Asked<'_> {
    fn again(&self, scenario: &Scenario) -> Result<Case> {
        Case::new(scenario, self.traces)
    }

    /// The same with another machine, at the budget already found.
    fn on(&self, change: impl FnOnce(&mut Hardware)) -> Result<Ps> {
        let changed = with(&self.case.scenario, |d| {
            change(std::sync::Arc::make_mut(&mut d.hardware));
        });
        let mut case = self.again(&changed)?;
        case.timelines.clone_from(&self.case.timelines);
        makespan(&case)
    }

    fn spills(&self) -> bool {
        self.case.timelines.iter().any(|t| t.spills())
    }

    fn static_batch(&self) -> std::result::Result<(), String> {
        match self.scenario.occupancy {
            Occupancy::Lockstep | Occupancy::Listed => Ok(()),
            Occupancy::Staggered => Err("said of a static batch: requests here come and go".into()),
        }
    }

    fn audit(&self) -> Result<Found> {
        let watched = Scenario {
            audit: true,
            ..self.scenario.clone()
        };
        match self.again(&watched)?.run() {
            Ok(run) => Ok(Ok((
                run.makespan == self.makespan,
                format!("{} steps watched, same makespan", run.steps.len()),
            ))),
            Err(e) if e.cause == Cause::Internal => Ok(Ok((false, e.message))),
            Err(e) => Err(e),
        }
    }

    /// Whether the tiers of every interval sum to its tokens, and over how many steps, or where not.
    fn tokens(&self) -> (bool, String) {
        let mut steps = 0u64;
        for t in &self.case.timelines {
            for (i, interval) in t.intervals.iter().enumerate() {
                let own = u32::from(t.steps_of(i) > 0);
                let all = f64::from(t.prompt + interval.first_step + own);
                let held: f64 = interval.tokens.iter().sum();
                if (held - all).abs() > 1e-6 * all {
                    let step = interval.first_step;
                    return (false, format!("step {step}: {held} of {all} tokens"));
                }
            }
            steps += u64::from(t.steps);
        }
        (true, format!("over {steps} steps"))
    }

    fn mass(&self) -> Found {
        let mut rows = 0;
        for t in &self.case.timelines {
            for (step, mass) in t.mass.iter().enumerate() {
                let sum: f64 = mass.iter().sum();
                let row = t.prompt as usize + step + 1;
                if (sum - 1.0).abs() > half::tolerance(row) + 1e-9 {
                    return Ok((false, format!("step {step}: the tiers draw {sum}")));
                }
            }
            rows += t.mass.len();
        }
        if rows == 0 {
            return Err("no trace, no mass".into());
        }
        Ok((true, format!("over {rows} steps")))
    }

    fn faster_link(&self) -> Result<Found> {
        if let Err(why) = self.static_batch() {
            return Ok(Err(why));
        }
        if !self.spills() {
            return Ok(Err("nothing crosses the link".into()));
        }
        let faster = self.on(|h| {
            h.link.h2d = h.link.h2d.scaled(2.0);
            h.link.d2h = h.link.d2h.scaled(2.0);
        })?;
        Ok(Ok((
            faster <= self.makespan,
            format!(
                "{} at twice the bandwidth, {} as it is",
                time(faster),
                time(self.makespan)
            ),
        )))
    }

    fn more_hbm(&self) -> Result<Found> {
        if let Err(why) = self.static_batch() {
            return Ok(Err(why));
        }
        let streams = matches!(
            self.case.scenario.deployment.t1,
            T1Mode::Stream | T1Mode::Staged(_)
        );
        if !self.spills() || !streams || self.case.spec.hbm().is_none() {
            return Ok(Err(
                "said of a policy with a T0 budget whose T1 streams or is staged".into(),
            ));
        }
        let Some(budget) = budget(&self.case.spec) else {
            return Ok(Err(
                "the budget is a share: it does not look at the size of HBM".into(),
            ));
        };
        let all = self.scenario.prompt.saturating_add(self.scenario.output);
        let more = budget.saturating_add(budget / 10).max(budget + 64).min(all);
        let larger = makespan(&self.at(self.case.spec.with_hbm_tokens(more))?)?;
        Ok(Ok((
            larger <= self.makespan,
            format!(
                "{} at {more} tokens in T0, {} at {budget}",
                time(larger),
                time(self.makespan)
            ),
        )))
    }

    /// The case at another budget.
    fn at(&self, spec: PolicySpec) -> Result<Case> {
        let s = &self.case.scenario;
        let timelines = placed::by_policy(s, &spec, self.traces)?;
        Ok(self.again(s)?.placed(spec, timelines))
    }

    fn no_t1(&self) -> Result<Found> {
        let loses = self
            .case
            .timelines
            .iter()
            .any(|t| t.destroys() || t.tokens_end()[2] > 0.0);
        if self.case.spec.hbm().is_none() || loses {
            return Ok(Err(
                "said of a policy with a T0 budget that neither destroys nor compresses".into(),
            ));
        }
        let all = self.scenario.prompt.saturating_add(self.scenario.output);
        let whole = makespan(&self.at(self.case.spec.with_hbm_tokens(all))?)?;
        let full = self.case.run_full()?.makespan;
        Ok(Ok((
            whole == full,
            format!("{} and {}", time(whole), time(full)),
        )))
    }

    fn dead_link(&self) -> Result<Found> {
        if !self.moves_up {
            return Ok(Err("nothing crosses the link".into()));
        }
        let dead = self.on(|h| h.link.h2d = h.link.h2d.scaled(0.0))?;
        Ok(Ok((dead.is_never(), "host to device at 0 B/s".into())))
    }

    fn proposition(&self) -> Result<Found> {
        match self.case.spec.kind() {
            Kind::FourTier(p) if p.preset != Preset::Prototype && p.evict > 0.0 => {}
            _ => {
                return Ok(Err(
                    "said of four-tier with eviction, the prototype's preset aside".into(),
                ));
            }
        }
        let s = self.scenario;
        let lost = |tokens: u32| -> Result<f64> {
            let spec = self.case.spec.with_hbm_tokens(tokens);
            Ok(replay::by_length(&spec, s.prompt, s.output)?.tokens_end()[3])
        };
        let all = s.prompt.saturating_add(s.output);
        let (few, many) = (lost(s.prompt + s.output / 10)?, lost(all)?);
        Ok(Ok((
            few.to_bits() == many.to_bits(),
            format!("{few} tokens destroyed with a tenth of the output in HBM, {many} with all"),
        )))
    }

    fn causality(&self) -> Result<Found> {
        let Some(trace) = self.traces.readers().first() else {
            return Ok(Err("no trace, no future".into()));
        };
        if self.case.spec.card().oracle {
            return Ok(Err("an oracle reads the future".into()));
        }
        let cut = trace.rows() / 2;
        let mut both = Vec::new();
        for rows in [cut, trace.rows()] {
            both.extend(replay::run_first(trace.as_ref(), rows, &[self.case.spec])?);
        }
        let until = |t: &Timeline| -> Vec<_> {
            let early = |i: &&crate::timeline::Interval| i.first_step < cut;
            t.intervals.iter().filter(early).copied().collect()
        };
        let same = until(&both[0]) == until(&both[1]);
        Ok(Ok((
            same,
            format!("the first {cut} rows alone, and as part of all"),
        )))
    }

    fn twice(&self) -> Result<Found> {
        let text = || -> Result<String> {
            serde_json::to_string(&simulate(self.scenario)?)
                .map_err(|e| Error::internal(format!("json: {e}")))
        };
        Ok(Ok((text()? == text()?, "two runs compared".into())))
    }
}

/// T0 budget in tokens, if it is one.
fn budget(spec: &PolicySpec) -> Option<u32> {
    match spec.hbm() {
        Some(crate::policy::four_tier::Hbm::Tokens(n)) => Some(n),
        _ => None,
    }
}

fn time(t: Ps) -> String {
    crate::units::text::show_seconds(t.secs())
}
