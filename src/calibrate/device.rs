//! What this machine can measure, for `doctor`: host facts, driver, GPU, and what stands in the way.
//!
//! The first GPU is opened as `calibrate` opens it, so that the answer is the one that it would give.

use super::cuda::{Gpu, Watch};
use super::facts::Facts;
use crate::error::Error;

/// Memory that measuring the host takes at least \[bytes\].
const HOST: u64 = 256 << 20;

/// What and what was found.
type Lines = Vec<(String, String)>;

fn yes(obstacle: Option<String>) -> String {
    obstacle.map_or("yes".into(), |why| format!("no: {why}"))
}

/// An error and the way out in a line.
fn told(e: &Error) -> String {
    let help = e.help.as_ref().map_or(String::new(), |h| format!(" ({h})"));
    e.message.clone() + &help
}

/// Lines of `doctor`: what is there and what can be measured, key and value.
pub fn checkup(facts: &Facts) -> Lines {
    let mut out: Lines = facts.head(false).into_iter().collect();
    if facts.wsl {
        let why =
            "Linux under Windows: pinned memory is limited, copies start later, NVML answers less";
        out.push(("host.wsl".into(), why.into()));
    }
    if cfg!(windows) {
        let why = "calls are batched by the display driver (WDDM): copies start later";
        out.push(("host.windows".into(), why.into()));
    }
    let gpu = Gpu::open(0);
    if let Ok(gpu) = &gpu {
        let seen = Watch::new(&gpu.bus).head();
        // What is seen while something runs is not seen at rest.
        let of_rest = |key: &str| {
            ["gpu", "driver", "note"]
                .iter()
                .any(|own| key.starts_with(own))
        };
        out.extend(gpu.head());
        out.extend(seen.into_iter().filter(|(key, _)| of_rest(key)));
    }
    let small = facts.available.is_some_and(|m| m < HOST);
    let small = small.then(|| "less than 256 MiB of memory are free".to_string());
    out.push(("calibrate --host-only".into(), yes(small)));
    out.push(("calibrate".into(), yes(gpu.err().as_ref().map(told))));
    out
}
