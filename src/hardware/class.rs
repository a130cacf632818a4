//! What a card gets whose kernels nobody measured: the laws of the measured cards nearest to it.
//!
//! Nearest is the same generation (`hopper`), else the same kind of memory (HBM or GDDR), else any. Each parameter is the
//! geometric mean over those cards, its interval their range and a quarter more each way, its source `assumed`; shares and
//! floors carry over because they are relative to the card's own roofs. The spread of a class is that of cards predicted
//! by the others (`kvplan fit`, `models/kernels/class.toml`), wider than that of a fitted law. Eight-bit laws that are
//! missing follow the 16-bit ones, 4-bit weights the 8-bit ones at 0.8 of their share, since no table of them is at hand.
//! Rival: datasheet roofs with one efficiency for all, which misses floors and formats.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::kernels::{DecodeAttention, Kernels, Linear, Off, PrefillAttention, Spread};
use super::value::{Quantity, Source, Value};

/// The laws that were fitted on one card's measurements; none where there were none.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The card's catalog id.
    pub id: String,
    /// Its architecture.
    pub generation: String,
    /// Its memory type.
    pub memory_kind: String,
    /// Decode attention, 16-bit KV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<DecodeAttention>,
    /// The same, 8-bit KV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_8bit: Option<DecodeAttention>,
    /// The same by kernel family, 16-bit KV.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attention_of: BTreeMap<String, DecodeAttention>,
    /// Linear layers, 16-bit weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear: Option<Linear>,
    /// The same, 8-bit weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_8bit: Option<Linear>,
    /// Attention of prefill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<PrefillAttention>,
}

/// Spreads of cards that are predicted by others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpread {
    /// Of decode attention.
    pub attention: Spread,
    /// Of linear layers.
    pub linear: Spread,
    /// Of routed experts.
    pub experts: [f64; 2],
    /// Of prefill's attention.
    pub prefill: Spread,
}

/// How much wider than the cards' range a class parameter's interval is, each way.
const WIDER: f64 = 1.25;

/// Share of the 8-bit law at which 4-bit weights stream.
const FOUR_BITS: f64 = 0.8;

/// The laws of a card: its own where `all` has them, else those of its class; none if no card was measured at all.
pub fn kernels(
    id: &str,
    generation: &str,
    memory: &str,
    all: &[&Fitted],
    spread: &ClassSpread,
) -> Option<Kernels> {
    let near = Near {
        own: all.iter().copied().find(|f| f.id == id),
        tiers: tiers(generation, memory, all),
    };
    let attention = near.law(|f| f.attention.as_ref(), spread)?;
    let attention_8bit = near.law(|f| f.attention_8bit.as_ref(), spread);
    let names: std::collections::BTreeSet<&String> =
        all.iter().flat_map(|f| f.attention_of.keys()).collect();
    let family = |name: &String| Some((name.clone(), near.family(name, &attention, spread)?));
    let linear = near.law(|f| f.linear.as_ref(), spread)?;
    let linear_8bit = near
        .law(|f| f.linear_8bit.as_ref(), spread)
        .unwrap_or_else(|| linear.clone());
    Some(Kernels {
        attention_8bit: attention_8bit.unwrap_or_else(|| attention.clone()),
        attention_of: names.into_iter().filter_map(family).collect(),
        attention,
        linear_4bit: four_bits(&linear, &linear_8bit),
        linear_8bit,
        linear,
        prefill: near.law(|f| f.prefill.as_ref(), spread)?,
    })
}

/// 4-bit weights multiply in 16 bit and stream below the 8-bit share.
fn four_bits(linear: &Linear, eight: &Linear) -> Linear {
    let reference = "no 4-bit table: dequantising kernels reach about 0.8 of the 8-bit share";
    let share = eight.share.get() * FOUR_BITS;
    Linear {
        fixed: eight.fixed.clone(),
        share: Value::new(
            share,
            share * 0.75,
            share * 1.25,
            Source::Assumed,
            reference,
        ),
        single: None,
        ..linear.clone()
    }
}

/// The measured cards around one: itself, and groups from near to far.
struct Near<'a> {
    own: Option<&'a Fitted>,
    tiers: [Vec<&'a Fitted>; 3],
}

impl Near<'_> {
    /// A law of the card itself, or the mean of the nearest group that has it.
    fn law<L: Law>(&self, of: impl Fn(&Fitted) -> Option<&L>, spread: &ClassSpread) -> Option<L> {
        if let Some(law) = self.own.and_then(&of) {
            return Some(law.clone());
        }
        self.tiers.iter().find_map(|group| {
            let having: Vec<(&str, &L)> = group
                .iter()
                .filter_map(|f| Some((f.id.as_str(), of(f)?)))
                .collect();
            let names: Vec<&str> = having.iter().map(|h| h.0).collect();
            let laws: Vec<&L> = having.iter().map(|h| h.1).collect();
            (!laws.is_empty()).then(|| {
                L::mean(
                    &laws,
                    &format!("as measured on {}", names.join(", ")),
                    spread,
                )
            })
        })
    }
}

