//! `linear_layers.csv`: one linear layer of a rank by rows and format, and what stands between them, in microseconds.
//!
//! Widths are those of the rank. The experts of a layer are one row (`moe_*`, with the skew of the routing).

use std::sync::Arc;

use super::super::machine::{Machine, Setup};
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Fits, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_WIDTH, Scope, product, weights};
use crate::error::Result;
use crate::model::layer::matrix;
use crate::model::{Attention, KvFormat, Matrix, MatrixKind, Model};
use crate::service::linear::Routing;
use crate::service::{Prepared, elementwise};

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "linear_layers.csv",
    columns: &[
        "gpu",
        "model",
        "tp",
        "dtype",
        "layer",
        "m_tokens",
        "n",
        "k",
        "latency_us",
        "source_id",
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
        metric: "latency_us",
        gpu: line.text("gpu")?.into(),
        framework: line.text("source_id")?.into(),
        model: line.text("model")?.into(),
        measured: line.positive("latency_us")?,
        fits: fits(line)?,
        law: law(line, stock)?,
    })
}

/// Sources that profile whole models (`LLMServingSim`) instead of cycling through copies of a matrix.
const COLD: [&str; 6] = ["L10", "L11", "L14", "L15", "L16", "L17"];

/// Plain matrices fit the law of their format.
fn fits(line: Line<'_>) -> Result<Option<Fits>> {
    if line.text("layer")?.starts_with("moe") {
        return Ok(Some(Fits::Experts));
    }
    if kind(line.text("layer")?).is_none() {
        return Ok(None);
    }
    Ok(match weights(line.text("dtype")?) {
        Ok(format) if format.bits(MatrixKind::Ffn) == 16 => Some(Fits::Linear),
        Ok(format) if format.bits(MatrixKind::Ffn) == 8 => Some(Fits::Linear8Bit),
        _ => None,
    })
}

/// What a matrix is for, by its name in the table.
fn kind(layer: &str) -> Option<MatrixKind> {
    match layer.trim_end_matches("_proj") {
        "qkv" | "o" | "q" | "k" | "v" => Some(MatrixKind::Attention),
        "gate_up" | "gate" | "up" | "down" => Some(MatrixKind::Ffn),
        "lm_head" => Some(MatrixKind::Head),
        _ => None,
    }
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let rows = f64::from(line.whole("m_tokens", MOST_BATCH)?);
    let gpus = line.whole("tp", MOST_GPUS)?;
    let layer = line.text("layer")?;
    let model = or_reason!(stock.model(line.text("model")?)?);
    let family = or_reason!(stock.machine(line.text("gpu")?, "vllm")?);
    let weights = or_reason!(weights(line.text("dtype")?));
    if layer.starts_with("moe") {
        let setup = Setup {
            model,
            gpus,
            weights,
            kv: KvFormat::Fp16,
            memory_fraction: 1.0,
        };
        let routing = routing(layer);
        return Ok(Ok(Law::new(family, move |m| {
            experts(m, &setup, routing, rows)
        })));
    }
    if let Some(bytes) = between(&model, layer, f64::from(gpus), rows) {
        return Ok(Ok(Law::new(family, move |m| {
            1e6 * elementwise::kernel(&m.hardware.gpu, &m.runtime, bytes)
        })));
    }
    if layer == "sampler" {
        let logits = rows * f64::from(model.vocab);
        return Ok(Ok(Law::new(family, move |m| {
            1e6 * elementwise::sampler(&m.hardware.gpu, &m.runtime, logits)
        })));
    }
    let Some(kind) = kind(layer) else {
        return Ok(Err("an operation that is not modelled".into()));
    };
    let warm = !COLD.contains(&line.text("source_id")?);
    let (out, inp) = (line.whole("n", MOST_WIDTH)?, line.whole("k", MOST_WIDTH)?);
    Ok(Ok(product(
        family,
        weights,
        matrix("row", kind, out, inp),
        warm,
        rows,
    )))
}

/// How a bench spreads tokens over experts: `moe_balanced`, `moe_power_law_1.2`.
fn routing(layer: &str) -> Routing {
    match layer.rsplit_once("power_law_") {
        Some((_, exponent)) => match exponent.parse::<f64>() {
            Ok(e) if (0.0..=10.0).contains(&e) => Routing::Skewed(e),
            _ => Routing::Random,
        },
        None if layer.contains("balanced") => Routing::Dealt,
        None => Routing::Random,
    }
}

/// The routed experts of a layer.
fn experts(machine: &Machine, setup: &Setup, routing: Routing, rows: f64) -> f64 {
    let mut prepared = Prepared::new(&machine.deploy(setup));
    prepared.routing = routing;
    let hidden = setup.model.hidden;
    let layers = setup.model.layers.iter().map(|l| l.matrices(hidden));
    let of = |all: Vec<Matrix>| -> Vec<Matrix> {
        all.into_iter()
            .filter(|m| m.kind == MatrixKind::Expert)
            .collect()
    };
    let experts = layers.map(of).find(|m| !m.is_empty()).unwrap_or_default();
    1e6 * prepared.linear(&experts, rows)
}

/// Bytes that a kernel between the matrices moves on one GPU; none for another layer.
fn between(model: &Arc<Model>, layer: &str, gpus: f64, rows: f64) -> Option<f64> {
    let hidden = f64::from(model.hidden);
    let first = model.layers.first()?;
    Some(match layer {
        "layernorm" | "final_layernorm" => elementwise::norm_bytes(rows, hidden),
        "embedding" => elementwise::embedding_bytes(rows, hidden),
        "rotary_emb" => {
            let Attention::Grouped {
                heads,
                kv_heads,
                head_dim,
                ..
            } = first.attention
            else {
                return None;
            };
            elementwise::rope_bytes(
                rows,
                f64::from(heads + kv_heads) * f64::from(head_dim) / gpus,
            )
        }
        "act_fn" => elementwise::activation_bytes(rows, first.ffn.inner() / gpus),
        _ => return None,
    })
}
