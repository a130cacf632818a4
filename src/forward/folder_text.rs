//! The tokenizer of a Hugging Face folder: `tokenizer.json`, with what other files there say about chats and ends.

use std::path::Path;

use serde_json::Value;
use tokenizers::Tokenizer;

use super::checkpoint::Checkpoint;
use super::safetensors::json;
use super::template::Template;
use super::text::Text;
use crate::error::{Error, Result};

pub(super) fn open(checkpoint: &Checkpoint) -> Result<Text> {
    let folder = Path::new(&checkpoint.label);
    let path = folder.join("tokenizer.json");
    let shown = path.display();
    if !path.exists() {
        return Err(Error::usage(format!("{shown}: is missing"))
            .help("save the model's tokenizer into its folder as well"));
    }
    let tokenizer = Tokenizer::from_file(&path)
        .map_err(|e| Error::data(format!("{shown}: is no tokenizer: {e}")))?;
    let maybe = |name: &str| {
        let path = folder.join(name);
        if path.exists() {
            json(&path)
        } else {
            Ok(Value::Null)
        }
    };
    let (config, generation) = (
        maybe("tokenizer_config.json")?,
        maybe("generation_config.json")?,
    );
    let model = maybe("config.json")?;
    let begin = spelled(&config["bos_token"]);
    let end = spelled(&config["eos_token"]);
    let id = |t: &str| tokenizer.token_to_id(t);
    let mut ends: Vec<u32> = [&generation["eos_token_id"], &model["eos_token_id"]]
        .into_iter()
        .flat_map(numbers)
        .chain(id(&end))
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let adds = config["add_bos_token"].as_bool() == Some(true);
    let apart = std::fs::read_to_string(folder.join("chat_template.jinja")).ok();
    let template = apart.or_else(|| template(&config["chat_template"]));
    Ok(Text {
        label: checkpoint.label.clone(),
        begin: id(&begin).filter(|_| adds),
        ends,
        template: template.map(|t| Template::new(&t, begin, end)),
        tokenizer,
    })
}

/// A token given by its text, or by an object that holds it.
fn spelled(value: &Value) -> String {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.unwrap_or_default().into()
}

/// A number or a list of numbers.
fn numbers(value: &Value) -> Vec<u32> {
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value.as_array() {
        Some(list) => list.iter().filter_map(one).collect(),
        None => one(value).into_iter().collect(),
    }
}

/// A template, or the one named `default` of a list.
fn template(value: &Value) -> Option<String> {
    let named = |v: &&Value| v["name"] == "default";
    let text = value.as_str();
    text.or_else(|| value.as_array()?.iter().find(named)?["template"].as_str())
        .map(String::from)
}
