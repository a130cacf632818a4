//! How a model is put on a machine: the knobs that memory and engine share.
//!
//! Data only. `Deployment` says what runs where in which formats and how the host tier takes part in attention; it knows
//! nothing of requests or policies. The knobs and their reasons are in DESIGN 5.1 and 5.2.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hardware::{Duration, Hardware, Runtime, Share, Source, Value};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::units::Bytes;

/// How T1 takes part in attention; each has its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum T1Mode {
    /// All of T1 crosses the link every step into staging of a few layers. Exact; bound by the link.
    Stream,
    /// The best-scored T1 stays in an HBM buffer of this size (none = as large as T1); the rest streams. Exact; saves
    /// no more HBM than it streams.
    Staged(Option<Bytes>),
    /// Attention over T1 runs on the host, merged by log-sum-exp. Exact; bound by DDR and CPU.
    HostAttention,
}

impl T1Mode {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Staged(_) => "staged",
            Self::HostAttention => "host-attention",
        }
    }
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
    /// Share of GPU memory that the engine may take.
    pub memory_fraction: f64,
    /// GPU memory kept for others (a desktop), taken off before the fraction.
    pub vram_reserve: Bytes,
}

impl Deployment {
    /// With kernels at their peak where the runtime says so (`ideal`): full shares, no floors.
    #[must_use]
    pub fn with_kernels(mut self) -> Self {
        if self.runtime.peak_kernels {
            let share = || {
                Value::<Share>::new(
                    1.0,
                    1.0,
                    1.0,
                    Source::Assumed,
                    "runtime `ideal`: kernels at their peak",
                )
            };
            let none = || {
                Value::<Duration>::new(
                    0.0,
                    0.0,
                    0.0,
                    Source::Assumed,
                    "runtime `ideal`: kernels without a floor",
                )
            };
            let k = &mut Arc::make_mut(&mut self.hardware).gpu.kernels;
            (k.attention_fixed, k.linear_fixed) = (none(), none());
            (k.attention_share, k.attention_share_8bit) = (share(), share());
            (k.linear_share, k.linear_share_8bit, k.linear_share_4bit) =
                (share(), share(), share());
            (k.gemm_share, k.prefill_attention_share) = (share(), share());
        }
        self
    }
}
