//! How scattered the lowest share of a ranking lies: what recorded decisions say about decisions that were not recorded.
//!
//! At each decision of the last quarter of the trace the candidates are ranked by the policy's own score. Averaged, this
//! gives for any share of the ranking, worst first, how many contiguous runs it has and how many whole pages it covers.
//! Both go with the number of candidates. Rival: independent draws (runs = n * share * (1 - share)), off by the
//! neighbours that rise and fall together. Ignored: any drift of the scatter beyond the recorded end.

use crate::policy::four_tier::Protected;
use crate::score::Score;

/// Grid steps over the share of the ranking.
const GRID: usize = 128;

/// A curve over the share of the ranking, worst first.
type Curve = Vec<f64>;

/// The fitted shape.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Contiguous runs of the lowest share, a candidate.
    runs: Curve,
    /// Pages (of 16) wholly in the lowest share, a page of candidates.
    pages: Curve,
}

impl Shape {
    pub(super) fn runs(&self, share: f64) -> f64 {
        at(&self.runs, share)
    }

    pub(super) fn pages(&self, share: f64) -> f64 {
        at(&self.pages, share)
    }
}

/// A curve between its grid points.
fn at(curve: &[f64], share: f64) -> f64 {
    let x = share.clamp(0.0, 1.0) * GRID as f64;
    #[allow(clippy::cast_possible_truncation)] // within the grid
    let i = (x as usize).min(GRID - 1);
    curve[i] + (curve[i + 1] - curve[i]) * (x - i as f64)
}

/// The ranking of one decision.
struct Ranking {
    /// Candidates in position order.
    positions: Vec<u32>,
    /// Share of the ranking below each of them, in position order.
    shares: Vec<f64>,
}

/// Collects rankings during a replay.
pub(super) struct Fitter {
    from: u32,
    runs: Curve,
    pages: Curve,
    rankings: f64,
}

impl Fitter {
    /// Uses decisions from step `from` on.
    pub(super) fn new(from: u32) -> Self {
        Self {
            from,
            runs: vec![0.0; GRID + 1],
            pages: vec![0.0; GRID + 1],
            rankings: 0.0,
        }
    }

    /// At a decision: candidates and the score they are ranked by.
    pub(super) fn decision(&mut self, step: u32, protected: &Protected, score: &Score) {
        if step < self.from || protected.candidate_count() == 0 {
            return;
        }
        let ranking = Ranking::new(protected, score);
        ranking.add_runs(&mut self.runs);
        ranking.add_pages(&mut self.pages);
        self.rankings += 1.0;
    }

    /// The fitted shape; none if no decision had candidates.
    pub(super) fn fit(self) -> Option<Shape> {
        let n = self.rankings;
        let mean = |curve: Curve| curve.into_iter().map(|x| x / n).collect();
        (n > 0.0).then(|| Shape {
            runs: mean(self.runs),
            pages: mean(self.pages),
        })
    }
}

/// First grid point whose lowest share includes a candidate with `share` of the ranking below it.
fn grid_above(share: f64) -> usize {
    #[allow(clippy::cast_possible_truncation)] // share < 1
    let below = (share * GRID as f64) as usize;
    (below + 1).min(GRID)
}

impl Ranking {
    fn new(protected: &Protected, score: &Score) -> Self {
        let positions: Vec<u32> = protected.candidates().collect();
        let mut order: Vec<(f64, usize)> =
            positions.iter().map(|p| score.of(*p)).zip(0..).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut shares = vec![0.0; positions.len()];
        for (rank, (_, i)) in order.iter().enumerate() {
            shares[*i] = rank as f64 / positions.len() as f64;
        }
        Self { positions, shares }
    }

    /// A run of the lowest share starts wherever a member follows a position that is none.
    fn add_runs(&self, curve: &mut Curve) {
        let mut before = GRID;
        for (i, share) in self.shares.iter().enumerate() {
            let joined = i > 0 && self.positions[i - 1] + 1 == self.positions[i];
            let end = if joined { before } else { GRID + 1 };
            let start = grid_above(*share);
            for x in curve.iter_mut().take(end).skip(start) {
                *x += 1.0 / self.positions.len() as f64;
            }
            before = start;
        }
    }

    /// Whole aligned pages of candidates, by their best member.
    fn add_pages(&self, curve: &mut Curve) {
        let count = self.positions.len() as f64 / 16.0;
        for (chunk, shares) in self.positions.windows(16).zip(self.shares.windows(16)) {
            if chunk[0].is_multiple_of(16) && chunk[15] == chunk[0] + 15 {
                let best = shares.iter().copied().fold(0.0, f64::max);
                for x in &mut curve[grid_above(best)..] {
                    *x += 1.0 / count;
                }
            }
        }
    }
}
