//! Policies brought to equal tokens by their counts alone, for a model that runs and no machine.
//!
//! The same budgets and the same search as [`super::equal`], on the counts of [`crate::replay::by_length`] over the lengths
//! of all texts, as an evaluation sums them: retained tokens as the mean over all steps, the peak as the mean over texts.
//! A budget may be a share for one policy and a number for another, so that equality at one length is none at others.
//! Units: tokens of one request.

use std::collections::BTreeMap;

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

/// A text's prompt and output (tokens).
pub type Length = (u32, u32);

/// Brings all policies but the first to as many tokens as the first retains (mean over steps), or holds in HBM at the
/// peak (mean over texts), over texts of these lengths.
///
/// # Errors
/// Usage: an unknown word, fewer than two policies, one without a budget, or one that cannot come as near as
/// [`TOLERANCE`].
pub fn bring(word: &str, policies: &[String], lengths: &[Length]) -> Result<Brought> {
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
    let texts = alike(lengths);
    let most = |of: fn(&Length) -> u32| lengths.iter().map(of).max().unwrap_or(1);
    let (prompt, output) = (most(|l| l.0), most(|l| l.1));
    let target = count(&policy::parse(first)?, by, &texts)?;
    let mut brought = vec![first.clone()];
    for text in rest {
        let knob = Knob::at(&policy::parse(text)?, by, prompt, output)?;
        let at = |n: u32| count(&policy::parse(&knob.turn(text, n))?, by, &texts);
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

/// Lengths, and how many texts have each.
fn alike(lengths: &[Length]) -> BTreeMap<Length, f64> {
    let mut texts = BTreeMap::new();
    for length in lengths {
        *texts.entry(*length).or_insert(0.0) += 1.0;
    }
    texts
}

/// Mean over steps, or over texts.
fn count(spec: &PolicySpec, by: By, texts: &BTreeMap<Length, f64>) -> Result<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (&(prompt, output), n) in texts {
        let timeline = replay::by_length(spec, prompt, output)?;
        let (tokens, weight) = if by == By::Retained {
            let retained = timeline.tokens_mean()[..3].iter().sum();
            (retained, n * f64::from(output))
        } else {
            (timeline.t0_peak(), *n)
        };
        sum += tokens * weight;
        weights += weight;
    }
    Ok(if weights > 0.0 { sum / weights } else { 0.0 })
}
