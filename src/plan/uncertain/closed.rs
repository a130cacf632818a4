//! A way to run a question in closed form: what a run would give, in microseconds, for a machine as it may be.
//!
//! The schedule is followed coarsely and each stretch of it priced at a few points: everything in HBM is the mean of four
//! steps over the output; a spill is the steady step at a few points ([`quick`]); rounds are waves; preemption is followed from
//! one event to the next, a few dozen groups of requests at most. Budgets of `hbm=fit` follow the memory that the machine
//! has, as an engine would find it when it starts. Only ratios are taken from it: a figure of the plan times what the closed
//! form gives for a draw over what it gives for the best estimates, so that what the form itself misses cancels (a test
//! holds both to each other where nothing cancels). Ignored: bursts of re-tiering, phases, recordings.

use std::sync::Arc;

use super::paged;
use crate::deploy::T1Mode;
use crate::error::Result;
use crate::memory::Ledger;
use crate::plan::run::{self, Case, requests, scored};
use crate::plan::ways::How;
use crate::plan::{budget, placed, quick};
use crate::policy::four_tier::Hbm;
use crate::policy::{self, PolicySpec};
use crate::replay;
use crate::scenario::Scenario;
use crate::service::Prepared;
use crate::timeline::Timeline;
use crate::uncertain::Drawn;
use crate::units::Bytes;

/// Points at which an output is priced where nothing moves.
const POINTS: u32 = 4;

/// Points where it spills.
const SPILLED: u32 = 6;

/// What a way comes to on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::plan) struct Figures {
    /// Output tokens a second; zero where it cannot run.
    pub speed: f64,
    /// Mean time per output token (s).
    pub tpot: f64,
    /// HBM saved by moving (bytes).
    pub saved: f64,
    /// Whether all of it fits: everything in HBM, or the spill that was asked for.
    pub fits: bool,
    /// Whether tokens move to the host.
    pub moves: bool,
    /// Tokens a request may reach with everything in HBM.
    pub holds: u32,
    /// Requests of full length that fit together with everything in HBM.
    pub batch: f64,
}

/// A way, ready for many machines.
#[derive(Clone, Debug)]
pub(in crate::plan) struct Closed {
    scenario: Scenario,
    spec: PolicySpec,
    how: How,
    budget: Budget,
    /// Host memory that it pins (bytes).
    ddr: f64,
    /// Whether what T0 leaves becomes a buffer of T1 (`staged` without a size).
    open: bool,
    /// Whether software runs it today.
    pub today: bool,
}

/// How much of the KV stays in HBM.
#[derive(Clone, Debug)]
enum Budget {
    /// All.
    All,
    /// As the policy says, whatever the memory; needs so many bytes at its peak.
    Fixed(Arc<Timeline>, f64),
    /// As much as fits.
    Fit(Line),
}

/// Peak of KV and staging over the budget (tokens a request): a line between two points, and all of it.
#[derive(Clone, Copy, Debug)]
struct Line {
    least: (u32, f64),
    some: (u32, f64),
    all: (u32, f64),
}

impl Line {
    /// The largest budget within `pool`, and its peak; none if even the least does not fit.
    fn within(&self, pool: f64) -> Option<(u32, f64)> {
        if pool >= self.all.1 {
            return Some(self.all);
        }
        if pool < self.least.1 {
            return None;
        }
        let (tokens, bytes) = (
            f64::from(self.some.0) - f64::from(self.least.0),
            self.some.1 - self.least.1,
        );
        let more = if bytes > 0.0 {
            ((pool - self.least.1) / bytes * tokens).max(0.0)
        } else {
            0.0
        };
        #[allow(clippy::cast_possible_truncation)] // clamped to a count of tokens
        let budget = (f64::from(self.least.0) + more).min(f64::from(self.all.0) - 1.0) as u32;
        Some((budget.max(self.least.0), pool.min(self.all.1)))
    }
}

impl Closed {
    /// Makes a way ready, from the scenario that was asked, its case in lockstep with every budget resolved, and the host
    /// memory that it pinned; `today`: whether software runs it.
    ///
    /// # Errors
    /// As `simulate`.
    pub(in crate::plan) fn new(
        how: How,
        asked: &Scenario,
        case: &Case,
        ddr: f64,
        today: bool,
    ) -> Result<Self> {
        let policy = policy::parse(&asked.policy)?;
        let open = asked.deployment.t1 == T1Mode::Staged(None);
        let budget = match policy.hbm() {
            _ if how != How::Static || policy.name() == "full" => Budget::All,
            Some(Hbm::Fit) => Budget::Fit(line(case, open)?),
            _ => {
                let timelines = placed::by_counts(&case.scenario, &case.spec)?;
                let peak = budget::peak_bytes(&case.ledger, &timelines, &requests(&case.scenario));
                Budget::Fixed(Arc::clone(&timelines[0]), peak)
            }
        };
        Ok(Self {
            scenario: Scenario {
                asked: Vec::new(),
                notes: Vec::new(),
                ..case.scenario.clone()
            },
            spec: case.spec,
            how,
            budget,
            ddr,
            open,
            today,
        })
    }

