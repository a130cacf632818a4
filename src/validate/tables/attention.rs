//! `decode_attn.csv`: one layer's decode attention by heads of a rank, batch and cached tokens, in microseconds.
//!
//! Most rows time one call over and over, so that a small cache lies in L2; rows of a profile of a whole model do not
//! (`source_id`, VALIDATION 1).

use super::super::names;
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Fits, Kind, Law, MOST_BATCH, MOST_TOKENS, Scope, heads, kv};
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
        framework: line.text("framework")?.into(),
        model: line.text("heads_q_kv_dim_per_rank")?.into(),
        measured: line.positive("latency_us")?,
        fits: Some(fits(line)?),
        law: law(line, stock)?,
    })
}

/// Sources that profile whole models (`LLMServingSim`), and a bench over caches far larger than L2 (`InferSim`).
const COLD: [&str; 9] = [
    "S14", "S15", "S16", "S17", "S18", "S19", "S20", "S21", "S22",
];

fn fits(line: Line<'_>) -> Result<Fits> {
    let eight_bit = kv(line.text("kv_dtype")?).is_ok_and(|kv| kv.bits() <= 8);
    let family = names::family(line.text("framework")?, eight_bit);
    Ok(if eight_bit && family.is_none() {
        Fits::Attention8Bit
    } else {
        Fits::Attention(family)
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
        warm: !COLD.contains(&line.maybe("source_id")),
    };
    let own = names::family(line.text("framework")?, work.eight_bit);
    Ok(Ok(Law::new(family, move |m| {
        let kernels = m.runtime.kernel_share.get();
        let law = own.and_then(|name| m.hardware.gpu.kernels.attention_of.get(name));
        let usual = || m.hardware.gpu.kernels.attention_for(work.eight_bit);
        let law = law.unwrap_or_else(usual);
        1e6 * attention::decode(&m.hardware.gpu, law, kernels, work, 1.0)
    })))
}
