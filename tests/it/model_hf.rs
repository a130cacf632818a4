//! config.json: the same layers as the catalog's own files for each family, and every bad key named.

use kvplan::catalog;
use kvplan::model::hf;
use proptest::prelude::*;
use serde_json::{Value, json};

fn llama() -> Value {
    json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "vocab_size": 128_256,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "max_position_embeddings": 131_072, "tie_word_embeddings": false, "rope_scaling": {"factor": 8.0}})
}

#[rustfmt::skip]
fn configs() -> Vec<(&'static str, Value)> {
    vec![
        ("llama-3.1-8b", llama()),
        ("qwen2.5-7b", json!({"model_type": "qwen2", "hidden_size": 3584, "vocab_size": 152_064, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "sliding_window": 131_072,
            "use_sliding_window": false, "max_window_layers": 28, "max_position_embeddings": 131_072})),
        ("qwen3-8b", json!({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "vocab_size": 151_936,
            "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "intermediate_size": 12288, "attention_bias": false, "max_position_embeddings": 40960})),
        ("qwen3-30b-a3b", json!({"model_type": "qwen3_moe", "hidden_size": 2048, "vocab_size": 151_936, "num_hidden_layers": 48,
            "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
            "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "max_position_embeddings": 40960})),
        ("mistral-7b-v0.1", json!({"model_type": "mistral", "hidden_size": 4096, "vocab_size": 32000, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "sliding_window": 4096,
            "max_position_embeddings": 32768})),
        ("mixtral-8x7b", json!({"model_type": "mixtral", "hidden_size": 4096, "vocab_size": 32000, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8,
            "num_experts_per_tok": 2, "sliding_window": null, "max_position_embeddings": 32768})),
        ("gemma-2-27b", json!({"model_type": "gemma2", "hidden_size": 4608, "vocab_size": 256_000, "num_hidden_layers": 46,
            "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 36864,
            "sliding_window": 4096, "max_position_embeddings": 8192})),
        ("gemma-3-27b", json!({"model_type": "gemma3", "text_config": {"hidden_size": 5376, "vocab_size": 262_144,
            "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
            "intermediate_size": 21504, "sliding_window": 1024, "sliding_window_pattern": 6,
            "max_position_embeddings": 131_072}})),
        ("phi-4", json!({"model_type": "phi3", "hidden_size": 5120, "vocab_size": 100_352, "num_hidden_layers": 40,
            "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920, "sliding_window": null,
            "max_position_embeddings": 16384})),
        ("gpt-oss-20b", json!({"model_type": "gpt_oss", "hidden_size": 2880, "vocab_size": 201_088, "num_hidden_layers": 24,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
            "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": true,
            "layer_types": (0..24).map(|i| if i % 2 == 0 { "sliding_attention" } else { "full_attention" }).collect::<Vec<_>>(),
            "max_position_embeddings": 131_072})),
        ("deepseek-v3", json!({"model_type": "deepseek_v3", "hidden_size": 7168, "vocab_size": 129_280, "num_hidden_layers": 61,
            "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
            "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
            "max_position_embeddings": 163_840})),
    ]
}

#[test]
fn configs_give_the_layers_of_the_catalog() {
    for (name, config) in configs() {
        let ours = catalog::model(name).unwrap();
        let theirs = hf::read(&config.to_string(), "config.json").unwrap();
        assert_eq!(theirs.layers, ours.layers, "{name}");
        assert_eq!(
            (theirs.parameters(), theirs.tied),
            (ours.parameters(), ours.tied),
            "{name}"
        );
        assert_eq!(
            (theirs.max_context, theirs.hidden),
            (ours.max_context, ours.hidden),
            "{name}"
        );
    }
}

/// Qwen2 with `use_sliding_window` slides from layer `max_window_layers` on.
#[test]
fn qwen2_windows_start_where_they_say() {
    let (_, mut c) = configs().swap_remove(1);
    c["use_sliding_window"] = json!(true);
    c["max_window_layers"] = json!(21);
    let m = hf::read(&c.to_string(), "c.json").unwrap();
    let sliding: Vec<bool> = m
        .layers
        .iter()
        .map(|l| l.kv_rule().window.is_some())
        .collect();
    assert_eq!(sliding.iter().filter(|s| **s).count(), 7);
    assert!(!sliding[20] && sliding[21]);
}

/// Key, value, exit code, what the message must name.
#[rustfmt::skip]
fn bad() -> Vec<(&'static str, Value, u8, &'static str)> {
    vec![
        ("hidden_size", json!(0), 3, "hidden_size"),
        ("hidden_size", json!(-4096), 3, "hidden_size"),
        ("hidden_size", json!(4096.5), 3, "hidden_size"),
        ("hidden_size", json!("4096"), 3, "hidden_size"),
        ("hidden_size", json!(4_000_000_000_000_u64), 3, "hidden_size"),
        ("hidden_size", Value::Null, 3, "hidden_size"),
        ("hidden_size", json!(4097), 3, "num_attention_heads"),
        ("num_hidden_layers", json!(0), 3, "num_hidden_layers"),
        ("num_hidden_layers", json!(100_000), 3, "num_hidden_layers"),
        ("num_attention_heads", json!(30_000), 3, "num_attention_heads"),
        ("num_key_value_heads", json!(7), 3, "num_key_value_heads"),
        ("num_key_value_heads", json!(64), 3, "num_key_value_heads"),
        ("vocab_size", json!(u32::MAX), 3, "vocab_size"),
        ("tie_word_embeddings", json!("yes"), 3, "tie_word_embeddings"),
        ("layer_types", json!(["full_attention"]), 3, "layer_types"),
        ("layer_types", json!(vec!["linear_attention"; 32]), 3, "linear_attention"),
        ("mlp_bias", json!(true), 3, "mlp_bias"),
        ("model_type", json!("mamba2"), 3, "mamba2"),
        ("model_type", json!("qwen3_next"), 3, "qwen3_next"),
    ]
}

#[test]
fn bad_keys_are_named() {
    for (key, value, code, named) in bad() {
        let mut c = llama();
        c[key] = value.clone();
        let e = hf::read(&c.to_string(), "some/config.json").unwrap_err();
        assert_eq!(e.exit_code(), code, "{key} = {value}: {}", e.message);
        assert!(e.message.contains(named), "{key} = {value}: {}", e.message);
    }
    let mut c = llama();
    c["model_type"] = json!("qwen3_next");
    let help = hf::read(&c.to_string(), "c.json")
        .unwrap_err()
        .help
        .unwrap();
    assert!(
        help.contains("nearest supported one is `qwen3") && help.contains("deepseek_v3"),
        "{help}"
    );
}

#[test]
fn text_that_is_no_config() {
    for text in [
        "",
        "[]",
        "{",
        "null",
        "{\"a\": 1}",
        "{\"model_type\": {}}",
        "\u{0}",
    ] {
        assert!(
            matches!(hf::read(text, "c.json").unwrap_err().exit_code(), 2 | 3),
            "{text}"
        );
    }
    let e = hf::read("{\n \"a\": 1,\n oops\n}", "c.json").unwrap_err();
    assert_eq!(
        e.place.unwrap().span.start,
        12,
        "the place is where `oops` starts"
    );
}

proptest! {
    /// Whatever number stands at a key: an error or a model whose sums do not overflow.
    #[test]
    fn no_number_panics(which in 0usize..11, key in 0usize..30, n in prop_oneof![any::<u64>().prop_map(|n| json!(n)),
        any::<i64>().prop_map(|n| json!(n)), (0u64..100_000).prop_map(|n| json!(n)), any::<f64>().prop_map(|n| json!(n)),
        Just(json!([])), Just(json!({})), Just(json!("x"))])
    {
        let (_, mut c) = configs().swap_remove(which);
        let object = match c.get_mut("text_config") {
            Some(t) => t.as_object_mut().unwrap(),
            None => c.as_object_mut().unwrap(),
        };
        let keys: Vec<String> = object.keys().cloned().collect();
        object.insert(keys[key % keys.len()].clone(), n);
        if let Ok(m) = hf::read(&c.to_string(), "c.json") {
            prop_assert!(m.parameters() >= m.active_parameters());
            for format in kvplan::model::WeightFormat::named() {
                prop_assert!(m.weights_bytes(&format).total() > 0);
            }
            prop_assert!(m.kv_bytes(u64::from(u32::MAX), kvplan::model::KvFormat::Fp16).is_finite());
        }
    }
}
