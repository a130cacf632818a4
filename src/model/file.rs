//! The TOML form of a model.
//!
//! A file names its layer kinds once and then their order: `first` once, `cycle` repeated up to `layers`. That states
//! Gemma's five local layers to one global, and `DeepSeek`'s three dense layers before its experts, as their authors do.
//! Every width is bounded on reading, so that no product of a file's numbers can overflow later.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::{Attention, Ffn, Layer, Model};
use crate::error::{Error, Result};

/// Largest width, vocabulary or count a file may state; keeps every product in 64 bits and far from nonsense.
pub const LARGEST: u32 = 1 << 22;
/// Most layers a model may have.
pub const MOST_LAYERS: u32 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    family: String,
    source: String,
    hidden: u32,
    vocab: u32,
    tied: bool,
    max_context: u32,
    published_parameters: Option<u64>,
    layers: u32,
    #[serde(default)]
    first: Vec<String>,
    cycle: Vec<String>,
    kind: BTreeMap<String, Kind>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    attention: AttentionForm,
    ffn: FfnForm,
    #[serde(default = "two")]
    norms: u32,
}

fn two() -> u32 {
    2
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum AttentionForm {
    Grouped {
        heads: u32,
        kv_heads: u32,
        head_dim: u32,
        window: Option<u32>,
        #[serde(default)]
        qkv_bias: bool,
        #[serde(default)]
        out_bias: bool,
        #[serde(default)]
        qk_norm: bool,
        #[serde(default)]
        sink_logits: bool,
    },
    Latent {
        heads: u32,
        kv_rank: u32,
        #[serde(default)]
        q_rank: u32,
        rope: u32,
        nope: u32,
        value: u32,
    },
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum FfnForm {
    Dense {
        intermediate: u32,
    },
    Experts {
        experts: u32,
        active: u32,
        intermediate: u32,
        #[serde(default)]
        shared: u32,
        #[serde(default)]
        bias: bool,
        #[serde(default)]
        router_bias: bool,
    },
}

impl From<AttentionForm> for Attention {
    fn from(form: AttentionForm) -> Self {
        match form {
            AttentionForm::Grouped {
                heads,
                kv_heads,
                head_dim,
                window,
                qkv_bias,
                out_bias,
                qk_norm,
                sink_logits,
            } => Self::Grouped {
                heads,
                kv_heads,
                head_dim,
                window,
                qkv_bias,
                out_bias,
                qk_norm,
                sink_logits,
            },
            AttentionForm::Latent {
                heads,
                kv_rank,
                q_rank,
                rope,
                nope,
                value,
            } => Self::Latent {
                heads,
                kv_rank,
                q_rank,
                rope,
                nope,
                value,
            },
        }
    }
}

impl From<FfnForm> for Ffn {
    fn from(form: FfnForm) -> Self {
        match form {
            FfnForm::Dense { intermediate } => Self::Dense { intermediate },
            FfnForm::Experts {
                experts,
                active,
                intermediate,
                shared,
                bias,
                router_bias,
            } => Self::Experts {
                experts,
                active,
                intermediate,
                shared,
                bias,
                router_bias,
            },
        }
    }
}

/// Reads a model file; `path` is its name for messages.
///
/// # Errors
/// Data, with file, line and caret: not TOML, unknown or missing keys, an order that names no kind, absurd widths.
pub fn read(text: &str, path: &str) -> Result<Model> {
    let file: File = toml::from_str(text).map_err(|e| {
        Error::data(e.message().trim().to_string()).at(path, text, e.span().unwrap_or(0..0))
    })?;
    let layers = file.order().map_err(|e| place(e, path, text, "layers"))?;
    let model = Model {
        id: file.id,
        name: file.name,
        aliases: file.aliases,
        family: file.family,
        source: file.source,
        hidden: file.hidden,
        vocab: file.vocab,
        tied: file.tied,
        max_context: file.max_context,
        layers,
        published_parameters: file.published_parameters,
    };
    match model.fault() {
        Some((key, why)) => Err(place(
            Error::data(format!("`{key}` {why}")),
            path,
            text,
            key,
        )),
        None => Ok(model),
    }
}

/// Points an error at the first line that sets `key`, or at the start.
fn place(error: Error, path: &str, text: &str, key: &str) -> Error {
    let word = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + key.len()..].trim_start().chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_') && after == Some('=')
    };
    let span = text
        .match_indices(key)
        .find(|(at, _)| word(*at))
        .map_or(0..0, |(at, _)| at..at + key.len());
    error.at(path, text, span)
}

