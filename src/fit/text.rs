//! Fitted laws as the TOML of `models/kernels`.

use std::fmt::Write as _;

use crate::hardware::class::{ClassSpread, Fitted};
use crate::hardware::kernels::{DecodeAttention, Linear, PrefillAttention, Spread};
use crate::hardware::{Quantity, Value};

/// Digits of a figure.
const DIGITS: usize = 4;

const HEAD: &str = "# Written by `kvplan fit`; do not edit.\n";

/// A card's file.
pub fn card(card: &Fitted) -> String {
    let mut out = format!(
        "{HEAD}id = \"{}\"\ngeneration = \"{}\"\nmemory_kind = \"{}\"\n",
        card.id, card.generation, card.memory_kind
    );
    let attentions = [
        ("attention", &card.attention),
        ("attention_8bit", &card.attention_8bit),
    ];
    for (name, law) in attentions {
        out += &law.as_ref().map_or(String::new(), |l| attention(name, l));
    }
    for (name, law) in &card.attention_of {
        out += &attention(&format!("attention_of.{name}"), law);
    }
    for (name, law) in [("linear", &card.linear), ("linear_8bit", &card.linear_8bit)] {
        out += &law.as_ref().map_or(String::new(), |l| linear(name, l));
    }
    out + &card.prefill.as_ref().map_or(String::new(), prefill)
}

/// The spreads of cards predicted from others.
pub fn class(spread: &ClassSpread) -> String {
    let mut out = HEAD.to_string();
    for (name, s) in [
        ("attention", &spread.attention),
        ("linear", &spread.linear),
        ("prefill", &spread.prefill),
    ] {
        let [bulk, mixed, floor] = [s.bulk, s.mixed, s.floor].map(pair);
        let _ = write!(
            out,
            "\n[{name}]\nbulk = {bulk}\nmixed = {mixed}\nfloor = {floor}\n"
        );
    }
    out
}

/// The laws of a machine's kernels as tables under `[gpu.kernels]`.
pub fn kernels(k: &crate::hardware::Kernels) -> String {
    let mut out = attention("gpu.kernels.attention", &k.attention);
    out += &attention("gpu.kernels.attention_8bit", &k.attention_8bit);
    for (name, law) in &k.attention_of {
        out += &attention(&format!("gpu.kernels.attention_of.{name}"), law);
    }
    out += &linear("gpu.kernels.linear", &k.linear);
    out += &linear("gpu.kernels.linear_8bit", &k.linear_8bit);
    out += &linear("gpu.kernels.linear_4bit", &k.linear_4bit);
    out + &prefill(&k.prefill).replace("[prefill]", "[gpu.kernels.prefill]")
}

fn attention(name: &str, law: &DecodeAttention) -> String {
    let mut out = format!("\n[{name}]\n");
    line(&mut out, "fixed", &law.fixed);
    line(&mut out, "split", &law.split);
    line(&mut out, "pair", &law.pair);
    line(&mut out, "share", &law.share);
    line(&mut out, "l2", &law.l2);
    out + &spread(&law.spread)
}

fn linear(name: &str, law: &Linear) -> String {
    let mut out = format!("\n[{name}]\n");
    line(&mut out, "fixed", &law.fixed);
    line(&mut out, "share", &law.share);
    line(&mut out, "gemm", &law.gemm);
    line(&mut out, "sharpness", &law.sharpness);
    line(&mut out, "l2", &law.l2);
    if let Some(single) = &law.single {
        line(&mut out, "single.fixed", &single.fixed);
        line(&mut out, "single.share", &single.share);
    }
    out + &spread(&law.spread)
}

fn prefill(law: &PrefillAttention) -> String {
    let mut out = "\n[prefill]\n".to_string();
    line(&mut out, "fixed", &law.fixed);
    line(&mut out, "share", &law.share);
    line(&mut out, "fill", &law.fill);
    line(&mut out, "operands", &law.operands);
    out + &spread(&law.spread)
}

fn spread(s: &Spread) -> String {
    let [bulk, mixed, floor] = [s.bulk, s.mixed, s.floor].map(pair);
    format!("spread = {{ bulk = {bulk}, mixed = {mixed}, floor = {floor} }}\n")
}

fn pair(ends: [f64; 2]) -> String {
    format!(
        "[{}, {}]",
        ends[0].min(1.0).to_digits(),
        ends[1].max(1.0).to_digits()
    )
}

fn line<Q: Quantity>(out: &mut String, key: &str, v: &Value<Q>) {
    let [value, low, high] = [v.value, v.low, v.high].map(|x| figure::<Q>(x));
    let _ = writeln!(
        out,
        "{key} = {{ value = {value}, low = {low}, high = {high}, source = \"{}\", ref = \"{}\" }}",
        v.source.word(),
        v.reference
    );
}

/// A figure in TOML: durations as text in microseconds, the rest as numbers.
fn figure<Q: Quantity>(x: f64) -> String {
    if Q::UNIT == "s" {
        format!("\"{} us\"", (x * 1e6).to_digits())
    } else {
        x.to_digits()
    }
}

trait Digits {
    fn to_digits(self) -> String;
}

impl Digits for f64 {
    /// A plain decimal of few significant digits.
    fn to_digits(self) -> String {
        if self == 0.0 {
            return "0.0".into();
        }
        let text = format!("{self:.*e}", DIGITS - 1);
        let rounded: f64 = text.parse().unwrap_or(self);
        let plain = rounded.to_string();
        if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        }
    }
}
