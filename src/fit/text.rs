//! Fitted laws as the TOML of `models/kernels`.

use std::fmt::Write as _;

use crate::hardware::class::{ClassSpread, Fitted};
use crate::hardware::text::{attention, linear, pair, prefill};

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
    out + &card
        .prefill
        .as_ref()
        .map_or(String::new(), |l| prefill("prefill", l))
}

/// The spreads of cards predicted from others.
pub fn class(spread: &ClassSpread) -> String {
    let mut out = HEAD.to_string();
    let _ = writeln!(out, "experts = {}", pair(spread.experts));
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
