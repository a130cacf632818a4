//! The placements of a scenario's requests: one a recording where all are alike, one a request where a file gives each its
//! own lengths. In the latter request i has line i mod n of the file and recording i mod m; requests of equal lengths share
//! what was replayed, in whatever order they come.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::recordings::Recordings;
use crate::error::{Error, Result};
use crate::policy::{self, PolicySpec};
use crate::replay;
use crate::scenario::Scenario;
use crate::timeline::Timeline;
use crate::units::text::group;

/// Most decode steps whose placements are kept at once: some hundred bytes each.
const MOST_STEPS: u64 = 1 << 23;

/// Placements by the policy, request i's at i mod their number.
///
/// # Errors
/// As [`replay::extended`]; usage: more lengths than can be followed.
pub(super) fn by_policy(
    s: &Scenario,
    spec: &PolicySpec,
    traces: &Recordings,
) -> Result<Vec<Arc<Timeline>>> {
    if s.load.is_some() {
        // Where nothing moves the rows say nothing more, and a load has many lengths.
        let counted = by_counts(s, spec)?;
        if !counted.iter().any(|t| t.spills() || t.destroys()) {
            return Ok(counted);
        }
    }
    let selection = s.deployment.t1.selection();
    each(s, |prompt, output| {
        traces.timelines(spec, selection, prompt, output)
    })
}

/// Placements with everything in HBM.
///
/// # Errors
/// Usage: more positions than any model's context.
pub(super) fn in_hbm(s: &Scenario) -> Result<Vec<Arc<Timeline>>> {
    let full = policy::parse("full")?;
    by_counts(s, &full)
}

/// Placements by the lengths alone.
///
/// # Errors
/// As [`replay::by_length`].
pub(super) fn by_counts(s: &Scenario, spec: &PolicySpec) -> Result<Vec<Arc<Timeline>>> {
    each(s, |prompt, output| {
        Ok(vec![Arc::new(replay::by_length(spec, prompt, output)?)])
    })
}

/// Placements of requests with their own lengths: each pair of lengths is made once.
fn each(
    s: &Scenario,
    make: impl Fn(u32, u32) -> Result<Vec<Arc<Timeline>>> + Sync,
) -> Result<Vec<Arc<Timeline>>> {
    if s.lengths.is_none() && s.load.is_none() {
        return make(s.prompt, s.output);
    }
    // No policy sees the future: a shorter answer is the beginning of a longer one, and shares its placement under load.
    let mut known: BTreeMap<(u32, u32), Vec<Arc<Timeline>>> = BTreeMap::new();
    let mut longest: BTreeMap<u32, u32> = BTreeMap::new();
    for i in 0..s.requests() {
        let (prompt, output) = s.lengths_of(i);
        let most = longest.entry(prompt).or_default();
        *most = output.max(*most);
    }
    let key = |i: u32| match s.lengths_of(i) {
        (prompt, _) if s.load.is_some() => (prompt, longest[&prompt]),
        own => own,
    };
    for i in 0..s.requests() {
        known.insert(key(i), Vec::new());
    }
    let steps: u64 = known.keys().map(|(_, output)| u64::from(*output)).sum();
    if steps > MOST_STEPS {
        let text = |n: u64| group(&n.to_string());
        return Err(Error::usage(format!(
            "the different lengths of the requests come to {} decode steps, more than the {} that are followed",
            text(steps),
            text(MOST_STEPS)
        ))
        .help("use a smaller --batch, or fewer different lengths in the file of --occupancy"));
    }
    known
        .par_iter_mut()
        .try_for_each(|((prompt, output), list)| {
            *list = make(*prompt, *output)?;
            Ok::<(), Error>(())
        })?;
    let of = |i: u32| {
        let list = &known[&key(i)];
        Arc::clone(&list[i as usize % list.len()])
    };
    Ok((0..s.requests()).map(of).collect())
}
