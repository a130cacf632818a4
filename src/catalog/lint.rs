//! Physics of a user's profile: refuse what cannot be, warn of what is unlikely.
//!
//! A planner that takes a 12,500 GB/s host link at its word answers confidently and wrongly (one did: its default was 250
//! times `PCIe` 5). Refused: zero where the model divides, and rates beyond anything built. Warned: above the named link's
//! wire. An infinite link is allowed for what-if runs, with a warning.

use crate::error::{Error, Result};
use crate::hardware::home::DDR;
use crate::hardware::{Calibration, Hardware, Kernels, Quantity, Runtime, Value};

/// One number: its key, value, the smallest and the largest that is believed.
type Bound = (&'static str, f64, f64, f64);

fn bound<Q: Quantity>(key: &'static str, value: &Value<Q>, low: f64, high: f64) -> Bound {
    (key, value.get(), low, high)
}

/// Bounds of the laws of kernels.
fn kernels(k: &Kernels, all: &mut Vec<Bound>) {
    let families = k.attention_of.values();
    for law in [&k.attention, &k.attention_8bit]
        .into_iter()
        .chain(families)
    {
        all.extend([
            bound("fixed", &law.fixed, 0.0, 1.0),
            bound("split", &law.split, 0.0, 1.0),
            bound("pair", &law.pair, 0.0, 1.0),
            bound("share", &law.share, 0.001, 1.0),
            bound("l2", &law.l2, 0.01, 100.0),
        ]);
    }
    for law in [&k.linear, &k.linear_8bit, &k.linear_4bit] {
        all.extend([
            bound("fixed", &law.fixed, 0.0, 1.0),
            bound("share", &law.share, 0.001, 1.0),
            bound("gemm", &law.gemm, 0.001, 1.0),
            bound("sharpness", &law.sharpness, 1.0, 100.0),
            bound("l2", &law.l2, 0.01, 1e9),
        ]);
        if let Some(single) = &law.single {
            all.extend([
                bound("fixed", &single.fixed, 0.0, 1.0),
                bound("share", &single.share, 0.001, 1.0),
            ]);
        }
    }
    all.extend([
        bound("fixed", &k.prefill.fixed, 0.0, 1.0),
        bound("share", &k.prefill.share, 0.001, 1.0),
        bound("fill", &k.prefill.fill, 0.0, 1e6),
        bound("operands", &k.prefill.operands, 0.001, 1e9),
    ]);
}

/// Checks a machine that a user wrote.
///
/// # Errors
/// Data, at the line of the key: a figure that no machine has.
pub(super) fn hardware(h: &Hardware, text: &str, path: &str) -> Result<()> {
    let k = &h.gpu.kernels;
    let mut all = vec![
        bound("memory", &h.gpu.memory, 1e9, 1e13),
        bound("hbm_bandwidth", &h.gpu.hbm_bandwidth, 1e9, 1e15),
        bound("bf16_dense", &h.gpu.bf16_dense, 1e11, 1e17),
        bound("duplex", &h.link.duplex, 0.01, 1.0),
        bound("call", &h.link.call, 0.0, 1.0),
        bound("descriptor", &h.link.descriptor, 0.0, 1.0),
        bound("ddr_read", &h.host.ddr_read, 1e8, 1e14),
        bound("channels", &h.host.channels, 1.0, 4096.0),
        bound("cores", &h.host.cores, 1.0, 65536.0),
        bound("attention_flops", &h.host.attention_flops, 1e7, 1e16),
    ];
    kernels(k, &mut all);
    if let Some(share) = &h.link.in_place {
        all.push(bound("in_place", share, 0.001, 1.0));
    }
    for home in h.homes.values() {
        all.extend([
            bound("read", &home.read, 1e6, 1e14),
            bound("write", &home.write, 1e6, 1e14),
            bound("latency", &home.latency, 0.0, 1.0),
            bound("capacity", &home.capacity, 1e6, 1e16),
        ]);
        all.extend(home.shared.as_ref().map(|v| bound("shared", v, 1e6, 1e14)));
        all.extend(
            home.in_place
                .as_ref()
                .map(|v| bound("in_place", v, 0.001, 1.0)),
        );
        all.push(bound("duplex", &home.duplex, 0.01, 1.0));
    }
    if let Some(i) = &h.interconnect {
        all.push(bound("bandwidth", &i.bandwidth, 1e6, 1e14));
        all.push(bound("allreduce_fixed", &i.allreduce_fixed, 0.0, 1.0));
    }
    check(&all, text, path)?;
    if h.homes.contains_key(DDR) {
        return Err(fault(
            "[homes",
            "must not name a home `ddr`: that is the host's own memory",
            text,
            path,
        ));
    }
    if let Some((name, why)) = h.calibration.as_ref().and_then(Calibration::fault) {
        let at = text.find(&format!("\"{name}\"")).unwrap_or(0);
        let span = at..at + name.len() + 2;
        return Err(Error::data(format!("`{name}` {why}")).at(path, text, span));
    }
    let host = (h.host.pinned_limit.get(), h.host.memory.get());
    if host.0 > host.1 {
        return Err(fault(
            "pinned_limit",
            "is more than the host's memory",
            text,
            path,
        ));
    }
    Ok(())
}

/// Checks a runtime that a user wrote.
///
/// # Errors
/// As [`hardware`].
pub(super) fn runtime(r: &Runtime, text: &str, path: &str) -> Result<()> {
    check(
        &[
            bound("step_gap", &r.step_gap, 0.0, 10.0),
            bound("step_gap_per_sequence", &r.step_gap_per_sequence, 0.0, 10.0),
            bound("layer_other", &r.layer_other, 0.0, 10.0),
            bound("kernel_share", &r.kernel_share, 0.001, 1.0),
            bound("reserve", &r.reserve, 0.0, 1e12),
            bound("reserve_multi_gpu", &r.reserve_multi_gpu, 0.0, 1e12),
            bound("batched_tokens", &r.batched_tokens, 1.0, 1e7),
            bound("activation_factor", &r.activation_factor, 0.0, 1000.0),
            bound("memory_fraction", &r.memory_fraction, 0.001, 1.0),
            bound("served", &r.served, 0.01, 100.0),
            bound("prompts", &r.prompts, 0.01, 100.0),
            ("page_tokens", f64::from(r.page_tokens), 1.0, 65536.0),
        ],
        text,
        path,
    )
}

fn check(bounds: &[Bound], text: &str, path: &str) -> Result<()> {
    let wrong = bounds
        .iter()
        .find(|(_, v, low, high)| !(low <= v && v <= high));
    match wrong {
        None => Ok(()),
        Some((key, value, low, _)) if value < low => Err(fault(
            key,
            &format!("is {value}, less than anything real ({low})"),
            text,
            path,
        )),
        Some((key, value, _, high)) => Err(fault(
            key,
            &format!("is {value}, more than anything real ({high})"),
            text,
            path,
        )),
    }
}

/// An error at the line that sets `key`.
fn fault(key: &str, why: &str, text: &str, path: &str) -> Error {
    let mut start = 0;
    let mut span = 0..0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let rest = line.trim_start().strip_prefix(key).map(str::trim_start);
        if rest.is_some_and(|r| r.starts_with('=')) {
            span = start + indent..start + indent + key.len();
            break;
        }
        start += line.len();
    }
    Error::data(format!("`{key}` {why}")).at(path, text, span)
}

