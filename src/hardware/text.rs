//! A machine and the laws of its kernels as TOML, in the form that [`super::Hardware`] is read from.
//!
//! Written by hand and not by a serialiser, because a value is read as text with its unit and told with its unit apart
//! (see [`super::value`]), and because each stands on one line. What is absent is left out. Laws of kernels are written
//! where they differ from what the catalog would put in their place. Figures have six digits, those of fitted laws four:
//! rounding keeps low <= value <= high.

use std::fmt::Write as _;

use super::home::Home;
use super::kernels::{DecodeAttention, Linear, PrefillAttention, Spread};
use super::{Gpu, Hardware, Host, Interconnect, Kernels, Link, Quantity, Value};

/// Digits of a figure of a fitted law.
const LAW: usize = 4;

/// Digits of another figure.
const DIGITS: usize = 6;

/// A whole file; the laws of its kernels only if `kernels`.
///
/// # Errors
/// The section of a calibration cannot be written (it always can).
pub fn hardware(h: &Hardware, kernels: bool) -> Result<String, toml::ser::Error> {
    let mut out = String::new();
    for (key, value) in [("id", &h.id), ("name", &h.name)] {
        let _ = writeln!(out, "{key} = {}", quoted(value));
    }
    let aliases: Vec<String> = h.aliases.iter().map(|a| quoted(a)).collect();
    if !aliases.is_empty() {
        let _ = writeln!(out, "aliases = [{}]", aliases.join(", "));
    }
    let words = [
        ("generation", &h.generation),
        ("memory_kind", &h.memory_kind),
    ];
    for (key, value) in words {
        let _ = writeln!(out, "{key} = {}", quoted(value));
    }
    if let Some(when) = &h.calibrated {
        let _ = writeln!(out, "calibrated = {}", quoted(when));
    }
    if let Some(price) = &h.price {
        line(&mut out, "price", price, DIGITS);
    }
    out += &gpu(&h.gpu);
    out += &link(&h.link);
    out += &host(&h.host);
    out += &h.interconnect.as_ref().map_or(String::new(), interconnect);
    for (name, at) in &h.homes {
        out += &home(name, at);
    }
    if kernels {
        out += &self::kernels(&h.gpu.kernels);
    }
    if let Some(calibration) = &h.calibration {
        let section = std::collections::BTreeMap::from([("calibration", calibration)]);
        out = out + "\n" + &toml::to_string(&section)?;
    }
    Ok(out)
}

fn gpu(g: &Gpu) -> String {
    let mut out = "\n[gpu]\n".to_string();
    line(&mut out, "memory", &g.memory, DIGITS);
    line(&mut out, "hbm_bandwidth", &g.hbm_bandwidth, DIGITS);
    line(&mut out, "bf16_dense", &g.bf16_dense, DIGITS);
    maybe(&mut out, "fp8_dense", g.fp8_dense.as_ref());
    maybe(&mut out, "int8_dense", g.int8_dense.as_ref());
    line(&mut out, "l2", &g.l2, DIGITS);
    out
}

fn link(l: &Link) -> String {
    let mut out = format!("\n[link]\nname = {}\n", quoted(&l.name));
    line(&mut out, "h2d", &l.h2d, DIGITS);
    line(&mut out, "d2h", &l.d2h, DIGITS);
    line(&mut out, "duplex", &l.duplex, DIGITS);
    line(&mut out, "call", &l.call, DIGITS);
    line(&mut out, "descriptor", &l.descriptor, DIGITS);
    maybe(&mut out, "batched_piece", l.batched_piece.as_ref());
    maybe(&mut out, "remote", l.remote.as_ref());
    if l.coherent {
        out += "coherent = true\n";
    }
    maybe(&mut out, "in_place", l.in_place.as_ref());
    maybe(&mut out, "gather_piece", l.gather_piece.as_ref());
    maybe(&mut out, "gather_share", l.gather_share.as_ref());
    maybe(&mut out, "staging", l.staging.as_ref());
    out
}

fn host(h: &Host) -> String {
    let mut out = format!("\n[host]\nname = {}\n", quoted(&h.name));
    line(&mut out, "memory", &h.memory, DIGITS);
    line(&mut out, "channels", &h.channels, DIGITS);
    line(&mut out, "ddr_read", &h.ddr_read, DIGITS);
    line(&mut out, "pinned_limit", &h.pinned_limit, DIGITS);
    line(&mut out, "cores", &h.cores, DIGITS);
    line(&mut out, "attention_flops", &h.attention_flops, DIGITS);
    out
}

fn interconnect(i: &Interconnect) -> String {
    let mut out = format!("\n[interconnect]\nname = {}\n", quoted(&i.name));
    line(&mut out, "allreduce_fixed", &i.allreduce_fixed, DIGITS);
    maybe(&mut out, "allreduce_hop", i.allreduce_hop.as_ref());
    line(&mut out, "bandwidth", &i.bandwidth, DIGITS);
    maybe(&mut out, "bandwidth_of_8", i.bandwidth_of_8.as_ref());
    maybe(&mut out, "launch", i.launch.as_ref());
    out
}

