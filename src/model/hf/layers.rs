//! Layers of each family from its keys.

use serde_json::Value;

use super::Family;
use super::fields::Fields;
use crate::error::{Error, Result};
use crate::model::file::MOST_LAYERS;
use crate::model::{Attention, Ffn, Layer};

/// Keys that turn layers into something else in any family.
const FOREIGN: &[&str] = &[
    "mlp_bias",
    "cross_attention_layers",
    "layers_block_type",
    "attn_type_list",
    "num_kv_shared_layers",
    "ssm_cfg",
    "index_topk",
    "linear_num_value_heads",
];

/// All layers in order.
pub(super) fn read(f: Fields<'_>, family: Family) -> Result<Vec<Layer>> {
    f.refuse(FOREIGN)?;
    let count = f.need("num_hidden_layers")?;
    if count > MOST_LAYERS {
        return Err(f.wrong(
            "num_hidden_layers",
            &format!("is {count}: at most {MOST_LAYERS} are believed"),
        ));
    }
    let attention = match family {
        Family::DeepseekV2 | Family::DeepseekV3 => latent(f)?,
        _ => grouped(f, family)?,
    };
    let slides = sliding(f, family, count)?;
    let norms = if matches!(family, Family::Gemma2 | Family::Gemma3) {
        4
    } else {
        2
    };
    let ffns = feed_forward(f, family, count)?;
    let layers = slides.into_iter().zip(ffns);
    Ok(layers
        .map(|(window, ffn)| Layer {
            attention: windowed(attention, window),
            ffn,
            norms,
        })
        .collect())
}

fn windowed(attention: Attention, seen: Option<u32>) -> Attention {
    match attention {
        Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias,
            out_bias,
            qk_norm,
            sink_logits,
            ..
        } => Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            window: seen,
            qkv_bias,
            out_bias,
            qk_norm,
            sink_logits,
        },
        latent @ Attention::Latent { .. } => latent,
    }
}

fn grouped(f: Fields<'_>, family: Family) -> Result<Attention> {
    let heads = f.need("num_attention_heads")?;
    let kv_heads = match f.maybe("num_key_value_heads")? {
        Some(n) => n,
        None if matches!(family, Family::Llama | Family::Phi3) => heads,
        None => f.need("num_key_value_heads")?,
    };
    let bias = f.flag("attention_bias", false)?;
    Ok(Attention::Grouped {
        heads,
        kv_heads,
        head_dim: head_dim(f, family, heads)?,
        window: None,
        qkv_bias: bias || matches!(family, Family::Qwen2 | Family::GptOss),
        out_bias: bias && family != Family::Qwen2 || family == Family::GptOss,
        qk_norm: matches!(family, Family::Qwen3 | Family::Qwen3Moe | Family::Gemma3),
        sink_logits: family == Family::GptOss,
    })
}

/// Its own key, or hidden / heads in the families whose code says so.
fn head_dim(f: Fields<'_>, family: Family, heads: u32) -> Result<u32> {
    let derived = matches!(
        family,
        Family::Llama | Family::Mistral | Family::Mixtral | Family::Qwen2 | Family::Phi3
    );
    if let Some(own) = f.maybe("head_dim")? {
        return Ok(own);
    }
    if !derived {
        return f.need("head_dim");
    }
    let hidden = f.need("hidden_size")?;
    if hidden.is_multiple_of(heads) {
        Ok(hidden / heads)
    } else {
        Err(f.wrong(
            "num_attention_heads",
            &format!("is {heads}, which does not divide `hidden_size` {hidden}"),
        ))
    }
}

fn latent(f: Fields<'_>) -> Result<Attention> {
    Ok(Attention::Latent {
        heads: f.need("num_attention_heads")?,
        kv_rank: f.need("kv_lora_rank")?,
        q_rank: f.maybe("q_lora_rank")?.unwrap_or(0),
        rope: f.need("qk_rope_head_dim")?,
        nope: f.need("qk_nope_head_dim")?,
        value: f.need("v_head_dim")?,
    })
}

/// The window of each layer, none where it sees everything.
fn sliding(f: Fields<'_>, family: Family, count: u32) -> Result<Vec<Option<u32>>> {
    let named = f
        .get("layer_types")
        .map(|v| layer_types(f, v, count))
        .transpose()?;
    let slides = match (named, family) {
        (Some(named), _) => named,
        (None, Family::Mistral | Family::Mixtral | Family::Phi3) => {
            all(f.get("sliding_window").is_some(), count)
        }
        (None, Family::Qwen2 | Family::Qwen3 | Family::Qwen3Moe)
            if f.flag("use_sliding_window", false)? =>
        {
            let first = f.count("max_window_layers", count)?;
            (0..count).map(|i| i >= first).collect()
        }
        (None, Family::Gemma2 | Family::GptOss) => (0..count).map(|i| i % 2 == 0).collect(),
        (None, Family::Gemma3) => {
            let pattern = f.maybe("sliding_window_pattern")?.unwrap_or(6);
            (0..count).map(|i| (i + 1) % pattern != 0).collect()
        }
        _ => all(false, count),
    };
    let window = if slides.contains(&true) {
        Some(f.need("sliding_window")?)
    } else {
        None
    };
    Ok(slides.into_iter().map(|s| window.filter(|_| s)).collect())
}