    /// What it comes to on `machine`.
    pub(in crate::plan) fn figures(&self, machine: &Drawn) -> Figures {
        let s = &self.scenario;
        let prepared = Prepared::new(&machine.put(&s.deployment));
        let ledger = Ledger::new(&prepared);
        let (pool, length) = (ledger.pool(), f64::from(s.prompt) + f64::from(s.output));
        let all = f64::from(s.batch) * ledger.sequence_bytes(length);
        let most = s.deployment.model.max_context.max(s.prompt + s.output);
        let base = Figures {
            holds: ledger.holds(s.batch, most),
            batch: (pool / ledger.sequence_bytes(length)).floor().max(0.0),
            ..Figures::default()
        };
        match (self.how, &self.budget) {
            (How::Static, Budget::All) => in_hbm(s, &prepared, all <= pool, base),
            (How::Static, Budget::Fixed(timeline, peak)) => {
                let fits = *peak <= pool && self.pins(&ledger);
                self.spilled(&prepared, timeline, fits, all - peak, base)
            }
            (How::Static, Budget::Fit(line)) => self.fitted(prepared, &ledger, line, base),
            (how, _) => self.in_turns(&prepared, &ledger, how, all, base),
        }
    }

    fn pins(&self, ledger: &Ledger) -> bool {
        self.ddr <= ledger.ddr_capacity.as_f64()
    }

    /// As much in HBM as fits.
    fn fitted(
        &self,
        mut prepared: Prepared,
        ledger: &Ledger,
        line: &Line,
        base: Figures,
    ) -> Figures {
        let Some((budget, peak)) = line.within(ledger.pool()) else {
            return base;
        };
        if budget >= line.all.0 {
            return in_hbm(&self.scenario, &prepared, true, base);
        }
        let budget = if self.open { line.least.0 } else { budget };
        if self.open {
            let room = Bytes::ceil((ledger.pool() - line.least.1).max(0.0).floor());
            prepared.deployment.t1 = T1Mode::Staged(Some(room));
        }
        let spec = self.spec.with_hbm_tokens(budget);
        let (prompt, output) = (self.scenario.prompt, self.scenario.output);
        let Ok(timeline) = replay::by_length(&spec, prompt, output) else {
            return base;
        };
        let timeline = Arc::new(timeline);
        self.spilled(
            &prepared,
            &timeline,
            self.pins(ledger),
            line.all.1 - peak,
            base,
        )
    }

    /// By a placement.
    fn spilled(
        &self,
        prepared: &Prepared,
        timeline: &Arc<Timeline>,
        fits: bool,
        saved: f64,
        base: Figures,
    ) -> Figures {
        let batch = self.scenario.batch;
        let prepared = scored(prepared, &self.spec, std::slice::from_ref(timeline));
        let speed = quick::at_points(&prepared, timeline, batch, SPILLED);
        Figures {
            speed: if fits { speed } else { 0.0 },
            tpot: f64::from(batch) / speed,
            saved,
            fits,
            moves: timeline.spills() && !timeline.destroys(),
            ..base
        }
    }

    /// Everything in HBM, not all requests at once where they do not fit.
    fn in_turns(
        &self,
        prepared: &Prepared,
        ledger: &Ledger,
        how: How,
        all: f64,
        base: Figures,
    ) -> Figures {
        let s = &self.scenario;
        let page = f64::from(s.deployment.runtime.page_tokens) * ledger.kv_token;
        if all + page * f64::from(s.batch) <= ledger.pool() {
            return in_hbm(s, prepared, true, base);
        }
        let went = if how == How::Paged && s.deployment.runtime.preempts {
            paged::preempting(prepared, ledger, s)
        } else {
            paged::rounds(prepared, ledger, s)
        };
        let Some((seconds, tpot)) = went else {
            return base;
        };
        Figures {
            speed: f64::from(s.batch) * f64::from(s.output) / seconds,
            tpot,
            ..base
        }
    }
}

