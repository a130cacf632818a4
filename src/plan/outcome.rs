//! Fills in an outcome from a run: arithmetic on what was measured, nothing modelled here.

mod basis;
mod memory;
mod notes;
mod quality;
mod speed;

use crate::deploy::{Deployment, T1Mode};
use crate::metrics::{Engine, OUTCOME_SCHEMA, Outcome, StepParts, Throughput, Traffic};

use super::run::{Case, Ran};
use basis::assumptions;
use memory::{memory, shortfall};
use notes::notes;
use quality::{depends, fetched, moves, quality_of, tiers, trace_use};
use speed::{bound_by, breakeven, free_t1, throughput, traffic};

pub(super) use speed::{full_step, p99, parts};

/// The outcome of `ran` for `case`.
pub(super) fn build(case: &Case, ran: &Ran) -> Outcome {
    let s = &case.scenario;
    let d = &s.deployment;
    let memory = memory(case, &ran.run.peak);
    let shortfall = shortfall(&memory);
    let fits = shortfall == 0 && memory.ddr_peak_bytes <= memory.ddr_capacity_bytes;
    let free = free_t1(case, &ran.full);
    Outcome {
        schema: OUTCOME_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        model: d.model.id.clone(),
        hardware: d.hardware.label().into(),
        gpus: d.gpus,
        runtime: d.runtime.id.clone(),
        batch: s.batch,
        prompt_tokens: s.prompt,
        output_tokens: s.output,
        weights: d.weights.to_string(),
        kv: d.kv.to_string(),
        policy: case.spec.to_string(),
        t1_mode: t1_words(d),
        overlap: overlap_word(case).into(),
        occupancy: s.occupancy.word().into(),
        seed: s.seed,
        scenario: std::collections::BTreeMap::new(),
        inputs: std::collections::BTreeMap::new(),
        length_factor: s.length_factor.filter(|_| case.asked.is_some()),
        fits,
        shortfall_bytes: shortfall,
        changes: Vec::new(),
        throughput: if fits {
            throughput(case, &ran.run, &ran.full)
        } else {
            Throughput::default()
        },
        holds_tokens_per_request: u64::from(
            case.ledger
                .holds(s.batch, d.model.max_context.max(s.prompt + s.output)),
        ),
        free_t1_bytes: Some(free),
        breakeven_link_bytes_per_s: breakeven(case, ran),
        traffic: if fits {
            traffic(&ran.run)
        } else {
            Traffic::default()
        },
        quality: quality_of(case),
        fetched: fetched(&case.timelines),
        tiers: tiers(case),
        moves: moves(&case.timelines),
        trace: trace_use(case),
        depends_on_trace: depends(case),
        bound_by: if fits {
            bound_by(case, &ran.run)
        } else {
            "hbm-capacity".into()
        },
        step: if fits {
            parts(&ran.run)
        } else {
            StepParts::default()
        },
        preemptions: ran.run.preemptions,
        assumptions: assumptions(case),
        notes: notes(case, &memory),
        engine: Engine {
            fidelity: d.fidelity.word().into(),
            events: ran.run.events,
            steps: ran.run.steps.len() as u64,
        },
        intervals: None,
        serving: None,
        memory,
    }
}

/// The T1 mode, with what is fetched where that decides the answer.
fn t1_words(d: &Deployment) -> String {
    match d.t1 {
        T1Mode::Selective(selection) => format!("selective:{selection}"),
        other => other.word().into(),
    }
}

fn overlap_word(case: &Case) -> &'static str {
    match case.scenario.deployment.overlap {
        crate::deploy::Overlap::Serial => "serial",
        crate::deploy::Overlap::Layer => "layer",
    }
}
