//! Requests over time: the settings of a load, resolved.
//!
//! `arrivals` makes a scenario one of a server under load; the other settings here mean nothing without it. The requests are
//! drawn when the scenario is resolved, so that everything after it (budget, placements, engine) sees one list.

use std::sync::Arc;

use crate::engine::serve::GiveWay;
use crate::error::Result;
use crate::workload::{Arrivals, Drawn, Load, Slo};

use super::read::{MAX_TOKENS, number, seed, text_of, word};
use super::settings::Settings;
use super::{Scenario, contradict};

/// Requests that come where nobody says how many.
const REQUESTS: u32 = 200;
/// Most requests of a load.
pub(super) const MOST_REQUESTS: u32 = 1 << 20;

/// A load and how it is served.
#[derive(Clone, Debug, PartialEq)]
pub struct UnderLoad {
    /// When requests come.
    pub arrivals: Arrivals,
    /// The law of their lengths.
    pub lengths: Drawn,
    /// The requests.
    pub load: Load,
    /// Tokens of a step at most; the runtime's where none was asked for.
    pub token_budget: Option<u32>,
    /// What preemption does.
    pub give_way: GiveWay,
    /// What an answer may take.
    pub slo: Option<Slo>,
}

impl UnderLoad {
    /// Whether another seed gives other lengths.
    pub fn draws_lengths(&self) -> bool {
        self.arrivals.file().is_none() && self.lengths != Drawn::Fixed
    }

    /// Largest prompt and largest output.
    pub(super) fn longest(&self) -> (u32, u32) {
        let all = self.load.requests.iter();
        all.fold((1, 1), |a, r| (a.0.max(r.prompt), a.1.max(r.output)))
    }

    /// The first `n` requests, all at once.
    #[must_use]
    pub fn together(&self, n: u32) -> Self {
        let mut out = self.clone();
        out.load.requests.truncate(n as usize);
        for request in &mut out.load.requests {
            request.arrival = crate::units::Ps::ZERO;
        }
        out
    }
}

impl Scenario {
    /// The same load with arrivals and lengths drawn by another seed; what a file says stays as it is.
    #[must_use]
    pub fn redrawn(&self, seed: u64) -> Self {
        let mut out = self.clone();
        let Some(load) = &mut out.load else {
            return out;
        };
        let load = Arc::make_mut(load);
        if load.arrivals.file().is_some() {
            return out;
        }
        let n = u32::try_from(load.load.requests.len()).unwrap_or(u32::MAX);
        let fixed = (self.prompt, self.output);
        load.load = Load::new(&load.arrivals, &load.lengths, n, fixed, seed);
        (out.prompt, out.output) = load.longest();
        out
    }
}

/// How many requests come: as many as were asked for, which a file must have, or all of the file.
fn count(settings: &Settings, arrivals: &Arrivals) -> Result<u32> {
    let file = match arrivals {
        Arrivals::File(recorded) => Some(recorded.requests.len()),
        _ => None,
    };
    if settings.get("requests").is_none() {
        return Ok(file.map_or(REQUESTS, |_| MOST_REQUESTS));
    }
    let n = number(settings, "requests", 1, MOST_REQUESTS)?;
    match file.filter(|has| *has < n as usize) {
        None => Ok(n),
        Some(has) => Err(settings
            .wrong(
                "requests",
                format!("{n} are more than the {has} of the file of --arrivals"),
            )
            .help(format!(
                "leave --requests out for all {has}, or ask for fewer"
            ))),
    }
}

/// The load of a scenario, if it has one.
pub(super) fn read(settings: &Settings, place: super::Placer) -> Result<Option<UnderLoad>> {
    if settings.get("arrivals").is_none() {
        return Ok(None);
    }
    let arrivals = Arrivals::parse(text_of(settings, "arrivals")?)
        .map_err(|e| place(settings, "arrivals", e))?;
    let lengths = match settings.get("lengths") {
        Some(_) => Drawn::parse(text_of(settings, "lengths")?)
            .map_err(|e| place(settings, "lengths", e))?,
        None => Drawn::Fixed,
    };
    let n = count(settings, &arrivals)?;
    let fixed = if contradict::own_lengths(settings) {
        (1, 1)
    } else {
        (
            number(settings, "prompt", 1, MAX_TOKENS)?,
            number(settings, "output", 1, MAX_TOKENS)?,
        )
    };
    let optional = |name: &str| settings.get(name).is_some();
    Ok(Some(UnderLoad {
        load: Load::new(&arrivals, &lengths, n, fixed, seed(settings)?),
        arrivals,
        lengths,
        token_budget: if optional("token-budget") {
            Some(number(settings, "token-budget", 1, MAX_TOKENS)?)
        } else {
            None
        },
        give_way: if optional("preempt") && word(settings, "preempt")? == "swap" {
            GiveWay::Swap
        } else {
            GiveWay::Recompute
        },
        slo: if optional("slo") {
            let limits = Slo::parse(text_of(settings, "slo")?);
            Some(limits.map_err(|e| settings.wrong("slo", e))?)
        } else {
            None
        },
    }))
}
