//! The published method (arXiv 2605.09490): HBM, host, host at reduced precision, destroyed.
//!
//! Every `interval` steps the unprotected live tokens (the *candidates*) are ranked by score. The lowest `evict` of them
//! are destroyed, the lowest `t2` of what is left go to T2, the best `hbm` stay in or return to T0, the rest lie in T1.
//! Protected, always in T0: the prompt (unless `protect=sinks`), the first `sinks` tokens after it, the last `window`.
//!
//! Three versions were published and differ, hence presets: `algorithm` ranks T0 and T1 together (promotion and
//! demotion); `prototype` ranks what is in T0 only, T1 is append-only, and the T0 budget is of the candidates before
//! eviction; `experiment` moves nothing to T1 at all. The destroyed set of `algorithm` does not depend on `hbm`
//! (law 6); that of `prototype` does.
//!
//! Counts are products in f64, then truncated; ties go to the lower position; it acts whenever there is a candidate. All
//! counts follow from the lengths alone ([`quota`] is the whole rule). T2 comes before T0: it holds the lowest `t2` share
//! by rank whatever `hbm`, and T0 is what the budget leaves of the rest. A token once in T2 is degraded for good, wherever
//! it later lives: counts go by where it lives now, the degraded mass of a timeline by what ever was in T2.
//!
//! Ignored: the quantiser, and preset guards (at least 10 candidates), which change none of the published counters.

mod params;
mod quota;

pub use params::{Hbm, KEYS, Params, Preset, Protect, Semantics};
pub use quota::{Pool, Protected, Quota, quota};

use super::rank::{Cuts, key};
use super::{Card, Lanes, Moves, Needs, Policy, View};
use crate::score::{Rule, Score};
use crate::timeline::Tier;

/// The policy.
#[derive(Debug)]
pub struct FourTier {
    params: Params,
    card: Card,
    destroyed: u32,
    /// Candidates of the present decision, ascending, and their score keys; kept to reuse the memory.
    positions: Vec<u32>,
    keys: Vec<u64>,
    scratch: Vec<u64>,
}

impl FourTier {
    /// With these parameters; `hbm` must be tokens or a ratio.
    pub fn new(params: Params) -> Self {
        Self {
            card: card(&params),
            params,
            destroyed: 0,
            positions: Vec::new(),
            keys: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Collects the candidates; returns how many live candidates there are in all (for `prototype` more than it ranks).
    fn collect(&mut self, protected: &Protected, view: &View<'_>, score: &Score) -> u32 {
        self.positions.clear();
        self.keys.clear();
        for range in protected.ranges() {
            score.map_into(range.clone(), &mut self.keys, key);
            self.positions.extend(range);
        }
        let resident_only = self.params.preset == Preset::Prototype;
        if resident_only || self.destroyed > 0 {
            self.retain(view.tiers, resident_only);
        }
        protected.candidate_count() - self.destroyed
    }

    /// Drops the destroyed candidates, and with `resident_only` all that are not in T0.
    fn retain(&mut self, tiers: &[Tier], resident_only: bool) {
        let last = if resident_only { Tier::T0 } else { Tier::T2 };
        let mut kept = 0;
        for i in 0..self.positions.len() {
            let position = self.positions[i];
            self.positions[kept] = position;
            self.keys[kept] = self.keys[i];
            kept += usize::from(tiers[position as usize] <= last);
        }
        self.positions.truncate(kept);
        self.keys.truncate(kept);
    }

    /// Splits the ranked candidates by `quota`, worst first, and asks for every change.
    fn assign(&mut self, quota: Quota, view: &View<'_>, moves: &mut Moves) {
        let low = quota.evict as usize + quota.t2 as usize;
        let host = self.keys.len() - quota.t0 as usize;
        let mut cuts = Cuts::new(
            &self.keys,
            [quota.evict as usize, low, host],
            &mut self.scratch,
        );
        for (position, key) in self.positions.iter().zip(&self.keys) {
            let level = cuts.level(*key);
            if view.tiers[*position as usize] as usize != level {
                moves.put(*position, LEVELS[level]);
            }
        }
    }
}

/// Tier of a candidate by the number of boundaries it lies below; the tiers' own numbers.
const LEVELS: [Tier; 4] = [Tier::T0, Tier::T1, Tier::T2, Tier::T3];

/// A fresh policy.
pub(super) fn build(params: Params) -> Box<dyn Policy> {
    Box::new(FourTier::new(params))
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "four-tier",
        summary: "ranks tokens by attention: HBM, host, host at 8 bit, destroyed",
        params: params.list(),
        needs: Needs {
            mean: true,
            ..Needs::default()
        },
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: params.evict > 0.0,
        counts_by_length: true,
        stand_in: None,
        source: "arXiv 2605.09490, algorithm 1",
    }
}

impl Policy for FourTier {
    fn card(&self) -> &Card {
        &self.card
    }

    fn score(&self) -> Option<Rule> {
        Some(self.params.score)
    }

    fn interval(&self) -> Option<u32> {
        Some(self.params.interval)
    }

    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves) {
        let Some(score) = view
            .score
            .filter(|_| (step + 1).is_multiple_of(self.params.interval))
        else {
            return;
        };
        let length = u32::try_from(view.tiers.len()).unwrap_or(u32::MAX);
        let protected = Protected::of(&self.params, view.prompt, length);
        let live = self.collect(&protected, view, score);
        let pool = Pool {
            live,
            ranked: u32::try_from(self.positions.len()).unwrap_or(u32::MAX),
            destroyed: self.destroyed,
            protected: protected.count(),
        };
        let quota = quota(&self.params, pool);
        self.destroyed += quota.evict;
        self.assign(quota, view, moves);
    }
}
