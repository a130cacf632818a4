//! Weights in host memory, as little of them as lets the rest fit: what `weights-in-ddr=fit` comes to.
//!
//! The peak of KV and staging is the bound that budgets use too (every request at the end of its re-tier interval), at the
//! policy's resolved budget. Moving weights frees HBM less the buffers that they stream through, and never takes any, so that
//! the least share is found by halving, in steps of a ten-thousandth of the layers. If not even all of them make room, all of
//! them go, and the outcome says what is missing. Under load it is what the first batch could have together, as a budget is.

use std::sync::Arc;

use super::budget::peak_bytes;
use super::placed;
use super::run::{requests, with};
use crate::deploy::HostWeights;
use crate::error::Result;
use crate::memory::Ledger;
use crate::policy::{self, PolicySpec};
use crate::scenario::Scenario;
use crate::service::Prepared;

/// Steps of a share.
const STEPS: u32 = 10_000;

/// The scenario with its share of weights in host memory as a number.
///
/// # Errors
/// As `replay::by_length`.
pub(super) fn resolve(s: Scenario, spec: &PolicySpec) -> Result<Scenario> {
    if s.deployment.host_weights != Some(HostWeights::Fit) {
        return Ok(s);
    }
    let mut together = s.clone();
    if let Some(load) = &s.load {
        together.load = Some(Arc::new(load.together(s.batch)));
    }
    let timelines = placed::by_counts(&together, &followed(spec, &together)?)?;
    let requests = requests(&together);
    let fits = |n: u32| {
        let ledger = Ledger::new(&Prepared::new(&at(&s, n).deployment));
        peak_bytes(&ledger, &timelines, &requests) <= ledger.pool()
    };
    Ok(at(&s, least(fits)))
}

/// The policy by whose intervals the peak is found. One that keeps everything has a single interval, as long as the run, in which
/// requests at phases of their own would all count at their end: four-tier with room for all keeps everything, too.
fn followed(spec: &PolicySpec, s: &Scenario) -> Result<PolicySpec> {
    if spec.name() == "full" {
        let whole = s.prompt.saturating_add(s.output);
        Ok(policy::parse("four-tier")?.with_hbm_tokens(whole))
    } else {
        Ok(*spec)
    }
}

fn at(s: &Scenario, n: u32) -> Scenario {
    let share = f64::from(n) / f64::from(STEPS);
    with(s, |d| d.host_weights = Some(HostWeights::Share(share)))
}

/// Least n that holds, for a predicate that is false up to some point; the largest if none does.
fn least(holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, STEPS);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
