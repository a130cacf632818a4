//! Steps of the tier loop, predicted from what `calibrate` fitted on single copies and kernels.
//!
//! The recursion is that of the engine ([`Pipeline`]): transfers run ahead by as many layers as there are stages, a layer
//! waits for its own. Its times come from the fitted laws: a layer's attention from `attention`, what it waits for from
//! `copy` (a copy a sequence), from `pieces` for a selection, from `zero_copy` where attention reads in place; a re-tier
//! from passes of kernels over either memory. So what is held against the card is the same composition that a plan rests
//! on, with nothing fitted on any step. Not used: the engine's batch and its service laws, which add the rest of a model,
//! that the loop does not run. Ignored: what a copy takes of a kernel's bandwidth, and what reading host memory in place
//! costs attention beyond the slower of both. Times are microseconds.

use crate::calibrate::cuda::tier_loop::{Mode, SELECTED};
use crate::calibrate::fit::Fits;
use crate::calibrate::law::Lane;
use crate::calibrate::probe::{Direction, Field, Measurement, Part, Point};
use crate::engine::{LayerTimes, Pipeline};
use crate::units::Ps;

/// Tokens of a page.
const PAGE: f64 = 16.0;

/// Pieces from here on are another lane of batched copies \[bytes\].
const CLIFF: f64 = (28 << 10) as f64;

/// Steps of a sample: the first are not counted, those that are.
const STEPS: (usize, usize) = (2, 4);

/// Bytes of a pass that moves nothing: the cost of a launch.
const NOTHING: f64 = 16.0;

/// The predicted time of a part of a point; none where a fit is missing or nothing is predicted.
pub fn predict(fits: &Fits, point: &Point, part: Part) -> Option<f64> {
    let laws = Laws(fits);
    match (point.measurement, part) {
        (Measurement::TierLoop, _) => Step::of(&laws, point)?.part(part),
        (Measurement::Overlap, Part::Compute) => {
            laws.attention(point, "", point.size(Field::Context))
        }
        (Measurement::Overlap, Part::Transfer) => {
            laws.copy("pinned", Direction::Up, point.size(Field::Bytes))
        }
        (Measurement::Overlap, Part::Whole) => {
            let alone = |part| predict(fits, point, part);
            Some(alone(Part::Compute)?.max(alone(Part::Transfer)?))
        }
        (Measurement::AttentionPrefetch, Part::Whole) => {
            let compute = laws.attention(point, "", point.size(Field::Context))?;
            Some(compute.max(laws.brought(point, point.size(Field::Fetched))?))
        }
        _ => None,
    }
}

/// Bytes of a token's keys and values in one layer.
fn token(point: &Point) -> f64 {
    4.0 * point.size(Field::KvHeads) * point.size(Field::HeadDim)
}

/// A size as points have it.
#[allow(clippy::cast_possible_truncation)] // sizes of points are below 2^53
fn whole(x: f64) -> u64 {
    x.max(0.0).round() as u64
}

/// The fitted laws, asked in the loop's words.
struct Laws<'a>(&'a Fits);

