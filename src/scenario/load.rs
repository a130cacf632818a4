//! Requests over time: the settings of a load, resolved.
//!
//! `arrivals` makes a scenario one of a server under load; the other settings here mean nothing without it. The requests are
//! drawn when the scenario is resolved, so that everything after it (budget, placements, engine) sees one list.

use crate::engine::serve::GiveWay;
use crate::error::Result;
use crate::workload::{Arrivals, Drawn, Load, Slo};

use super::contradict;
use super::read::{MAX_TOKENS, number, seed, text_of, word};
use super::settings::Settings;

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
    let recorded = matches!(arrivals, Arrivals::File(_));
    let n = match settings.get("requests") {
        Some(_) => number(settings, "requests", 1, MOST_REQUESTS)?,
        None if recorded => MOST_REQUESTS,
        None => REQUESTS,
    };
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
