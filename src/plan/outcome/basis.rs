//! What an outcome rests on: the numbers that mattered, with source and interval.

use crate::deploy::{Deployment, T1Mode};
use crate::hardware::home::DDR;
use crate::hardware::{Quantity, Value};
use crate::metrics::Assumption;
use crate::plan::run::Case;

pub(in crate::plan) fn assumption<Q: Quantity>(name: &str, v: &Value<Q>) -> Assumption {
    Assumption {
        name: name.into(),
        value: v.value,
        low: v.low,
        high: v.high,
        unit: Q::UNIT.into(),
        source: v.source,
        reference: v.reference.clone(),
    }
}

/// Every number that entered, with its source; those of a path not taken are left out.
pub(in crate::plan) fn assumptions(case: &Case) -> Vec<Assumption> {
    let d = &case.scenario.deployment;
    let (gpu, hardware, runtime) = (&d.hardware.gpu, &d.hardware, &d.runtime);
    let bits = d.weights.bits(crate::model::layer::MatrixKind::Ffn);
    let linear = match bits {
        16 => "linear",
        8 => "linear_8bit",
        _ => "linear_4bit",
    };
    let eight_bit = d.kv != crate::model::KvFormat::Fp16;
    let attention = if eight_bit {
        "attention_8bit"
    } else {
        "attention"
    };
    let law = gpu.kernels.linear_of(bits);
    let read = gpu.kernels.attention_for(eight_bit);
    let mut out = vec![
        assumption("gpu.memory", &gpu.memory),
        assumption("gpu.hbm_bandwidth", &gpu.hbm_bandwidth),
        assumption(&format!("gpu.kernels.{linear}.fixed"), &law.fixed),
        assumption(&format!("gpu.kernels.{linear}.share"), &law.share),
        assumption(&format!("gpu.kernels.{attention}.fixed"), &read.fixed),
        assumption(&format!("gpu.kernels.{attention}.split"), &read.split),
        assumption(&format!("gpu.kernels.{attention}.pair"), &read.pair),
        assumption(&format!("gpu.kernels.{attention}.share"), &read.share),
        assumption("runtime.layer_other", &runtime.layer_other),
        assumption("runtime.step_gap", &runtime.step_gap),
        assumption("runtime.kernel_share", &runtime.kernel_share),
        if d.gpus > 1 {
            assumption("runtime.reserve_multi_gpu", &runtime.reserve_multi_gpu)
        } else {
            assumption("runtime.reserve", &runtime.reserve)
        },
        assumption("runtime.activation_factor", &runtime.activation_factor),
        Assumption {
            name: "memory_fraction".into(),
            value: d.memory_fraction,
            low: d.memory_fraction,
            high: d.memory_fraction,
            unit: "share".into(),
            source: crate::hardware::Source::Assumed,
            reference: format!(
                "--memory-fraction; 0.95 unless given, where {} itself takes {}; its rule is {}",
                runtime.name,
                runtime.memory_fraction.get(),
                runtime.pool.word()
            ),
        },
    ];
    if let Some(w) = &runtime.warm_up {
        out.push(assumption("runtime.warm_up.logit_bytes", &w.logit_bytes));
    }
    if case.timelines.iter().any(|t| t.spills()) || case.ledger.host_weights.0 > 0 {
        out.extend(way_to_t1(d));
    } else {
        out.extend(could_move(d));
    }
    if let Some(i) = hardware.interconnect.as_ref().filter(|_| d.gpus > 1) {
        out.push(assumption(
            "interconnect.allreduce_fixed",
            &i.allreduce_fixed,
        ));
        out.push(assumption("interconnect.bandwidth", &i.bandwidth));
    }
    out
}

/// What could stream and lie there: figures rest on it, though nothing moves.
fn could_move(d: &Deployment) -> Vec<Assumption> {
    let kept = ["link.h2d", "host.ddr_read", "host.pinned_limit"].map(|key| named(d, key));
    let mut out = way_to_t1(d);
    out.retain(|a| kept.contains(&a.name));
    out
}

/// The numbers of the way to T1 and of the place where it lies.
pub(in crate::plan) fn way_to_t1(d: &Deployment) -> Vec<Assumption> {
    let (link, host) = (&d.hardware.link, &d.hardware.host);
    let mut out = vec![
        assumption("link.h2d", &link.h2d),
        assumption("link.d2h", &link.d2h),
        assumption("link.duplex", &link.duplex),
    ];
    if d.t1 == T1Mode::Direct {
        out.push(assumption("link.in_place", &link.in_place_share()));
    }
    if host.ddr_read.get().is_finite() {
        out.push(assumption("host.ddr_read", &host.ddr_read));
    }
    if d.t1 == T1Mode::HostAttention {
        out.push(assumption("host.attention_flops", &host.attention_flops));
    }
    out.push(assumption("host.pinned_limit", &host.pinned_limit));
    for a in &mut out {
        a.name = named(d, &a.name);
    }
    out
}

/// The name of a number of the way to T1, wherever it lies.
fn named(d: &Deployment, key: &str) -> String {
    if d.home == DDR {
        key.into()
    } else {
        home_key(&d.home, key)
    }
}

/// The name of a number in the home's own table.
pub(in crate::plan) fn home_key(home: &str, key: &str) -> String {
    let own = match key {
        "link.h2d" => "read",
        "link.d2h" => "write",
        "link.duplex" => "duplex",
        "link.in_place" => "in_place",
        "host.ddr_read" => "shared",
        "host.pinned_limit" => "capacity",
        other => return other.into(),
    };
    format!("homes.{home}.{own}")
}
