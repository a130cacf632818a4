//! The serving software as data: what it adds to a step and what it keeps of the memory.
//!
//! What is modelled: CPU time between steps, work per layer outside the big kernels (norms, rope, activation, launches),
//! a common efficiency factor, memory reserve, activations, the rule of the KV pool, page size, prefill chunk, what stands
//! before the first token. What is ignored: scheduling policies beyond first-come first-served, speculative decoding. Dated
//! and versioned, because engines change: the activation of one 14B fell from 5.64 to 2.23 GiB between two vLLM releases.
//! Files: `models/runtimes/*.toml`.

use serde::{Deserialize, Serialize};

use super::value::{Bandwidth, Capacity, Count, Duration, Share, Source, Value};

/// What the memory fraction of an engine is a share of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// Of all usable memory: weights, activations and reserve come out of it, the rest is KV (vLLM).
    #[default]
    OfTotal,
    /// Of what is free once weights, activations and reserve are there: all of it is KV (TensorRT-LLM).
    OfFree,
    /// Of all usable memory, for weights and KV alone: activations and reserve live in what is left (`SGLang`).
    Static,
}

/// When an engine prefills the prompts that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefill {
    /// A chunk of them beside the decode tokens of each step.
    #[default]
    InChunks,
    /// All of them before anyone decodes on.
    First,
}

/// When an engine chooses the batch of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// Between two steps.
    #[default]
    Between,
    /// While the step before it runs (asynchronous scheduling).
    Ahead,
}

impl Pool {
    /// The word used in profiles.
    pub fn word(self) -> &'static str {
        match self {
            Self::OfTotal => "of-total",
            Self::OfFree => "of-free",
            Self::Static => "static",
        }
    }
}

/// A runtime profile.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// Catalog id: `vllm`.
    pub id: String,
    /// As its authors write it, with the version the figures are for.
    pub name: String,
    /// Date of the figures.
    pub dated: String,
    /// CPU time between two steps that the GPU waits for.
    pub step_gap: Value<Duration>,
    /// The same, for each sequence of the batch (sampling, detokenising).
    pub step_gap_per_sequence: Value<Duration>,
    /// Per layer: norms, rope, activation function, launches not hidden.
    pub layer_other: Value<Duration>,
    /// Share of the hardware's kernel efficiency that this runtime's kernels keep; 1 = the same kernels.
    pub kernel_share: Value<Share>,
    /// Kernels run at the roofs themselves: every share of the hardware's kernels counts as 1 and every floor as 0.
    #[serde(default)]
    pub peak_kernels: bool,
    /// Family of its decode-attention kernels, where they are not the usual ones (`trtllm`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_kernels: Option<String>,
    /// Memory of context, libraries and graphs, one GPU.
    pub reserve: Value<Capacity>,
    /// The same with two GPUs or more (communication buffers).
    pub reserve_multi_gpu: Value<Capacity>,
    /// Tokens of one prefill chunk, which size the activations.
    pub batched_tokens: Value<Count>,
    /// Peak activation bytes of one such token, per byte of its widest layer row (hidden + 2 * intermediate, 16 bit).
    pub activation_factor: Value<Count>,
    /// What an engine holds when it measures itself before it sizes the KV pool, where that is more than a chunk's
    /// activations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// What its memory fraction is a share of.
    #[serde(default)]
    pub pool: Pool,
    /// Its own default of that fraction.
    #[serde(default = "usual_fraction")]
    pub memory_fraction: Value<Share>,
    /// Whether FP8 weights bring FP8 KV unless asked otherwise.
    #[serde(default)]
    pub fp8_kv: bool,
    /// Time of a step or prefill while it serves, over the sum of its parts: clocks under load, ranks that wait for each
    /// other, what the host does beside.
    #[serde(default = "as_its_parts")]
    pub served: Value<Count>,
    /// Time of a prefill in a server over that of its step, each over the sum of its parts: how far prompts of other models,
    /// formats and divisions err from those that the laws were held against.
    #[serde(default = "prompts_as_steps")]
    pub prompts: Value<Count>,
    /// How far a whole server is taken to be off.
    #[serde(skip)]
    pub off: ServerOff,
    /// When prompts that wait are prefilled.
    #[serde(default)]
    pub prefill: Prefill,
    /// What stands before a first token in a server; none for software that is no server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<Front>,
    /// Tokens in a KV page.
    pub page_tokens: u32,
    /// What its attention kernel does with decode queries that run beside prompts; none where it has kernels for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_tile: Option<MixedTile>,
    /// When it chooses the batch of a step.
    #[serde(default)]
    pub choose: Choose,
    /// Whether it preempts a running request and recomputes it later when KV runs out.
    pub preempts: bool,
    /// Floor of drawing tokens on the GPU: a dozen small kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Value<Duration>>,
    /// What a host tier costs that is kept by a loop in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// CPU work of a step part by part, where it was measured so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuParts>,
}

