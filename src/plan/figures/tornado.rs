//! What moves the speed of a deployment: one cause alone from its p5 to its p95.

use super::{Words, calibration, deployment};
use crate::error::{Cause, Error, Result};
use crate::hardware::Source;
use crate::metrics::Intervals;
use crate::plan::recordings::Recordings;
use crate::plan::run::{Case, simulate};
use crate::plan::uncertain::closed::Closed;
use crate::plan::uncertain::{tornado as swings, unknown};
use crate::plan::ways::How;
use crate::scenario::{Scenario, TraceRef};
use crate::uncertain::{FULL, Level};

/// Bars of the figure at most.
pub const BARS: usize = 14;

/// One cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its name in results.
    pub cause: String,
    /// Where its width comes from.
    pub source: Source,
    /// Output tokens per second with it at its p5 and at its p95.
    pub ends: [f64; 2],
}

/// The figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Tornado {
    /// Its words.
    pub words: Words,
    /// Output tokens per second at the best estimates.
    pub value: f64,
    /// p5 and p95 of all causes together.
    pub all: [f64; 2],
    /// Widest first.
    pub bars: Vec<Bar>,
}

/// Moves every cause of the scenario alone, and all of them together.
///
/// # Errors
/// As `simulate`; infeasible: a deployment that does not fit has no speed to move.
pub fn tornado(base: &Scenario) -> Result<Tornado> {
    let s = Scenario {
        trace: TraceRef::None,
        intervals: Level::Full,
        ..base.in_lockstep()
    };
    let out = simulate(&s)?;
    let Some(value) = out.throughput.output_tokens_per_s.filter(|v| *v > 0.0) else {
        return Err(Error::new(
            Cause::Infeasible,
            "the deployment does not fit, so that there is no speed to move",
        )
        .help("a smaller --batch or --output, or --policy four-tier:hbm=fit; `kvplan simulate` says what is missing"));
    };
    let case = Case::new(&s, &Recordings::default())?;
    let closed = Closed::new(
        How::Static,
        &s,
        &case,
        out.memory.ddr_peak_bytes as f64,
        false,
    )?;
    let bars = swings(&unknown(&s), &closed, Some(value));
    let all = out.intervals.as_ref().and_then(together);
    Ok(Tornado {
        words: words(&s),
        value,
        all: all.unwrap_or([value; 2]),
        bars: bars
            .into_iter()
            .take(BARS)
            .map(|b| Bar {
                ends: [b.output_tokens_per_s_at_p5, b.output_tokens_per_s_at_p95],
                cause: b.cause,
                source: b.source,
            })
            .collect(),
    })
}

fn together(i: &Intervals) -> Option<[f64; 2]> {
    Some([i.output_tokens_per_s_p5?, i.output_tokens_per_s_p95?])
}

fn words(s: &Scenario) -> Words {
    Words {
        title: "What moves the speed".into(),
        subtitle: format!(
            "{}, {}, t1 {}",
            deployment(s),
            s.policy,
            s.deployment.t1.word()
        ),
        caption: format!(
            "Output tokens/s with one cause alone at its p5 (hatched) and at its p95 (plain), all others at their best estimates, widest \
             first. Band: p5 to p95 of {} draws of all causes together, seed {}. A residual is how far measurements lie about a \
             law of an operation, or servers about the sum of their parts. Lockstep, counts from lengths; {}.",
            crate::units::text::group(&FULL.to_string()),
            s.seed,
            calibration(s)
        ),
    }
}
