//! Every way to run one question on one card, each simulated, in lockstep and staggered.
//!
//! Runs that cannot differ are run once: whatever neither spills nor preempts is the run with everything in HBM.

use std::sync::Arc;

use rayon::prelude::*;

use super::answer::{Alternative, Row, RowVerdict, Staggered};
use super::recordings::Recordings;
use super::run::{Case, Ran, cannot_start, with};
use super::uncertain::closed::Closed;
use super::uncertain::{self, OfCard};
use super::ways::{self, How, Way};
use super::{outcome, quick, verdict};
use crate::deploy::T1Mode;
use crate::engine::{MOST_STEPS, Run, too_long};
use crate::error::Result;
use crate::hardware::Hardware;
use crate::scenario::{Occupancy, Scenario};
use crate::service::Prepared;
use crate::uncertain::Level;
use crate::units::Bytes;

/// Everything in an HBM of unlimited size, for one set of formats and GPUs.
struct Base {
    case: Case,
    lockstep: Arc<Run>,
    staggered: Arc<Run>,
}

impl Base {
    fn of(scenario: &Scenario) -> Result<Self> {
        let full = Scenario {
            policy: "full".into(),
            ..scenario.clone()
        };
        let none = Recordings::default();
        let case = Case::new(&at(&full, Occupancy::Lockstep), &none)?;
        let lockstep = Arc::new(case.run_full()?);
        let staggered = match &full.lengths {
            Some(_) => Arc::clone(&lockstep),
            None => Arc::new(Case::new(&at(&full, Occupancy::Staggered), &none)?.run_full()?),
        };
        Ok(Self {
            case,
            lockstep,
            staggered,
        })
    }

    fn run(&self, occupancy: Occupancy) -> &Arc<Run> {
        match occupancy {
            Occupancy::Lockstep | Occupancy::Listed => &self.lockstep,
            Occupancy::Staggered => &self.staggered,
        }
    }

    /// Whether the laws of `s` are the same.
    fn serves(&self, s: &Scenario) -> bool {
        let (a, b) = (&self.case.scenario.deployment, &s.deployment);
        a.kv == b.kv && a.weights == b.weights && a.gpus == b.gpus
    }
}

/// The scenario under an occupancy; requests with their own lengths stay a list, which begins together.
fn at(s: &Scenario, occupancy: Occupancy) -> Scenario {
    Scenario {
        occupancy: match &s.lengths {
            Some(_) => Occupancy::Listed,
            None => occupancy,
        },
        ..s.clone()
    }
}

/// The row of one card, and what its draws came to.
///
/// # Errors
/// As `simulate`.
pub(super) fn row(scenario: &Scenario, traces: &Recordings) -> Result<(Row, OfCard)> {
    let base = Base::of(scenario)?;
    let ways = ways::all(scenario);
    let alternatives: Result<Vec<_>> = ways
        .par_iter()
        .map(|way| alternative(way, traces, &base))
        .collect();
    let (alternatives, closed): (Vec<_>, Vec<_>) = alternatives?.into_iter().unzip();
    let mut row = frame(scenario, &base, alternatives);
    row.breakeven_best_bytes_per_s = breakeven_best(scenario, &row)?;
    row.verdict = verdict::of_row(&row);
    row.flips_if = flips(scenario, &row)?;
    let closed: Option<Vec<Closed>> = closed.into_iter().collect();
    let drawn = closed.map(|closed| uncertain::of_row(scenario, &closed, &mut row));
    Ok((row, drawn.unwrap_or_default()))
}

/// The figures of a card that no alternative changes.
fn frame(s: &Scenario, base: &Base, alternatives: Vec<Alternative>) -> Row {
    let hardware = &s.deployment.hardware;
    let in_hbm = &alternatives[0].outcome;
    let stream = alternatives.iter().find(|a| a.name == "stream");
    let ledger = &base.case.ledger;
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    let pool = (ledger.pool().max(0.0) / ledger.sequence_bytes(1.0).max(1.0)) as u64;
    let links = base.case.prepared.h2d_rate * f64::from(s.deployment.gpus);
    Row {
        hardware: hardware.label().into(),
        hardware_name: hardware.name.clone(),
        calibrated: hardware.calibrated.is_some(),
        gpus: s.deployment.gpus,
        hbm_capacity_bytes: in_hbm.memory.hbm_capacity_bytes,
        pool_tokens: pool,
        needed_tokens: s.all_tokens(),
        holds_tokens_per_request: in_hbm.holds_tokens_per_request,
        shortfall_bytes: in_hbm.shortfall_bytes,
        free_t1_bytes: Some(Bytes::ceil((links * outcome::full_step(&base.lockstep)).min(1e18)).0),
        breakeven_free_bytes_per_s: stream.and_then(|a| a.outcome.breakeven_link_bytes_per_s),
        breakeven_best_bytes_per_s: None,
        alternatives,
        flips_if: Vec::new(),
        verdict: RowVerdict {
            pays: false,
            best: None,
            best_runnable: None,
            sentence: String::new(),
        },
        in_draws: None,
        tornado: None,
    }
}

