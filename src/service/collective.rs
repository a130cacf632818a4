//! All-reduce between GPUs in tensor parallel: `t = fixed + hop * (n - 2) + moved / bandwidth(n)`.
//!
//! Two a layer (after attention and after the feed-forward). A small vector goes in one shot: each GPU reads the whole one
//! of every peer, `(n - 1) * bytes`; a large one in two, reduce-scatter and all-gather, `2 (n - 1) / n * bytes`. The
//! thresholds are those of vLLM's custom all-reduce (always one shot between two GPUs; under 512 KiB up to four, under 256
//! KiB up to eight), the constants fits over it (reference `comm_allreduce`: median error 4 % over `NVLink`, 7 % over `PCIe`).
//! Bandwidth is that of two GPUs and of eight, geometric between in doublings: links of a `PCIe` root complex are shared.
//! Ignored: the switch to NCCL at some MiB, which costs up to 1.6 times about 8 MiB.

use crate::hardware::{Interconnect, Value};

/// Largest vector that goes in one shot between up to four GPUs \[bytes\].
const ONE_SHOT_OF_4: f64 = 524_288.0;
/// The same between more.
const ONE_SHOT_OF_8: f64 = 262_144.0;

/// Seconds of one all-reduce of `bytes` over `gpus`; nothing for one GPU.
pub fn all_reduce(interconnect: Option<&Interconnect>, gpus: f64, bytes: f64) -> f64 {
    match interconnect {
        Some(i) if gpus > 1.0 => {
            let hop = i.allreduce_hop.as_ref().map_or(0.0, Value::get);
            i.allreduce_fixed.get() + hop * (gpus - 2.0) + moved(gpus, bytes) / bandwidth(i, gpus)
        }
        _ => 0.0,
    }
}

/// Bytes that each GPU reads from its peers.
fn moved(gpus: f64, bytes: f64) -> f64 {
    let threshold = match gpus {
        n if n <= 2.0 => f64::INFINITY,
        n if n <= 4.0 => ONE_SHOT_OF_4,
        _ => ONE_SHOT_OF_8,
    };
    if bytes < threshold {
        (gpus - 1.0) * bytes
    } else {
        2.0 * (gpus - 1.0) / gpus * bytes
    }
}

/// Bytes a second at which one of `gpus` reads its peers.
fn bandwidth(i: &Interconnect, gpus: f64) -> f64 {
    let two = i.bandwidth.get();
    match &i.bandwidth_of_8 {
        // Three doublings from one to eight, of which two lie beyond two GPUs.
        Some(eight) => two * libm::pow(eight.get() / two, (libm::log2(gpus) - 1.0) / 2.0),
        None => two,
    }
}

/// Seconds of an all-reduce that the CPU launches outside a graph: the launch hides behind a long one.
pub fn launched(interconnect: Option<&Interconnect>, gpus: f64, bytes: f64) -> f64 {
    let launch = match interconnect {
        Some(i) if gpus > 1.0 => i.launch().get(),
        _ => 0.0,
    };
    all_reduce(interconnect, gpus, bytes).max(launch)
}
