//! The serving software as data: what it adds to a step and what it keeps of the memory.
//!
//! What is modelled: CPU time between steps, work per layer outside the big kernels (norms, rope, activation, launches),
//! a common efficiency factor, memory reserve, activations, page size, prefill chunk. What is ignored: scheduling
//! policies beyond first-come first-served, speculative decoding. Dated and versioned, because engines change: the
//! activation of one 14B fell from 5.64 to 2.23 GiB between two vLLM releases. Files: `models/runtimes/*.toml`.

use serde::{Deserialize, Serialize};

use super::value::{Capacity, Count, Duration, Share, Value};

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
}
