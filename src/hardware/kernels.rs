//! How a GPU's kernels use its roofs: the parameters of the laws of `service`, by kernel, family and format.
//!
//! A parameter belongs to a kernel family on a GPU for a format: vLLM's attention over 16-bit KV is one set, over 8-bit KV
//! another (its floor and its share of the bandwidth differ), TensorRT-LLM's a third. `kvplan fit` writes them from tables
//! of measurements to `models/kernels/`, a card that nobody measured gets those of its class ([`super::class`]), and a
//! machine's own file may state them. Each law has a [`Spread`]: how far the measurements that it was fitted on lie from
//! it, apart for calls that are mostly floor and calls that mostly stream. Rival: interpolating a table of measured
//! kernels per GPU (`AIConfigurator`): exact where measured, mute elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::value::{Count, Duration, Share, Source, Value, lies};

/// The laws of one GPU.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kernels {
    /// Decode attention over 16-bit KV.
    pub attention: DecodeAttention,
    /// The same over 8-bit KV, of its own bytes.
    pub attention_8bit: DecodeAttention,
    /// Decode attention over 16-bit KV of other kernel families, by name (`trtllm`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attention_of: BTreeMap<String, DecodeAttention>,
    /// Linear layers with 16-bit weights.
    pub linear: Linear,
    /// The same with 8-bit weights.
    pub linear_8bit: Linear,
    /// The same with 4-bit weights.
    pub linear_4bit: Linear,
    /// Causal attention of prefill.
    pub prefill: PrefillAttention,
}

/// Decode attention of one layer: `fixed + split * doublings(1 + context / 128) + pair * sequences * KV heads + bytes /
/// (share * peak)`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeAttention {
    /// Floor of a call.
    pub fixed: Value<Duration>,
    /// What each doubling of the context beyond 128 tokens adds: more splits to merge.
    pub split: Value<Duration>,
    /// What each pair of a sequence and a KV head adds: a block of the grid and its merge.
    pub pair: Value<Duration>,
    /// Share of peak bandwidth at which KV streams.
    pub share: Value<Share>,
    /// Bandwidth of L2 over the peak of memory, for a cache that lies in it.
    pub l2: Value<Count>,
    /// Measured over predicted.
    pub spread: Spread,
    /// How far off it is evaluated.
    #[serde(skip)]
    pub off: Off,
}

/// One linear layer: `fixed + (stream^q + multiply^q)^(1/q)` with `stream = weights / (share * peak) + activations / L2` and
/// `multiply = flops / (gemm * dense)`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Floor of a call.
    pub fixed: Value<Duration>,
    /// Share of peak bandwidth at which weights stream.
    pub share: Value<Share>,
    /// Share of the dense rate that large products reach.
    pub gemm: Value<Share>,
    /// q: how sharply the slower of the two rules; large = the maximum, 1 = the sum.
    pub sharpness: Value<Count>,
    /// Bandwidth of L2 over the peak of memory, for weights that lie in it.
    pub l2: Value<Count>,
    /// The kernel that takes a single row, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single: Option<SingleRow>,
    /// Measured over predicted.
    pub spread: Spread,
    /// The same for routed experts, p5 and p95: their grouped kernels err more.
    pub experts: [f64; 2],
    /// How far off it is evaluated.
    #[serde(skip)]
    pub off: Off,
}

/// A kernel for one row: `fixed + weights / (share * peak)`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SingleRow {
    /// Floor of a call.
    pub fixed: Value<Duration>,
    /// Share of peak bandwidth at which weights stream.
    pub share: Value<Share>,
}

/// Causal attention of one layer: `fixed + ((flops / (share * dense) * (1 + fill / blocks))^2 + (operands / (operand share *
/// peak))^2)^(1/2)`, a block being 128 queries of a head.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillAttention {
    /// Floor of a call.
    pub fixed: Value<Duration>,
    /// Share of the dense rate that a large call reaches.
    pub share: Value<Share>,
    /// Blocks at which the GPU is half full.
    pub fill: Value<Count>,
    /// Share of peak bandwidth at which queries, keys, values and outputs pass.
    pub operands: Value<Count>,
    /// Measured over predicted.
    pub spread: Spread,
    /// How far off it is evaluated.
    #[serde(skip)]
    pub off: Off,
}

/// Measured over predicted at p5 and p95, by the share of the floor in the predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Under [`Spread::BULK`] of it.
    pub bulk: [f64; 2],
    /// Between.
    pub mixed: [f64; 2],
    /// Over [`Spread::FLOOR`] of it.
    pub floor: [f64; 2],
}

/// How far operations lie off their law, in standard deviations by name; the best estimate where nothing is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Off(Arc<[(&'static str, f64)]>);

