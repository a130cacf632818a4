//! A machine or a runtime with the interval and the source of every number.

use crate::catalog;
use crate::cli::grid::{Cell, Column, Grid, pretty};
use crate::error::Result;
use crate::hardware::kernels::{DecodeAttention, Linear};
use crate::hardware::{Hardware, Pool, Prefill, Quantity, Runtime, Value};

/// Rows of numbers.
struct Sheet(Grid);

impl Sheet {
    fn new() -> Self {
        Self(
            Grid::new(&[
                Column("key", "NUMBER", false),
                Column("value", "VALUE", true),
                Column("interval", "P5 TO P95", false),
                Column("source", "SOURCE", false),
                Column("ref", "REF", false),
            ])
            .noted(),
        )
    }

    fn add<Q: Quantity>(&mut self, key: &str, v: &Value<Q>) {
        self.0.row(vec![
            Cell::text(key),
            Cell::text(v.show()),
            Cell::text(format!("{} to {}", Q::show(v.low), Q::show(v.high))),
            Cell::text(v.source.word()),
            Cell::text(&v.reference),
        ]);
    }

    fn maybe<Q: Quantity>(&mut self, key: &str, v: Option<&Value<Q>>) {
        if let Some(v) = v {
            self.add(key, v);
        }
    }
}

/// A machine.
pub(super) fn hardware(h: &Hardware, json: bool) -> Result<String> {
    if json {
        return pretty(h);
    }
    let mut sheet = Sheet::new();
    gpu(h, &mut sheet);
    host(h, &mut sheet);
    homes(h, &mut sheet);
    let coherent = if h.link.coherent {
        "; the GPU reads host memory in place"
    } else {
        ""
    };
    let fitted = h
        .calibrated
        .as_ref()
        .map_or(String::new(), |c| format!("calibrated: {c}\n"));
    let places = h.homes.iter().fold(String::new(), |all, (id, home)| {
        all + "home of T1 besides ddr: --home " + id + ", " + &home.name + "\n"
    });
    let warnings = catalog::hardware_warnings(h)
        .into_iter()
        .fold(String::new(), |all, w| all + "warning: " + &w + "\n");
    Ok(format!(
        "{} ({}): {}, {}\nlink: {}{coherent}\nhost: {}\n{places}{fitted}{warnings}\n{}",
        h.id,
        h.name,
        h.generation,
        h.memory_kind,
        h.link.name,
        h.host.name,
        sheet.0.table()
    ))
}

/// Places for T1 other than host memory.
fn homes(h: &Hardware, s: &mut Sheet) {
    for (name, home) in &h.homes {
        let key = |part: &str| format!("homes.{name}.{part}");
        s.add(&key("read"), &home.read);
        s.add(&key("write"), &home.write);
        s.maybe(&key("shared"), home.shared.as_ref());
        s.add(&key("duplex"), &home.duplex);
        s.add(&key("latency"), &home.latency);
        s.add(&key("capacity"), &home.capacity);
        s.maybe(&key("in_place"), home.in_place.as_ref());
    }
}

fn gpu(h: &Hardware, s: &mut Sheet) {
    let (g, k) = (&h.gpu, &h.gpu.kernels);
    s.add("gpu.memory", &g.memory);
    s.add("gpu.hbm_bandwidth", &g.hbm_bandwidth);
    s.add("gpu.bf16_dense", &g.bf16_dense);
    s.maybe("gpu.fp8_dense", g.fp8_dense.as_ref());
    s.maybe("gpu.int8_dense", g.int8_dense.as_ref());
    s.add("gpu.l2", &g.l2);
    for (name, law) in [
        ("attention", &k.attention),
        ("attention_8bit", &k.attention_8bit),
    ] {
        attention(name, law, s);
    }
    for (name, law) in &k.attention_of {
        attention(&format!("attention_of.{name}"), law, s);
    }
    for (name, law) in [
        ("linear", &k.linear),
        ("linear_8bit", &k.linear_8bit),
        ("linear_4bit", &k.linear_4bit),
    ] {
        linear(name, law, s);
    }
    s.add("gpu.kernels.prefill.fixed", &k.prefill.fixed);
    s.add("gpu.kernels.prefill.share", &k.prefill.share);
    s.add("gpu.kernels.prefill.fill", &k.prefill.fill);
    s.add("gpu.kernels.prefill.operands", &k.prefill.operands);
}

