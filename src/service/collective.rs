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

/// Time in which a CPU checks and launches an all-reduce outside a graph (s); 18 to 45 us by host in vLLM's tables.
const LAUNCH: f64 = 22e-6;

/// Seconds of an all-reduce launched by the CPU, where it takes `seconds` in a graph: the launch hides behind a long one.
pub fn launched(seconds: f64) -> f64 {
    seconds.max(LAUNCH)
}
