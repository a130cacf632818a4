//! A transformer as shapes: what its KV cache, its weights and its arithmetic weigh.
//!
//! What is modelled: grouped-query, latent (MLA) and sliding-window attention per layer, dense and mixture-of-experts
//! feed-forward, tied embeddings, biases and norms, so that parameters are exact against published counts. Why layer by
//! layer and not one formula for the whole: hybrids (Gemma, gpt-oss) bound the KV of some layers only, and averaging
//! them is 40 % off either way. What is ignored: vision towers, multi-token-prediction heads, rotary tables. KV is
//! counted with KV heads, never query heads (the 7x slip of the published tables).
//!
//! Units: elements and parameters are counts, bytes are bytes. All of it is exact integer arithmetic except bytes of
//! formats with fractions of a byte. Files: `models/architectures/*.toml` ([`mod@file`]); [`hf`] reads a config.json.

pub mod file;
pub mod gguf;
pub mod hf;
pub mod layer;
pub mod weights;

use serde::{Deserialize, Serialize};

pub use layer::{Matrix, MatrixKind};
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
    /// Longest context it was made for \[tokens\].
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
        /// Norms on Q and K (each `head_dim` wide).
        qk_norm: bool,
        /// A learned sink logit a head (gpt-oss).
        sink_logits: bool,
    },
    /// Multi-head latent attention (`DeepSeek`): caches one latent and one rope key a token.
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

impl Model {
    /// All parameters, embeddings and head included.
    pub fn parameters(&self) -> u64 {
        self.outside()
            + self
                .layers
                .iter()
                .map(|l| l.parameters(self.hidden))
                .sum::<u64>()
    }

    /// Parameters one decode step reads for one token: active experts only, and no input embedding (a row is looked up,
    /// not streamed) unless the head shares it.
    pub fn active_parameters(&self) -> u64 {
        let layers: u64 = self
            .layers
            .iter()
            .map(|l| l.active_parameters(self.hidden))
            .sum();
        layers + self.vocab_matrix() + u64::from(self.hidden)
    }

    /// `owner/name` under which the weights are published, where an alias says so; else the name.
    pub fn repository(&self) -> &str {
        self.aliases
            .iter()
            .find(|a| a.contains('/'))
            .map_or(&self.name, String::as_str)
    }

    /// Elements of the vocabulary matrix.
    pub fn vocab_matrix(&self) -> u64 {
        u64::from(self.vocab) * u64::from(self.hidden)
    }

    /// Parameters outside the layers: embedding, head where it is its own, final norm.
    fn outside(&self) -> u64 {
        let matrices = if self.tied { 1 } else { 2 };
        matrices * self.vocab_matrix() + u64::from(self.hidden)
    }

    /// Whether some layer routes to experts.
    pub fn has_experts(&self) -> bool {
        self.layers
            .iter()
            .any(|l| matches!(l.ffn, Ffn::Experts { .. }))
    }

    /// Bytes of KV one token adds to a sequence short enough for every window \[bytes\].
    pub fn kv_bytes_per_token(&self, format: KvFormat) -> f64 {
        self.layers
            .iter()
            .map(|l| format.rule_bytes(l.kv_rule()))
            .sum()
    }

    /// Bytes of KV of a sequence of this many tokens; sliding layers hold their window at most \[bytes\].
    pub fn kv_bytes(&self, tokens: u64, format: KvFormat) -> f64 {
        let held = |rule: KvRule| rule.window.map_or(tokens, |w| tokens.min(u64::from(w))) as f64;
        self.layers
            .iter()
            .map(|l| held(l.kv_rule()) * format.rule_bytes(l.kv_rule()))
            .sum()
    }

    /// The output head as a linear operation (shared with the embedding where tied).
    pub fn head_matrix(&self) -> Matrix {
        layer::matrix("head", MatrixKind::Head, self.vocab, self.hidden)
    }
}