fn home(name: &str, h: &Home) -> String {
    let key = quoted(name);
    let mut out = format!("\n[homes.{key}]\nname = {}\n", quoted(&h.name));
    if h.by_host {
        out += "by_host = true\n";
    }
    line(&mut out, "read", &h.read, DIGITS);
    line(&mut out, "write", &h.write, DIGITS);
    maybe(&mut out, "shared", h.shared.as_ref());
    line(&mut out, "duplex", &h.duplex, DIGITS);
    line(&mut out, "latency", &h.latency, DIGITS);
    line(&mut out, "capacity", &h.capacity, DIGITS);
    maybe(&mut out, "in_place", h.in_place.as_ref());
    out
}

/// The laws of a machine's kernels as tables under `[gpu.kernels]`.
pub fn kernels(k: &Kernels) -> String {
    let mut out = attention("gpu.kernels.attention", &k.attention);
    out += &attention("gpu.kernels.attention_8bit", &k.attention_8bit);
    for (name, law) in &k.attention_of {
        out += &attention(&format!("gpu.kernels.attention_of.{name}"), law);
    }
    out += &linear("gpu.kernels.linear", &k.linear);
    out += &linear("gpu.kernels.linear_8bit", &k.linear_8bit);
    out += &linear("gpu.kernels.linear_4bit", &k.linear_4bit);
    out + &prefill("gpu.kernels.prefill", &k.prefill)
}

/// A law of decode attention as table `name`.
pub fn attention(name: &str, law: &DecodeAttention) -> String {
    let mut out = format!("\n[{name}]\n");
    line(&mut out, "fixed", &law.fixed, LAW);
    line(&mut out, "split", &law.split, LAW);
    line(&mut out, "pair", &law.pair, LAW);
    line(&mut out, "share", &law.share, LAW);
    line(&mut out, "l2", &law.l2, LAW);
    out + &spread(&law.spread)
}

/// A law of linear layers as table `name`.
pub fn linear(name: &str, law: &Linear) -> String {
    let mut out = format!("\n[{name}]\n");
    line(&mut out, "fixed", &law.fixed, LAW);
    line(&mut out, "share", &law.share, LAW);
    line(&mut out, "gemm", &law.gemm, LAW);
    line(&mut out, "sharpness", &law.sharpness, LAW);
    line(&mut out, "l2", &law.l2, LAW);
    if let Some(single) = &law.single {
        line(&mut out, "single.fixed", &single.fixed, LAW);
        line(&mut out, "single.share", &single.share, LAW);
    }
    let _ = writeln!(out, "experts = {}", pair(law.experts));
    out + &spread(&law.spread)
}

/// The law of prefill's attention as table `name`.
pub fn prefill(name: &str, law: &PrefillAttention) -> String {
    let mut out = format!("\n[{name}]\n");
    line(&mut out, "fixed", &law.fixed, LAW);
    line(&mut out, "share", &law.share, LAW);
    line(&mut out, "fill", &law.fill, LAW);
    line(&mut out, "operands", &law.operands, LAW);
    out + &spread(&law.spread)
}

fn spread(s: &Spread) -> String {
    let [bulk, mixed, floor] = [s.bulk, s.mixed, s.floor].map(pair);
    format!("spread = {{ bulk = {bulk}, mixed = {mixed}, floor = {floor} }}\n")
}

/// Both ends of a spread, which holds 1.
pub fn pair(ends: [f64; 2]) -> String {
    let [low, high] = [ends[0].min(1.0), ends[1].max(1.0)].map(|x| digits(x, LAW));
    format!("[{low}, {high}]")
}

fn line<Q: Quantity>(out: &mut String, key: &str, v: &Value<Q>, digits: usize) {
    let [value, low, high] = [v.value, v.low, v.high].map(|x| figure::<Q>(x, digits));
    let _ = writeln!(
        out,
        "{key} = {{ value = {value}, low = {low}, high = {high}, source = \"{}\", ref = {} }}",
        v.source.word(),
        quoted(&v.reference)
    );
}

fn maybe<Q: Quantity>(out: &mut String, key: &str, v: Option<&Value<Q>>) {
    if let Some(v) = v {
        line(out, key, v, DIGITS);
    }
}

/// A figure as it is read: text with its unit, or a number where it has none.
fn figure<Q: Quantity>(x: f64, places: usize) -> String {
    let in_units = |scale: f64, unit: &str| {
        if x.is_infinite() {
            return "\"inf\"".to_string();
        }
        format!("\"{} {unit}\"", digits(x / scale, places))
    };
    match Q::UNIT {
        "s" => in_units(1e-6, "us"),
        "bytes" => format!("\"{x:.0} B\""),
        "bytes_per_s" => in_units(1e9, "GB/s"),
        "flop_per_s" => in_units(1e12, "TFLOP/s"),
        "usd_per_hour" => in_units(1.0, "USD/h"),
        _ => digits(x, places),
    }
}

/// A plain decimal of few significant digits.
fn digits(x: f64, places: usize) -> String {
    if x == 0.0 {
        return "0.0".into();
    }
    let text = format!("{x:.*e}", places - 1);
    let rounded: f64 = text.parse().unwrap_or(x);
    let plain = rounded.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}
