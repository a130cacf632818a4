//! `decode_step_ops.csv`: a decode step as a sum of operators, in milliseconds.
//!
//! Rows from AIC are layers x (attention + linear layers) + head, of operators timed alone (operands that fit L2 come from
//! it), and their head is the whole one on every GPU: it was scaled from one width and not divided. Rows from LSS are of a
//! profile of the model: cold, the head divided, with norms, rope, activation and the sampler. Neither holds all-reduce or
//! CPU.

use super::super::machine::Setup;
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_TOKENS, Scope, kv, weights};
use crate::error::Result;
use crate::service::linear::Routing;
use crate::service::{BatchCost, Prepared, elementwise};

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "decode_step_ops.csv",
    columns: &[
        "gpu",
        "model",
        "tp",
        "w_dtype",
        "kv_dtype",
        "batch",
        "ctx_tokens",
        "step_ms_ops_only",
        "src",
    ],
    scope: Scope::Parts,
    cases,
};

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    sheet.lines().map(|line| case(line, stock)).collect()
}

fn case(line: Line<'_>, stock: &mut Stock) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: "step_ms_ops_only",
        gpu: line.text("gpu")?.into(),
        framework: line.text("src")?.into(),
        model: line.text("model")?.into(),
        measured: line.positive("step_ms_ops_only")?,
        fits: None,
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let batch = line.whole("batch", MOST_BATCH)?;
    let tokens = f64::from(line.whole("ctx_tokens", MOST_TOKENS)?);
    let gpus = line.whole("tp", MOST_GPUS)?;
    let every = match line.text("src")? {
        "AIC" => false,
        "LSS" => true,
        _ => {
            return Ok(Err(
                "unknown source: which operators it sums is not known".into()
            ));
        }
    };
    let family = or_reason!(stock.machine(line.text("gpu")?, "vllm")?);
    let model = or_reason!(stock.model(line.text("model")?)?);
    let weights = or_reason!(weights(line.text("w_dtype")?));
    let kv = or_reason!(kv(line.text("kv_dtype")?));
    let setup = Setup {
        model,
        gpus,
        weights,
        kv,
        memory_fraction: 1.0,
    };
    Ok(Ok(Law::new(family, move |m| {
        let mut prepared = Prepared::new(&m.deploy(&setup));
        prepared.warm = !every;
        if prepared.warm {
            prepared.routing = Routing::Dealt;
        }
        1e3 * operators(&prepared, batch, tokens, every)
    })))
}

/// Seconds of the operators; `every` adds what stands between the matrices and the sampler.
fn operators(prepared: &Prepared, batch: u32, tokens: f64, every: bool) -> f64 {
    let cost: BatchCost = prepared.batch(batch);
    let d = &prepared.deployment;
    let each: Vec<f64> = cost
        .linear
        .iter()
        .map(|l| l + if every { cost.other } else { 0.0 })
        .collect();
    let logits = f64::from(batch) * f64::from(d.model.vocab);
    let drawn = if every {
        elementwise::sampler(&d.hardware.gpu, &d.runtime, logits)
    } else {
        0.0
    };
    let head = if every {
        cost.head
    } else {
        prepared.whole_head(f64::from(batch))
    };
    prepared.layers(batch, tokens, &each) + head + drawn
}
