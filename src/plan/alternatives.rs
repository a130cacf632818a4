//! Every way to run one question on one card, each simulated, in a fixed order.

use std::sync::Arc;

use rayon::prelude::*;

use super::answer::{Alternative, Row, RunsIn, Staggered};
use super::run::{Case, Ran, cannot_start, with};
use super::{changes, outcome, quick, verdict};
use crate::deploy::T1Mode;
use crate::engine::Run;
use crate::error::Result;
use crate::metrics::Outcome;
use crate::model::layer::MatrixKind;
use crate::model::{KvFormat, WeightFormat};
use crate::scenario::{Occupancy, Scenario};
use crate::trace::TraceReader;

type Traces = [Arc<TraceReader>];

/// How an alternative runs.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Everything given runs, tiered by the policy.
    Static,
    /// Paged, preempting, at most so many together (0 = the asked batch; `Largest` = what never preempts).
    Paged,
    /// Paged with the largest batch that never preempts.
    Largest,
}

/// One alternative before it ran.
struct Way {
    name: &'static str,
    scenario: Scenario,
    how: How,
    remark: Option<&'static str>,
}

/// The row of one card.
///
/// # Errors
/// As `simulate`.
pub fn row(scenario: &Scenario, traces: &Traces) -> Result<Row> {
    let full = Scenario {
        policy: "full".into(),
        ..scenario.clone()
    };
    let case = Case::new(&full, &[])?;
    let all = Arc::new(case.run_full()?);
    let alternatives: Vec<Alternative> = ways(scenario)
        .par_iter()
        .map(|way| alternative(way, traces, &case, &all))
        .collect::<Result<Vec<_>>>()?;
    let mut row = frame(scenario, &case, &all, alternatives);
    row.breakeven_best_bytes_per_s = breakeven_best(scenario, &row)?;
    row.verdict = verdict::of_row(&row);
    row.flips_if = flips(scenario, &row)?;
    Ok(row)
}

/// The figures of a card that no alternative changes.
fn frame(s: &Scenario, case: &Case, all: &Run, alternatives: Vec<Alternative>) -> Row {
    let hardware = &s.deployment.hardware;
    let needed = u64::from(s.batch) * (u64::from(s.prompt) + u64::from(s.output));
    let in_hbm = &alternatives[0].outcome;
    let spill = alternatives
        .iter()
        .find(|a| a.name == "stream")
        .and_then(|a| a.outcome.breakeven_link_bytes_per_s);
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    let pool = (case.ledger.pool().max(0.0) / case.ledger.sequence_bytes(1.0).max(1.0)) as u64;
    let links = case.prepared.h2d_rate * f64::from(s.deployment.gpus);
    Row {
        hardware: hardware.id.clone(),
        hardware_name: hardware.name.clone(),
        calibrated: hardware.calibrated.is_some(),
        gpus: s.deployment.gpus,
        hbm_capacity_bytes: in_hbm.memory.hbm_capacity_bytes,
        pool_tokens: pool,
        needed_tokens: needed,
        holds_tokens_per_request: in_hbm.holds_tokens_per_request,
        shortfall_bytes: in_hbm.shortfall_bytes,
        free_t1_bytes: Some(
            crate::units::Bytes::ceil((links * outcome::full_step(all)).min(1e18)).0,
        ),
        breakeven_free_bytes_per_s: spill,
        breakeven_best_bytes_per_s: None,
        alternatives,
        flips_if: Vec::new(),
        verdict: super::answer::RowVerdict {
            pays: false,
            best: None,
            best_runnable: None,
            sentence: String::new(),
        },
    }
}

/// All ways, in the order they are shown.
fn ways(s: &Scenario) -> Vec<Way> {
    let full = Scenario {
        policy: "full".into(),
        ..s.clone()
    };
    let tiered = if s.policy == "full" {
        Scenario {
            policy: "four-tier:hbm=fit".into(),
            ..s.clone()
        }
    } else {
        s.clone()
    };
    let mut out = vec![
        Way {
            name: "all-in-hbm",
            scenario: full.clone(),
            how: How::Static,
            remark: None,
        },
        Way {
            name: "engine",
            scenario: full.clone(),
            how: How::Paged,
            remark: Some("preempts the latest request, recomputes it later"),
        },
        Way {
            name: "smaller-batch",
            scenario: full.clone(),
            how: How::Largest,
            remark: None,
        },
    ];
    if s.deployment.kv == KvFormat::Fp16 {
        out.push(Way {
            name: "fp8-kv",
            scenario: with(&full, |d| d.kv = KvFormat::Fp8),
            how: How::Paged,
            remark: None,
        });
    }
    if s.deployment.weights.bits(MatrixKind::Ffn) > 4 {
        let four = with(&full, |d| d.weights = WeightFormat::Int4);
        out.push(Way {
            name: "int4-weights",
            scenario: four,
            how: How::Paged,
            remark: Some("changes the model"),
        });
    }
    let two = s.deployment.gpus * 2;
    if s.deployment.hardware.interconnect.is_some() && changes::divides(s, two) {
        out.push(Way {
            name: "twice-the-gpus",
            scenario: with(&full, |d| d.gpus = two),
            how: How::Paged,
            remark: Some("another purchase"),
        });
    }
    for (name, t1, remark) in [
        (
            "stream",
            T1Mode::Stream,
            "no engine runs it; transformers' OffloadedCache is the case T0 = 0",
        ),
        (
            "staged",
            T1Mode::Staged(None),
            "no engine runs it; a buffer in HBM is HBM not saved",
        ),
        (
            "host-attention",
            T1Mode::HostAttention,
            "no engine runs it; llama.cpp --no-kv-offload is the case T0 = 0",
        ),
    ] {
        out.push(Way {
            name,
            scenario: with(&tiered, |d| d.t1 = t1),
            how: How::Static,
            remark: Some(remark),
        });
    }
    out
}

