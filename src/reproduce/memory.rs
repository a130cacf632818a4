//! KV bytes, and how much of them is saved.

use super::{Claim, Status, Topic, outcome};
use crate::catalog;
use crate::error::Result;
use crate::model::{Attention, KvFormat, Model};
use crate::units::GIB;

const SEVEN: &str = "deepseek-r1-distill-qwen-7b";
const SEVENTY: &str = "deepseek-r1-distill-llama-70b";

/// The share of the KV that the draft's table counts as saved: the middle of "50 to 70 % offloaded".
const SAVED: f64 = 0.6;

/// Rows of the draft's table of savings: model, batch, tokens, published saving (GB).
const TABLE: &[(&str, u32, u32, f64)] = &[
    (SEVEN, 1, 2048, 0.3),
    (SEVEN, 8, 2048, 2.3),
    (SEVEN, 1, 16_384, 2.3),
    (SEVENTY, 8, 4096, 48.0),
];

/// KV bytes of a token counted by query heads, fp16: 2 x layers x query heads x head width x 2. It is what a model without
/// grouped heads would need, and how the draft counts.
pub(super) fn by_query_heads(model: &Model) -> f64 {
    let layer = |a: Attention| match a {
        Attention::Grouped {
            heads, head_dim, ..
        } => 4.0 * f64::from(heads) * f64::from(head_dim),
        // A latent is shared by all heads: there is nothing to overcount.
        Attention::Latent { kv_rank, rope, .. } => 2.0 * f64::from(kv_rank + rope),
    };
    model.layers.iter().map(|l| layer(l.attention)).sum()
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn gigabytes(bytes: f64) -> String {
    if bytes < 9.95e9 {
        format!("{:.2} GB", bytes / 1e9)
    } else {
        format!("{:.1} GB", bytes / 1e9)
    }
}

pub(super) fn claims() -> Result<Vec<Claim>> {
    let mut all = vec![two_thousand_tokens()?];
    for row in TABLE {
        all.push(saving(*row)?);
    }
    all.push(range()?);
    all.push(exactly()?);
    all.push(net()?);
    Ok(all)
}

fn two_thousand_tokens() -> Result<Claim> {
    let model = catalog::model(SEVEN)?;
    let (ours, theirs) = (
        model.kv_bytes_per_token(KvFormat::Fp16),
        by_query_heads(&model),
    );
    let layers = model.layers.len();
    Ok(Claim::new(
        "kv-2000-tokens",
        Topic::Memory,
        "2,000 tokens of a 7B take about 800 MB of KV",
        Status::Corrected,
    )
    .figures(800e6, 2000.0 * ours, megabytes)
    .arithmetic(format!(
        "2 x {layers} layers x 28 query heads x 128 x 2 B x 2,000 = {}; with its 4 KV heads 2 x {layers} x 4 x 128 x 2 B x 2,000 = {}",
        megabytes(2000.0 * theirs),
        megabytes(2000.0 * ours)
    ))
    .why("the model shares each KV head among seven query heads; the cache holds KV heads"))
}

fn saving((name, batch, tokens, published): (&str, u32, u32, f64)) -> Result<Claim> {
    let model = catalog::model(name)?;
    let count = f64::from(batch) * f64::from(tokens);
    let (ours, theirs) = (
        SAVED * count * model.kv_bytes_per_token(KvFormat::Fp16),
        SAVED * count * by_query_heads(&model),
    );
    let short = if name == SEVEN { "7B" } else { "70B" };
    let formula = format!(
        "{SAVED} x {batch} x {tokens} x {:.0} B = {}; counted by query heads {}",
        model.kv_bytes_per_token(KvFormat::Fp16),
        gigabytes(ours),
        gigabytes(theirs)
    );
    let why = if name == SEVEN {
        "query heads; and the published 7B cells do not follow from the draft's own formula either (3.8 GB for 16,384 tokens would take 16 heads)"
    } else {
        "query heads, and GiB written as GB: 80.0 GiB x 0.6 = 48 GiB"
    };
    Ok(Claim::new(
        &format!("saved-{}-b{batch}-{tokens}", short.to_lowercase()),
        Topic::Memory,
        &format!("HBM saved, {short}, batch {batch}, {tokens} tokens"),
        Status::Corrected,
    )
    .figures(published * 1e9, ours, gigabytes)
    .arithmetic(formula)
    .why(why))
}

fn range() -> Result<Claim> {
    let mut saved = Vec::new();
    for (name, batch, tokens, _) in TABLE {
        let kv = catalog::model(name)?.kv_bytes_per_token(KvFormat::Fp16);
        saved.push(SAVED * f64::from(*batch) * f64::from(*tokens) * kv);
    }
    let low = saved.iter().copied().fold(f64::INFINITY, f64::min);
    let high = saved.iter().copied().fold(0.0, f64::max);
    Ok(Claim::new(
        "saved-range",
        Topic::Memory,
        "tiering saves 2 to 48 GB of HBM",
        Status::Corrected,
    )
    .words(
        "2 to 48 GB",
        Some(format!("{:.2} to {:.1} GB", low / 1e9, high / 1e9)),
    )
    .arithmetic("the rows above with the KV heads that the models have")
    .why("query heads for KV heads; before protected tokens and staging are taken off"))
}

/// Which deployments save 2.0 and 48 GiB when a share of the cache stays in HBM, with real KV heads.
fn exactly() -> Result<Claim> {
    let mut found = [Vec::new(), Vec::new()];
    for (short, name) in [
        ("7B", SEVEN),
        ("Llama-8B", "deepseek-r1-distill-llama-8b"),
        ("14B", "deepseek-r1-distill-qwen-14b"),
        ("32B", "deepseek-r1-distill-qwen-32b"),
        ("70B", SEVENTY),
    ] {
        let kv = catalog::model(name)?.kv_bytes_per_token(KvFormat::Fp16);
        for batch in [1u32, 8, 32] {
            for thousands in [2u32, 4, 8, 16, 32] {
                for kept in [3u32, 4, 5, 7] {
                    let tokens = f64::from(batch) * f64::from(thousands) * 1024.0;
                    let gib = f64::from(10 - kept) / 10.0 * tokens * kv / GIB;
                    for (list, target) in found.iter_mut().zip([2.0, 48.0]) {
                        if (gib / target - 1.0).abs() < 0.005 {
                            list.push(format!("{short} b{batch} {thousands}K keeping {kept}0 %"));
                        }
                    }
                }
            }
        }
    }
    let [two, most] = found.map(|list| list.join(", "));
    Ok(Claim::new(
        "saved-exactly",
        Topic::Memory,
        "which deployments do save 2 and 48 GiB",
        Status::Conditional,
    )
    .words(
        "7B to 70B, batch 1 to 8, 2K to 16K",
        Some(format!("2.0 GiB: {two}; 48 GiB: {most}")),
    )
    .arithmetic("(1 - kept) x batch x tokens x KV bytes per token, 7B to 70B, batch 1, 8, 32, 2K to 32K, 30 to 70 % kept, within 0.5 %")
    .why("real KV heads; nominal, before protected tokens and staging"))
}

/// What of a nominal 48 GiB is left once the ledger is drawn up.
fn net() -> Result<Claim> {
    let o = outcome(
        "model deepseek-r1-distill-llama-70b hardware h200-sxm weights int4 batch 8 prompt 1024 output 31744 trace none policy four-tier:hbm=0.4",
    )?;
    let kv = catalog::model(SEVENTY)?.kv_bytes_per_token(KvFormat::Fp16);
    let nominal = 0.6 * 8.0 * 32_768.0 * kv;
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let saved = o.memory.hbm_saved_moved_bytes as f64;
    let gib = |b: f64| format!("{:.1} GiB", b / GIB);
    Ok(Claim::new(
        "saved-net",
        Topic::Memory,
        "keeping 40 % in HBM saves the other 60 %",
        Status::Corrected,
    )
    .figures(nominal, saved, gib)
    .arithmetic(format!(
        "70B, int4 weights, batch 8, 32,768 tokens: {} of KV less T0 {} less staging {}",
        gib(o.memory.kv_full_bytes as f64),
        gib(o.memory.kv_t0_bytes as f64),
        gib(o.memory.staging_bytes as f64)
    ))
    .why("prompt, sinks and window stay in HBM; streaming needs two layers of T1 staged; packing needs a spare page a request"))
}
