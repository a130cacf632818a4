//! `prefill_ops.csv`: causal attention of whole prompts and large matrix products, in microseconds.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Fits, Kind, Law, MOST_BATCH, MOST_TOKENS, MOST_WIDTH, Scope, heads, product};
use crate::error::Result;
use crate::model::layer::matrix;
use crate::model::{MatrixKind, WeightFormat};
use crate::service::prefill;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "prefill_ops.csv",
    columns: &[
        "gpu",
        "kind",
        "heads_q_kv_dim",
        "batch",
        "seq_or_m",
        "n",
        "k",
        "latency_us",
    ],
    scope: Scope::Parts,
    cases,
};

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    sheet.lines().map(|line| case(line, stock)).collect()
}

fn case(line: Line<'_>, stock: &mut Stock) -> Result<Case> {
    let shape = line.text("heads_q_kv_dim")?;
    Ok(Case {
        line: line.number,
        metric: "latency_us",
        gpu: line.text("gpu")?.into(),
        framework: line.text("kind")?.into(),
        model: if shape.is_empty() {
            "gemm".into()
        } else {
            shape.into()
        },
        measured: line.positive("latency_us")?,
        fits: match line.text("kind")? {
            "attn_prefill" => Some(Fits::Prefill),
            "gemm_bf16" => Some(Fits::Linear),
            _ => None,
        },
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let family = or_reason!(stock.machine(line.text("gpu")?, "vllm")?);
    let batch = f64::from(line.whole("batch", MOST_BATCH)?);
    let tokens = f64::from(line.whole("seq_or_m", MOST_TOKENS)?);
    match line.text("kind")? {
        "attn_prefill" => {
            let [query, kv_heads, width] = heads(line, "heads_q_kv_dim")?.map(f64::from);
            let queries = batch * tokens;
            let work = prefill::Work {
                pairs: batch * prefill::causal_pairs(0.0, tokens),
                queries,
                heads: query,
                width: query * width,
                // Queries and outputs, keys and values, in 16 bit.
                operands: 2.0 * queries * width * (2.0 * query + 2.0 * kv_heads),
            };
            Ok(Ok(Law::new(family, move |m| {
                let kernels = m.runtime.kernel_share.get();
                1e6 * prefill::attention(&m.hardware.gpu, kernels, work)
            })))
        }
        "gemm_bf16" => {
            let (out, inp) = (line.whole("n", MOST_WIDTH)?, line.whole("k", MOST_WIDTH)?);
            let matrix = matrix("row", MatrixKind::Ffn, out, inp);
            let format = WeightFormat::Bf16;
            Ok(Ok(product(family, format, matrix, true, tokens)))
        }
        _ => Ok(Err("an operation that is not modelled".into())),
    }
}