/// A way as it ran under one occupancy.
struct Went {
    case: Case,
    full: Arc<Run>,
    /// None if it cannot start.
    run: Option<Arc<Run>>,
    batch: u32,
    remark: Option<String>,
}

/// Runs one way, in lockstep and staggered; and the way in closed form, where intervals are asked for.
fn alternative(
    way: &Way,
    traces: &Recordings,
    base: &Base,
) -> Result<(Alternative, Option<Closed>)> {
    let own = if base.serves(&way.scenario) {
        None
    } else {
        Some(Base::of(&way.scenario)?)
    };
    let base = own.as_ref().unwrap_or(base);
    let lockstep = go(way, traces, base, Occupancy::Lockstep)?;
    let staggered = match &way.scenario.lengths {
        Some(_) => None,
        None => Some(go(way, traces, base, Occupancy::Staggered)?),
    };
    let (outcome, starts) = told(&lockstep);
    let runs_in = ways::runs_in(way, &outcome);
    let s = &way.scenario;
    let closed = if s.intervals == Level::None || s.lengths.is_some() {
        None
    } else {
        let ddr = outcome.memory.ddr_peak_bytes as f64;
        Some(Closed::new(
            way.how,
            s,
            &lockstep.case,
            ddr,
            !runs_in.is_empty(),
        )?)
    };
    let remark = if outcome.fits {
        lockstep.remark
    } else {
        lockstep.remark.or_else(|| Some(short_by(&outcome)))
    };
    let alternative = Alternative {
        label: ways::label(way, &outcome),
        name: way.name.into(),
        runs_in: if starts { runs_in } else { Vec::new() },
        remark: remark.or_else(|| way.remark.map(String::from)),
        staggered: staggered.and_then(|s| s.run.as_ref().map(|run| turn(way, &s, run))),
        outcome,
        starts,
    };
    Ok((alternative, closed))
}

/// What a way lacks: HBM, or else host memory.
fn short_by(out: &crate::metrics::Outcome) -> String {
    let short = |bytes: u64| crate::units::text::show_bytes(Bytes(bytes));
    let m = &out.memory;
    match out.shortfall_bytes {
        0 => format!(
            "does not fit: short by {} of host memory",
            short(m.ddr_peak_bytes.saturating_sub(m.ddr_capacity_bytes))
        ),
        hbm => format!("does not fit: short by {}", short(hbm)),
    }
}

/// Runs a way under one occupancy.
fn go(way: &Way, traces: &Recordings, base: &Base, occupancy: Occupancy) -> Result<Went> {
    let case = Case::new(&at(&way.scenario, occupancy), traces)?;
    let full = Arc::clone(base.run(occupancy));
    let batch = case.scenario.batch;
    let page = f64::from(case.scenario.deployment.runtime.page_tokens) * case.ledger.kv_token;
    let whole = full.peak.hbm.total() + page * f64::from(batch) <= case.ledger.pool();
    let moves = case.timelines.iter().any(|t| t.spills() || t.destroys());
    let (run, batch, remark) = match way.how {
        How::Static if moves => (case.run(), batch, None),
        How::Weights if case.prepared.streams_weights() => (case.run(), batch, None),
        How::Weights => {
            return Ok(same(case, full, Some("not needed: everything fits".into())));
        }
        How::Largest if whole => {
            return Ok(same(
                case,
                full,
                Some("not needed: the asked batch fits".into()),
            ));
        }
        How::Largest => (rounds(&case, largest(&case)), largest(&case), None),
        How::Paged if !whole && case.scenario.deployment.runtime.preempts => {
            (case.run_paged(batch), batch, None)
        }
        How::Paged if !whole => (rounds(&case, largest(&case)), largest(&case), None),
        _ => return Ok(same(case, full, None)),
    };
    match run {
        Ok(run) => Ok(Went {
            run: Some(Arc::new(run)),
            batch,
            remark,
            full,
            case,
        }),
        Err(e) => not_started(&e, case, full).ok_or(e),
    }
}

/// A way that runs as everything in HBM does.
fn same(case: Case, full: Arc<Run>, remark: Option<String>) -> Went {
    Went {
        run: Some(Arc::clone(&full)),
        batch: case.scenario.batch,
        remark,
        full,
        case,
    }
}

/// A way that cannot hold even one request; none if the error is another.
fn not_started(e: &crate::error::Error, case: Case, full: Arc<Run>) -> Option<Went> {
    let why = cannot_start(e)?;
    Some(Went {
        batch: case.scenario.batch,
        run: None,
        remark: Some(format!("cannot start: {why}")),
        full,
        case,
    })
}

