//! The serving software as data: what it adds to a step and what it keeps of the memory.
//!
//! What is modelled: CPU time between steps, work per layer outside the big kernels (norms, rope, activation, launches),
//! a common efficiency factor, memory reserve, activations, page size, prefill chunk. What is ignored: scheduling
//! policies beyond first-come first-served, speculative decoding. Dated and versioned, because engines change: the
//! activation of one 14B fell from 5.64 to 2.23 GiB between two vLLM releases. Files: `models/runtimes/*.toml`.

use serde::{Deserialize, Serialize};

use super::value::{Capacity, Count, Duration, Share, Source, Value};

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
    /// Tokens in a KV page.
    pub page_tokens: u32,
    /// Whether it preempts a running request and recomputes it later when KV runs out.
    pub preempts: bool,
    /// Floor of drawing tokens on the GPU: a dozen small kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Value<Duration>>,
    /// CPU work of a step part by part, where it was measured so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuParts>,
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