impl Laws<'_> {
    fn ask(&self, point: &Point) -> Option<f64> {
        self.0.predict(point, Part::Whole)
    }

    /// A layer's attention of `context` tokens a sequence with its merge, and with scores in mode `scored`.
    fn attention(&self, like: &Point, mode: &str, context: f64) -> Option<f64> {
        self.ask(&headed(Measurement::Attention, mode, like, context))
    }

    /// Bytes a second of it.
    fn attention_rate(&self, like: &Point, mode: &str) -> Option<f64> {
        let point = headed(Measurement::Attention, mode, like, 1.0);
        let lane = Lane::of(&point, Part::Whole).label();
        Some(self.0.parameter(&format!("{lane}.bandwidth"))?.value)
    }

    fn copy(&self, mode: &str, way: Direction, bytes: f64) -> Option<f64> {
        let point = Point::new(Measurement::Copy, mode).going(way);
        self.ask(&point.with(Field::Bytes, whole(bytes)))
    }

    /// `tokens` of every sequence in a layer, whole pages, a copy a sequence.
    fn brought(&self, point: &Point, tokens: f64) -> Option<f64> {
        if tokens <= 0.0 {
            return Some(0.0);
        }
        let bytes = (tokens / PAGE).ceil() * PAGE * token(point);
        Some(point.size(Field::Batch) * self.copy("pinned", Direction::Up, bytes)?)
    }

    /// `count` pages in one call, or one by one.
    fn pages(&self, count: f64, bytes: f64) -> Option<f64> {
        let batch = if bytes < CLIFF {
            "batch"
        } else {
            "batch-large"
        };
        let ask = |mode: &str| {
            let point = Point::new(Measurement::Pieces, mode).going(Direction::Up);
            self.ask(
                &point
                    .with(Field::Bytes, whole(bytes))
                    .with(Field::Pieces, whole(count)),
            )
        };
        ask(batch).or_else(|| ask("loop"))
    }

    /// A kernel that copies `bytes` within device memory.
    fn within(&self, bytes: f64) -> Option<f64> {
        self.ask(&Point::new(Measurement::Hbm, "copy").with(Field::Bytes, whole(bytes)))
    }

    /// A kernel that reads `bytes` of device memory.
    fn read(&self, bytes: f64) -> Option<f64> {
        self.ask(&Point::new(Measurement::Hbm, "read").with(Field::Bytes, whole(bytes)))
    }

    /// A kernel on all multiprocessors that reads or writes `bytes` of host memory.
    fn in_place(&self, mode: &str, way: Direction, bytes: f64) -> Option<f64> {
        let lanes = self.0.lanes().map(|l| &l.lane.point);
        let mine = lanes.filter(|p| p.measurement == Measurement::ZeroCopy && p.mode == mode);
        let threads = mine.filter_map(|p| p.get(Field::Threads)).max()?;
        let point = Point::new(Measurement::ZeroCopy, mode).going(way);
        self.ask(
            &point
                .with(Field::Threads, threads)
                .with(Field::Bytes, whole(bytes)),
        )
    }

    /// The host's attention on all its threads.
    fn host_attention(&self, like: &Point, context: f64) -> Option<f64> {
        let lanes = self.0.lanes().map(|l| &l.lane.point);
        let mine = lanes.filter(|p| p.measurement == Measurement::HostAttention);
        let threads = mine.filter_map(|p| p.get(Field::Threads)).max()?;
        let point = headed(Measurement::HostAttention, "", like, context);
        self.ask(&point.with(Field::Threads, threads))
    }
}

/// A point of attention with another's heads and sequences.
fn headed(measurement: Measurement, mode: &str, like: &Point, context: f64) -> Point {
    let fields = [Field::Batch, Field::KvHeads, Field::Group, Field::HeadDim];
    let size = |p: Point, f: &Field| p.with(*f, like.get(*f).unwrap_or(1));
    let point = fields.iter().fold(Point::new(measurement, mode), size);
    point.with(Field::Context, whole(context))
}

/// A step of the loop: its layers alike.
struct Step {
    layers: f64,
    depth: u32,
    append: f64,
    compute: f64,
    transfer: f64,
    /// What a layer takes where nothing overlaps.
    alone: Option<f64>,
    /// Whether compute and transfer can be told apart.
    apart: bool,
    retier: Option<f64>,
}

impl Step {
    fn of(laws: &Laws<'_>, point: &Point) -> Option<Self> {
        let mode = Mode::of(&point.mode)?;
        let fetched = point.get(Field::Fetched).unwrap_or(0) as f64;
        // Tokens grow by one a step; those that count are around the middle of the sample.
        let context = point.size(Field::Context) + (STEPS.0 + STEPS.1 / 2) as f64;
        let append = point.size(Field::Batch) * point.size(Field::Layers) * token(point);
        let mut step = Self {
            layers: point.size(Field::Layers),
            depth: u32::try_from(point.get(Field::Depth).unwrap_or(1)).unwrap_or(1),
            append: laws.within(append)?,
            compute: 0.0,
            transfer: 0.0,
            alone: None,
            apart: true,
            retier: retier(laws, point),
        };
        let scored = |tokens| laws.attention(point, "scored", tokens);
        match mode {
            Mode::Resident => step.compute = scored(context)?,
            Mode::Stream | Mode::Staged => {
                step.compute = scored(context)?;
                step.transfer = laws.brought(point, fetched)?;
            }
            Mode::Selective => {
                let pages = mode.fetched(whole((fetched / SELECTED / PAGE).ceil())) as f64;
                let seen = context - fetched / SELECTED + pages * PAGE;
                step.compute = laws.attention(point, "", seen)?;
                step.transfer =
                    laws.pages(point.size(Field::Batch) * pages, PAGE * token(point))?;
            }
            Mode::Direct => step.compute = direct(laws, point, context, fetched)?,
            Mode::Serial => {
                step.compute = scored(context)?;
                step.transfer = laws.brought(point, fetched)?;
                step.alone = Some(step.compute + step.transfer + 2.0 * resubmit(laws)?);
            }
            Mode::HostAttention => {
                step.alone = on_host(laws, point, context, fetched);
                step.apart = false;
            }
        }
        Some(step)
    }

