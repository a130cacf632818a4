//! Reads a Hugging Face config.json.
//!
//! A family is supported when its layers are known to the last parameter; any other is refused by name with the nearest
//! supported one, because a planner that guesses an unknown layer's KV is wrong by multiples without a sign of it. The
//! same holds for single keys that change what a layer is. Defaults are taken only where the family's own code defines
//! one. Ignored: quantisation notes (the format is a question of its own), rope scaling, vision parts, next-token heads.

mod fields;
mod layers;

use std::path::Path;

use serde_json::Value;

use super::Model;
use crate::error::{Error, Result, did_you_mean};
use fields::Fields;

/// A supported family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    Gemma2,
    Gemma3,
    Phi3,
    GptOss,
    DeepseekV2,
    DeepseekV3,
}

/// `model_type`, class in `architectures`, family.
const FAMILIES: &[(&str, &str, Family)] = &[
    ("llama", "LlamaForCausalLM", Family::Llama),
    ("mistral", "MistralForCausalLM", Family::Mistral),
    ("mixtral", "MixtralForCausalLM", Family::Mixtral),
    ("qwen2", "Qwen2ForCausalLM", Family::Qwen2),
    ("qwen3", "Qwen3ForCausalLM", Family::Qwen3),
    ("qwen3_moe", "Qwen3MoeForCausalLM", Family::Qwen3Moe),
    ("gemma2", "Gemma2ForCausalLM", Family::Gemma2),
    ("gemma3_text", "Gemma3ForCausalLM", Family::Gemma3),
    ("gemma3", "Gemma3ForConditionalGeneration", Family::Gemma3),
    ("phi3", "Phi3ForCausalLM", Family::Phi3),
    ("gpt_oss", "GptOssForCausalLM", Family::GptOss),
    ("deepseek_v2", "DeepseekV2ForCausalLM", Family::DeepseekV2),
    ("deepseek_v3", "DeepseekV3ForCausalLM", Family::DeepseekV3),
];

/// Reads a config; `path` is its name for messages and, without a name of its own, the model's.
///
/// # Errors
/// Data: not JSON (with the place), a key that is missing, absurd or in contradiction to another, an architecture or a layer
/// kind that is not supported.
pub fn read(text: &str, path: &str) -> Result<Model> {
    let value: Value = serde_json::from_str(text).map_err(|e| broken(&e, text, path))?;
    let Some(map) = value.as_object() else {
        return Err(Error::data(format!(
            "{path}: not a model config: the file is not one JSON object"
        )));
    };
    let top = Fields { map, path };
    let (word, family) = family(top)?;
    let text_part = match top.get("text_config").and_then(Value::as_object) {
        Some(map) if family == Family::Gemma3 => Fields { map, path },
        _ => top,
    };
    let name = name(top);
    let model = Model {
        id: name.to_lowercase(),
        name,
        aliases: Vec::new(),
        family: word.to_string(),
        source: path.to_string(),
        hidden: text_part.need("hidden_size")?,
        vocab: text_part.need("vocab_size")?,
        tied: text_part.flag(
            "tie_word_embeddings",
            matches!(family, Family::Gemma2 | Family::Gemma3),
        )?,
        max_context: text_part.need("max_position_embeddings")?,
        layers: layers::read(text_part, family)?,
        published_parameters: None,
    };
    match model.fault() {
        None => Ok(model),
        Some((key, why)) => Err(text_part.wrong(layers::key_of(key, family), &why)),
    }
}

/// A JSON error with its place.
fn broken(error: &serde_json::Error, text: &str, path: &str) -> Error {
    let before = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    let at = (before + error.column().saturating_sub(1)).min(text.len());
    let message = error.to_string();
    let message = message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_string();
    Error::data(format!("not JSON: {message}")).at(path, text, at..at)
}

/// The family, from `model_type` or the class name.
fn family(top: Fields<'_>) -> Result<(&'static str, Family)> {
    let class = top
        .get("architectures")
        .and_then(|a| a.get(0))
        .and_then(Value::as_str);
    let given = top.word("model_type").or(class).ok_or_else(|| {
        top.wrong("model_type", "is missing, and so is `architectures`")
            .help("is this the config.json of a model?")
    })?;
    let known = FAMILIES
        .iter()
        .find(|(word, class, _)| *word == given || *class == given);
    known.map(|(word, _, family)| (*word, *family)).ok_or_else(|| {
        let words = FAMILIES.iter().map(|(w, _, _)| *w);
        let nearest = did_you_mean(given, words.clone())
            .map_or(String::new(), |n| format!("the nearest supported one is `{n}`; "));
        let shown: String = given.chars().take(60).collect();
        Error::data(format!("{}: architecture `{shown}` is not supported", top.path)).help(format!(
            "{nearest}supported: {}; or describe its layers in a .toml like those of models/architectures",
            words.collect::<Vec<_>>().join(", ")
        ))
    })
}

/// What the model is called: its own note, the folder it lies in, or the file.
fn name(top: Fields<'_>) -> String {
    let own = top
        .word("_name_or_path")
        .and_then(|n| n.trim_end_matches('/').rsplit('/').next());
    let path = Path::new(top.path);
    let stem = path
        .file_stem()
        .and_then(|s| s.to_str())
        .filter(|s| *s != "config");
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .and_then(|s| s.to_str());
    own.filter(|n| !n.is_empty())
        .or(stem)
        .or(folder)
        .unwrap_or("config")
        .chars()
        .take(100)
        .collect()
}
