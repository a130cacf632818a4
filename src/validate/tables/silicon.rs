//! `e2e_silicon.csv`: time to the first token and time per token of closed loops, by concurrency and lengths, in
//! milliseconds. A blank precision is bf16; FP8 weights bring FP8 KV where the software does so. The memory fraction is the
//! software's own default. Loops are taken to be as long as the usual benchmark makes them.

use super::super::machine::Setup;
use super::super::sheet::{Line, Sheet};
use super::super::steady::{self, Load, Steady};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_TOKENS, Scope, weights};
use crate::error::Result;
use crate::model::{KvFormat, WeightFormat};
use crate::service::Prepared;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "e2e_silicon.csv",
    columns: &[
        "gpu",
        "model",
        "backend",
        "precision",
        "concurrency",
        "isl",
        "osl",
        "tp_size",
        "pp_size",
        "silicon_ttft_ms",
        "silicon_tpot_ms",
    ],
    scope: Scope::Server,
    cases,
};

/// Requests that each slot of a loop sees: the usual benchmark offers ten times the concurrency.
const ROUNDS: f64 = 10.0;

/// A measured column and what it is of a steady state.
type Figure = (&'static str, fn(Steady) -> f64);

const FIGURES: [Figure; 2] = [
    ("silicon_ttft_ms", |s| 1e3 * s.ttft),
    ("silicon_tpot_ms", |s| 1e3 * s.tpot),
];

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for line in sheet.lines() {
        for figure in FIGURES {
            if let Some(measured) = line.optional(figure.0)? {
                all.push(case(line, figure, measured, stock)?);
            }
        }
    }
    Ok(all)
}

fn case(line: Line<'_>, figure: Figure, measured: f64, stock: &mut Stock) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: figure.0,
        gpu: line.text("gpu")?.into(),
        framework: line.text("backend")?.into(),
        model: line.text("model")?.into(),
        measured,
        fits: None,
        law: law(line, figure.1, stock)?,
    })
}

fn law(
    line: Line<'_>,
    figure: fn(Steady) -> f64,
    stock: &mut Stock,
) -> Result<std::result::Result<Law, Reason>> {
    let load = Load {
        offered: line.whole("concurrency", MOST_BATCH)?,
        prompt: line.whole("isl", MOST_TOKENS)?,
        output: line.whole("osl", MOST_TOKENS)?,
    };
    let gpus = line.whole("tp_size", MOST_GPUS)?;
    if line.whole("pp_size", MOST_GPUS)? > 1 {
        return Ok(Err("pipeline parallelism is not modelled".into()));
    }
    let family = or_reason!(stock.machine(line.text("gpu")?, line.text("backend")?)?);
    let model = or_reason!(stock.model(line.text("model")?)?);
    let weights = match or_reason!(weights(line.text("precision")?)) {
        // The experts alone are in 4 bits.
        WeightFormat::Int4 if model.has_experts() => WeightFormat::Mxfp4,
        other => other,
    };
    Ok(Ok(Law::new(family, move |m| {
        let setup = Setup {
            model: model.clone(),
            gpus,
            kv: match weights {
                WeightFormat::Fp8 if m.runtime.fp8_kv => KvFormat::Fp8,
                _ => KvFormat::Fp16,
            },
            weights: weights.clone(),
            memory_fraction: m.runtime.memory_fraction.get(),
        };
        let prepared = Prepared::new(&m.deploy(&setup));
        steady::steady(&prepared, load, ROUNDS).map_or(f64::NAN, figure)
    })))
}
