//! `decode_attn.csv`: one layer's decode attention by heads of a rank, batch and cached tokens, in microseconds.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_TOKENS, heads, kv};
use crate::error::Result;
use crate::service::attention::{self, Work};

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "decode_attn.csv",
    columns: &[
        "gpu",
        "heads_q_kv_dim_per_rank",
        "kv_dtype",
        "framework",
        "batch",
        "ctx_tokens",
        "latency_us",
    ],
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
        framework: line.text("framework")?.into(),
        model: line.text("heads_q_kv_dim_per_rank")?.into(),
        measured: line.positive("latency_us")?,
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let [_, kv_heads, width] = heads(line, "heads_q_kv_dim_per_rank")?.map(f64::from);
    let batch = f64::from(line.whole("batch", MOST_BATCH)?);
    let context = f64::from(line.whole("ctx_tokens", MOST_TOKENS)?);
    let family = or_reason!(stock.machine(line.text("gpu")?, line.text("framework")?)?);
    let kv = or_reason!(kv(line.text("kv_dtype")?));
    let vectors = 2.0 * kv_heads * batch * context;
    let work = Work {
        bytes: kv.bytes(vectors * width, vectors),
        eight_bit: kv.bits() <= 8,
        context,
        pairs: batch * kv_heads,
    };
    Ok(Ok(Law::new(family, move |m| {
        let kernels = m.runtime.kernel_share.get();
        1e6 * attention::decode(&m.hardware.gpu, kernels, work)
    })))
}
