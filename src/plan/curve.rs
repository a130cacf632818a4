//! How far and how fast: tokens per request against tokens per second on one card.
//!
//! One whole run a point and mode: requests of that length, prompt as asked, the rest output. The wall is where
//! everything in HBM ends; between the wall and `free_until` streaming moves no more than the link carries during a step.

use rayon::prelude::*;

use super::recordings::Recordings;
use super::run::{Case, cannot_start, with};
use crate::deploy::T1Mode;
use crate::error::{Error, Result};
use crate::scenario::{Occupancy, Scenario};

/// One series over the points of a curve; `None` where it cannot run.
pub type Series = Vec<Option<f64>>;

/// Tokens per second by tokens per request.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What is plotted, for the caption.
    pub title: String,
    /// Settings, for the caption.
    pub subtitle: String,
    /// Tokens per request of each point (prompt and output).
    pub tokens: Vec<u32>,
    /// Everything in HBM, up to the wall.
    pub in_hbm: Series,
    /// The engine as it is: preempts and recomputes past the wall.
    pub engine: Series,
    /// T1 streamed.
    pub stream: Series,
    /// T1 attended to on the host.
    pub host: Series,
    /// Tokens a request holds with everything in HBM.
    pub wall: u32,
    /// Tokens a request may have while its T1 streams for free at its end.
    pub free_until: u32,
}

/// Points of the curve.
const POINTS: u32 = 40;

/// The curve of a scenario's card, up to `longest` tokens per request.
///
/// # Errors
/// Usage, if the weights leave no room or `longest` is not over the prompt.
pub fn curve(scenario: &Scenario, longest: u32) -> Result<Curve> {
    let s = Scenario {
        occupancy: Occupancy::Lockstep,
        ..scenario.clone()
    };
    let shortest = s.prompt + 256;
    if longest <= shortest {
        return Err(Error::usage(format!(
            "the longest request ({longest} tokens) must be over prompt + 256 ({shortest})"
        ))
        .help("raise --output"));
    }
    let case = Case::new(&at(&s, longest, "full"), &Recordings::default())?;
    let wall = case.ledger.holds(s.batch, u32::MAX / 4);
    let tokens = points(shortest, longest, wall);
    let rows: Vec<[Option<f64>; 4]> = tokens
        .par_iter()
        .map(|t| point(&s, *t, wall))
        .collect::<Result<_>>()?;
    let column = |i: usize| rows.iter().map(|r| r[i]).collect();
    let d = &s.deployment;
    Ok(Curve {
        title: format!("{} on {}, batch {}", d.model.name, d.hardware.name, s.batch),
        subtitle: format!(
            "weights {}, KV {}, prompt {}, link {}, host DDR {} ({})",
            d.weights,
            d.kv,
            crate::units::text::group(&s.prompt.to_string()),
            d.hardware.link.h2d.show(),
            d.hardware.host.ddr_read.show(),
            if d.hardware.calibrated.is_some() {
                "calibrated"
            } else {
                "not calibrated"
            },
        ),
        in_hbm: column(0),
        engine: column(1),
        stream: column(2),
        host: column(3),
        wall,
        free_until: free_until(&s, &case, wall)?,
        tokens,
    })
}

/// Geometric points, with the wall itself and the first step past it.
fn points(shortest: u32, longest: u32, wall: u32) -> Vec<u32> {
    let ratio = f64::from(longest) / f64::from(shortest);
    #[allow(clippy::cast_possible_truncation)] // between shortest and longest
    let mut out: Vec<u32> = (0..=POINTS)
        .map(|i| {
            (f64::from(shortest) * ratio.powf(f64::from(i) / f64::from(POINTS))).round() as u32
        })
        .chain([wall, wall.saturating_add(64)])
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

/// Tokens per second in HBM, by the engine, streamed, on the host.
fn point(s: &Scenario, tokens: u32, wall: u32) -> Result<[Option<f64>; 4]> {
    let full = Case::new(&at(s, tokens, "full"), &Recordings::default())?;
    let rate = |run: &crate::engine::Run| {
        run.tokens as f64 / run.makespan.saturating_sub(run.prefill).secs()
    };
    let in_hbm = if tokens <= wall {
        Some(rate(&full.run_full()?))
    } else {
        None
    };
    let engine = match full.run_paged(s.batch) {
        Ok(run) => Some(rate(&run)),
        Err(e) if cannot_start(&e).is_some() => None,
        Err(e) => return Err(e),
    };
    let tiered = |t1: T1Mode| -> Result<Option<f64>> {
        if tokens <= wall {
            return Ok(None);
        }
        let case = Case::new(
            &with(&at(s, tokens, "four-tier:hbm=fit"), |d| d.t1 = t1),
            &Recordings::default(),
        )?;
        let run = case.run()?;
        Ok((run.peak.hbm.total() <= case.ledger.pool()).then(|| rate(&run)))
    };
    Ok([
        in_hbm,
        engine,
        tiered(T1Mode::Stream)?,
        tiered(T1Mode::HostAttention)?,
    ])
}

/// Longest request whose T1 at its end streams within one all-in-HBM step.
fn free_until(s: &Scenario, case: &Case, wall: u32) -> Result<u32> {
    let link = case.prepared.h2d_rate * f64::from(s.deployment.gpus);
    let end = Case::new(
        &at(s, wall.clamp(s.prompt + 1, u32::MAX / 4), "full"),
        &Recordings::default(),
    )?
    .run_full()?;
    let step = end.steps.last().map_or(0.0, |p| p.secs());
    let free = link * step / (f64::from(s.batch) * case.ledger.kv_token.max(1.0));
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    Ok(wall.saturating_add(free as u32))
}
