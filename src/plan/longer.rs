//! Answers that a policy lengthens: `length-factor` times as many decode steps where it destroys tokens.
//!
//! A model that misses what was destroyed does not stop when it would have: the published runs of this paper wrote 1.72 times
//! (half of the tokens kept) and 1.81 times (30 % kept) the tokens of the full cache over the same 50 problems of GSM8K
//! (95,817 and 100,630 against 55,554), with 4 and 1 right answers against 38. No factor is applied unless one is given, since
//! it is one model's on one set; an outcome that destroys says so. With a factor, tokens per second are also told divided by
//! it: so many tokens of the asked length would have to be made a second to finish as many answers, which is what such a
//! policy may be compared by. Ignored: that fewer of the answers are right. Rival: tokens per second as they are, which
//! reward a policy for making more of them.

use super::placed;
use crate::error::{Error, Result};
use crate::policy::PolicySpec;
use crate::scenario::Scenario;

/// Least and largest published factor.
const PUBLISHED: (f64, f64) = (1.72, 1.81);

/// Whether a policy destroys tokens of these requests.
fn destroys(s: &Scenario, spec: &PolicySpec) -> Result<bool> {
    Ok(placed::by_counts(s, spec)?.iter().any(|t| t.destroys()))
}

/// The scenario with longer answers, where a factor is given and the policy destroys.
///
/// # Errors
/// Usage: longer than any model's context.
pub(super) fn resolve(s: &Scenario, spec: &PolicySpec) -> Result<Option<Scenario>> {
    match s.length_factor {
        Some(factor) if destroys(s, spec)? => s.longer(factor).map(Some).ok_or_else(|| {
            Error::usage(format!(
                "--length-factor {factor} makes answers longer than can be followed"
            ))
            .help("lower it, or --output")
        }),
        _ => Ok(None),
    }
}

/// What has to be said where a factor was given and nothing is longer for it.
pub(super) fn no_effect(factor: Option<f64>, lengthened: bool) -> Option<String> {
    let factor = factor.filter(|_| !lengthened)?;
    Some(format!(
        "--length-factor {factor} has no effect: the policy destroys no token of these requests, so that no answer is longer for it"
    ))
}

/// What has to be said where a policy destroys tokens.
pub(super) fn note(s: &Scenario, lengthened: bool) -> String {
    match s.length_factor.filter(|_| lengthened) {
        Some(factor) => format!(
            "answers are {factor} times as long as asked, since this policy destroys tokens; equal_answers_tokens_per_s divides by that. That \
             fewer of them may be right is not counted"
        ),
        None => format!(
            "answers count as long as with the full cache; published runs that destroyed tokens wrote {} to {} times as many (arXiv \
             2605.09490, 50 problems of GSM8K): --length-factor counts it",
            PUBLISHED.0, PUBLISHED.1
        ),
    }
}
