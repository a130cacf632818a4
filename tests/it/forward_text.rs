//! Tokens of the test model, against those that another tokenizer made for the shipped traces.

use kvplan::forward::{Checkpoint, Text};
use kvplan::trace;
use proptest::prelude::*;

use crate::forward_reference::test_model;

fn text() -> Option<Text> {
    let checkpoint = Checkpoint::open(&test_model()?).unwrap();
    Some(Text::open(&checkpoint).unwrap())
}

#[test]
fn shipped_prompts_come_out_token_by_token_through_the_template() {
    let Some(text) = text() else {
        skip!("tokens of shipped prompts: the test model is not there");
    };
    for name in ["smol_0_t6_s1", "smol_1_t6_s2", "smol_5_t6_s5"] {
        let trace = trace::TraceReader::open(std::path::Path::new(&format!(
            "{}/traces/{name}.kvt",
            env!("CARGO_MANIFEST_DIR")
        )))
        .unwrap();
        let ids = trace.header().prompt_ids.clone().unwrap();
        let whole = text.decode(&ids);
        assert_eq!(text.encode(&whole).unwrap(), ids, "{name}");
        let user = whole.split("<|im_start|>user\n").nth(1).unwrap();
        let user = user.split("<|im_end|>").next().unwrap();
        assert_eq!(text.chat(user).unwrap(), ids, "{name}");
        assert!(text.is_end(2) && !text.is_end(ids[5]));
    }
}

#[test]
fn texts_come_back_as_they_went_in() {
    let Some(text) = text() else {
        skip!("round trips of texts: the test model is not there");
    };
    let config = ProptestConfig::with_cases(200);
    let any = prop_oneof![
        "\\PC{0,40}",
        "[ a-z0-9'\\n\\t]{0,60}",
        "[\u{e9}\u{4e2d}\u{1f600}\\r ]{0,20}"
    ];
    proptest::test_runner::TestRunner::new(config)
        .run(&any, |s| {
            let ids = text.encode(&s).unwrap();
            prop_assert_eq!(text.decode(&ids), s);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_tokenizer_that_is_not_known_is_refused() {
    use crate::forward_make::{Key, Tiny, gguf_with, write};
    let dir = tempfile::tempdir().unwrap();
    let refused = |keys: Vec<(String, Key)>| {
        let path = write(&dir, &gguf_with(&Tiny::new("llama", true, 1), keys));
        let error = Text::open(&Checkpoint::open(&path).unwrap()).unwrap_err();
        (
            error.exit_code(),
            error.message.replace(&path.display().to_string(), "FILE"),
        )
    };
    let word = |key: &str, value: &str| (key.to_string(), Key::Text(value.into()));
    assert_eq!(
        refused(vec![word("tokenizer.ggml.model", "llama")]),
        (
            2,
            "FILE: tokenizer `llama` (`tokenizer.ggml.model`) is not supported".into()
        )
    );
    let keys = vec![
        word("tokenizer.ggml.model", "gpt2"),
        word("tokenizer.ggml.pre", "tekken"),
    ];
    assert_eq!(
        refused(keys),
        (
            2,
            "FILE: tokenizer `tekken` (`tokenizer.ggml.pre`) is not supported".into()
        )
    );
    let keys = vec![
        word("tokenizer.ggml.model", "gpt2"),
        word("tokenizer.ggml.pre", "qwen2"),
    ];
    assert_eq!(
        refused(keys),
        (
            3,
            "FILE: `tokenizer.ggml.tokens` is missing or no list of texts".into()
        )
    );
}

#[test]
fn a_small_vocabulary_by_hand() {
    use crate::forward_make::{Tiny, gguf_with, tokenizer, write};
    let dir = tempfile::tempdir().unwrap();
    let path = write(&dir, &gguf_with(&Tiny::new("llama", true, 1), tokenizer()));
    let text = Text::open(&Checkpoint::open(&path).unwrap()).unwrap();
    // a = 0, b = 1, ...; `the` is token 39, `th` 38, `!` 29, `:` 28, `.` 26.
    assert_eq!(text.encode("thea.").unwrap(), [39, 0, 26]);
    assert_eq!(text.raw("th").unwrap(), [38]);
    // The template gives `user:the!` of ` the `: u 20, s 18, e 4, r 17, : 28, the 39, ! 29.
    assert_eq!(text.chat(" the ").unwrap(), [20, 18, 4, 17, 28, 39, 29]);
    assert!(text.is_end(29));
    assert_eq!(text.decode(&[39, 0, 26]), "thea.");
}
