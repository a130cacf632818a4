//! Policies brought to equal tokens by their counts alone, for a model that runs and no machine.
//!
//! The same budgets and the same search as [`super::equal`], on the counts of [`crate::replay::by_length`] at one prompt
//! and output. Units: tokens of one request.

use super::equal::{By, TOLERANCE};
use super::knob::Knob;
use crate::error::{Error, Result, did_you_mean};
use crate::policy::{self, PolicySpec};
use crate::replay;

/// What can be made equal without a machine.
pub const WORDS: [&str; 2] = ["retained", "hbm-peak"];

/// What all policies are brought to, and the policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Brought {
    /// Tokens that the first policy comes to.
    pub target: f64,
    /// The policies, the first as it was.
    pub policies: Vec<String>,
}

/// Brings all policies but the first to as many tokens as the first retains (mean over steps), or holds in HBM at the
/// peak.
///
/// # Errors
/// Usage: an unknown word, fewer than two policies, one without a budget, or one that cannot come as near as
/// [`TOLERANCE`].
pub fn bring(word: &str, policies: &[String], prompt: u32, output: u32) -> Result<Brought> {
    let by = match word {
        "retained" => By::Retained,
        "hbm-peak" => By::HbmPeak,
        other => {
            let near = did_you_mean(other, WORDS)
                .map_or(String::new(), |n| format!("did you mean `{n}`? "));
            return Err(Error::usage(format!("--equal: unknown `{other}`"))
                .help(format!("{near}it takes retained or hbm-peak")));
        }
    };
    let [first, rest @ ..] = policies else {
        return Err(Error::usage("--equal compares policies, and there is none"));
    };
    if rest.is_empty() {
        return Err(Error::usage("--equal compares policies, and there is one")
            .help("name several --policy: the first is the reference"));
    }
    let target = count(&policy::parse(first)?, by, prompt, output)?;
    let mut brought = vec![first.clone()];
    for text in rest {
        let knob = Knob::at(&policy::parse(text)?, by, prompt, output)?;
        let at = |n: u32| count(&policy::parse(&knob.turn(text, n))?, by, prompt, output);
        let n = knob.nearest(target, at)?;
        let off = at(n)? / target - 1.0;
        if off.abs() > TOLERANCE {
            let (key, value) = knob.setting(n);
            return Err(Error::usage(format!(
                "policy `{text}` cannot be brought to {word} {target:.1} tokens: {key}={value} is nearest and {:.1} % off",
                100.0 * off
            )).help("take another first policy, which is the reference, or another window"));
        }
        brought.push(knob.turn(text, n));
    }
    Ok(Brought {
        target,
        policies: brought,
    })
}

fn count(spec: &PolicySpec, by: By, prompt: u32, output: u32) -> Result<f64> {
    let timeline = replay::by_length(spec, prompt, output)?;
    if by == By::Retained {
        return Ok(timeline.tokens_mean()[..3].iter().sum());
    }
    let last = |(index, i): (usize, &crate::timeline::Interval)| {
        i.tokens[0] + f64::from(timeline.steps_of(index).saturating_sub(1))
    };
    let run = timeline.intervals.iter().enumerate();
    let run = run.filter(|(_, i)| i.first_step < timeline.steps);
    Ok(run.map(last).fold(0.0, f64::max))
}
