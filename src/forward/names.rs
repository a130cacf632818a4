//! What each weight is called, in GGUF and in safetensors of Hugging Face.

/// A weight of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Embedding,
    OutputNorm,
    Output,
    RopeDivisors,
    AttentionNorm,
    Query,
    Key,
    Value,
    QueryBias,
    KeyBias,
    ValueBias,
    AttentionOutput,
    ForwardNorm,
    Gate,
    Up,
    Down,
}

/// A way of naming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Gguf,
    HuggingFace,
}

impl Names {
    /// The name of a weight; those outside the layers ignore `layer`.
    pub(super) fn of(self, role: Role, layer: usize) -> String {
        let (gguf, face, inside) = words(role);
        match (self, inside) {
            (Self::Gguf, false) => gguf.into(),
            (Self::Gguf, true) => format!("blk.{layer}.{gguf}"),
            (Self::HuggingFace, false) => face.into(),
            (Self::HuggingFace, true) => format!("model.layers.{layer}.{face}"),
        }
    }
}

/// Name in GGUF, name in safetensors, whether every layer has one.
fn words(role: Role) -> (&'static str, &'static str, bool) {
    match role {
        Role::Embedding => ("token_embd.weight", "model.embed_tokens.weight", false),
        Role::OutputNorm => ("output_norm.weight", "model.norm.weight", false),
        Role::Output => ("output.weight", "lm_head.weight", false),
        Role::RopeDivisors => ("rope_freqs.weight", "rope_freqs.weight", false),
        Role::AttentionNorm => ("attn_norm.weight", "input_layernorm.weight", true),
        Role::Query => ("attn_q.weight", "self_attn.q_proj.weight", true),
        Role::Key => ("attn_k.weight", "self_attn.k_proj.weight", true),
        Role::Value => ("attn_v.weight", "self_attn.v_proj.weight", true),
        Role::QueryBias => ("attn_q.bias", "self_attn.q_proj.bias", true),
        Role::KeyBias => ("attn_k.bias", "self_attn.k_proj.bias", true),
        Role::ValueBias => ("attn_v.bias", "self_attn.v_proj.bias", true),
        Role::AttentionOutput => ("attn_output.weight", "self_attn.o_proj.weight", true),
        Role::ForwardNorm => ("ffn_norm.weight", "post_attention_layernorm.weight", true),
        Role::Gate => ("ffn_gate.weight", "mlp.gate_proj.weight", true),
        Role::Up => ("ffn_up.weight", "mlp.up_proj.weight", true),
        Role::Down => ("ffn_down.weight", "mlp.down_proj.weight", true),
    }
}
