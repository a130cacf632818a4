//! What the link has to carry when all of T1 is read at every step, as exact attention does.

use super::{Claim, Status, Topic, outcome};
use crate::error::Result;
use crate::units::GIB;

/// Deployments at which the overhead is shown: name, settings.
const CASES: &[(&str, &str, &str)] = &[
    (
        "7b-5080",
        "7B int8, RTX 5080, batch 1, 1.1K tokens",
        "model deepseek-r1-distill-qwen-7b hardware rtx-5080 weights int8 batch 1 prompt 100 output 1011",
    ),
    (
        "7b-h200-b1",
        "7B bf16, H200, batch 1, 8K tokens",
        "model deepseek-r1-distill-qwen-7b hardware h200-sxm weights bf16 batch 1 prompt 512 output 7680",
    ),
    (
        "7b-h200-b8",
        "7B bf16, H200, batch 8, 8K tokens",
        "model deepseek-r1-distill-qwen-7b hardware h200-sxm weights bf16 batch 8 prompt 512 output 7680",
    ),
    (
        "70b-h200-b8",
        "70B int4, H200, batch 8, 4K tokens",
        "model deepseek-r1-distill-llama-70b hardware h200-sxm weights int4 batch 8 prompt 512 output 3584",
    ),
    (
        "70b-gh200-b8",
        "70B int4, GH200, batch 8, 4K tokens",
        "model deepseek-r1-distill-llama-70b hardware gh200 weights int4 batch 8 prompt 512 output 3584",
    ),
];

pub(super) fn claims() -> Result<Vec<Claim>> {
    let mut all = vec![forty_eight()?];
    for case in CASES {
        all.push(overhead(*case)?);
    }
    all.push(modes());
    Ok(all)
}

fn rate(bytes_per_s: f64) -> String {
    format!("{:.0} GB/s", bytes_per_s / 1e9)
}

/// The link that 48 GiB in host memory would need.
fn forty_eight() -> Result<Claim> {
    let o = outcome(
        "model deepseek-r1-distill-llama-70b hardware h200-sxm weights int4 batch 8 prompt 1024 output 31744 trace none policy four-tier:hbm=0.4",
    )?;
    let steps_per_s = o.throughput.full_cache_output_tokens_per_s.unwrap_or(0.0) / 8.0;
    let need = 48.0 * GIB * steps_per_s;
    let kept = o.throughput.output_tokens_per_s.unwrap_or(0.0)
        / o.throughput.full_cache_output_tokens_per_s.unwrap_or(1.0);
    Ok(Claim::new(
        "link-for-48-gib",
        Topic::Link,
        "48 GiB in host memory at 5 to 7 % overhead",
        Status::Corrected,
    )
    .words(
        "5 to 7 %",
        Some(format!(
            "{} for no loss; at 55 GB/s {:.0} % of the throughput is lost",
            rate(need),
            100.0 * (1.0 - kept)
        )),
    )
    .arithmetic("48 GiB / step time without transfers: 70B int4, H200, batch 8, 32,768 tokens; loss at 40 % in HBM")
    .why("each step reads all of T1; no PCIe link carries it in the time of a step"))
}

/// Throughput lost to reading all of T1, half of the cache in HBM.
fn overhead((id, name, words): (&str, &str, &str)) -> Result<Claim> {
    let lost = |overlap: &str| -> Result<f64> {
        let o = outcome(&format!(
            "{words} trace none policy four-tier:hbm=0.5 t1 stream runtime ideal overlap {overlap}"
        ))?;
        let t = o.throughput;
        let share = t.output_tokens_per_s.unwrap_or(0.0)
            / t.full_cache_output_tokens_per_s.unwrap_or(f64::INFINITY);
        Ok(100.0 * (1.0 - share))
    };
    let (serial, layer) = (lost("serial")?, lost("layer")?);
    let within = layer <= 7.0;
    Ok(Claim::new(
        &format!("overhead-{id}"),
        Topic::Link,
        &format!("transfers cost 5 to 7 %: {name}"),
        if within {
            Status::Conditional
        } else {
            Status::Corrected
        },
    )
    .words(
        "5 to 7 %",
        Some(format!("{serial:.0} % serial, {layer:.0} % overlapped")),
    )
    .arithmetic("tokens per second lost over the run against everything in HBM, half of the unprotected cache in T1, kernels at the roofs")
    .why("a step that is not slowed by its software leaves little time to read T1: the published 5 to 7 % is of a step 5.8 times longer than the memory allows"))
}

fn modes() -> Claim {
    Claim::new(
        "prefetch-and-saving",
        Topic::Link,
        "T1 is prefetched before each step, differentially, and HBM is saved",
        Status::Conditional,
    )
    .words(
        "all three at once",
        Some("two of three: `stream` saves and reads T1 each step; `staged` reads little and saves nothing for what it stages; `host-attention` reads T1 where it lies".into()),
    )
    .arithmetic("exact attention reads every live token at every step")
    .why("a buffer that keeps what was prefetched is HBM; see --t1")
}
