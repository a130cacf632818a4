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

use super::{Card, Lanes, Moves, Needs, Policy, View};
use crate::score::{Rule, Score};
use crate::timeline::Tier;

/// The policy.
#[derive(Debug)]
pub struct FourTier {
    params: Params,
    card: Card,
    destroyed: u32,
    /// Candidates of the present decision as (score key, position); kept to reuse the memory.
    ranked: Vec<(u64, u32)>,
    /// Moves of the present decision, sorted by position before they are handed out.
    wanted: Vec<(u32, Tier)>,
}

impl FourTier {
    /// With these parameters; `hbm` must be tokens or a ratio.
    pub fn new(params: Params) -> Self {
        Self {
            card: card(&params),
            params,
            destroyed: 0,
            ranked: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Collects the candidates; returns how many live candidates there are in all (for `prototype` more than it ranks).
    fn collect(&mut self, protected: &Protected, view: &View<'_>, score: &Score) -> u32 {
        self.ranked.clear();
        let resident_only = self.params.preset == Preset::Prototype;
        let mut live = 0;
        for position in protected.candidates() {
            let tier = view.tiers[position as usize];
            if tier == Tier::T3 {
                continue;
            }
            live += 1;
            if tier == Tier::T0 || !resident_only {
                self.ranked.push((key(score.of(position)), position));
            }
        }
        live
    }

    /// Splits the ranked candidates by `quota`, worst first, and notes every change.
    fn assign(&mut self, quota: Quota, view: &View<'_>) {
        let Self { ranked, wanted, .. } = self;
        let (evicted, rest) = lowest(ranked, quota.evict);
        let (degraded, rest) = lowest(rest, quota.t2);
        let spilled = rest.len() - (quota.t0 as usize).min(rest.len());
        let (host, best) = lowest_n(rest, spilled);
        wanted.clear();
        for (part, tier) in [
            (evicted, Tier::T3),
            (degraded, Tier::T2),
            (host, Tier::T1),
            (best, Tier::T0),
        ] {
            let moved = part.iter().map(|(_, p)| *p);
            wanted.extend(
                moved
                    .filter(|p| view.tiers[*p as usize] != tier)
                    .map(|p| (p, tier)),
            );
        }
        wanted.sort_unstable_by_key(|(position, _)| *position);
    }
}

/// Total order of scores as integers; negative zero counts as zero.
fn key(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

/// The `n` lowest and the others.
fn lowest(ranked: &mut [(u64, u32)], n: u32) -> (&mut [(u64, u32)], &mut [(u64, u32)]) {
    lowest_n(ranked, n as usize)
}

fn lowest_n(ranked: &mut [(u64, u32)], n: usize) -> (&mut [(u64, u32)], &mut [(u64, u32)]) {
    let n = n.min(ranked.len());
    if n > 0 && n < ranked.len() {
        ranked.select_nth_unstable(n);
    }
    ranked.split_at_mut(n)
}

/// How it explains itself.
pub fn card(params: &Params) -> Card {
    Card {
        name: "four-tier",
        summary: "ranks unprotected tokens by attention: HBM, host, host at 8 bit, destroyed",
        params: params.list(),
        needs: Needs {
            mean: true,
            ..Needs::default()
        },
        lanes: Lanes::Sequence,
        oracle: false,
        destroys: params.evict > 0.0,
        counts_by_length: true,
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

    fn interval(&self) -> u32 {
        self.params.interval
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
            ranked: u32::try_from(self.ranked.len()).unwrap_or(u32::MAX),
            destroyed: self.destroyed,
            protected: protected.count(),
        };
        let quota = quota(&self.params, pool);
        self.assign(quota, view);
        self.destroyed += quota.evict;
        for (position, tier) in self.wanted.drain(..) {
            moves.put(position, tier);
        }
    }
}
