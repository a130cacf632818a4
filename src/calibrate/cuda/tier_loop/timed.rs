//! A point of the tier loop, timed: a few steps, a re-tier, a few more.
//!
//! The first steps fill the link's lead and are not counted; the mean of the others is a sample's step. The re-tier moves
//! as many tokens each way as the point says, and is timed by itself. Where a mode keeps tokens in a buffer or fetches only
//! some, `fetched` is what crosses the link; the host has more.

use super::super::attend::Heads;
use super::super::rig::Rig;
use super::mode::{Mode, SELECTED, STAGED};
use super::plan::Plan;
use super::run::Loop;
use super::shape::Shape;
use crate::calibrate::probe::{Field, Part, Point, Reading};
use crate::error::{Error, Result};

/// Steps before those that count.
const LEAD: u32 = 2;

/// Steps that count.
const COUNTED: u32 = 4;

/// Steps after the re-tier.
const AFTER: u32 = 1;

/// What a point runs.
pub(in super::super) fn shape(point: &Point) -> Result<Shape> {
    let mode = Mode::of(&point.mode)
        .ok_or_else(|| Error::internal(format!("no mode called `{}`", point.mode)))?;
    let size = |f| point.get(f).unwrap_or(1);
    let fetched = point.get(Field::Fetched).unwrap_or(0) as f64;
    let host = match mode {
        Mode::Staged => fetched / (1.0 - STAGED),
        Mode::Selective => fetched / SELECTED,
        _ => fetched,
    } as u32;
    let moved = point.get(Field::Pieces).unwrap_or(0) as u32;
    let plan = |seq| {
        Plan::drawn(
            size(Field::Context) as u32,
            host,
            moved,
            LEAD + COUNTED,
            seq,
        )
    };
    Ok(Shape {
        heads: Heads::of(point),
        layers: size(Field::Layers),
        depth: size(Field::Depth),
        mode,
        plans: (0..size(Field::Batch)).map(plan).collect(),
        steps: LEAD + COUNTED + AFTER,
        apart: 1,
    })
}

/// Bytes of device and pinned memory that a point takes.
pub(in super::super) fn needs(point: &Point, sms: u32) -> Result<(u64, u64)> {
    Ok(shape(point)?.bytes(sms))
}

/// One sample.
pub(in super::super) fn sample(rig: &Rig, point: &Point) -> Result<Vec<Reading>> {
    let shape = shape(point)?;
    let mut looped = Loop::new(rig, &shape)?;
    looped.run(Some(LEAD), &mut |_, _, _| Ok(()), &mut |_, _, _| Ok(()))?;
    let times = looped.times()?;
    let mean = |of: &dyn Fn(&super::marks::StepTime) -> f64| {
        times.iter().map(of).sum::<f64>() / times.len().max(1) as f64
    };
    let (step, compute, transfer) = (
        mean(&|t| t.step),
        mean(&|t| t.compute),
        mean(&|t| t.transfer),
    );
    let mut out = vec![(Part::Step, step), (Part::Retier, looped.retier_time()?)];
    if shape.mode != Mode::HostAttention {
        // Nothing waits for less than the clock can tell.
        let exposed = (step - compute - mean(&|t| t.append)).max(1e-3);
        out.extend([(Part::Compute, compute), (Part::Exposed, exposed)]);
    }
    if shape.mode.copied() {
        out.push((Part::Transfer, transfer));
    }
    Ok(out
        .into_iter()
        .map(|(part, us)| Reading { part, us })
        .collect())
}
