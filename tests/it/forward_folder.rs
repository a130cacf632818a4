//! Hugging Face folders with a `tokenizer.json`: the same tokens as from a GGUF file, chats by the folder's template,
//! and texts that come back as they went in.

use std::path::Path;

use kvplan::forward::{Checkpoint, Text};
use kvplan::trace::{TraceReader, verify};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::forward_make::{HIDDEN, Key, Tiny, gguf_with, tokenizer, write};

/// The rule of Qwen2, as its `tokenizer.json` has it.
const SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A `tokenizer.json` of byte-level BPE.
fn tokenizer_json(tokens: &[String], merges: &[&str], special: &[(&str, usize)]) -> Value {
    let vocabulary: serde_json::Map<String, Value> = tokens
        .iter()
        .enumerate()
        .map(|(id, t)| (t.clone(), id.into()))
        .collect();
    let added: Vec<Value> = special
        .iter()
        .map(|(text, id)| {
            json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": false}, bytes]},
        "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocabulary, "merges": merges},
    })
}

/// The 40 tokens of the small GGUF tokenizer.
fn forty() -> Vec<String> {
    let letters = "abcdefghijklmnopqrstuvwxyz.,:!?0123456".chars();
    letters
        .map(String::from)
        .chain(["th".into(), "the".into()])
        .collect()
}

const TEMPLATE: &str =
    "{% for m in messages %}{{ m['role'] }}:{{ m.content.strip() }}{% endfor %}!";

fn put(dir: &Path, name: &str, value: &Value) {
    std::fs::write(dir.join(name), value.to_string()).unwrap();
}

/// A small model's folder with the 40 tokens and a template.
fn folder(config: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    Tiny::new("qwen2", true, 6).folder(dir.path());
    put(
        dir.path(),
        "tokenizer.json",
        &tokenizer_json(&forty(), &["t h", "th e"], &[]),
    );
    put(dir.path(), "tokenizer_config.json", config);
    dir
}

fn open(dir: &tempfile::TempDir) -> Text {
    Text::open(&Checkpoint::open(dir.path()).unwrap()).unwrap()
}

#[test]
fn a_folder_has_the_tokens_of_the_gguf_file() {
    let dir = folder(&json!({"chat_template": TEMPLATE, "eos_token": "!", "bos_token": "a"}));
    let text = open(&dir);
    // a = 0, b = 1, ...; `th` 38, `the` 39; `.` 26, `:` 28, `!` 29.
    assert_eq!(text.encode("thea.").unwrap(), [39, 0, 26]);
    assert_eq!(text.raw("th").unwrap(), [38]);
    assert_eq!(text.chat(" the ").unwrap(), [20, 18, 4, 17, 28, 39, 29]);
    assert!(text.is_end(29) && !text.is_end(0));
    let other = tempfile::tempdir().unwrap();
    let file = write(
        &other,
        &gguf_with(&Tiny::new("qwen2", true, 6), tokenizer()),
    );
    let file = Text::open(&Checkpoint::open(&file).unwrap()).unwrap();
    for words in ["the.then", "a,b:c!d?", "thethth0123", "", "ththe!!"] {
        assert_eq!(
            text.encode(words).unwrap(),
            file.encode(words).unwrap(),
            "{words}"
        );
        assert_eq!(text.chat(words).unwrap(), file.chat(words).unwrap());
    }
}

#[test]
fn ends_and_beginnings_are_where_folders_say_them() {
    let config = json!({"add_bos_token": true, "bos_token": {"content": "the"}, "eos_token": "?"});
    let dir = folder(&config);
    put(
        dir.path(),
        "generation_config.json",
        &json!({"eos_token_id": [5, 7]}),
    );
    let text = open(&dir);
    assert_eq!(text.raw("ab").unwrap(), [39, 0, 1]);
    let ends: Vec<u32> = (0..40).filter(|t| text.is_end(*t)).collect();
    assert_eq!(ends, [5, 7, 30]); // `?` is 30
    let error = text.chat("ab").unwrap_err();
    assert_eq!(
        (error.exit_code(), error.help.as_deref()),
        (2, Some("give the text as it is with --raw"))
    );
    std::fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    let error = Text::open(&Checkpoint::open(dir.path()).unwrap()).unwrap_err();
    assert!(error.exit_code() == 2 && error.message.ends_with("tokenizer.json: is missing"));
    std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let error = Text::open(&Checkpoint::open(dir.path()).unwrap()).unwrap_err();
    assert_eq!(error.exit_code(), 3);
}