impl Off {
    /// Every operation, whatever its name.
    pub const EVERY: &'static str = "*";

    /// Off by so much, operation by operation.
    pub fn new(by: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        Self(by.into_iter().collect())
    }

    /// Standard deviations of an operation.
    fn of(&self, name: &str) -> Option<f64> {
        let own = |(n, _): &&(&str, f64)| *n == name || *n == Self::EVERY;
        self.0.iter().find(own).map(|(_, z)| *z)
    }
}

impl Spread {
    /// Share of the floor under which a call counts as bulk.
    pub const BULK: f64 = 0.15;
    /// Share of the floor over which a call counts as floor.
    pub const FLOOR: f64 = 0.5;
    /// No spread.
    pub const NONE: Self = Self {
        bulk: [1.0; 2],
        mixed: [1.0; 2],
        floor: [1.0; 2],
    };

    /// The regime of a call: 0 bulk, 1 mixed, 2 floor.
    pub fn regime(floor: f64, total: f64) -> usize {
        let share = if total > 0.0 { floor / total } else { 0.0 };
        usize::from(share >= Self::BULK) + usize::from(share >= Self::FLOOR)
    }

    /// The ends of a regime.
    pub fn ends(&self, regime: usize) -> [f64; 2] {
        [self.bulk, self.mixed, self.floor][regime.min(2)]
    }

    /// What `off` makes of a time whose floor is `floor`, for the operation `name`.
    pub fn apply(&self, off: &Off, name: &str, floor: f64, total: f64) -> f64 {
        off.of(name).map_or(total, |z| {
            let [low, high] = self.ends(Self::regime(floor, total));
            total * lies(low, 1.0, high, z)
        })
    }

    /// One spread for all regimes.
    pub fn even(ends: [f64; 2]) -> Self {
        Self {
            bulk: ends,
            mixed: ends,
            floor: ends,
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self::peak()
    }
}

impl Kernels {
    /// Kernels that run at the roofs, without floors (runtime `ideal`).
    pub fn peak() -> Self {
        let reference = "runtime `ideal`: kernels at their peak, without a floor";
        let exact = |v: f64| Value::<Share>::new(v, v, v, Source::Assumed, reference);
        let count = |v: f64| Value::<Count>::new(v, v, v, Source::Assumed, reference);
        let none = || Value::<Duration>::new(0.0, 0.0, 0.0, Source::Assumed, reference);
        let attention = DecodeAttention {
            fixed: none(),
            split: none(),
            pair: none(),
            share: exact(1.0),
            l2: count(1.0),
            spread: Spread::NONE,
            off: Off::default(),
        };
        let linear = Linear {
            fixed: none(),
            share: exact(1.0),
            gemm: exact(1.0),
            sharpness: count(64.0),
            l2: count(1e9),
            single: None,
            spread: Spread::NONE,
            experts: [1.0; 2],
            off: Off::default(),
        };
        Self {
            attention_8bit: attention.clone(),
            attention,
            attention_of: BTreeMap::new(),
            linear_8bit: linear.clone(),
            linear_4bit: linear.clone(),
            linear,
            prefill: PrefillAttention {
                fixed: none(),
                share: exact(1.0),
                fill: count(0.0),
                operands: count(1e9),
                spread: Spread::NONE,
                off: Off::default(),
            },
        }
    }

    /// Every law of decode attention.
    pub fn attentions_mut(&mut self) -> impl Iterator<Item = &mut DecodeAttention> {
        let families = self.attention_of.values_mut();
        [&mut self.attention, &mut self.attention_8bit]
            .into_iter()
            .chain(families)
    }

    /// Every law of linear layers.
    pub fn linears_mut(&mut self) -> impl Iterator<Item = &mut Linear> {
        [
            &mut self.linear,
            &mut self.linear_8bit,
            &mut self.linear_4bit,
        ]
        .into_iter()
    }

    /// Evaluates every law so far off.
    pub fn put_off(&mut self, off: &Off) {
        self.attentions_mut().for_each(|law| law.off = off.clone());
        self.linears_mut().for_each(|law| law.off = off.clone());
        self.prefill.off = off.clone();
    }

    /// The law of linear layers for weights of so many bits.
    pub fn linear_of(&self, bits: u32) -> &Linear {
        match bits {
            16 => &self.linear,
            8 => &self.linear_8bit,
            _ => &self.linear_4bit,
        }
    }

    /// The law of decode attention for KV of so many bits.
    pub fn attention_for(&self, eight_bit: bool) -> &DecodeAttention {
        if eight_bit {
            &self.attention_8bit
        } else {
            &self.attention
        }
    }
}
