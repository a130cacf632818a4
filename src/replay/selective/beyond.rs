//! Past the recorded rows: how much is fetched there, how much of it anew, and the mass of the rest.
//!
//! Counts of host tokens are exact at any length, so `top-k` is too. For the rest the rows of the recorded end (the last
//! quarter, at least 256) are looked at as if as large a share of the candidates lay on the host as will on average: the
//! lowest by score at each decision, ranked as the selection ranks. Averaged over rows, on a grid over the share of that ranking: the share
//! of the host mass that the best tokens cover; how many of them were not among the best in the row before; for `top-p`,
//! the share that is fetched. So a trace whose own host is still small, or empty, tells of a large one.
//!
//! Held at the late level: all of these. Host mass itself goes on as without selection, times what the recorded end shows
//! between the two. Bounded from above: runs, one a token. Ignored: drift beyond the end, and under `fetched-only` that the
//! tokens taken for a host were attended to, which flatters it. Rival: the recorded end's own host, which may be a tenth of
//! what is to come.

use super::State;
use super::rank::Ranked;
use crate::policy::PolicySpec;
use crate::policy::registry::Kind;
use crate::score::Score;
use crate::timeline::{Fetch, Pick, Selection, Tier, Timeline};

/// Grid steps over the share of the ranking.
const GRID: usize = 128;

/// Which positions compete, and what share of them will lie on the host.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidates {
    first: u32,
    window: u32,
    share: f64,
}

/// What the recorded end shows.
#[derive(Clone, Debug)]
pub(super) struct Beyond {
    from: u32,
    of: Candidates,
    cadence: u32,
    /// What is taken to lie on the host since the last decision, ascending.
    host: Vec<u32>,
    selection: Selection,
    ranked: Ranked,
    /// Share of the ranking above each position in the row before; NaN where it was not ranked.
    above: Vec<f64>,
    /// Step whose ranking `above` holds.
    ranked_at: Option<u32>,
    /// Mass on the best share of the host tokens, summed over rows.
    covered: Vec<f64>,
    /// Share of the host tokens that is newly among the best, summed over pairs of rows; as differences.
    fresh: Vec<f64>,
    pairs: f64,
    /// Share of the host tokens that the selection fetches, and its threshold, summed over rows.
    fetched: f64,
    threshold: f64,
    rows: f64,
}

impl Beyond {
    /// For so many recorded rows of a placement whose counts are `whole`'s.
    pub(super) fn new(
        recorded: u32,
        spec: &PolicySpec,
        whole: &Timeline,
        (prompt, selection): (u32, Selection),
    ) -> Self {
        let window = match spec.kind() {
            Kind::FourTier(p) | Kind::Oracle(p) => p.window,
            _ => 128,
        };
        Self {
            from: recorded - (recorded / 4).max(256).min(recorded),
            of: Candidates {
                first: spec.never_moves(prompt),
                window,
                share: host_share(whole, recorded, spec.never_moves(whole.prompt) + window),
            },
            cadence: spec.interval().unwrap_or(1),
            host: Vec::new(),
            selection,
            ranked: Ranked::default(),
            above: Vec::new(),
            ranked_at: None,
            covered: vec![0.0; GRID + 1],
            fresh: vec![0.0; GRID + 2],
            pairs: 0.0,
            fetched: 0.0,
            threshold: 0.0,
            rows: 0.0,
        }
    }

    /// Adds a row of the recorded end, before the score has seen it.
    pub(super) fn watch(&mut self, step: u32, tiers: &[Tier], score: &Score, state: &State) {
        if step < self.from || self.of.share <= 0.0 {
            return;
        }
        if self.host.is_empty() || step.is_multiple_of(self.cadence) {
            self.host = self.of.lowest(tiers, score);
        }
        let n = self.host.len();
        if n == 0 {
            return;
        }
        self.ranked.rank_these(&self.host, state.predictor(score));
        self.ranked.cut(self.selection.pick);
        self.fetched += self.ranked.fetched().len() as f64 / n as f64;
        self.threshold += self.ranked.threshold();
        let mut sum = 0.0;
        let mut next = 1;
        for (i, position) in self.ranked.best_first().enumerate() {
            sum += f64::from(state.row[position as usize]);
            while next <= GRID && (i + 1) * GRID >= next * n {
                self.covered[next] += sum;
                next += 1;
            }
        }
        self.rows += 1.0;
        self.compare(step, tiers.len(), n);
    }

    /// Counts who climbed past each grid point since the row before.
    fn compare(&mut self, step: u32, length: usize, n: usize) {
        let mut above = vec![f64::NAN; length];
        let follows = step > 0 && self.ranked_at == Some(step - 1);
        for (i, position) in self.ranked.best_first().enumerate() {
            let now = i as f64 / n as f64;
            above[position as usize] = now;
            let before = self
                .above
                .get(position as usize)
                .copied()
                .unwrap_or(f64::NAN);
            if follows && (before.is_nan() || before > now) {
                let until = if before.is_nan() { GRID } else { grid(before) };
                self.fresh[grid(now) + 1] += 1.0 / n as f64;
                self.fresh[until + 1] -= 1.0 / n as f64;
            }
        }
        self.pairs += f64::from(u8::from(follows));
        (self.above, self.ranked_at) = (above, Some(step));
    }

