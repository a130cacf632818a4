//! A transformer as shapes: what its KV cache, its weights and its arithmetic weigh.
//!
//! What is modelled: grouped-query, latent (MLA) and sliding-window attention per layer, dense and mixture-of-experts
//! feed-forward, tied embeddings, biases and norms, so that parameters are exact against published counts. What is
//! ignored: vision towers, multi-token-prediction heads. KV is counted with KV heads, never query heads (the 7x slip of
//! the published tables). Files: `models/architectures/*.toml`; `hf` reads a config.json.

pub mod hf;
pub mod weights;

use serde::{Deserialize, Serialize};

pub use weights::{KvFormat, WeightBytes, WeightFormat};

/// A model: its layers in order and what stands around them.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Catalog id: `deepseek-r1-distill-llama-70b`.
    pub id: String,
    /// As its authors write it.
    pub name: String,
    /// Other spellings found in data files.
    pub aliases: Vec<String>,
    /// Family of the architecture: `llama`, `qwen2`.
    pub family: String,
    /// Where the shape comes from.
    pub source: String,
    /// Residual width.
    pub hidden: u32,
    /// Vocabulary rows of the embedding.
    pub vocab: u32,
    /// Whether the output head shares the embedding's weights.
    pub tied: bool,
    /// Longest context it was made for [tokens].
    pub max_context: u32,
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// Count the authors publish, where known.
    pub published_parameters: Option<u64>,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Its attention.
    pub attention: Attention,
    /// Its feed-forward.
    pub ffn: Ffn,
    /// Norm parameters outside attention and feed-forward, in units of the hidden size (2 for pre-norm, 4 for Gemma).
    pub norms: u32,
}

/// Attention of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attention {
    /// Multi-head, grouped-query or multi-query attention.
    Grouped {
        /// Query heads.
        heads: u32,
        /// KV heads.
        kv_heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// Tokens a sliding layer sees; none = all.
        window: Option<u32>,
        /// Bias on Q, K and V.
        qkv_bias: bool,
        /// Bias on the output projection.
        out_bias: bool,
        /// Norms on Q and K (each head_dim wide).
        qk_norm: bool,
        /// A learned sink logit a head (gpt-oss).
        sink_logits: bool,
    },
    /// Multi-head latent attention (DeepSeek): caches one latent and one rope key a token.
    Latent {
        /// Query heads.
        heads: u32,
        /// Rank of the KV latent.
        kv_rank: u32,
        /// Rank of the query latent; 0 = none.
        q_rank: u32,
        /// Rope part of a head.
        rope: u32,
        /// Other part of a query/key head.
        nope: u32,
        /// Value head width.
        value: u32,
    },
}

/// Feed-forward of one layer. Gated (three matrices) everywhere in the supported families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ffn {
    /// One gated block.
    Dense {
        /// Its inner width.
        intermediate: u32,
    },
    /// Mixture of experts.
    Experts {
        /// Routed experts.
        experts: u32,
        /// Experts a token uses.
        active: u32,
        /// Inner width of an expert.
        intermediate: u32,
        /// Experts every token uses.
        shared: u32,
        /// Biases on router and experts (gpt-oss).
        bias: bool,
        /// A correction bias an expert on the router (DeepSeek-V3).
        router_bias: bool,
    },
}

/// How the KV of one layer grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KvRule {
    /// Elements one token stores in this layer (K and V together).
    pub elements: u32,
    /// Vectors those elements fall into, each with its own scale when quantised.
    pub vectors: u32,
    /// Tokens this layer keeps at most; none = all.
    pub window: Option<u32>,
}
