//! What recorded rows say about placements that were not recorded: the fitted shape of a trace.
//!
//! At each decision of the last quarter of the trace the candidates are ranked by the policy's own score, and the attention
//! of the following rows is added up from the worst rank to the best. Averaged, this gives the mass below any share of
//! the ranking: with T3, T2 and T1 holding the lowest shares in that order, the mass of each tier for any budget. From
//! the same rankings: how many candidates climb past a given share between two decisions (promotions), how scattered
//! the lowest share lies (runs), how many whole pages it covers.
//!
//! Held at its late level: the split of mass between protected tokens and candidates, and the climbers a decision. On a
//! real model both level off after some 1,000 tokens. Rival: one number (mass = share of tokens), which is wrong by the
//! whole point of ranking. Ignored: any drift beyond the recorded end; the `synth` of a later version draws whole rows.

use crate::error::{Error, Result};
use crate::policy::four_tier::Protected;
use crate::score::Score;

/// Grid steps over the share of the ranking.
const GRID: usize = 128;

/// A curve over the share of the ranking, worst first.
type Curve = Vec<f64>;

/// The fitted shape.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Mean mass of a row on the lowest share of the candidates.
    below: Curve,
    /// Candidates that climb past the share between two decisions (tokens).
    climbers: Curve,
    /// Contiguous runs of the lowest share, a candidate.
    runs: Curve,
    /// Pages (of 16) wholly in the lowest share, a page of candidates.
    pages: Curve,
}

impl Shape {
    pub(super) fn below(&self, share: f64) -> f64 {
        at(&self.below, share)
    }

    pub(super) fn climbers(&self, share: f64) -> f64 {
        at(&self.climbers, share)
    }

    pub(super) fn runs(&self, share: f64) -> f64 {
        at(&self.runs, share)
    }

    pub(super) fn pages(&self, share: f64) -> f64 {
        at(&self.pages, share)
    }

    /// The same mass on all candidates together, spread evenly: for policies that do not rank.
    pub(super) fn flat(mut self) -> Self {
        let all = self.below(1.0);
        self.below = (0..=GRID).map(|i| all * i as f64 / GRID as f64).collect();
        self
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
    /// Column sums of all rows so far, in position order.
    received: Vec<f64>,
    step: u32,
}

/// Collects rankings during a replay.
pub(super) struct Fitter {
    from: u32,
    previous: Option<Ranking>,
    below: Curve,
    climbers: Curve,
    runs: Curve,
    pages: Curve,
    /// Pairs of decisions and rankings seen.
    pairs: f64,
    rankings: f64,
}

impl Fitter {
    /// Uses decisions from step `from` on.
    pub(super) fn new(from: u32) -> Self {
        let zero = || vec![0.0; GRID + 1];
        Self {
            from,
            previous: None,
            below: zero(),
            climbers: zero(),
            runs: zero(),
            pages: zero(),
            pairs: 0.0,
            rankings: 0.0,
        }
    }

    /// At a decision: candidates, the score they are ranked by, and the plain column sums.
    pub(super) fn decision(
        &mut self,
        step: u32,
        protected: &Protected,
        score: &Score,
        received: &Score,
    ) {
        if step < self.from || protected.candidate_count() == 0 {
            return;
        }
        let ranking = Ranking::new(step, protected, score, received);
        if let Some(before) = self.previous.take() {
            self.compare(&before, &ranking, received);
        }
        ranking.add_runs(&mut self.runs);
        ranking.add_pages(&mut self.pages);
        self.rankings += 1.0;
        self.previous = Some(ranking);
    }

    /// Adds what happened between two decisions.
    fn compare(&mut self, before: &Ranking, now: &Ranking, received: &Score) {
        let rows = f64::from(now.step - before.step);
        let mut later = now.positions.iter().zip(&now.shares).peekable();
        for (i, (position, share)) in before.positions.iter().zip(&before.shares).enumerate() {
            let mass = (received.of(*position) - before.received[i]) / rows;
            self.below[grid_above(*share)] += mass;
            while later.next_if(|(p, _)| *p < position).is_some() {}
            if let Some((_, after)) = later.peek().filter(|(p, _)| *p == position) {
                // Nothing for those that fell: such a range is no slice.
                let passed = grid_above(*share)..grid_above(**after);
                self.climbers
                    .get_mut(passed)
                    .into_iter()
                    .flatten()
                    .for_each(|x| *x += 1.0);
            }
        }
        self.pairs += 1.0;
    }

    /// The fitted shape.
    ///
    /// # Errors
    /// Usage: too few rows for two decisions with candidates.
    pub(super) fn fit(mut self) -> Result<Shape> {
        if self.pairs < 1.0 {
            return Err(Error::usage("the trace is too short to say where attention goes beyond its end")
                .help("use a trace of at least window + sinks + 4 intervals rows, or ask for no more steps than it has"));
        }
        let mut sum = 0.0;
        for x in &mut self.below {
            sum += *x;
            *x = sum;
        }
        let mean = |curve: Curve, n: f64| curve.into_iter().map(|x| x / n).collect();
        Ok(Shape {
            below: mean(self.below, self.pairs),
            climbers: mean(self.climbers, self.pairs),
            runs: mean(self.runs, self.rankings),
            pages: mean(self.pages, self.rankings),
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
    fn new(step: u32, protected: &Protected, score: &Score, received: &Score) -> Self {
        let positions: Vec<u32> = protected.candidates().collect();
        let mut order: Vec<(f64, usize)> =
            positions.iter().map(|p| score.of(*p)).zip(0..).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut shares = vec![0.0; positions.len()];
        for (rank, (_, i)) in order.iter().enumerate() {
            shares[*i] = rank as f64 / positions.len() as f64;
        }
        Self {
            received: positions.iter().map(|p| received.of(*p)).collect(),
            positions,
            shares,
            step,
        }
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