/// Runs one way, in lockstep and staggered.
fn alternative(way: &Way, traces: &Traces, base: &Case, all: &Arc<Run>) -> Result<Alternative> {
    let asked = Scenario {
        occupancy: Occupancy::Lockstep,
        ..way.scenario.clone()
    };
    let case = Case::new(&asked, traces)?;
    let same = same_laws(&case, base);
    let full = if same {
        Arc::clone(all)
    } else {
        Arc::new(case.run_full()?)
    };
    let (outcome, starts, remark) = lockstep(way, &case, &full)?;
    let staggered = if starts {
        Some(staggered(way, traces)?)
    } else {
        None
    };
    let starts_note = remark.or_else(|| way.remark.map(String::from));
    Ok(Alternative {
        label: label(way, &outcome),
        name: way.name.into(),
        starts,
        runs_in: if starts {
            runs_in(way, &outcome, &way.scenario)
        } else {
            Vec::new()
        },
        remark: starts_note,
        outcome,
        staggered,
    })
}

fn same_laws(case: &Case, base: &Case) -> bool {
    let (a, b) = (&case.scenario.deployment, &base.scenario.deployment);
    a.kv == b.kv && a.weights == b.weights && a.gpus == b.gpus
}

/// The lockstep outcome; whether it starts, and why not.
fn lockstep(way: &Way, case: &Case, full: &Arc<Run>) -> Result<(Outcome, bool, Option<String>)> {
    let whole = case.ledger.holds(
        case.scenario.batch,
        case.scenario.prompt + case.scenario.output,
    ) >= case.scenario.prompt + case.scenario.output;
    if whole && way.how != How::Static {
        let out = outcome::build(
            case,
            &Ran {
                run: Run::clone(full),
                full: Arc::clone(full),
            },
        );
        return Ok((
            out,
            true,
            (way.how == How::Largest).then(|| "not needed: the asked batch fits".into()),
        ));
    }
    let max = if way.how == How::Largest {
        largest(case)
    } else {
        case.scenario.batch
    };
    if way.how == How::Static {
        let run = if whole && case.spec.name() == "full" {
            Run::clone(full)
        } else {
            case.run()?
        };
        let out = outcome::build(
            case,
            &Ran {
                run,
                full: Arc::clone(full),
            },
        );
        let starts = out.fits;
        return Ok((out, starts, None));
    }
    match case.run_paged(max.max(1)) {
        Ok(run) => {
            let mut out = outcome::build(
                case,
                &Ran {
                    run,
                    full: Arc::clone(full),
                },
            );
            out.batch = max.max(1);
            Ok((out, true, None))
        }
        Err(e) => match cannot_start(&e) {
            Some(why) => Ok((
                outcome::build(
                    case,
                    &Ran {
                        run: case.run_full()?,
                        full: Arc::clone(full),
                    },
                ),
                false,
                Some(format!("cannot start: {why}")),
            )),
            None => Err(e),
        },
    }
}

/// Most requests that run to their end without preempting; at least one.
fn largest(case: &Case) -> u32 {
    let tokens = case.scenario.prompt + case.scenario.output;
    let page = case.scenario.deployment.runtime.page_tokens.max(1);
    let each = case
        .ledger
        .sequence_bytes(f64::from(tokens.div_ceil(page) * page));
    #[allow(clippy::cast_possible_truncation)] // at most the batch
    let n = (case.ledger.pool() / each).clamp(1.0, f64::from(case.scenario.batch)) as u32;
    n
}

