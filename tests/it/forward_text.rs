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
    for name in ["smol_1_t9_s5", "smol_2_t9_s5", "smol_3_t9_s5"] {
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
        refused(vec![word("tokenizer.ggml.model", "t5")]),
        (
            3,
            "FILE: tokenizer `t5` (`tokenizer.ggml.model`) is not supported".into()
        )
    );
    let keys = vec![
        word("tokenizer.ggml.model", "gpt2"),
        word("tokenizer.ggml.pre", "tekken"),
    ];
    assert_eq!(
        refused(keys),
        (
            3,
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

/// A vocabulary of pieces over a, b, c and the space: letters last in score, longer pieces in no order of length.
fn pieces() -> Vec<(&'static str, f32, f32)> {
    let mut all = vec![
        ("<unk>", 0.0, 2.0),
        ("<s>", 0.0, 3.0),
        ("</s>", 0.0, 3.0),
        ("<0x0A>", 0.0, 6.0),
    ];
    let longer = [
        "ab",
        "\u{2581}a",
        "bc",
        "abc",
        "\u{2581}ab",
        "cc",
        "aa",
        "bca",
        "\u{2581}\u{2581}",
        "aabc",
        "\u{2581}c",
    ];
    all.extend(
        (0u8..)
            .zip(longer)
            .map(|(i, p)| (p, -f32::from(i) - 1.0, 1.0)),
    );
    all.extend(
        (0u8..)
            .zip(["a", "b", "c", "\u{2581}"])
            .map(|(i, p)| (p, -f32::from(i) - 100.0, 1.0)),
    );
    all
}

/// The rule as its paper has it: join the neighbours whose joint piece scores highest, the leftmost first.
fn joined(text: &str) -> Vec<u32> {
    let all = pieces();
    let find = |p: &str| all.iter().position(|x| x.0 == p);
    let text = format!(" {text}").replace(' ', "\u{2581}");
    let mut parts: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for i in 0..parts.len().saturating_sub(1) {
            if let Some(id) = find(&format!("{}{}", parts[i], parts[i + 1]))
                && best.is_none_or(|b| all[id].1 > b.0)
            {
                best = Some((all[id].1, i));
            }
        }
        let Some((_, i)) = best else { break };
        let right = parts.remove(i + 1);
        parts[i] += &right;
    }
    parts
        .iter()
        .map(|p| u32::try_from(find(p).unwrap()).unwrap())
        .collect()
}

#[test]
fn pieces_with_scores_are_joined_as_sentencepiece_does() {
    use crate::forward_make::{Key, Tiny, gguf_with, write};
    let dir = tempfile::tempdir().unwrap();
    let all = pieces();
    let keys = |scores: usize| {
        let key = |k: &str, v: Key| (format!("tokenizer.ggml.{k}"), v);
        vec![
            key("model", Key::Text("llama".into())),
            key(
                "tokens",
                Key::Texts(all.iter().map(|p| p.0.into()).collect()),
            ),
            key(
                "scores",
                Key::Floats(all[..scores].iter().map(|p| p.1).collect()),
            ),
            key("token_type", Key::Floats(all.iter().map(|p| p.2).collect())),
            key("bos_token_id", Key::Count(1)),
            key("eos_token_id", Key::Count(2)),
            key("unknown_token_id", Key::Count(0)),
        ]
    };
    let open = |scores: usize| {
        let path = write(&dir, &gguf_with(&Tiny::new("llama", true, 1), keys(scores)));
        Text::open(&Checkpoint::open(&path).unwrap())
    };
    let text = open(all.len()).unwrap();
    // `▁` 18 `a` 15: " abc" is `▁ab` and `c`: ab (-1) joins before bc (-3) and ▁a (-2); then abc (-4) before ▁ab (-5).
    assert_eq!(text.encode("abc").unwrap(), [18, 7]);
    // A new line has no piece but a byte; the text is begun by <s>, which is also known when written.
    assert_eq!(text.raw("b\nb").unwrap(), [1, 18, 16, 3, 16]);
    assert_eq!(text.encode("<s>c</s>").unwrap(), [1, 14, 2]);
    assert!(text.is_end(2));
    proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200))
        .run(&"[abc ]{1,40}", |s| {
            let ids = text.encode(&s).unwrap();
            prop_assert_eq!(&ids, &joined(&s));
            prop_assert_eq!(text.decode(&ids), s);
            Ok(())
        })
        .unwrap();
    let error = open(4).unwrap_err();
    assert!(
        error
            .message
            .contains("`tokenizer.ggml.scores` is missing or not one number a token"),
        "{error}"
    );
}