/// Peaks of an `hbm=fit` at the least budget, at the one that was found and with everything in HBM; without the buffer where
/// that is what is left.
fn line(case: &Case, open: bool) -> Result<Line> {
    let s = &case.scenario;
    let requests = requests(s);
    let streaming = run::with(s, |d| d.t1 = T1Mode::Stream);
    let ledger = if open {
        Ledger::new(&Prepared::new(&streaming.deployment))
    } else {
        case.ledger.clone()
    };
    let peak = |budget: u32| -> Result<(u32, f64)> {
        let spec = case.spec.with_hbm_tokens(budget);
        let timelines = placed::by_counts(s, &spec)?;
        Ok((budget, budget::peak_bytes(&ledger, &timelines, &requests)))
    };
    let whole = s.prompt.saturating_add(s.output);
    let least = case.spec.least_hbm_tokens(s.prompt).min(whole);
    let found = match case.spec.hbm() {
        Some(Hbm::Tokens(n)) => n.clamp(least, whole),
        _ => least,
    };
    // What fits is spilled a little on a machine with less.
    let some = if found < whole && found > least {
        found
    } else {
        least + (whole - least) / 2
    };
    Ok(Line {
        least: peak(least)?,
        some: peak(some)?,
        all: peak(whole)?,
    })
}

fn in_hbm(s: &Scenario, prepared: &Prepared, fits: bool, base: Figures) -> Figures {
    let step = mean_step(prepared, s.batch, s.prompt, s.output);
    Figures {
        speed: if fits { f64::from(s.batch) / step } else { 0.0 },
        tpot: step,
        fits,
        ..base
    }
}

/// Mean seconds of the steps of `m` requests, everything in HBM.
pub(super) fn mean_step(prepared: &Prepared, m: u32, prompt: u32, output: u32) -> f64 {
    let cost = prepared.batch(m);
    let n = POINTS.min(output).max(1);
    let tokens =
        |i: u32| f64::from(prompt) + 1.0 + f64::from(output) * (f64::from(i) + 0.5) / f64::from(n);
    let layers = (0..n).map(|i| prepared.layers(m, tokens(i), &cost.fixed));
    layers.sum::<f64>() / f64::from(n) + cost.head + cost.gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::recordings::Recordings;
    use crate::plan::said;
    use crate::plan::uncertain::unknown;

    /// Speeds by the closed form and by the run.
    fn both(flags: &str, how: How) -> (f64, f64) {
        let s = said(flags);
        let case = Case::new(&s, &Recordings::default()).unwrap();
        let run = match how {
            How::Static => case.run(),
            _ => case.run_paged(s.batch),
        }
        .unwrap();
        let closed = Closed::new(how, &s, &case, 0.0, true).unwrap();
        let speed = closed.figures(unknown(&s).base()).speed;
        (speed, run.tokens as f64 / run.decode_s())
    }

    #[test]
    fn the_closed_form_is_near_the_run() {
        for card in ["h200-sxm", "gh200", "rtx-pro-6000"] {
            for t1 in ["stream", "staged", "host-attention"] {
                let (closed, run) = both(&format!("hardware {card} t1 {t1}"), How::Static);
                assert!(
                    (closed / run - 1.0).abs() < 0.03,
                    "{card} {t1}: {closed} {run}"
                );
            }
        }
        let fixed = "hardware h200-sxm policy four-tier:hbm=0.3";
        let (closed, run) = both(fixed, How::Static);
        assert!((closed / run - 1.0).abs() < 0.03, "{closed} {run}");
        for share in ["0.01", "0.3"] {
            let streamed = format!("hardware h200-sxm policy full weights-in-ddr {share}");
            let (closed, run) = both(&streamed, How::Static);
            assert!((closed / run - 1.0).abs() < 0.03, "{share}: {closed} {run}");
        }
        for card in ["h100-sxm", "gh200", "rtx-pro-6000"] {
            let (closed, run) = both(&format!("hardware {card} policy full"), How::Paged);
            assert!(
                (closed / run - 1.0).abs() < 0.1,
                "{card} preempts: {closed} {run}"
            );
        }
    }

    /// From (100 tokens, 1,000 B) to (200, 2,000 B), all of it (400, 3,900 B): 1,500 B hold 150; 900 B nothing; 3,900 B all.
    #[test]
    fn the_budget_is_read_off_a_line() {
        let line = Line {
            least: (100, 1000.0),
            some: (200, 2000.0),
            all: (400, 3900.0),
        };
        assert_eq!(line.within(900.0), None);
        assert_eq!(line.within(1500.0), Some((150, 1500.0)));
        assert_eq!(line.within(3900.0), Some((400, 3900.0)));
        assert_eq!(line.within(3899.0), Some((389, 3899.0)));
    }
}