    fn part(&self, part: Part) -> Option<f64> {
        match part {
            Part::Step => Some(self.step()).filter(|_| self.apart || self.alone.is_some()),
            Part::Compute => Some(self.layers * self.compute).filter(|_| self.apart),
            Part::Transfer => Some(self.layers * self.transfer).filter(|t| self.apart && *t > 0.0),
            Part::Retier => self.retier,
            // What is left of two large numbers is no test of either.
            Part::Exposed | Part::Whole => None,
        }
    }

    /// Mean over the steps that count.
    fn step(&self) -> f64 {
        if let Some(layer) = self.alone {
            return self.append + self.layers * layer;
        }
        let ps = |us: f64| Ps::from_secs(us * 1e-6);
        let layer = LayerTimes {
            compute: ps(self.compute),
            transfer: ps(self.transfer),
        };
        let order = vec![0; usize::try_from(whole(self.layers)).unwrap_or(0)];
        let mut pipeline = Pipeline::new(self.depth, 1.0);
        let mut ends = vec![Ps::ZERO];
        for _ in 0..STEPS.0 + STEPS.1 {
            let begin = ends[ends.len() - 1] + ps(self.append);
            ends.push(pipeline.pass(begin, &order, &[layer]).end);
        }
        let counted = ends[ends.len() - 1].saturating_sub(ends[STEPS.0]);
        counted.secs() * 1e6 / STEPS.1 as f64
    }
}

/// What a host adds between waiting for one thing and asking for the next.
fn resubmit(laws: &Laws<'_>) -> Option<f64> {
    let bytes = f64::from(1 << 20);
    let cost = |mode| laws.copy(mode, Direction::Up, bytes);
    Some((cost("synchronous")? - cost("pinned")?).max(0.0))
}

/// Attention that reads `fetched` tokens in place: as all in device memory, but those over the link, beside what the kernel
/// does there: the other tokens and, for scores, the logits that it writes.
fn direct(laws: &Laws<'_>, point: &Point, context: f64, fetched: f64) -> Option<f64> {
    let bytes = point.size(Field::Batch) * fetched * token(point);
    let (plain, scored) = (
        laws.attention(point, "", context)?,
        laws.attention(point, "scored", context)?,
    );
    let spared = bytes / laws.attention_rate(point, "")? * 1e6;
    let launch = laws.within(NOTHING)?;
    let queries = point.size(Field::KvHeads) * point.size(Field::Group);
    // Scores are read by a kernel of their own; what they cost beyond that is the logits' way out of the first.
    let read = laws.read(4.0 * point.size(Field::Batch) * queries * context)?;
    let written = (scored - plain - read).max(0.0);
    // Attention alone is what is left without its own launch, and the merge's.
    let own = plain - spared - 2.0 * launch + written;
    let link = laws.in_place("read", Direction::Up, bytes)? - launch;
    Some(scored - spared + (link - own).max(0.0))
}

/// Attention on the device beside queries down, attention on the host and outputs up; then outputs are laid down and merged.
fn on_host(laws: &Laws<'_>, point: &Point, context: f64, fetched: f64) -> Option<f64> {
    let numbers = point.size(Field::Batch)
        * point.size(Field::KvHeads)
        * point.size(Field::Group)
        * point.size(Field::HeadDim);
    let launch = laws.within(NOTHING)?;
    let device = laws.attention(point, "", context - fetched)? - launch;
    let host = laws.copy("pinned", Direction::Down, 2.0 * numbers)?
        + laws.host_attention(point, fetched)?
        + laws.copy("pinned", Direction::Up, 4.0 * numbers)?;
    Some(device.max(host) + 2.0 * launch)
}

/// Gathering and writing what changes sides, one kernel each way and side.
fn retier(laws: &Laws<'_>, point: &Point) -> Option<f64> {
    let moved = point.get(Field::Pieces).unwrap_or(0) as f64;
    let host = point.get(Field::Fetched).unwrap_or(0) > 0;
    let bytes = point.size(Field::Batch) * moved * point.size(Field::Layers) * token(point);
    let both = 2.0 * laws.within(bytes)?
        + laws.in_place("read", Direction::Up, bytes)?
        + laws.in_place("write", Direction::Down, bytes)?;
    Some(both).filter(|_| host && moved > 0.0)
}
