//! How a model is put on a machine: the knobs that memory and engine share.
//!
//! Data only. `Deployment` says what runs where in which formats and how the host tier takes part in attention; it knows
//! nothing of requests or policies. The knobs and their reasons are in DESIGN 5.1 and 5.2.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hardware::{Hardware, Kernels, Runtime};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::timeline::Selection;
use crate::units::Bytes;

/// How T1 takes part in attention; each has its price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum T1Mode {
    /// All of T1 crosses the link every step into staging of a few layers. Exact; bound by the link.
    Stream,
    /// The best-scored T1 stays in an HBM buffer of this size (none = as large as T1); the rest streams. Exact; saves
    /// no more HBM than it streams.
    Staged(Option<Bytes>),
    /// Attention over T1 runs on the host, merged by log-sum-exp. Exact; bound by DDR and CPU.
    HostAttention,
    /// The attention kernel reads T1 where it lies, nothing is staged. Exact; bound by the link.
    Direct,
    /// Only what a predictor picks of T1 is fetched and kept until the next step. Not exact: the rest is left out.
    Selective(Selection),
}

impl T1Mode {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Staged(_) => "staged",
            Self::HostAttention => "host-attention",
            Self::Direct => "direct",
            Self::Selective(_) => "selective",
        }
    }

    /// Whether every token of T1 takes part in every step.
    pub fn exact(self) -> bool {
        !matches!(self, Self::Selective(_))
    }

    /// What picks the tokens that take part, where not all do.
    pub fn selection(self) -> Option<Selection> {
        match self {
            Self::Selective(selection) => Some(selection),
            _ => None,
        }
    }

    /// Whether T1 lies in HBM during a step, so that a promoted token is merely kept.
    pub fn brings_up(self) -> bool {
        matches!(self, Self::Stream | Self::Staged(_))
    }
}

/// What it costs to have the weights of attention, where the policy looks at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreCost {
    /// The kernel adds them up as it goes: nothing.
    Fused,
    /// Flash kernels return none: a second pass over K each step.
    Recompute,
    /// Attention without fusion: logits and weights go through HBM.
    Eager,
}

/// Whether transfers overlap with compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// Copy, wait, compute: the published prototype.
    Serial,
    /// The next layers' T1 moves while a layer computes.
    Layer,
}

/// How finely a step is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// A recursion over the layers of each step.
    Step,
    /// Every layer's compute and every transfer as events.
    Layer,
}

impl Fidelity {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Layer => "layer",
        }
    }
}

/// When new KV reaches the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// Each new token once, at birth: demotion is then free, since KV never changes; DDR also holds T0's copies.
    Through,
    /// When a token is demoted.
    AtDemotion,
}

/// How freed token slots become free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compact {
    /// Live unprotected T0 is packed at each re-tier: read and written once, one spare page a sequence.
    Retier,
    /// A page is freed only when no T0 token is left in it.
    None,
}

/// Order of KV in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A layer's K and V of all tokens together: streaming is 2 copies a layer and sequence.
    Layer,
    /// A token's K and V of all layers together: moves and write-back are one copy a token.
    Token,
}

/// How much of the layers' weights lies in host memory and crosses the link in every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostWeights {
    /// This share of each layer [0..=1].
    Share(f64),
    /// So much over all layers and GPUs, the same share of each layer.
    Size(Bytes),
    /// As little as lets everything else fit; none until that is known.
    Fit,
}

/// A model on a machine.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// The model.
    pub model: Arc<Model>,
    /// The machine.
    pub hardware: Arc<Hardware>,
    /// Its software.
    pub runtime: Arc<Runtime>,
    /// GPUs in tensor parallel, one link each.
    pub gpus: u32,
    /// Weight format.
    pub weights: WeightFormat,
    /// KV format.
    pub kv: KvFormat,
    /// How T1 takes part.
    pub t1: T1Mode,
    /// Overlap of transfers and compute.
    pub overlap: Overlap,
    /// How finely a step is followed.
    pub fidelity: Fidelity,
    /// Layers of staging (1 = no overlap with the layer itself).
    pub depth: u32,
    /// When new KV goes down.
    pub write_back: WriteBack,
    /// How slots become pages.
    pub compact: Compact,
    /// Order in host memory.
    pub layout: Layout,
    /// Parts of the batch that take turns under host attention: 1 or 2 (see [`Deployment::halves`]).
    pub split: u32,
    /// What the weights of attention cost a policy that looks at them.
    pub score_cost: ScoreCost,
    /// Where T1 lives; `hardware` is the machine with T1 there (see `Hardware::at_home`).
    pub home: String,
    /// Weights that lie in host memory; none is the usual case.
    pub host_weights: Option<HostWeights>,
    /// Share of GPU memory that the engine may take.
    pub memory_fraction: f64,
    /// GPU memory kept for others (a desktop), taken off before the fraction.
    pub vram_reserve: Bytes,
}

impl Deployment {
    /// Whether the batch is cut into halves that take turns: under host attention alone, whatever `split` says elsewhere.
    pub fn halves(&self) -> bool {
        self.split > 1 && self.t1 == T1Mode::HostAttention
    }

    /// With the kernels of the runtime: its own family of decode attention where the card was measured with it, or all at
    /// their peak (`ideal`).
    #[must_use]
    pub fn with_kernels(mut self) -> Self {
        let kernels = &self.hardware.gpu.kernels;
        let family = self.runtime.attention_kernels.as_ref();
        if let Some(own) = family.and_then(|f| kernels.attention_of.get(f)).cloned() {
            Arc::make_mut(&mut self.hardware).gpu.kernels.attention = own;
        }
        if self.runtime.peak_kernels {
            Arc::make_mut(&mut self.hardware).gpu.kernels = Kernels::peak();
        }
        self
    }
}
