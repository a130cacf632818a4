//! Host tokens of one step, ranked by prediction and cut in two: fetched and left.
//!
//! One sort a step over the host tokens (some thousands), buffers kept. Ties go to the lower position: the sort is by
//! prediction, falling, then by position.

use crate::timeline::{Pick, Tier};

/// The ranking of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranked {
    /// Prediction and position, best first.
    order: Vec<(f64, u32)>,
    /// Positions fetched, ascending.
    fetched: Vec<u32>,
    /// Positions not fetched.
    left: Vec<u32>,
}

impl Ranked {
    /// Ranks what lies in T1 and T2.
    pub(super) fn rank(&mut self, tiers: &[Tier], predict: impl Fn(u32) -> f64) {
        self.order.clear();
        for (position, tier) in (0u32..).zip(tiers) {
            if matches!(tier, Tier::T1 | Tier::T2) {
                self.order.push((predict(position), position));
            }
        }
        self.sort();
    }

    /// Ranks some positions.
    pub(super) fn rank_these(&mut self, positions: &[u32], predict: impl Fn(u32) -> f64) {
        self.order.clear();
        self.order
            .extend(positions.iter().map(|p| (predict(*p), *p)));
        self.sort();
    }

    fn sort(&mut self) {
        self.order
            .sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }

    /// Cuts the ranking.
    pub(super) fn cut(&mut self, pick: Pick) {
        let n = match pick {
            Pick::TopK(k) => self.order.len().min(k as usize),
            // All, those without any known weight too: a sum of shares need not come to exactly 1.
            Pick::TopP(p) if p >= 1.0 => self.order.len(),
            Pick::TopP(p) => self.covering(p),
        };
        let positions = |part: &[(f64, u32)]| part.iter().map(|(_, p)| *p).collect::<Vec<u32>>();
        self.fetched = positions(&self.order[..n]);
        self.left = positions(&self.order[n..]);
        self.fetched.sort_unstable();
    }

    /// The fewest whose predictions sum to the share `p` of all.
    fn covering(&self, p: f64) -> usize {
        let wanted = p * self.order.iter().map(|(w, _)| w).sum::<f64>();
        let mut sum = 0.0;
        self.order
            .iter()
            .take_while(|(w, _)| {
                let more = sum < wanted;
                sum += w;
                more
            })
            .count()
    }

    /// Positions fetched, ascending.
    pub(super) fn fetched(&self) -> &[u32] {
        &self.fetched
    }

    /// Positions not fetched.
    pub(super) fn left(&self) -> &[u32] {
        &self.left
    }

    /// All host positions, best first.
    pub(super) fn best_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter().map(|(_, p)| *p)
    }

    /// The lowest prediction among the fetched; 0 if nothing is.
    pub(super) fn threshold(&self) -> f64 {
        match self.fetched.len() {
            0 => 0.0,
            n => self.order[n - 1].0,
        }
    }
}

/// Contiguous runs of ascending positions.
pub(super) fn runs(positions: &[u32]) -> f64 {
    let joined = positions.windows(2).filter(|w| w[0] + 1 == w[1]).count();
    (positions.len() - joined) as f64
}
