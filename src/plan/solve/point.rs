//! One point of a search: a run, its figures, and which limits it breaks.

use super::answer::{Given, Point};
use crate::engine::Run;
use crate::error::{Cause, Result};
use crate::hardware::Pool;
use crate::memory::Ledger;
use crate::metrics::serving::Serving;
use crate::plan::outcome::p99;
use crate::plan::recordings::Recordings;
use crate::plan::run::Case;
use crate::plan::{run, served};
use crate::scenario::Scenario;
use crate::units::Bytes;
use crate::units::text::{show_bytes_apart, show_seconds_apart};

/// Bytes that rounding may take of a limit on HBM.
const ROUNDING: f64 = 4096.0;

/// What has to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// 99th percentile of the time per output token (s).
    pub tpot_p99: Option<f64>,
    /// 99th percentile of the time to the first token (s).
    pub ttft_p99: Option<f64>,
    /// HBM in use, over all GPUs.
    pub max_hbm: Option<Bytes>,
    /// Host memory in use.
    pub max_ddr: Option<Bytes>,
    /// What a GPU costs an hour (USD).
    pub price: Option<f64>,
}

impl Limits {
    /// Those of an answer.
    pub fn of(given: &Given) -> Self {
        Self {
            tpot_p99: given.tpot_p99_s,
            ttft_p99: given.ttft_p99_s,
            max_hbm: given.max_hbm_bytes.map(Bytes),
            max_ddr: given.max_ddr_bytes.map(Bytes),
            price: given.price_usd_per_gpu_hour,
        }
    }

    /// The scenario with no more HBM than may be used, so that what fits to memory fits to that.
    pub(super) fn within(&self, s: &Scenario) -> Scenario {
        let mut out = s.clone();
        let d = &mut out.deployment;
        if let Some(most) = self.max_hbm.filter(|_| d.runtime.pool == Pool::OfTotal) {
            let each = most.as_f64() / f64::from(d.gpus) / d.memory_fraction;
            let spare = Bytes::ceil(d.hardware.gpu.memory.get() - each);
            d.vram_reserve = d.vram_reserve.max(spare);
        }
        out
    }
}

/// A point that was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tried {
    tpot_p99: Option<f64>,
    ttft_p99: Option<f64>,
    /// HBM at its largest (bytes).
    pub(super) hbm_peak: Option<f64>,
    ddr_peak: Option<f64>,
    /// Output tokens per second, prefill included.
    pub(super) output_tokens_per_s: Option<f64>,
    preemptions: u64,
    /// Most requests in the batch, of a load.
    pub(super) together: Option<u32>,
    /// Limits it breaks: the word, and the sentence.
    pub(super) broken: Vec<(&'static str, String)>,
}

impl Tried {
    /// Whether it keeps to all limits.
    pub(super) fn ok(&self) -> bool {
        self.broken.is_empty()
    }

    /// As it is told.
    pub(super) fn shown(&self, value: f64) -> Point {
        let bytes = |b: f64| Bytes::ceil(b).0;
        Point {
            value,
            keeps: self.ok(),
            tpot_p99_s: self.tpot_p99,
            ttft_p99_s: self.ttft_p99,
            hbm_peak_bytes: self.hbm_peak.map(bytes),
            ddr_peak_bytes: self.ddr_peak.map(bytes),
            output_tokens_per_s: self.output_tokens_per_s,
            preemptions: self.preemptions,
            broken: self.broken.iter().map(|b| b.1.clone()).collect(),
        }
    }

    pub(super) fn refused(why: String) -> Self {
        Self {
            broken: vec![("cannot-run", why)],
            ..Self::default()
        }
    }
}

/// Runs a point. What cannot be run at all breaks a limit of its own.
pub(super) fn run(s: &Scenario, traces: &Recordings, limits: &Limits) -> Result<Tried> {
    run::check_size(
        s,
        s.load.is_none() && s.occupancy != crate::scenario::Occupancy::Lockstep,
    )?;
    // Each point has placements of its own, which nobody asks for again.
    let case = Case::new(s, &traces.aside())?;
    if let Some(why) = hopeless(&case, limits) {
        return Ok(why);
    }
    let tried = match &case.scenario.load {
        None => case.run().map(|r| of_batch(&case, &r)),
        Some(load) => case.serve(load, None).map(|served| {
            let seen = served::serving(&case, load, &served);
            of_load(&case, &served.run, &seen)
        }),
    };
    match tried {
        Ok(tried) => Ok(judged(tried, &case, limits)),
        Err(e) if e.cause == Cause::Infeasible => Ok(Tried::refused(e.message)),
        Err(e) => Err(e),
    }
}