/// The same with requests at independent phases.
fn staggered(way: &Way, traces: &Traces) -> Result<Staggered> {
    let scenario = Scenario {
        occupancy: Occupancy::Staggered,
        ..way.scenario.clone()
    };
    let case = Case::new(&scenario, traces)?;
    let run = match way.how {
        How::Static => case.run()?,
        How::Paged => case.run_paged(scenario.batch)?,
        How::Largest => case.run_paged(largest(&case))?,
    };
    let memory = run.peak.hbm.total() <= case.ledger.pool() || way.how != How::Static;
    let decode = run.makespan.saturating_sub(run.prefill).secs();
    Ok(Staggered {
        fits: memory && run.preemptions == 0,
        output_tokens_per_s: memory.then(|| run.tokens as f64 / decode),
        tpot_p99_s: outcome::p99(&run),
        preemptions: run.preemptions,
    })
}

fn label(way: &Way, out: &Outcome) -> String {
    let preempts = if out.preemptions > 0 {
        ", preempts"
    } else {
        ""
    };
    match way.name {
        "all-in-hbm" => "all in HBM".into(),
        "engine" => format!("engine as it is{preempts}"),
        "smaller-batch" => format!("batch {}", out.batch),
        "fp8-kv" => format!("fp8 KV{preempts}"),
        "int4-weights" => format!("int4 weights{preempts}"),
        "twice-the-gpus" => format!("{} GPUs{preempts}", out.gpus),
        other => other.into(),
    }
}

/// Software that runs it today.
fn runs_in(way: &Way, out: &Outcome, s: &Scenario) -> Vec<RunsIn> {
    if way.how == How::Static && way.name != "all-in-hbm" {
        return Vec::new();
    }
    let model = s.deployment.model.repository();
    let length = s.prompt + s.output;
    let mut command = format!(
        "vllm serve {model} --max-num-seqs {} --max-model-len {length} --gpu-memory-utilization {}",
        out.batch, s.deployment.memory_fraction
    );
    match &s.deployment.weights {
        WeightFormat::Fp8 => command.push_str(" --quantization fp8"),
        WeightFormat::Int4 => command.push_str(" --quantization awq"),
        _ => {}
    }
    if s.deployment.kv == KvFormat::Fp8 {
        command.push_str(" --kv-cache-dtype fp8");
    }
    if out.gpus > 1 {
        command.push_str(&format!(" --tensor-parallel-size {}", out.gpus));
    }
    vec![RunsIn {
        software: "vLLM".into(),
        command,
    }]
}

/// Link bandwidth at which streaming gives as many tokens/s as the best alternative of the same formats.
fn breakeven_best(s: &Scenario, row: &Row) -> Result<Option<f64>> {
    let Some(target) = verdict::best_same_format(row) else {
        return Ok(None);
    };
    threshold(
        s,
        T1Mode::Stream,
        target,
        |h, x| h.link.h2d = h.link.h2d.scaled(x / h.link.h2d.get()),
        1e9,
        1e13,
    )
}

/// Parameters at which a T1 mode begins or stops to pay on this card; none where everything fits.
fn flips(s: &Scenario, row: &Row) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let hardware = &s.deployment.hardware;
    if row.shortfall_bytes > 0 {
        let host = ddr_flip(s, row)?;
        out.extend(host.map(|at| {
            verdict::flip(
                row,
                "host-attention",
                "DDR bandwidth",
                at,
                hardware.host.ddr_read.get(),
            )
        }));
        let link = row.breakeven_best_bytes_per_s;
        out.extend(
            link.map(|at| {
                verdict::flip(row, "stream", "link bandwidth", at, hardware.link.h2d.get())
            }),
        );
    }
    Ok(out)
}

/// Host DDR read bandwidth at which host attention does.
fn ddr_flip(s: &Scenario, row: &Row) -> Result<Option<f64>> {
    let Some(target) = verdict::best_same_format(row) else {
        return Ok(None);
    };
    threshold(
        s,
        T1Mode::HostAttention,
        target,
        |h, x| h.host.ddr_read = h.host.ddr_read.scaled(x / h.host.ddr_read.get()),
        1e9,
        1e13,
    )
}

/// Value of a hardware parameter at which a T1 mode reaches `target` tokens/s.
fn threshold(
    s: &Scenario,
    t1: T1Mode,
    target: f64,
    set: impl Fn(&mut crate::hardware::Hardware, f64),
    low: f64,
    high: f64,
) -> Result<Option<f64>> {
    let tiered = if s.policy == "full" {
        Scenario {
            policy: "four-tier:hbm=fit".into(),
            ..s.clone()
        }
    } else {
        s.clone()
    };
    let case = Case::new(&with(&tiered, |d| d.t1 = t1), &[])?;
    if !case.timelines[0].spills() {
        return Ok(None);
    }
    Ok(quick::crossing(low, high, target, |x| {
        let mut deployment = case.scenario.deployment.clone();
        set(Arc::make_mut(&mut deployment.hardware), x);
        quick::tokens_per_second(
            &crate::service::Prepared::new(&deployment),
            &case.timelines[0],
            s.batch,
        )
    }))
}
