//! The price of a GiB: throughput kept against HBM saved, one line a link.
//!
//! Along a line the share kept in HBM falls from all to nothing. Host memory is taken to be as fast as the link, so that a
//! line is of the link alone. The published point (48 GiB at 5 to 7 % loss) is drawn where the deployment can save as much,
//! with the link that T1 would need in the time of a step. Even an infinite link loses something: what streams is written to
//! HBM and read from it once more.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Words, calibration, deployment};
use crate::error::Result;
use crate::plan::run::{simulate, with};
use crate::scenario::{Scenario, TraceRef};
use crate::units::GIB;

/// Links of the figure (bytes/s).
pub const LINKS: [f64; 4] = [25e9, 55e9, 337e9, f64::INFINITY];

/// Shares of the unprotected cache kept in HBM, in percent, along a line.
const KEPT: [u32; 14] = [100, 98, 96, 93, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0];

/// Shares that get a tick (%).
pub const TICKS: [u32; 3] = [70, 50, 30];

/// Saving (bytes) and throughput kept of the published point: 48 GiB at the middle of 5 to 7 %.
const PUBLISHED: (f64, f64) = (48.0 * GIB, 0.94);

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Share of the unprotected cache in HBM (%).
    pub in_hbm: u32,
    /// HBM saved by moving, staging taken off (bytes).
    pub saved: f64,
    /// Tokens per second over those of the full cache.
    pub kept: f64,
}

/// A published figure that no line reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// HBM saved (bytes).
    pub saved: f64,
    /// Throughput kept.
    pub kept: f64,
    /// Link that reading T1 in the time of a step would take (bytes/s).
    pub link: f64,
}

/// Lines of the figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Its words.
    pub words: Words,
    /// One line a link of [`LINKS`]; points that do not fit the card are left out.
    pub lines: Vec<Vec<Point>>,
    /// The published point, if the deployment can save as much.
    pub published: Option<Published>,
}

/// Runs the lines.
///
/// # Errors
/// As [`simulate`].
pub fn price(base: &Scenario) -> Result<Price> {
    let base = Scenario {
        trace: TraceRef::None,
        ..base.in_lockstep()
    };
    let grid: Vec<(f64, u32)> = LINKS
        .iter()
        .flat_map(|l| KEPT.iter().map(move |k| (*l, *k)))
        .collect();
    let points = grid
        .par_iter()
        .map(|(link, kept)| point(&base, *link, *kept))
        .collect::<Result<Vec<Option<Point>>>>()?;
    let lines: Vec<Vec<Point>> = points
        .chunks(KEPT.len())
        .map(|line| line.iter().flatten().copied().collect())
        .collect();
    let published = published(&base, &lines)?;
    Ok(Price {
        words: words(&base, published.is_some()),
        lines,
        published,
    })
}

/// The scenario with another link, and host memory as fast as it.
fn on_link(base: &Scenario, rate: f64, kept: u32) -> Scenario {
    let mut s = with(base, |d| {
        let h = Arc::make_mut(&mut d.hardware);
        h.host.ddr_read = h.host.ddr_read.scaled(f64::INFINITY);
        h.link.h2d = h.link.h2d.scaled(rate / h.link.h2d.get());
        h.link.d2h = h.link.d2h.scaled(rate / h.link.d2h.get());
    });
    s.policy = format!("four-tier:hbm={}", f64::from(kept) / 100.0);
    s
}

fn point(base: &Scenario, link: f64, kept: u32) -> Result<Option<Point>> {
    let o = simulate(&on_link(base, link, kept))?;
    let rates = o
        .throughput
        .output_tokens_per_s
        .zip(o.throughput.full_cache_output_tokens_per_s);
    Ok(rates.map(|(rate, full)| Point {
        in_hbm: kept,
        saved: o.memory.hbm_saved_moved_bytes as f64,
        kept: rate / full,
    }))
}

/// The published point, with the link on which a step's T1 crosses in the time of the step without it (DESIGN 5.3).
fn published(base: &Scenario, lines: &[Vec<Point>]) -> Result<Option<Published>> {
    let (saved, kept) = PUBLISHED;
    let reaches = |p: &&Point| p.saved >= saved;
    let Some(point) = lines.last().and_then(|l| l.iter().find(reaches)) else {
        return Ok(None);
    };
    let o = simulate(&on_link(base, f64::INFINITY, point.in_hbm))?;
    let steps = o.throughput.full_cache_output_tokens_per_s;
    Ok(steps.map(|rate| Published {
        saved,
        kept,
        link: saved * rate / f64::from(base.batch),
    }))
}

fn words(base: &Scenario, published: bool) -> Words {
    let point = if published {
        "Hollow: the published point. Even an infinite link loses: what streams is written to HBM and read once more. "
    } else {
        "The published 48 GiB at 5 to 7 % loss is more than this deployment can save. "
    };
    Words {
        title: "The price of a GiB: throughput kept against HBM saved".into(),
        subtitle: deployment(base),
        caption: format!(
            "One line a link, host memory as fast as the link; along it the share of the unprotected cache in HBM falls to 0, \
             ticks at 70, 50 and 30 %. {point}T1 mode {}, overlap {}, nothing destroyed; staging and spare pages taken off. \
             Lockstep, counts from lengths, n = 1; {}.",
            base.deployment.t1.word(),
            match base.deployment.overlap {
                crate::deploy::Overlap::Serial => "serial",
                crate::deploy::Overlap::Layer => "layer",
            },
            calibration(base)
        ),
    }
}