/// What is unlikely about a machine, as sentences; empty for the catalog's own.
pub fn warnings(h: &Hardware) -> Vec<String> {
    let mut out = Vec::new();
    let wire = wire(&h.link.name);
    for (key, rate) in [("h2d", h.link.h2d.get()), ("d2h", h.link.d2h.get())] {
        if rate > wire {
            out.push(format!(
                "link {key} is {:.0} GB/s, above the {:.0} GB/s of {}: nothing moves that fast",
                rate / 1e9,
                wire / 1e9,
                h.link.name
            ));
        } else if rate <= 0.0 {
            out.push(format!(
                "link {key} is zero: whatever is on the host never arrives"
            ));
        }
    }
    if h.host.ddr_read.get() < h.link.h2d.get() && h.link.h2d.get().is_finite() {
        out.push(format!(
            "host memory reads {:.0} GB/s, less than the link's {:.0} GB/s: the memory is the bottleneck",
            h.host.ddr_read.get() / 1e9,
            h.link.h2d.get() / 1e9
        ));
    }
    out
}

/// What the wire of a named link carries each way; for an unknown name, what no host link exceeds (bytes/s).
fn wire(name: &str) -> f64 {
    let known = [
        ("PCIe 3", 15.8e9),
        ("PCIe 4", 31.5e9),
        ("PCIe 5", 63.0e9),
        ("PCIe 6", 126.0e9),
        ("NVLink-C2C", 450e9),
    ];
    known
        .iter()
        .find(|(n, _)| name.starts_with(n))
        .map_or(900e9, |(_, w)| *w)
}