fn all(slides: bool, count: u32) -> Vec<bool> {
    (0..count).map(|_| slides).collect()
}

/// `layer_types` as it stands: whether each layer slides.
fn layer_types(f: Fields<'_>, value: &Value, count: u32) -> Result<Vec<bool>> {
    let list = value
        .as_array()
        .ok_or_else(|| f.wrong("layer_types", "must be a list"))?;
    if list.len() != count as usize {
        let why = format!(
            "has {} entries, but `num_hidden_layers` is {count}",
            list.len()
        );
        return Err(f.wrong("layer_types", &why));
    }
    list.iter()
        .map(|kind| match kind.as_str() {
            Some("full_attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            other => {
                let shown: String = other.unwrap_or("(not a word)").chars().take(60).collect();
                Err(
                    Error::data(format!("{}: layer kind `{shown}` is not supported", f.path))
                        .help("supported: full_attention, sliding_attention"),
                )
            }
        })
        .collect()
}

/// The feed-forward of each layer.
fn feed_forward(f: Fields<'_>, family: Family, count: u32) -> Result<Vec<Ffn>> {
    let dense = || {
        f.need("intermediate_size")
            .map(|intermediate| Ffn::Dense { intermediate })
    };
    let routed = match family {
        Family::Mixtral | Family::GptOss => experts(f, "num_local_experts", "intermediate_size")?,
        Family::Qwen3Moe => experts(f, "num_experts", "moe_intermediate_size")?,
        Family::DeepseekV2 | Family::DeepseekV3 => {
            experts(f, "n_routed_experts", "moe_intermediate_size")?
        }
        _ => return Ok(vec![dense()?; count as usize]),
    };
    let routed = with_extras(f, family, routed)?;
    let is_dense = dense_layers(f, family, count)?;
    is_dense
        .into_iter()
        .map(|d| if d { dense() } else { Ok(routed) })
        .collect()
}

fn experts(f: Fields<'_>, number: &str, width: &str) -> Result<Ffn> {
    let (experts, active) = (f.need(number)?, f.need("num_experts_per_tok")?);
    if active > experts {
        return Err(f.wrong(
            "num_experts_per_tok",
            &format!("is {active}, more than `{number}` {experts}"),
        ));
    }
    Ok(Ffn::Experts {
        experts,
        active,
        intermediate: f.need(width)?,
        shared: 0,
        bias: false,
        router_bias: false,
    })
}

/// Shared experts and biases.
fn with_extras(f: Fields<'_>, family: Family, ffn: Ffn) -> Result<Ffn> {
    let Ffn::Experts {
        experts,
        active,
        intermediate,
        ..
    } = ffn
    else {
        return Ok(ffn);
    };
    let deepseek = matches!(family, Family::DeepseekV2 | Family::DeepseekV3);
    let shared = if deepseek {
        f.count("n_shared_experts", 0)?
    } else {
        0
    };
    let (bias, router_bias) = (family == Family::GptOss, family == Family::DeepseekV3);
    Ok(Ffn::Experts {
        experts,
        active,
        intermediate,
        shared,
        bias,
        router_bias,
    })
}

/// Which layers of a mixture of experts are dense.
fn dense_layers(f: Fields<'_>, family: Family, count: u32) -> Result<Vec<bool>> {
    let step = match family {
        Family::Qwen3Moe => f.maybe("decoder_sparse_step")?.unwrap_or(1),
        Family::DeepseekV2 | Family::DeepseekV3 => f.maybe("moe_layer_freq")?.unwrap_or(1),
        _ => 1,
    };
    let first = match family {
        Family::DeepseekV2 | Family::DeepseekV3 => f.count("first_k_dense_replace", 0)?,
        _ => 0,
    };
    let only: Vec<u64> = match f.get("mlp_only_layers") {
        Some(v) => v
            .as_array()
            .and_then(|a| a.iter().map(Value::as_u64).collect())
            .ok_or_else(|| f.wrong("mlp_only_layers", "must be a list of layer numbers"))?,
        None => Vec::new(),
    };
    let sparse = |i: u32| match family {
        Family::Qwen3Moe => (i + 1).is_multiple_of(step),
        _ => i >= first && i.is_multiple_of(step),
    };
    Ok((0..count)
        .map(|i| !sparse(i) || only.contains(&u64::from(i)))
        .collect())
}

/// The key of the file behind one of ours.
pub(super) fn key_of(own: &'static str, family: Family) -> &'static str {
    match own {
        "heads" => "num_attention_heads",
        "kv_heads" => "num_key_value_heads",
        "window" => "sliding_window",
        "hidden" => "hidden_size",
        "vocab" => "vocab_size",
        "max_context" => "max_position_embeddings",
        "kv_rank" => "kv_lora_rank",
        "q_rank" => "q_lora_rank",
        "rope" => "qk_rope_head_dim",
        "nope" => "qk_nope_head_dim",
        "value" => "v_head_dim",
        "active" => "num_experts_per_tok",
        "shared" => "n_shared_experts",
        "experts" if family == Family::Qwen3Moe => "num_experts",
        "experts" if matches!(family, Family::Mixtral | Family::GptOss) => "num_local_experts",
        "experts" => "n_routed_experts",
        "intermediate" => "intermediate_size",
        other => other,
    }
}