/// What a profile has that does not say.
fn usual_fraction() -> Value<Share> {
    Value::new(0.9, 0.85, 0.95, Source::Assumed, "as vLLM and TensorRT-LLM")
}

/// What a profile has that does not say.
fn as_its_parts() -> Value<Count> {
    Value::new(1.0, 0.87, 1.2, Source::Assumed, "as vLLM")
}

/// What a profile has that does not say.
fn prompts_as_steps() -> Value<Count> {
    let reference = "time to the first token of 402 closed loops of dense models on an H100 (vendor runs in aiconfigurator-core \
        0.12.0), measured over predicted, a class for each software and model, classes alike: p5 0.65 and p95 1.56; mixtures of \
        experts reach 2";
    Value::new(1.0, 0.65, 1.6, Source::Measured, reference)
}

/// How far a whole server is off the sum of its parts, as a factor on time; 1 is the best estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerOff {
    /// On a decode step.
    pub step: f64,
    /// On a prefill.
    pub prefill: f64,
}

impl Default for ServerOff {
    fn default() -> Self {
        Self {
            step: 1.0,
            prefill: 1.0,
        }
    }
}

impl Runtime {
    /// Floor of the sampler: the profile's own, else what was measured for vLLM.
    pub fn sampler(&self) -> Value<Duration> {
        self.sampler.clone().unwrap_or_else(|| {
            let reference = "LLMServingSim layer tables, vLLM 0.19 on an RTX PRO 6000: 24.7 us for one sequence";
            Value::new(24e-6, 20e-6, 35e-6, Source::Measured, reference)
        })
    }
}

/// The largest batch of the sampler, as an engine rehearses it: `rows * vocabulary * logit_bytes`, on every GPU.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// Sequences that it draws a token for at once.
    pub rows: Value<Count>,
    /// The same on cards with less than 70 GiB and of generation `ampere`.
    pub rows_small: Value<Count>,
    /// Peak bytes of a logit: its copies, sorted ones and indices included.
    pub logit_bytes: Value<Count>,
}

/// One kernel for decode queries and prompts in a step: a lone query is padded to a tile of rows.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MixedTile {
    /// Rows of the tile.
    pub rows: Value<Count>,
    /// Generations of hardware on which it is this kernel; on others heads that share KV are packed, or decode runs apart.
    pub generations: Vec<String>,
}

/// From a client's call to its first token, besides the step and the prefill of the request itself.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Front {
    /// The call, tokenising, the way through the processes and the first answer.
    pub fixed: Value<Duration>,
    /// The same for each request in flight, which shares one process.
    pub each: Value<Duration>,
    /// Prefills from its coming to its token, its own included, where requests that began together end and come together;
    /// where prefill goes first, the share of the running requests that come in one burst.
    pub bunch: Value<Count>,
    /// Further prefills for the share of time in which others are being prefilled.
    pub queue: Value<Count>,
}

/// A host tier kept by a loop in Python (see `service::eager_tier`).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Offload {
    /// A copy, issued and waited for; K and V of each layer are one each.
    pub copy: Value<Duration>,
    /// Rate at which what is fetched comes to lie beside the rest.
    pub fetch: Value<Bandwidth>,
    /// What a forward pass takes longer where the weights of attention are asked for.
    pub scores: Value<Duration>,
    /// The policy's own work of a step: rows read back, ranked, trimmed.
    pub books: Value<Duration>,
}

/// CPU work between the steps of an engine that schedules synchronously, by part.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CpuParts {
    /// Choosing what runs.
    pub schedule: CpuPart,
    /// Building and copying the inputs.
    pub inputs: CpuPart,
    /// Drawing tokens.
    pub sampler: CpuPart,
    /// Appending tokens, freeing what ended.
    pub outputs: CpuPart,
    /// Times as long where a worker process stands before each of several GPUs.
    pub workers: Value<Count>,
    /// What the sampler waits for with four GPUs or more, all in all.
    pub gather: Value<Duration>,
}

/// A part: `fixed + each * sequences`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CpuPart {
    /// For any batch.
    pub fixed: Value<Duration>,
    /// For each sequence.
    pub each: Value<Duration>,
}
