//! Past the recorded rows: how much is fetched there, how much of it anew, and the mass of the rest.
//!
//! Gathered over the last quarter of the recorded rows (at least four decisions' worth): the share of the host tokens'
//! mass that the best-ranked share of them covers, on a grid; how much of the fetched set is fresh, and its runs a token;
//! for `top-p`, the share of host tokens fetched. Past the end the counts of host tokens are exact, so `top-k` is too; the
//! covered mass is read off the grid at its share. Held at the late level: all of these. Host mass itself goes on as
//! without selection, times what the recorded end shows between the two. Ignored: drift beyond the end.

use super::State;
use crate::timeline::{Fetch, Pick, Selection, Timeline};

/// Grid steps over the share of the ranking.
const GRID: usize = 128;

/// What the recorded end shows.
#[derive(Clone, Debug)]
pub(super) struct Beyond {
    from: u32,
    /// Mass on the best share of the host tokens, best first, summed over rows.
    covered: Vec<f64>,
    host: f64,
    fetched: f64,
    fetched_runs: f64,
    fresh: f64,
    fresh_runs: f64,
    threshold: f64,
    rows: f64,
}

impl Beyond {
    /// For so many recorded rows.
    pub(super) fn new(recorded: u32) -> Self {
        Self {
            from: recorded - (recorded / 4).max(256).min(recorded),
            covered: vec![0.0; GRID + 1],
            host: 0.0,
            fetched: 0.0,
            fetched_runs: 0.0,
            fresh: 0.0,
            fresh_runs: 0.0,
            threshold: 0.0,
            rows: 0.0,
        }
    }

    /// Adds a row of the recorded end.
    pub(super) fn watch(&mut self, step: u32, state: &State, fetch: &Fetch) {
        let n = state.ranked.best_first().count();
        if step < self.from || n == 0 {
            return;
        }
        let mut sum = 0.0;
        let mut next = 1;
        for (i, position) in state.ranked.best_first().enumerate() {
            sum += f64::from(state.row[position as usize]);
            while next <= GRID && (i + 1) * GRID >= next * n {
                self.covered[next] += sum;
                next += 1;
            }
        }
        self.host += n as f64;
        self.fetched += fetch.fetched.iter().sum::<f64>();
        self.fetched_runs += fetch.fetched_runs;
        self.fresh += fetch.fresh.iter().sum::<f64>();
        self.fresh_runs += fetch.fresh_runs;
        self.threshold += fetch.threshold;
        self.rows += 1.0;
    }

    /// Share of the host tokens' mass that the best `share` of them covers.
    fn covers(&self, share: f64) -> f64 {
        let all = self.covered[GRID];
        let x = share.clamp(0.0, 1.0) * GRID as f64;
        #[allow(clippy::cast_possible_truncation)] // within the grid
        let i = (x as usize).min(GRID - 1);
        let at = self.covered[i] + (self.covered[i + 1] - self.covered[i]) * (x - i as f64);
        if all > 0.0 { at / all } else { share }
    }

    /// Host mass of a run that selects over that by the full rows, at the recorded end of both.
    pub(super) fn scale(&self, own: &[[f64; 4]], full: &[[f64; 4]]) -> f64 {
        let late = |rows: &[[f64; 4]]| -> f64 {
            let host = |m: &[f64; 4]| m[1] + m[2];
            rows[..own.len()].iter().skip(self.from as usize).map(host).sum()
        };
        match (late(own), late(full)) {
            (own, full) if own > 0.0 && full > 1e-6 => (own / full).clamp(0.25, 4.0),
            _ => 1.0,
        }
    }

    /// Fills in every step that was not recorded, host mass times `scale`.
    pub(super) fn go_on(&self, whole: &mut Timeline, selection: Selection, scale: f64) {
        for step in whole.selective.len()..whole.mass.len() {
            let host = grown(&mut whole.mass[step], scale);
            let [_, t1, t2, _] = whole.tokens_at(u32::try_from(step).unwrap_or(u32::MAX));
            let fetch = self.fetch(selection, [t1, t2], host);
            whole.selective.push(fetch);
        }
    }

    /// What a step fetches of `tokens` in T1 and T2 with `host` mass on them.
    fn fetch(&self, selection: Selection, tokens: [f64; 2], host: f64) -> Fetch {
        let all = tokens[0] + tokens[1];
        if all <= 0.0 {
            return Fetch::default();
        }
        let share = match selection.pick {
            Pick::TopK(k) => (f64::from(k) / all).min(1.0),
            Pick::TopP(_) if self.host > 0.0 => self.fetched / self.host,
            Pick::TopP(p) => p,
        };
        let part = |of: f64| if self.fetched > 0.0 { of / self.fetched } else { 1.0 };
        let count = share * all;
        Fetch {
            threshold: self.threshold / self.rows.max(1.0),
            fetched: tokens.map(|n| n * share),
            fetched_runs: count * part(self.fetched_runs),
            fresh: tokens.map(|n| n * share * part(self.fresh).min(1.0)),
            fresh_runs: count * part(self.fresh_runs),
            residual_mass: host * (1.0 - self.covers(share)),
        }
    }
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