impl File {
    /// Layers in order: `first`, then `cycle` again and again.
    fn order(&self) -> Result<Vec<Layer>> {
        if self.layers == 0 || self.layers > MOST_LAYERS {
            return Err(Error::data(format!(
                "`layers` is {}: a model has 1 to {MOST_LAYERS}",
                self.layers
            )));
        }
        if self.cycle.is_empty() || self.first.len() > self.layers as usize {
            return Err(Error::data(
                "`first` and `cycle` must give a kind for every one of `layers`",
            ));
        }
        let names = self.first.iter().chain(self.cycle.iter().cycle());
        names
            .take(self.layers as usize)
            .map(|n| self.layer(n))
            .collect()
    }

    fn layer(&self, name: &str) -> Result<Layer> {
        let kind = self.kind.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.kind.keys().map(String::as_str).collect();
            Error::data(format!("layer kind `{name}` has no `[kind.{name}]`"))
                .help(format!("kinds in this file: {}", known.join(", ")))
        })?;
        Ok(Layer {
            attention: kind.attention.clone().into(),
            ffn: kind.ffn.clone().into(),
            norms: kind.norms,
        })
    }
}

/// A key and what is wrong with it.
pub type Fault = (&'static str, String);

/// Whether `value` is a width a model can have.
fn bounded(key: &'static str, value: u32) -> std::result::Result<(), Fault> {
    if value == 0 || value > LARGEST {
        Err((key, format!("is {value}: it must lie in 1..={LARGEST}")))
    } else {
        Ok(())
    }
}

impl Model {
    /// The first number that no model has, by key.
    pub fn fault(&self) -> Option<Fault> {
        let check = || {
            bounded("hidden", self.hidden)?;
            bounded("vocab", self.vocab)?;
            if self.max_context == 0 || self.max_context > 1 << 30 {
                return Err((
                    "max_context",
                    format!("is {}: it must lie in 1..=2^30", self.max_context),
                ));
            }
            self.layers.iter().try_for_each(|l| l.fault(self.hidden))
        };
        check().err()
    }
}

impl Layer {
    fn fault(&self, hidden: u32) -> std::result::Result<(), Fault> {
        if self.norms > 16 {
            return Err((
                "norms",
                format!("is {}: a layer has at most 16", self.norms),
            ));
        }
        self.attention.fault()?;
        self.ffn.fault()?;
        let widest = self
            .matrices(hidden)
            .iter()
            .map(|m| m.elements() * u64::from(m.copies))
            .max();
        if widest > Some(1 << 42) {
            return Err((
                "intermediate",
                "makes a matrix of more than 2^42 parameters".into(),
            ));
        }
        Ok(())
    }
}

impl Attention {
    fn fault(&self) -> std::result::Result<(), Fault> {
        match *self {
            Self::Grouped {
                heads,
                kv_heads,
                head_dim,
                window,
                ..
            } => {
                bounded_head("heads", heads)?;
                bounded_head("kv_heads", kv_heads)?;
                bounded_head("head_dim", head_dim)?;
                if window == Some(0) {
                    return Err(("window", "is 0: leave it out for full attention".into()));
                }
                if heads % kv_heads != 0 {
                    return Err((
                        "kv_heads",
                        format!("is {kv_heads}, which does not divide {heads} heads"),
                    ));
                }
                bounded("heads", heads * head_dim)
            }
            Self::Latent {
                heads,
                kv_rank,
                q_rank,
                rope,
                nope,
                value,
            } => {
                bounded_head("heads", heads)?;
                bounded("kv_rank", kv_rank)?;
                bounded("q_rank", q_rank.max(1))?;
                bounded_head("rope", rope)?;
                bounded_head("nope", nope)?;
                bounded_head("value", value)?;
                bounded("heads", heads * (nope + rope + value))
            }
        }
    }
}

/// Head counts and widths are bounded lower, so that their product stays in 32 bits.
fn bounded_head(key: &'static str, value: u32) -> std::result::Result<(), Fault> {
    if value == 0 || value > 8192 {
        Err((key, format!("is {value}: it must lie in 1..=8192")))
    } else {
        Ok(())
    }
}

impl Ffn {
    fn fault(&self) -> std::result::Result<(), Fault> {
        match *self {
            Self::Dense { intermediate } => bounded("intermediate", intermediate),
            Self::Experts {
                experts,
                active,
                intermediate,
                shared,
                ..
            } => {
                bounded("intermediate", intermediate)?;
                bounded_head("experts", experts)?;
                bounded_head("active", active)?;
                if active > experts {
                    return Err((
                        "active",
                        format!("is {active}, more than {experts} experts"),
                    ));
                }
                if shared > 64 {
                    return Err(("shared", format!("is {shared}: at most 64 shared experts")));
                }
                Ok(())
            }
        }
    }
}
