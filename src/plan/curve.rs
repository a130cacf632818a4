//! How far and how fast: tokens per request against tokens per second on one card.
//!
//! One whole run a point and mode: requests of that length, prompt as asked, the rest output, all in lockstep. The wall
//! is the longest request with everything in HBM. At the wall every T1 mode is that run, since nothing spills; from the
//! first token beyond it a T1 mode pays at once for staging, for one re-tier interval of new tokens and for compaction's
//! spare page (`hbm=fit` bounds the peak), so T0 gives up more than the one token that did not fit: a small step down
//! behind the wall is physical. The engine as it is counts whole pages, so it preempts up to a page before the wall.
//! Between the wall and `free_until` streaming moves no more than the link carries during a step.
//!
//! Rival: the closed form of a step at one length. It has no preemption, and a mean over a run is what a bill shows.
//! Ignored: traces (counts follow from lengths alone), `--policy`, `--t1` and `--occupancy` (the figure compares them).
//! Units: tokens per request, output tokens per second without the first prefill. Points run in parallel and are
//! collected in order, so equal questions give equal curves.

mod words;

use rayon::prelude::*;

use super::recordings::Recordings;
use super::run::{Case, cannot_start, with};
use crate::deploy::T1Mode;
use crate::engine::Run;
use crate::error::{Error, Result};
use crate::scenario::Scenario;
use crate::units::text::group;

/// One series over the points of a curve [tokens/s]; `None` where it cannot run.
pub type Series = Vec<Option<f64>>;

/// Tokens per second by tokens per request.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What is plotted.
    pub title: String,
    /// Settings.
    pub subtitle: String,
    /// What the figures rest on.
    pub caption: String,
    /// Tokens per request of each point (prompt and output), ascending.
    pub tokens: Vec<u32>,
    /// Everything in HBM, up to the wall.
    pub in_hbm: Series,
    /// The engine as it is: preempts and recomputes past the wall.
    pub engine: Series,
    /// T1 streamed, from the wall on.
    pub stream: Series,
    /// T1 in a buffer in HBM, from the wall on.
    pub staged: Series,
    /// T1 attended to on the host, from the wall on.
    pub host: Series,
    /// Tokens a request holds with everything in HBM.
    pub wall: u32,
    /// Tokens a request may have while its T1 streams for free at its end.
    pub free_until: u32,
}

impl Curve {
    /// All rates of all series.
    pub fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        self.series().into_iter().flatten().flatten().copied()
    }

    /// Whether any T1 mode runs anywhere.
    pub fn tiers(&self) -> bool {
        let modes = [&self.stream, &self.staged, &self.host];
        modes.into_iter().flatten().any(Option::is_some)
    }

    /// Whether `staged` is anywhere 10 % off `stream`, or runs where it does not.
    pub fn staged_differs(&self) -> bool {
        self.stream.iter().zip(&self.staged).any(|pair| match pair {
            (Some(a), Some(b)) => (a - b).abs() > 0.1 * a,
            (None, Some(_)) => true,
            _ => false,
        })
    }

    fn series(&self) -> [&Series; 5] {
        [
            &self.in_hbm,
            &self.engine,
            &self.stream,
            &self.staged,
            &self.host,
        ]
    }
}

/// Points of the curve.
const POINTS: u32 = 40;

/// Output tokens of the shortest request: shorter ones tell of the first re-tier only.
const LEAST: u32 = 256;

/// Longest request of a curve \[tokens\]: the longest context of any model.
pub const LONGEST: u32 = 1 << 20;

/// Most tokens of all requests together: beyond it a curve takes minutes.
pub const MOST: u64 = 1 << 24;

/// The curve of a scenario's card, up to `longest` tokens per request.
///
/// # Errors
/// Usage, if `longest` is not over the prompt or absurd; infeasible, with the shortfall, if nothing runs at any length.
pub fn curve(scenario: &Scenario, longest: u32) -> Result<Curve> {
    let s = scenario.in_lockstep();
    let shortest = s.prompt.saturating_add(LEAST);
    within_reason(&s, shortest, longest)?;
    let case = Case::new(&at(&s, longest, "full"), &Recordings::default())?;
    room(&case, shortest)?;
    let wall = case.ledger.holds(s.batch, u32::MAX / 4);
    let page = s.deployment.runtime.page_tokens.max(1);
    let single = case.ledger.holds(1, u32::MAX / 4) / page * page;
    let first = if wall < longest {
        shortest.max(wall / 4)
    } else {
        shortest
    };
    let tokens = points(first, longest, &[wall, wall.saturating_add(64), single]);
    let rows: Vec<[Option<f64>; 5]> = tokens
        .par_iter()
        .map(|t| point(&s, *t, wall))
        .collect::<Result<_>>()?;
    let column = |i: usize| rows.iter().map(|r| r[i]).collect();
    let mut curve = Curve {
        title: words::title(&s),
        subtitle: words::subtitle(&s),
        caption: String::new(),
        in_hbm: column(0),
        engine: column(1),
        stream: column(2),
        staged: column(3),
        host: column(4),
        wall,
        free_until: free_until(&s, &case, wall.min(longest))?,
        tokens,
    };
    if curve.rates().next().is_none() {
        return Err(words::nothing_runs(&case.ledger, shortest));
    }
    curve.caption = words::caption(&s, &curve);
    Ok(curve)
}

