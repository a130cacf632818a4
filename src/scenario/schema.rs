//! JSON schema of a scenario file, made from the table of settings.

use serde_json::{Value, json};

use super::keys::{KEYS, Key, Kind, Verb};

/// The schema (draft 2020-12) of a scenario as parsed from TOML.
pub fn scenario() -> Value {
    let properties: serde_json::Map<String, Value> = KEYS
        .iter()
        .map(|k| (k.name.to_string(), property(k)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario",
        "description": "A kvplan scenario file: the flags of `simulate` and `plan` without their dashes.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn property(key: &Key) -> Value {
    let scalar = match key.kind {
        Kind::Text | Kind::Texts => json!({ "type": "string" }),
        Kind::Number | Kind::Numbers => json!({ "type": ["integer", "string"] }),
        Kind::Real => json!({ "type": ["number", "string"] }),
    };
    let mut schema = match key.kind {
        Kind::Texts | Kind::Numbers => {
            json!({ "anyOf": [scalar, { "type": "array", "items": scalar, "minItems": 1 }] })
        }
        _ => scalar,
    };
    schema["description"] = json!(key.help);
    if let Some(default) = key.default(Verb::Simulate) {
        schema["default"] = json!(default);
    }
    schema
}
