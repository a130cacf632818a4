//! The loop in every mode held against attention over everything in device memory, and that against a plain loop.
//!
//! A recorded trace under the published policy, two sequences of different length, two layers, across re-tiers. Exact modes
//! must give the outputs of the resident run, step by step and layer by layer, up to the rounding of weights to binary16;
//! their scores too. A selection is held against a plain loop over the tokens that it saw, and so are some rows of the
//! resident run, which anchors the rest. All steps of a turn run without the host looking, so that copies may overtake
//! computing as far as they can: a wait that is missing shows as wrong numbers.

use super::super::attend::Heads;
use super::super::gpu::Gpu;
use super::super::nvml::Watch;
use super::super::rig::{LEAST, Rig};
use super::content;
use super::mode::Mode;
use super::plan::{INTERVAL, Plan};
use super::run::Loop;
use super::shape::Shape;
use crate::error::{Error, Result};
use crate::trace::Rows;

/// The policy that is carried out.
pub const POLICY: &str = "four-tier:hbm=0.4,protect=sinks";

/// First step of the loop before a decision of the trace.
const BEFORE: u32 = 8;

/// Row of the trace at which the first sequence's second turn begins.
const ROW: u32 = 5 * INTERVAL;

/// Steps after the last re-tier.
const AFTER: u32 = 8;

/// Greatest difference of outputs, whose values are of magnitude 1: twice the rounding of weights to binary16 (2^-11).
const OUT: f64 = 1e-3;

/// Greatest relative difference of scores.
const SCORE: f64 = 2e-3;

/// How a mode compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// The mode.
    pub mode: Mode,
    /// Outputs that were compared.
    pub outputs: u64,
    /// Greatest difference.
    pub out: f64,
    /// Greatest relative difference of scores, where it gathers any.
    pub score: Option<f64>,
}

/// What a run left.
struct Left {
    /// Outputs by step, layer, sequence, query head, number.
    out: Vec<f32>,
    /// Scores by sequence and position.
    score: Vec<f32>,
    /// Against the plain loop, where it was run: greatest difference and how many numbers.
    plain: (f64, u64),
}

fn shape(rows: &dyn Rows, mode: Mode, retiers: u32) -> Result<Shape> {
    let plan = |number| Plan::recorded(rows, POLICY, ROW - BEFORE, number);
    Ok(Shape {
        heads: Heads {
            kv: 2,
            group: 4,
            dim: 64,
        },
        layers: 2,
        depth: if mode == Mode::Stream { 3 } else { 2 },
        mode,
        plans: vec![plan(0)?, plan(1)?],
        steps: steps(retiers),
        apart: steps(retiers),
    })
}

fn steps(retiers: u32) -> u32 {
    BEFORE + retiers.saturating_sub(1) * INTERVAL + AFTER
}

/// Rows that are computed by the plain loop: all of a selection, of others those of the last step of each turn.
fn plainly(mode: Mode, step: u32, last: u32) -> bool {
    match mode {
        Mode::Selective => step.is_multiple_of(4) || step + 1 == last,
        Mode::Resident => step + 1 == last,
        _ => false,
    }
}

fn run(rig: &Rig, shape: &Shape) -> Result<Left> {
    let mut looped = Loop::new(rig, shape)?;
    content::fill(rig, shape, &looped.store)?;
    let mut left = Left {
        out: Vec::new(),
        score: Vec::new(),
        plain: (0.0, 0),
    };
    let h = shape.heads;
    let each = (shape.layers * shape.batch() * h.queries() * h.dim) as usize;
    let mut ready = |l: &Loop<'_>, first, last| content::script(rig, shape, &l.store, first, last);
    let mut done = |l: &Loop<'_>, first: u32, last: u32| {
        let at = l.store.out + u64::from(first) * each as u64 * 4;
        let out: Vec<f32> = rig.take(at, (last - first) as usize * each)?;
        for step in (first..last).filter(|s| plainly(shape.mode, *s, last)) {
            let mine = &out[(step - first) as usize * each..][..each];
            compare_plain(l, step, mine, &mut left.plain);
        }
        left.out.extend(out);
        Ok(())
    };
    looped.run(None, &mut ready, &mut done)?;
    if let Some(s) = looped.store.board.scores {
        left.score = rig.take(s.score, (shape.batch() * s.score_stride) as usize)?;
    }
    Ok(left)
}

