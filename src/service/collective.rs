//! All-reduce between GPUs in tensor parallel: `t = fixed + bytes * 2 (n-1)/n / bandwidth`.
//!
//! Two a layer (after attention and after the feed-forward). The constants are fits over vLLM's custom all-reduce
//! (reference `comm_allreduce`); ring and tree switches are not modelled.

use crate::hardware::Interconnect;

/// Seconds of one all-reduce of `bytes` over `gpus`; nothing for one GPU.
pub fn all_reduce(interconnect: Option<&Interconnect>, gpus: f64, bytes: f64) -> f64 {
    match interconnect {
        Some(i) if gpus > 1.0 => {
            i.allreduce_fixed.get() + bytes * 2.0 * (gpus - 1.0) / gpus / i.bandwidth.get()
        }
        _ => 0.0,
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