/// Tokens of a chat under a template, as text.
fn rendered(template: &Value, apart: Option<&str>) -> Result<String, (u8, String)> {
    let dir = folder(&json!({"chat_template": template, "bos_token": "a", "eos_token": "!"}));
    if let Some(apart) = apart {
        std::fs::write(dir.path().join("chat_template.jinja"), apart).unwrap();
    }
    let text = open(&dir);
    match text.chat("hi") {
        Ok(ids) => Ok(text.decode(&ids)),
        Err(e) => Err((e.exit_code(), e.message)),
    }
}

#[test]
fn templates_are_rendered_as_their_authors_mean_them() {
    let fine = |template: &str| rendered(&json!(template), None).unwrap();
    // Blocks swallow the line break after them and the blanks before them.
    let lines = "{% for m in messages %}\n  {% if m.role == 'user' %}\n{{ m.content }}.{% endif %}\n{% endfor %}";
    assert_eq!(fine(lines), "hi.");
    assert_eq!(
        fine("{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}"),
        "ahi!"
    );
    assert_eq!(
        fine("{% if add_generation_prompt %}g{% else %}n{% endif %}"),
        "g"
    );
    assert_eq!(
        fine("{{ messages[0].content.replace('h', 'b').upper().lower() }}"),
        "bi"
    );
    // No clock: a template that can do without the date does, on any day.
    let date = "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}0{% endif %}";
    assert_eq!(fine(date), "0");
    assert_eq!(
        fine(
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
        ),
        "1"
    );
    // Of several the default one; a file apart goes before both.
    let list = json!([{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]);
    assert_eq!(rendered(&list, None).unwrap(), "d");
    assert_eq!(rendered(&list, Some("f")).unwrap(), "f");
}

#[test]
fn templates_that_cannot_be_rendered_are_refused() {
    let refused = |template: &str| rendered(&json!(template), None).unwrap_err();
    let (code, message) = refused("{{ raise_exception('no system message') }}");
    assert_eq!(code, 3);
    assert!(message.contains("its chat template fails") && message.contains("no system message"));
    for broken in [
        "{% for m in messages %}",
        "{{ messages[0].content.no_such_method() }}",
        "{{ 1 / 0 }}",
        "{% include '/etc/passwd' %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}a{% endfor %}{% endfor %}",
    ] {
        assert_eq!(refused(broken).0, 3, "{broken}");
    }
}

#[test]
fn the_command_records_a_folder_as_it_does_the_file() {
    let dir = folder(&json!({"chat_template": TEMPLATE, "eos_token": "!"}));
    let apart = tempfile::tempdir().unwrap();
    let gguf = write(
        &apart,
        &gguf_with(&Tiny::new("qwen2", true, 6), tokenizer()),
    );
    let mut rows = Vec::new();
    for (model, out) in [(dir.path().to_path_buf(), "a"), (gguf, "b")] {
        let out = dir.path().join(out);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .arg("record")
            .args([
                "--text",
                "the.",
                "--max-new",
                "9",
                "--seed",
                "5",
                "--temperature",
                "2",
            ])
            .args(["--layers", "--keys", "--queries", "2", "--model"])
            .arg(&model)
            .arg("-o")
            .arg(&out)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let trace = TraceReader::open(&out.join("0001.kvt")).unwrap();
        verify::verify(&trace).unwrap();
        let mut all = Vec::new();
        let mut take = |_, r: &[u16]| {
            all.extend_from_slice(r);
            Ok(())
        };
        trace.for_each_in(0..trace.rows(), &mut take).unwrap();
        trace.for_each_layers(0..trace.rows(), &mut take).unwrap();
        // `user:the.!`
        let prompt = trace.header().prompt_ids.clone().unwrap();
        assert_eq!(prompt, [20, 18, 4, 17, 28, 39, 26, 29]);
        rows.push((all, trace.tokens().unwrap().unwrap()));
    }
    assert_eq!(rows[0].1, rows[1].1);
    assert!(!rows[0].1.is_empty() && rows[0].0 == rows[1].0);
}

/// The letters that byte-level vocabularies write bytes as: printable ones as they are, the others from 256 on.
fn alphabet() -> Vec<String> {
    let mut other = 256u32;
    (0..=255u8)
        .map(|byte| {
            let plain = matches!(byte, 33..=126 | 161..=172 | 174..=255);
            let letter = if plain { u32::from(byte) } else { other };
            other += u32::from(!plain);
            char::from_u32(letter).unwrap().to_string()
        })
        .collect()
}

const MERGES: [&str; 6] = [
    "t h",
    "th e",
    "\u{120} the",
    "\u{120} \u{120}",
    "i n",
    "\u{c3} \u{a9}",
];

/// All bytes, the merges' results, and a special token.
fn vocabulary() -> Vec<String> {
    let merged = MERGES.iter().map(|m| m.replace(' ', ""));
    let mut tokens: Vec<String> = alphabet().into_iter().chain(merged).collect();
    tokens.push("<|end|>".into());
    tokens
}

/// A small model with so many tokens.
fn wide(tokens: usize) -> Tiny {
    let mut tiny = Tiny::new("llama", true, 1);
    let embedding = (vec![tokens, HIDDEN], vec![0.5; tokens * HIDDEN]);
    tiny.weights.insert("token_embd.weight".into(), embedding);
    tiny
}

/// Tokenizers of all rules known by name, and one from a `tokenizer.json`.
fn all() -> Vec<(String, Text)> {
    let tokens = vocabulary();
    let names = [
        "smollm",
        "gpt-2",
        "default",
        "qwen2",
        "deepseek-r1-qwen",
        "llama-bpe",
        "llama3",
        "llama-v3",
    ];
    let mut found = Vec::new();
    for name in names {
        let key = |k: &str, v: Key| (format!("tokenizer.ggml.{k}"), v);
        let merges = MERGES.map(String::from).to_vec();
        let keys = vec![
            key("model", Key::Text("gpt2".into())),
            key("pre", Key::Text(name.into())),
            key("tokens", Key::Texts(tokens.clone())),
            key("merges", Key::Texts(merges)),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = write(&dir, &gguf_with(&wide(tokens.len()), keys));
        found.push((
            name.into(),
            Text::open(&Checkpoint::open(&path).unwrap()).unwrap(),
        ));
    }
    let dir = folder(&json!({}));
    let end = [("<|end|>", tokens.len() - 1)];
    put(
        dir.path(),
        "tokenizer.json",
        &tokenizer_json(&tokens, &MERGES, &end),
    );
    found.push(("tokenizer.json".into(), open(&dir)));
    found
}

#[test]
fn any_text_comes_back_from_any_tokenizer() {
    let tokenizers = all();
    let config = ProptestConfig::with_cases(100);
    // Composed letters only: some rules compose others first.
    let any = prop_oneof![
        "[ -~\\n\\t\\r]{0,60}",
        "[ the in\u{e9}\u{4e2d}\u{1f600}0-9']{0,60}",
        "[\u{21}-\u{24f}]{0,30}"
    ];
    proptest::test_runner::TestRunner::new(config)
        .run(&any, |s| {
            for (name, text) in &tokenizers {
                let ids = text.encode(&s).unwrap();
                prop_assert_eq!(&text.decode(&ids), &s, "{}", name);
                // Tokens of a part and of the rest are a text's tokens where a break stands between them.
                let both = format!("{s}x\n\nx{s}");
                let parts = [
                    text.encode(&format!("{s}x\n\n")).unwrap(),
                    text.encode(&format!("x{s}")).unwrap(),
                ];
                prop_assert_eq!(text.encode(&both).unwrap(), parts.concat(), "{}", name);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn merges_and_special_tokens_of_the_larger_vocabulary_by_hand() {
    // Bytes are 0 to 255; then th, the, ` the`, two blanks, in, é; <|end|> last.
    for (name, text) in all() {
        assert_eq!(text.encode("the the").unwrap(), [257, 258], "{name}");
        assert_eq!(text.encode("in\u{e9}").unwrap(), [260, 261], "{name}");
        assert_eq!(text.decode(&[262]), "<|end|>", "{name}");
    }
    let (_, json) = all().pop().unwrap();
    assert_eq!(json.encode("in<|end|>the").unwrap(), [260, 262, 257]);
}