    /// Share of the host tokens' mass that the best `share` of them covers.
    fn covers(&self, share: f64) -> f64 {
        let all = self.covered[GRID];
        if all > 0.0 {
            between(&self.covered, share) / all
        } else {
            share
        }
    }

    /// Share of the host tokens that is newly among the best `share` of them, at most that share.
    fn newly(&self, share: f64) -> f64 {
        if self.pairs < 1.0 {
            return share;
        }
        let mut sum = 0.0;
        let curve: Vec<f64> = (0..=GRID)
            .map(|i| {
                sum += self.fresh[i];
                sum / self.pairs
            })
            .collect();
        between(&curve, share).clamp(0.0, share)
    }

    /// Host mass of a run that selects over that by the full rows, at the recorded end of both.
    pub(super) fn scale(&self, own: &[[f64; 4]], full: &[[f64; 4]]) -> f64 {
        let late = |rows: &[[f64; 4]]| -> f64 {
            let host = |m: &[f64; 4]| m[1] + m[2];
            rows[..own.len()]
                .iter()
                .skip(self.from as usize)
                .map(host)
                .sum()
        };
        match (late(own), late(full)) {
            (own, full) if own > 0.0 && full > 1e-6 => (own / full).clamp(0.25, 4.0),
            _ => 1.0,
        }
    }

    /// Fills in every step that was not recorded, host mass times `scale`.
    pub(super) fn go_on(&self, whole: &mut Timeline, scale: f64) {
        for step in whole.selective.len()..whole.mass.len() {
            let host = grown(&mut whole.mass[step], scale);
            let [_, t1, t2, _] = whole.tokens_at(u32::try_from(step).unwrap_or(u32::MAX));
            let fetch = self.fetch([t1, t2], host);
            whole.selective.push(fetch);
        }
    }

    /// What a step fetches of `tokens` in T1 and T2 with `host` mass on them.
    fn fetch(&self, tokens: [f64; 2], host: f64) -> Fetch {
        let all = tokens[0] + tokens[1];
        if all <= 0.0 {
            return Fetch::default();
        }
        let share = match self.selection.pick {
            Pick::TopK(k) => (f64::from(k) / all).min(1.0),
            Pick::TopP(_) if self.rows > 0.0 => self.fetched / self.rows,
            Pick::TopP(p) => p,
        };
        let newly = self.newly(share);
        Fetch {
            threshold: self.threshold / self.rows.max(1.0),
            fetched: tokens.map(|n| n * share),
            fetched_runs: (all * share).min(all * (1.0 - share) + 1.0),
            fresh: tokens.map(|n| n * newly),
            fresh_runs: all * newly,
            residual_mass: host * (1.0 - self.covers(share)),
        }
    }
}

impl Candidates {
    /// The lowest of the live candidates by score, as many as will lie on the host, ascending.
    fn lowest(self, tiers: &[Tier], score: &Score) -> Vec<u32> {
        let length = u32::try_from(tiers.len()).unwrap_or(u32::MAX);
        let last = length.saturating_sub(self.window + 1).max(self.first);
        let mut all: Vec<(f64, u32)> = (self.first..last)
            .filter(|p| tiers[*p as usize] != Tier::T3)
            .map(|p| (score.of(p), p))
            .collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a count
        let n = (all.len() as f64 * self.share).ceil() as usize;
        let n = n.min(all.len());
        if n < all.len() {
            all.select_nth_unstable_by(n, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        let mut lowest: Vec<u32> = all[..n].iter().map(|(_, p)| *p).collect();
        lowest.sort_unstable();
        lowest
    }
}

/// Mean share of the candidates that lies on the host past the recorded rows.
fn host_share(whole: &Timeline, recorded: u32, protected: u32) -> f64 {
    let beyond = whole.intervals.iter().filter(|i| i.first_step >= recorded);
    let shares: Vec<f64> = beyond
        .map(|i| {
            let live: f64 = i.tokens[..3].iter().sum();
            let candidates = (live - f64::from(protected)).max(1.0);
            ((i.tokens[1] + i.tokens[2]) / candidates).min(1.0)
        })
        .filter(|share| *share > 0.0)
        .collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

/// First grid point whose best share includes a token with that share above it, less one.
fn grid(above: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of the grid
    let point = (above * GRID as f64) as usize;
    point.min(GRID)
}

/// A curve between its grid points.
fn between(curve: &[f64], share: f64) -> f64 {
    let x = share.clamp(0.0, 1.0) * GRID as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the grid
    let i = (x as usize).min(GRID - 1);
    curve[i] + (curve[i + 1] - curve[i]) * (x - i as f64)
}

/// Scales the mass on T1 and T2 of an extrapolated row, T0 giving or taking the difference; returns what is on both.
fn grown(mass: &mut [f64; 4], scale: f64) -> f64 {
    let host = mass[1] + mass[2];
    let factor = if host > 0.0 {
        (host * scale).min(host + mass[0]) / host
    } else {
        1.0
    };
    mass[0] -= host * (factor - 1.0);
    mass[1] *= factor;
    mass[2] *= factor;
    host * factor
}