/// Holds a step's outputs against the plain loop, one layer and one head of a group at a time in turn.
fn compare_plain(l: &Loop<'_>, step: u32, out: &[f32], worst: &mut (f64, u64)) {
    let h = l.shape.heads;
    let layer = u64::from(step) % l.shape.layers;
    for seq in 0..l.shape.batch() {
        let seen = content::seen(&l.store, l.shape, seq as usize, step);
        for head in (u64::from(step) % h.group..h.queries()).step_by(h.group as usize) {
            let want = content::plain(&h, (seq, layer, head, step), &seen);
            let row = ((layer * l.shape.batch() + seq) * h.queries() + head) * h.dim;
            for (x, want) in out[row as usize..].iter().zip(&want) {
                worst.0 = far(worst.0, (f64::from(*x) - want).abs());
                worst.1 += 1;
            }
        }
    }
}

/// The greater of two, of which no number is the greatest.
fn far(a: f64, b: f64) -> f64 {
    if b.is_nan() || a.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

fn greatest(pairs: impl Iterator<Item = f64>) -> f64 {
    pairs.fold(0.0, far)
}

fn compared(mode: Mode, left: &Left, resident: &Left) -> Checked {
    if mode == Mode::Selective {
        let (out, outputs) = left.plain;
        return Checked {
            mode,
            outputs,
            out,
            score: None,
        };
    }
    let pairs = left.out.iter().zip(&resident.out);
    let scores = left.score.iter().zip(&resident.score);
    let relative = |(a, b): (&f32, &f32)| f64::from((a - b).abs()) / (f64::from(*b) + 1e-3);
    Checked {
        mode,
        outputs: left.out.len().min(resident.out.len()) as u64,
        out: greatest(pairs.map(|(a, b)| f64::from((a - b).abs()))),
        score: mode.scores().then(|| greatest(scores.map(relative))),
    }
}

fn judged(c: Checked) -> Result<Checked> {
    let out = c.outputs > 0 && c.out <= OUT;
    let score = c.score.is_none_or(|s| s <= SCORE);
    if out && score {
        return Ok(c);
    }
    let (mode, off) = (c.mode.word(), c.out);
    let score = c.score.map_or(String::new(), |s| {
        format!(", its scores by {s:.2e} (bar {SCORE:e})")
    });
    Err(Error::internal(format!(
        "the tier loop in mode {mode} computes something else than attention over everything: \
         its outputs are off by {off:.2e} (bar {OUT:e}){score}"
    ))
    .help("run the checks of calibration/gpu.sh, and `nvidia-smi -q` for errors of memory"))
}

/// Runs the loop in every mode across `retiers` re-tiers over the rows of a trace and compares.
///
/// # Errors
/// Internal: a mode computes something else. Device: it cannot be run. Data: damage in the rows.
pub fn check(gpu: &Gpu, rows: &dyn Rows, retiers: u32) -> Result<Vec<Checked>> {
    let watch = Watch::new(&gpu.bus);
    let rig = &Rig::new(gpu.clone(), &watch, LEAST, None)?;
    let one = |mode| shape(rows, mode, retiers).and_then(|s| run(rig, &s));
    let resident = one(Mode::Resident)?;
    let (out, outputs) = resident.plain;
    let first = Checked {
        mode: Mode::Resident,
        outputs,
        out,
        score: None,
    };
    let mut all = vec![judged(first)?];
    for mode in Mode::ALL {
        all.push(judged(compared(mode, &one(mode)?, &resident))?);
    }
    Ok(all)
}
