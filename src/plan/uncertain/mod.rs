//! What the figures of an answer may be: draws of everything that is not known exactly, priced in closed form.
//!
//! All ways of a card, and all cards, see the same draw, so that what they share (a server's residual, a card's kernels) does
//! not blur who is faster. Reported are the 5th and 95th percentile of each figure, the share of the draws in which a way fits
//! and in which the verdict stands, and a tornado: what moving one cause alone from its p5 to its p95 does to the figure that
//! decides. The draws are those of `crate::uncertain`; the closed forms (`closed`) give ratios to the plan's own figures.
//! Ignored: which recording stands for a request's attention (quality has intervals of its own), lengths of a static batch
//! (they are what was asked). Requests with lengths of their own have no closed form here and get no intervals, which a note says; under
//! load the whole run is made again (`load`).

pub(super) mod closed;
mod load;
mod paged;
mod tornado;

use rayon::prelude::*;

use super::answer::{Draws, InDraws, Row, Swings};
use super::run::Case;
use super::verdict::{self, Drawn as Choice};
use super::ways::How;
use crate::error::Result;
use crate::metrics::{Intervals, Outcome};
use crate::scenario::{Occupancy, Scenario};
use crate::uncertain::{Drawn, Level, Unknown, ends};
use closed::{Closed, Figures};

pub(super) use load::{drawn, of_load};
pub(super) use tornado::tornado;

/// What the draws of a card came to.
#[derive(Clone, Debug, Default)]
pub(super) struct OfCard {
    /// Speed of the fastest way that runs today, by draw.
    pub best: Vec<f64>,
}

/// What a draw would choose on a card.
struct Chosen {
    pays: bool,
    /// Whether the verdict's best that runs today is still the best.
    same: bool,
    /// Speed of the best that runs today.
    speed: f64,
}

/// The causes of the machine that a scenario runs on.
pub(super) fn unknown(s: &Scenario) -> Unknown {
    let d = s.deployment.clone().with_kernels();
    Unknown::new(&d.hardware, &d.runtime)
}

/// Why an answer that was asked for intervals has none; none if it has, or was not asked.
pub(super) fn missing(s: &Scenario) -> Option<String> {
    let none = s.intervals != Level::None && s.occupancy != Occupancy::Lockstep && s.load.is_none();
    none.then(|| {
        "no intervals: there is a closed form for requests in lockstep alone, all of one length"
            .into()
    })
}

/// The intervals of one deployment; none where nothing is drawn or no closed form is at hand.
///
/// # Errors
/// As `simulate`.
pub(super) fn of_case(s: &Scenario, case: &Case, out: &Outcome) -> Result<Option<Intervals>> {
    if s.intervals == Level::None || s.occupancy != Occupancy::Lockstep || s.load.is_some() {
        return Ok(None);
    }
    let closed = Closed::new(
        How::Static,
        s,
        case,
        out.memory.ddr_peak_bytes as f64,
        false,
    )?;
    let unknown = unknown(s);
    let base = closed.figures(unknown.base());
    let machines = unknown.draws(s.seed, s.intervals.draws());
    let drawn: Vec<Figures> = machines.par_iter().map(|m| closed.figures(m)).collect();
    Ok(Some(intervals(out, &base, &drawn)))
}

/// Puts intervals, the share of the draws that agree and the tornado into a card's row.
pub(super) fn of_row(s: &Scenario, ways: &[Closed], row: &mut Row) -> OfCard {
    let unknown = unknown(s);
    let bases: Vec<Figures> = ways.iter().map(|w| w.figures(unknown.base())).collect();
    let draws: Vec<Vec<Figures>> = unknown
        .draws(s.seed, s.intervals.draws())
        .par_iter()
        .map(|m: &Drawn| ways.iter().map(|w| w.figures(m)).collect())
        .collect();
    for (i, a) in row.alternatives.iter_mut().enumerate() {
        let own: Vec<Figures> = draws.iter().map(|d| d[i]).collect();
        a.outcome.intervals = Some(intervals(&a.outcome, &bases[i], &own));
    }
    let said: Vec<Option<f64>> = row.alternatives.iter().map(verdict::said).collect();
    let best = verdict::position(row, row.verdict.best_runnable.as_deref());
    let choices: Vec<Chosen> = draws
        .iter()
        .map(|draw| {
            let of = |i: usize| Choice {
                speed: scaled(said[i], bases[i].speed, draw[i].speed),
                moves: draw[i].moves,
                today: ways[i].today,
            };
            let all: Vec<Choice> = (0..draw.len()).map(of).collect();
            let (pays, chosen) = verdict::choice(row, &all);
            let speed = chosen.map_or(0.0, |c| all[c].speed);
            // Two ways that are the same run are as fast.
            let same = best.is_some_and(|b| all[b].speed >= speed && speed > 0.0);
            Chosen { pays, same, speed }
        })
        .collect();
    let n = choices.len().max(1) as f64;
    let share = |count: usize| count as f64 / n;
    row.in_draws = Some(InDraws {
        pays_share: share(choices.iter().filter(|c| c.pays).count()),
        best_runnable_share: share(choices.iter().filter(|c| c.same).count()),
        fits_share: share(draws.iter().filter(|d| d[0].fits).count()),
    });
    row.tornado = best.map(|i| Swings {
        of: row.alternatives[i].name.clone(),
        causes: tornado(&unknown, &ways[i], said[i]),
    });
    OfCard {
        best: choices.iter().map(|c| c.speed).collect(),
    }
}