/// Refuses ranges that are empty or would take minutes.
fn within_reason(s: &Scenario, shortest: u32, longest: u32) -> Result<()> {
    let shown = |n: u32| group(&n.to_string());
    if longest <= shortest {
        return Err(Error::usage(format!(
            "a curve to {} tokens per request is too short: it begins at prompt + {LEAST} = {}",
            shown(longest),
            shown(shortest)
        ))
        .help(format!("raise --output over {LEAST}")));
    }
    if longest > LONGEST {
        return Err(Error::usage(format!(
            "a curve to {} tokens per request is too long: the limit is {}",
            shown(longest),
            shown(LONGEST)
        ))
        .help("lower --prompt or --output"));
    }
    if u64::from(longest) * u64::from(s.batch) > MOST {
        return Err(Error::usage(format!(
            "a curve of {} requests to {} tokens each is too large: the limit is {} tokens in all",
            shown(s.batch),
            shown(longest),
            group(&MOST.to_string())
        ))
        .help("lower --batch or --output"));
    }
    Ok(())
}

/// Refuses a card whose HBM the fixed parts fill.
fn room(case: &Case, shortest: u32) -> Result<()> {
    if case.ledger.pool() > 0.0 {
        return Ok(());
    }
    Err(words::nothing_runs(&case.ledger, shortest))
}

/// Geometric points, and the places at which a series begins or ends.
fn points(shortest: u32, longest: u32, places: &[u32]) -> Vec<u32> {
    let ratio = f64::from(longest) / f64::from(shortest);
    #[allow(clippy::cast_possible_truncation)] // between shortest and longest
    let at = |i: u32| {
        (f64::from(shortest) * ratio.powf(f64::from(i) / f64::from(POINTS))).round() as u32
    };
    let mut out: Vec<u32> = (0..=POINTS)
        .map(at)
        .chain(places.iter().copied())
        .filter(|t| (shortest..=longest).contains(t))
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The scenario with requests of `tokens` in all under another policy.
fn at(s: &Scenario, tokens: u32, policy: &str) -> Scenario {
    Scenario {
        output: tokens - s.prompt,
        policy: policy.into(),
        ..s.clone()
    }
}

/// Tokens per second without the first prefill; none if it never ends.
fn rate(run: &Run) -> Option<f64> {
    let seconds = run.decode_s();
    let rate = run.tokens as f64 / seconds;
    (!run.makespan.is_never() && rate.is_finite() && rate > 0.0).then_some(rate)
}

/// Tokens per second in HBM, by the engine, streamed, staged, on the host.
fn point(s: &Scenario, tokens: u32, wall: u32) -> Result<[Option<f64>; 5]> {
    let full = Case::new(&at(s, tokens, "full"), &Recordings::default())?;
    let in_hbm = if tokens <= wall {
        rate(&full.run_full()?)
    } else {
        None
    };
    let engine = match full.run_paged(s.batch) {
        Ok(run) => rate(&run),
        Err(e) if cannot_start(&e).is_some() => None,
        Err(e) => return Err(e),
    };
    let modes = [T1Mode::Stream, T1Mode::Staged(None), T1Mode::HostAttention];
    let [stream, staged, host] = if tokens <= wall {
        [in_hbm.filter(|_| tokens == wall); 3]
    } else {
        let mut out = [None; 3];
        for (rate, mode) in out.iter_mut().zip(modes) {
            *rate = tiered(s, tokens, mode)?;
        }
        out
    };
    Ok([in_hbm, engine, stream, staged, host])
}

/// Tokens per second of a T1 mode; none where HBM or host memory is short.
fn tiered(s: &Scenario, tokens: u32, mode: T1Mode) -> Result<Option<f64>> {
    let asked = at(s, tokens, "four-tier:hbm=fit");
    let case = Case::new(&with(&asked, |d| d.t1 = mode), &Recordings::default())?;
    let run = case.run()?;
    let fits = run.peak.hbm.total() <= case.ledger.pool() && run.peak.ddr <= case.ledger.ddr_room();
    Ok(rate(&run).filter(|_| fits))
}

/// Longest request whose T1 at its end streams within one all-in-HBM step at the wall.
fn free_until(s: &Scenario, case: &Case, wall: u32) -> Result<u32> {
    let end = Case::new(
        &at(s, wall.max(s.prompt + 1), "full"),
        &Recordings::default(),
    )?
    .run_full()?;
    let step = end.steps.last().map_or(0.0, |p| p.secs());
    let link = case.prepared.h2d_rate * f64::from(s.deployment.gpus);
    let free = link * step / (f64::from(s.batch) * case.ledger.kv_token.max(1.0));
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    Ok(wall.saturating_add(free as u32))
}
