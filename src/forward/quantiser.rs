//! How T2 keeps keys and values: whole numbers of 8 or 4 bits between the least and the greatest value of a group.
//!
//! `x' = low + code * step`, `step = (high - low) / (2^bits - 1)`, codes rounded to the nearest. The groups:
//! - `per-tensor`: all tokens that enter T2 together, all heads and channels of a layer, keys and values apart. As in the
//!   published run (METHODS 1.4, `run_hierarchy_experiment.py`), but for its quantising again what it had quantised before;
//! - `per-token`: each token and head;
//! - `per-channel`: keys by head and channel over the tokens that enter together (keys have outlier channels), values as
//!   `per-token`.
//!
//! A token that leaves T2 keeps what quantising made of it. Codes of 4 bits lie in a byte each: what they would take is
//! the ledger's matter.

use std::fmt;
use std::sync::Arc;

/// Which numbers share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// All that enters together, in a layer.
    Tensor,
    /// Each token and head.
    Token,
    /// Keys by channel, values by token.
    Channel,
}

/// A quantiser of T2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiser {
    /// Which numbers share a scale.
    pub grouping: Grouping,
    /// Bits a number: 8 or 4.
    pub bits: u32,
}

impl Default for Quantiser {
    fn default() -> Self {
        Self {
            grouping: Grouping::Token,
            bits: 8,
        }
    }
}

const NAMES: [(&str, Grouping); 3] = [
    ("per-tensor", Grouping::Tensor),
    ("per-token", Grouping::Token),
    ("per-channel", Grouping::Channel),
];

impl fmt::Display for Quantiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|n| n.1 == self.grouping);
        write!(f, "{}-{}", name.map_or("", |n| n.0), self.bits)
    }
}

impl Quantiser {
    /// Reads `per-token-8` and its like.
    ///
    /// # Errors
    /// A sentence: no such quantiser.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = |(name, grouping): &(&str, Grouping)| {
            let bits = match text.strip_prefix(name)? {
                "-8" => 8,
                "-4" => 4,
                _ => return None,
            };
            Some(Self {
                grouping: *grouping,
                bits,
            })
        };
        NAMES.iter().find_map(named).ok_or_else(|| {
            format!(
                "`{text}` is no quantiser: per-tensor, per-token or per-channel, then -8 or -4 (per-token-8)"
            )
        })
    }

    /// Quantises rows of `width` numbers, one a token and head, by head and then by token: scales and codes a row.
    pub(super) fn encode(self, rows: &[Vec<f32>], heads: usize, keys: bool) -> Vec<Packed> {
        let top = ((1u32 << self.bits) - 1) as f32;
        let tokens = rows.len() / heads.max(1);
        match self.grouping {
            Grouping::Tensor => {
                let scale = Scale::of(rows.iter().flatten(), top);
                rows.iter().map(|r| scale.pack(r, top)).collect()
            }
            Grouping::Channel if keys => rows
                .chunks(tokens.max(1))
                .flat_map(|head| {
                    let width = head.first().map_or(0, Vec::len);
                    let channel = |c: usize| Scale::of(head.iter().map(|r| &r[c]), top);
                    let scales: Arc<[Scale]> = (0..width).map(channel).collect();
                    head.iter().map(move |r| Packed {
                        codes: r
                            .iter()
                            .zip(&*scales)
                            .map(|(x, s)| s.code(*x, top))
                            .collect(),
                        scales: Scales::Channels(scales.clone()),
                    })
                })
                .collect(),
            Grouping::Token | Grouping::Channel => rows
                .iter()
                .map(|r| Scale::of(r.iter(), top).pack(r, top))
                .collect(),
        }
    }
}

/// Least value and step of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scale {
    low: f32,
    step: f32,
}

impl Scale {
    fn of<'a>(values: impl Iterator<Item = &'a f32>, top: f32) -> Self {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for x in values {
            low = low.min(*x);
            high = high.max(*x);
        }
        Self {
            low,
            step: (high - low) / top,
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a whole number of at most 255
    fn code(self, x: f32, top: f32) -> u8 {
        if self.step > 0.0 {
            ((x - self.low) / self.step).round().clamp(0.0, top) as u8
        } else {
            0
        }
    }

    fn pack(self, row: &[f32], top: f32) -> Packed {
        Packed {
            codes: row.iter().map(|x| self.code(*x, top)).collect(),
            scales: Scales::One(self),
        }
    }
}

/// Scales of a row.
#[derive(Clone, Debug)]
enum Scales {
    One(Scale),
    Channels(Arc<[Scale]>),
}

/// A quantised row.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    codes: Vec<u8>,
    scales: Scales,
}

impl Packed {
    /// Widens the row.
    pub(super) fn decode(&self, out: &mut [f32]) {
        let one = |s: &Scale, code: u8| s.low + f32::from(code) * s.step;
        match &self.scales {
            Scales::One(scale) => {
                for (x, code) in out.iter_mut().zip(&self.codes) {
                    *x = one(scale, *code);
                }
            }
            Scales::Channels(scales) => {
                for ((x, code), scale) in out.iter_mut().zip(&self.codes).zip(&**scales) {
                    *x = one(scale, *code);
                }
            }
        }
    }
}
