//! How many candidates go where: the part of four-tier that follows from the lengths alone.

use std::ops::Range;

use super::params::{Hbm, Params, Preset, Protect, Semantics};

/// Which positions may not be touched after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Unprotected part of the prompt (empty with `protect=prompt`).
    prompt: Range<u32>,
    /// Unprotected part of the generated tokens.
    middle: Range<u32>,
    length: u32,
}

impl Protected {
    /// For a sequence of `length` tokens (the step's own included) after a prompt of `prompt`.
    pub fn of(params: &Params, prompt: u32, length: u32) -> Self {
        let window = length.saturating_sub(params.window);
        let open = match params.protect {
            Protect::Prompt => 0,
            Protect::Sinks => prompt.min(window),
        };
        let after_sinks = prompt.saturating_add(params.sinks);
        Self {
            prompt: 0..open,
            middle: after_sinks..window.max(after_sinks),
            length,
        }
    }

    /// Unprotected positions, ascending, destroyed ones included.
    pub fn candidates(&self) -> impl Iterator<Item = u32> + use<> {
        self.prompt.clone().chain(self.middle.clone())
    }

    /// How many [`Self::candidates`] there are [tokens].
    pub fn candidate_count(&self) -> u32 {
        (self.prompt.end - self.prompt.start) + (self.middle.end - self.middle.start)
    }

    /// Protected tokens, all of them in T0.
    pub fn count(&self) -> u32 {
        self.length - self.candidate_count()
    }
}

/// What a decision finds [tokens].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Live unprotected tokens.
    pub live: u32,
    /// Those that are ranked: all of them, or only those in T0 (`prototype`).
    pub ranked: u32,
    /// Destroyed so far.
    pub destroyed: u32,
    /// Protected tokens.
    pub protected: u32,
}

/// What a decision does with the ranked candidates, worst first: `evict`, `t2`, then T1, and `t0` at the top [tokens].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Destroyed now.
    pub evict: u32,
    /// In T2 after the decision.
    pub t2: u32,
    /// In T0 after the decision.
    pub t0: u32,
}

/// Share of a count, truncated.
#[allow(clippy::cast_possible_truncation)] // share <= 1: at most `n`
fn part(share: f64, n: u32) -> u32 {
    (share * f64::from(n)) as u32
}

/// The whole rule.
pub fn quota(params: &Params, pool: Pool) -> Quota {
    let evict = match params.semantics {
        None => 0,
        Some(Semantics::PerInterval) => part(params.evict, pool.ranked),
        Some(Semantics::Cumulative) => part(params.evict, pool.live + pool.destroyed)
            .saturating_sub(pool.destroyed)
            .min(pool.ranked),
    };
    let kept = pool.ranked - evict;
    let t2 = part(params.t2, kept);
    let budget = match (params.preset, params.hbm) {
        (Preset::Experiment, _) => kept,
        (Preset::Prototype, Hbm::Ratio(share)) => part(share, pool.ranked),
        (Preset::Algorithm, Hbm::Ratio(share)) => part(share, kept),
        (_, Hbm::Tokens(n)) => n.saturating_sub(pool.protected),
        // Refused by `PolicySpec::build`; spilling nothing is the harmless reading.
        (_, Hbm::Fit | Hbm::Bytes(_)) => kept,
    };
    Quota {
        evict,
        t2,
        t0: budget.min(kept - t2),
    }
}