/// How the draws of a plan were made, and in how many the fastest card is the verdict's; none without draws.
pub(super) fn over_cards(s: &Scenario, rows: &[Row], drawn: &[OfCard]) -> Option<Draws> {
    let n = s.intervals.draws();
    if n == 0 || drawn.iter().all(|d| d.best.is_empty()) {
        return None;
    }
    let fastest = |draw: usize, winner: usize| {
        let own = drawn[winner].best[draw];
        own > 0.0 && drawn.iter().all(|d| d.best[draw] <= own)
    };
    let count = |winner: usize| (0..n as usize).filter(|d| fastest(*d, winner)).count();
    Some(Draws {
        level: s.intervals.word().into(),
        draws: n,
        seed: s.seed,
        fastest_share: verdict::winner(rows).map(|w| count(w) as f64 / f64::from(n)),
    })
}

/// A figure of the plan times what the closed form says of a draw; the closed form's own where neither has one at the best
/// estimates, and nothing where the plan alone refuses (it takes turns for too long to be followed).
fn scaled(said: Option<f64>, base: f64, drawn: f64) -> f64 {
    match said {
        Some(value) if base > 0.0 => value * drawn / base,
        None if base > 0.0 => 0.0,
        _ => drawn,
    }
}

/// Percentiles over draws.
fn intervals(out: &Outcome, base: &Figures, draws: &[Figures]) -> Intervals {
    let n = draws.len().max(1) as f64;
    let ratio = |said: Option<f64>, of: fn(&Figures) -> f64| -> [Option<f64>; 2] {
        let Some(value) = said.filter(|_| of(base) > 0.0) else {
            return [None; 2];
        };
        let runs = draws.iter().filter(|d| d.speed > 0.0);
        let mut all: Vec<f64> = runs.map(|d| value * of(d) / of(base)).collect();
        ends(value, &mut all).map_or([None; 2], |e| e.map(Some))
    };
    let count = |best: f64, of: fn(&Figures) -> f64| {
        let mut all: Vec<f64> = draws.iter().map(of).collect();
        ends(best, &mut all).unwrap_or([best; 2])
    };
    let refused = out.throughput.output_tokens_per_s.is_none() && base.speed > 0.0;
    let speed = ratio(out.throughput.output_tokens_per_s, |f| f.speed);
    let tpot = ratio(out.throughput.tpot_mean_s, |f| f.tpot);
    let saved = saved(out, base, draws);
    let holds = count(out.holds_tokens_per_request as f64, |f| f64::from(f.holds));
    let batch = count(base.batch, |f| f.batch);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // counts of tokens and requests
    let whole = |x: f64| x as u64;
    Intervals {
        draws: u32::try_from(draws.len()).unwrap_or(u32::MAX),
        fits_share: if refused {
            0.0
        } else {
            draws.iter().filter(|d| d.fits || d.speed > 0.0).count() as f64 / n
        },
        output_tokens_per_s_p5: speed[0],
        output_tokens_per_s_p95: speed[1],
        tpot_mean_s_p5: tpot[0],
        tpot_mean_s_p95: tpot[1],
        hbm_saved_moved_bytes_p5: saved[0],
        hbm_saved_moved_bytes_p95: saved[1],
        holds_tokens_per_request_p5: whole(holds[0]),
        holds_tokens_per_request_p95: whole(holds[1]),
        largest_batch: whole(base.batch),
        largest_batch_p5: whole(batch[0]),
        largest_batch_p95: whole(batch[1]),
    }
}

/// HBM saved differs by what the pool differs, so that draws in which it fits add to the plan's figure and do not scale it.
fn saved(out: &Outcome, base: &Figures, draws: &[Figures]) -> [i64; 2] {
    let said = out.memory.hbm_saved_moved_bytes;
    let mut all: Vec<f64> = draws
        .iter()
        .filter(|d| d.fits)
        .map(|d| said as f64 + d.saved - base.saved)
        .collect();
    #[allow(clippy::cast_possible_truncation)] // bytes of a machine
    let ends = ends(said as f64, &mut all).map(|e| e.map(|x| x as i64));
    ends.unwrap_or([said; 2])
}