/// The outcome of a way, and whether it starts.
fn told(went: &Went) -> (crate::metrics::Outcome, bool) {
    let run = went.run.as_ref().unwrap_or(&went.full);
    let mut out = outcome::build(
        &went.case,
        &Ran {
            run: Arc::clone(run),
            full: Arc::clone(&went.full),
        },
    );
    out.batch = went.batch;
    let starts = went.run.is_some() && out.fits;
    (out, starts)
}

/// A turn of the steady state.
fn turn(way: &Way, went: &Went, run: &Run) -> Staggered {
    let fits = run.peak.hbm.total() <= went.case.ledger.pool();
    let decode = run.decode_s();
    Staggered {
        fits: fits && run.preemptions == 0,
        output_tokens_per_s: (fits || !matches!(way.how, How::Static | How::Weights))
            .then(|| run.tokens as f64 / decode),
        tpot_p99_s: outcome::p99(run),
        preemptions: run.preemptions,
    }
}

/// Most requests that run to their end without preempting; at least one.
fn largest(case: &Case) -> u32 {
    let page = case.scenario.deployment.runtime.page_tokens.max(1);
    let tokens = (case.scenario.prompt + case.scenario.output).div_ceil(page) * page;
    let each = case.ledger.sequence_bytes(f64::from(tokens));
    #[allow(clippy::cast_possible_truncation)] // at most the batch
    let n = (case.ledger.pool() / each).clamp(1.0, f64::from(case.scenario.batch)) as u32;
    n
}

/// All requests in rounds of `most`: equal rounds are run once. Staggered, `most` requests turn over.
fn rounds(case: &Case, most: u32) -> Result<Run> {
    let batch = case.scenario.batch;
    let of = |n: u32| -> Result<Run> { case.resized(n)?.run_paged(n) };
    if case.scenario.lengths.is_some() {
        // Rounds would differ: whoever is done makes room for the next.
        return case.resized(batch)?.run_paged(most);
    }
    let first = of(most)?;
    if case.scenario.occupancy == Occupancy::Staggered {
        return Ok(first);
    }
    let steps = first.steps.len() as u64 * u64::from(batch.div_ceil(most));
    if steps > MOST_STEPS as u64 {
        return Err(too_long(MOST_STEPS as f64));
    }
    let mut all = first.clone();
    for _ in 1..batch / most {
        all.then(&first);
    }
    if !batch.is_multiple_of(most) {
        all.then(&of(batch % most)?);
    }
    Ok(all)
}

/// Link bandwidth at which streaming gives as many tokens/s as the best alternative of the same formats.
fn breakeven_best(s: &Scenario, row: &Row) -> Result<Option<f64>> {
    let set = |h: &mut Hardware, x: f64| h.link.h2d = h.link.h2d.scaled(x / h.link.h2d.get());
    threshold(s, row, T1Mode::Stream, set)
}

/// Host DDR read bandwidth at which host attention does.
fn ddr_flip(s: &Scenario, row: &Row) -> Result<Option<f64>> {
    let set = |h: &mut Hardware, x: f64| {
        h.host.ddr_read = h.host.ddr_read.scaled(x / h.host.ddr_read.get());
    };
    threshold(s, row, T1Mode::HostAttention, set)
}

/// Parameters at which a T1 mode begins or stops to pay on this card; none where everything fits.
fn flips(s: &Scenario, row: &Row) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let hardware = &s.deployment.hardware;
    if row.shortfall_bytes > 0 {
        let (ddr, link) = (&hardware.host.ddr_read, &hardware.link.h2d);
        out.extend(
            ddr_flip(s, row)?
                .map(|at| verdict::flip(row, "host-attention", "DDR bandwidth", at, ddr)),
        );
        let stream = row.breakeven_best_bytes_per_s;
        out.extend(stream.map(|at| verdict::flip(row, "stream", "link bandwidth", at, link)));
    }
    Ok(out)
}

/// Value of a hardware parameter (1 GB/s to 10 TB/s) at which a T1 mode reaches the best alternative of the same formats.
fn threshold(
    s: &Scenario,
    row: &Row,
    t1: T1Mode,
    set: impl Fn(&mut Hardware, f64),
) -> Result<Option<f64>> {
    let Some(target) = verdict::best_same_format(row) else {
        return Ok(None);
    };
    let case = Case::new(
        &with(&at(&ways::tiering(s), Occupancy::Lockstep), |d| d.t1 = t1),
        &Recordings::default(),
    )?;
    // The shortcut is one timeline's.
    if !case.timelines[0].spills() || s.lengths.is_some() {
        return Ok(None);
    }
    Ok(quick::crossing(1e9, 1e13, target, |x| {
        let mut deployment = case.scenario.deployment.clone();
        set(Arc::make_mut(&mut deployment.hardware), x);
        quick::tokens_per_second(&Prepared::new(&deployment), &case.timelines[0], s.batch)
    }))
}