fn attention(name: &str, law: &DecodeAttention, s: &mut Sheet) {
    let key = |part| format!("gpu.kernels.{name}.{part}");
    s.add(&key("fixed"), &law.fixed);
    s.add(&key("split"), &law.split);
    s.add(&key("pair"), &law.pair);
    s.add(&key("share"), &law.share);
    s.add(&key("l2"), &law.l2);
}

fn linear(name: &str, law: &Linear, s: &mut Sheet) {
    let key = |part| format!("gpu.kernels.{name}.{part}");
    s.add(&key("fixed"), &law.fixed);
    s.add(&key("share"), &law.share);
    s.add(&key("gemm"), &law.gemm);
    s.add(&key("sharpness"), &law.sharpness);
    s.add(&key("l2"), &law.l2);
    if let Some(single) = &law.single {
        s.add(&key("single.fixed"), &single.fixed);
        s.add(&key("single.share"), &single.share);
    }
}

fn host(h: &Hardware, s: &mut Sheet) {
    s.add("link.h2d", &h.link.h2d);
    s.add("link.d2h", &h.link.d2h);
    s.add("link.duplex", &h.link.duplex);
    s.add("link.call", &h.link.call);
    s.add("link.descriptor", &h.link.descriptor);
    s.add("link.in_place", &h.link.in_place_share());
    s.add("host.memory", &h.host.memory);
    s.add("host.channels", &h.host.channels);
    s.add("host.ddr_read", &h.host.ddr_read);
    s.add("host.pinned_limit", &h.host.pinned_limit);
    s.add("host.cores", &h.host.cores);
    s.add("host.attention_flops", &h.host.attention_flops);
    if let Some(i) = &h.interconnect {
        s.add("interconnect.allreduce_fixed", &i.allreduce_fixed);
        s.add("interconnect.bandwidth", &i.bandwidth);
    }
    s.maybe("price", h.price.as_ref());
}

/// A runtime.
pub(super) fn runtime(r: &Runtime, json: bool) -> Result<String> {
    if json {
        return pretty(r);
    }
    let mut s = Sheet::new();
    s.add("step_gap", &r.step_gap);
    s.add("step_gap_per_sequence", &r.step_gap_per_sequence);
    s.add("layer_other", &r.layer_other);
    s.add("kernel_share", &r.kernel_share);
    s.add("reserve", &r.reserve);
    s.add("reserve_multi_gpu", &r.reserve_multi_gpu);
    s.add("batched_tokens", &r.batched_tokens);
    s.add("activation_factor", &r.activation_factor);
    s.add("memory_fraction", &r.memory_fraction);
    s.add("served", &r.served);
    if let Some(w) = &r.warm_up {
        s.add("warm_up.rows", &w.rows);
        s.add("warm_up.rows_small", &w.rows_small);
        s.add("warm_up.logit_bytes", &w.logit_bytes);
    }
    if let Some(f) = &r.front {
        s.add("front.fixed", &f.fixed);
        s.add("front.each", &f.each);
        s.add("front.bunch", &f.bunch);
        s.add("front.queue", &f.queue);
    }
    if let Some(o) = &r.offload {
        s.add("offload.copy", &o.copy);
        s.add("offload.fetch", &o.fetch);
        s.add("offload.scores", &o.scores);
        s.add("offload.books", &o.books);
    }
    let full = if r.preempts {
        "the latest request is preempted and recomputed"
    } else {
        "new requests wait"
    };
    let peak = if r.peak_kernels {
        "kernels run at the roofs: a bound, not a runtime\n"
    } else {
        ""
    };
    let page = if r.page_tokens == 1 {
        "1 token".to_string()
    } else {
        format!("{} tokens", r.page_tokens)
    };
    let (id, name, dated) = (&r.id, &r.name, &r.dated);
    let rule = match r.pool {
        Pool::OfTotal => "what is left of a share of all memory",
        Pool::OfFree => "a share of what is free beside weights, activations and reserve",
        Pool::Static => "what weights leave of a share of all memory",
    };
    let order = match r.prefill {
        Prefill::First => "before all decode steps",
        Prefill::InChunks => "in chunks beside decode steps",
    };
    Ok(format!(
        "{id} ({name}), dated {dated}\npage: {page}; when KV is full: {full}\nKV pool: {rule} ({}); prefill: {order}\n{peak}\n{}",
        r.pool.word(),
        s.0.table()
    ))
}