/// Whether it is the limit that keeps a run from more HBM, and not the card or what is reserved of it: what may be used is then
/// the limit but for rounding.
fn limit_binds(l: &Ledger, limits: &Limits) -> bool {
    let own = |most: Bytes| l.capacity.as_f64() + ROUNDING >= most.as_f64();
    limits.max_hbm.is_some_and(own)
}

/// A card on which not even the fixed parts fit.
fn hopeless(case: &Case, limits: &Limits) -> Option<Tried> {
    let l = &case.ledger;
    if l.pool() > 0.0 {
        return None;
    }
    let fixed = l.weights + l.activation + l.reserve;
    let word = if limit_binds(l, limits) {
        "max-hbm"
    } else {
        "hbm-capacity"
    };
    let (needed, may) = show_bytes_apart(fixed, l.capacity);
    let why =
        format!("weights, activations and reserve alone are {needed}, of {may} that may be used");
    Some(Tried {
        broken: vec![(word, why)],
        ..Tried::default()
    })
}

fn peaks(case: &Case, run: &Run) -> Tried {
    let l = &case.ledger;
    let fixed = l.weights + l.activation + l.reserve;
    Tried {
        hbm_peak: Some(fixed.as_f64() + run.peak.hbm.total()),
        ddr_peak: Some(l.ddr_in_use(run.peak.ddr)),
        preemptions: run.preemptions,
        ..Tried::default()
    }
}

/// A static batch: the last prompt to be prefilled waits for all others, and for the first step.
fn of_batch(case: &Case, run: &Run) -> Tried {
    let never = run.makespan.is_never();
    let first = run.steps.first().map_or(0.0, |s| s.secs());
    let time = |t: f64| Some(if never { f64::INFINITY } else { t });
    Tried {
        tpot_p99: p99(run).and_then(time),
        ttft_p99: time(run.prefill.secs() + first),
        output_tokens_per_s: (!never).then(|| run.tokens as f64 / run.makespan.secs()),
        ..peaks(case, run)
    }
}

fn of_load(case: &Case, run: &Run, seen: &Serving) -> Tried {
    Tried {
        tpot_p99: seen.tpot.p99_s,
        ttft_p99: seen.ttft.p99_s,
        output_tokens_per_s: Some(seen.output_tokens_per_s),
        together: Some(seen.running_max),
        ..peaks(case, run)
    }
}

/// Adds the limits that it breaks: memory of the card first, since without it nothing runs.
fn judged(mut t: Tried, case: &Case, limits: &Limits) -> Tried {
    let l = &case.ledger;
    let mut memory = |word, used: Option<f64>, most: Option<f64>, what: &str| {
        if let (Some(used), Some(most)) = (used, most)
            && used > most
        {
            let (used, most) = show_bytes_apart(Bytes::ceil(used), Bytes::ceil(most));
            let why = format!("{what} of {used} over the {most} that may be used");
            t.broken.push((word, why));
        }
    };
    let (hbm, ddr) = (t.hbm_peak, t.ddr_peak);
    let asked = |b: Option<Bytes>| b.map(Bytes::as_f64);
    memory("max-hbm", hbm, asked(limits.max_hbm), "HBM");
    memory("max-ddr", ddr, asked(limits.max_ddr), "host memory");
    if !limit_binds(l, limits) {
        memory("hbm-capacity", hbm, Some(l.capacity.as_f64()), "HBM");
    }
    memory(
        "ddr-capacity",
        ddr,
        Some(l.ddr_capacity.as_f64()),
        "host memory",
    );
    let times = [
        ("tpot-p99", t.tpot_p99, limits.tpot_p99, "time per token"),
        (
            "ttft-p99",
            t.ttft_p99,
            limits.ttft_p99,
            "time to the first token",
        ),
    ];
    for (word, took, most, what) in times {
        if let (Some(took), Some(most)) = (took, most)
            && took > most
        {
            let (mut told, most) = show_seconds_apart(took, most);
            if !took.is_finite() {
                told = "forever".into();
            }
            let why = format!("{what} of {told} at p99 over {most}");
            t.broken.push((word, why));
        }
    }
    t
}