impl Near<'_> {
    /// A family's law of the card itself; else the card's usual law times what the family is to the usual one on cards
    /// that have both; else the mean of the family on others.
    fn family(
        &self,
        name: &str,
        usual: &DecodeAttention,
        spread: &ClassSpread,
    ) -> Option<DecodeAttention> {
        if let Some(law) = self.own.and_then(|f| f.attention_of.get(name)) {
            return Some(law.clone());
        }
        let both = |f: &&&Fitted| f.attention.is_some() && f.attention_of.contains_key(name);
        let group = self.tiers.iter().find_map(|group| {
            let having: Vec<&Fitted> = group.iter().filter(both).copied().collect();
            (!having.is_empty()).then_some(having)
        });
        let Some(group) = group else {
            return self.law(|f| f.attention_of.get(name), spread);
        };
        let names: Vec<&str> = group.iter().map(|f| f.id.as_str()).collect();
        let reference = format!(
            "the usual kernels times their ratio on {}",
            names.join(", ")
        );
        let own: Vec<&DecodeAttention> = group
            .iter()
            .filter_map(|f| f.attention_of.get(name))
            .collect();
        let base: Vec<&DecodeAttention> =
            group.iter().filter_map(|f| f.attention.as_ref()).collect();
        let (own, base) = (
            DecodeAttention::mean(&own, &reference, spread),
            DecodeAttention::mean(&base, &reference, spread),
        );
        Some(DecodeAttention {
            fixed: related(&usual.fixed, &own.fixed, &base.fixed, &reference),
            split: related(&usual.split, &own.split, &base.split, &reference),
            pair: related(&usual.pair, &own.pair, &base.pair, &reference),
            share: capped(related(&usual.share, &own.share, &base.share, &reference)),
            l2: related(&usual.l2, &own.l2, &base.l2, &reference),
            ..own
        })
    }
}

/// `usual * own / base`, with the interval of `usual` widened.
fn related<Q: Quantity>(
    usual: &Value<Q>,
    own: &Value<Q>,
    base: &Value<Q>,
    reference: &str,
) -> Value<Q> {
    let ratio = if base.get() > 0.0 {
        own.get() / base.get()
    } else {
        1.0
    };
    let (low, high) = (usual.low * ratio / WIDER, usual.high * ratio * WIDER);
    Value::new(usual.get() * ratio, low, high, Source::Assumed, reference)
}

/// Same generation, same kind of memory, all.
fn tiers<'a>(generation: &str, memory: &str, all: &[&'a Fitted]) -> [Vec<&'a Fitted>; 3] {
    let hbm = |kind: &str| kind.starts_with("HBM");
    let which = |keep: &dyn Fn(&Fitted) -> bool| -> Vec<&'a Fitted> {
        all.iter().copied().filter(|f| keep(f)).collect()
    };
    [
        which(&|f| f.generation == generation),
        which(&|f| hbm(&f.memory_kind) == hbm(memory)),
        all.to_vec(),
    ]
}

/// A law that can be averaged over cards.
trait Law: Clone {
    fn mean(laws: &[&Self], reference: &str, spread: &ClassSpread) -> Self;
}

/// Geometric mean of a parameter over cards, with their range widened.
fn mean<L, Q: Quantity>(laws: &[&L], of: fn(&L) -> &Value<Q>, reference: &str) -> Value<Q> {
    let values: Vec<f64> = laws.iter().map(|l| of(l).get()).collect();
    let log = |v: &f64| libm::log(v.max(f64::MIN_POSITIVE));
    let middle = libm::exp(values.iter().map(log).sum::<f64>() / values.len() as f64);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min) / WIDER;
    let high = values.iter().copied().fold(0.0, f64::max) * WIDER;
    Value::new(middle, low, high, Source::Assumed, reference)
}

impl Law for DecodeAttention {
    fn mean(laws: &[&Self], reference: &str, spread: &ClassSpread) -> Self {
        Self {
            fixed: mean(laws, |l| &l.fixed, reference),
            split: mean(laws, |l| &l.split, reference),
            pair: mean(laws, |l| &l.pair, reference),
            share: capped(mean(laws, |l| &l.share, reference)),
            l2: mean(laws, |l| &l.l2, reference),
            spread: spread.attention,
            off: Off::default(),
        }
    }
}

impl Law for Linear {
    fn mean(laws: &[&Self], reference: &str, spread: &ClassSpread) -> Self {
        Self {
            fixed: mean(laws, |l| &l.fixed, reference),
            share: capped(mean(laws, |l| &l.share, reference)),
            gemm: capped(mean(laws, |l| &l.gemm, reference)),
            sharpness: mean(laws, |l| &l.sharpness, reference),
            l2: mean(laws, |l| &l.l2, reference),
            // A library's choice on one card, not a property of a class.
            single: None,
            spread: spread.linear,
            experts: spread.experts,
            off: Off::default(),
        }
    }
}

impl Law for PrefillAttention {
    fn mean(laws: &[&Self], reference: &str, spread: &ClassSpread) -> Self {
        Self {
            fixed: mean(laws, |l| &l.fixed, reference),
            share: capped(mean(laws, |l| &l.share, reference)),
            fill: mean(laws, |l| &l.fill, reference),
            operands: mean(laws, |l| &l.operands, reference),
            spread: spread.prefill,
            off: Off::default(),
        }
    }
}

/// A share is at most 1.
fn capped<Q: Quantity>(mut value: Value<Q>) -> Value<Q> {
    value.value = value.value.min(1.0);
    value.high = value.high.min(1.0);
    value
}
