//! Models that cannot run are refused by name, before any work.

use kvplan::forward::Model;

use crate::forward_make::{HIDDEN, Key, Tiny, gguf, write};

/// Message and exit code of a GGUF file.
fn refused(bytes: &[u8]) -> (u8, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = write(&dir, bytes);
    let error = Model::open(&path).unwrap_err();
    let shown = error.message.replace(&path.display().to_string(), "FILE");
    (error.exit_code(), shown)
}

fn tiny() -> Tiny {
    Tiny::new("qwen2", false, 1)
}

#[test]
fn architectures() {
    let keys = |word: &str| [("general.architecture".to_string(), Key::Text(word.into()))];
    let (code, message) = refused(&gguf(&keys("mamba"), &tiny().weights));
    assert_eq!(
        (code, message.as_str()),
        (3, "FILE: architecture `mamba` cannot be run")
    );
    let (code, message) = refused(&gguf(&[], &tiny().weights));
    assert_eq!(
        (code, message.as_str()),
        (3, "FILE: `general.architecture` is missing")
    );
}

#[test]
fn tensors_that_are_missing() {
    for name in [
        "token_embd.weight",
        "blk.1.ffn_up.weight",
        "blk.0.attn_k.bias",
        "output_norm.weight",
    ] {
        let mut tiny = tiny();
        tiny.weights.remove(name).unwrap();
        let expected = format!("FILE: tensor `{name}` is missing");
        assert_eq!(refused(&tiny.gguf()), (3, expected));
    }
    // Without an output matrix of its own, a model takes its embedding.
    let mut tiny = tiny();
    tiny.weights.remove("output.weight").unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert!(Model::open(&write(&dir, &tiny.gguf())).is_ok());
}

#[test]
fn shapes_that_are_wrong() {
    let mut tiny = tiny();
    tiny.weights.insert(
        "blk.1.attn_v.weight".into(),
        (vec![16, HIDDEN], vec![0.0; 16 * HIDDEN]),
    );
    let expected = "FILE: tensor `blk.1.attn_v.weight` is 16 x 32, the model's shape gives 32 x 32";
    assert_eq!(refused(&tiny.gguf()), (3, expected.into()));
}

#[test]
fn files_that_are_short() {
    let whole = tiny().gguf();
    let (code, message) = refused(&whole[..whole.len() - 40]);
    assert_eq!(code, 3);
    assert!(
        message.starts_with("FILE: cut off: its tensors end at byte"),
        "{message}"
    );
    for cut in (0..2000).step_by(37) {
        assert_eq!(refused(&whole[..cut]).0, 3, "cut at {cut}");
    }
}

#[test]
fn shapes_beyond_reason() {
    let key = |name: &str, value: u32| {
        let bytes = tiny().gguf();
        let pattern = [format!("qwen2.{name}").as_bytes(), &4u32.to_le_bytes()].concat();
        let at = bytes
            .windows(pattern.len())
            .position(|w| w == pattern)
            .unwrap()
            + pattern.len();
        let mut bytes = bytes;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        refused(&bytes)
    };
    for (name, value, expected) in [
        ("block_count", 0, "FILE: layers 0 is outside 1..=1024"),
        (
            "block_count",
            4_000_000_000,
            "FILE: layers 4000000000 is outside 1..=1024",
        ),
        (
            "attention.head_count_kv",
            4,
            "FILE: heads 6 is not a multiple of 4",
        ),
        (
            "attention.key_length",
            24,
            "FILE: head width 24 is not a multiple of 16",
        ),
        (
            "feed_forward_length",
            u32::MAX,
            "FILE: feed-forward width 4294967295 is outside 1..=1048576",
        ),
    ] {
        assert_eq!(key(name, value), (3, expected.into()));
    }
}

fn weights(dir: &std::path::Path) -> std::path::PathBuf {
    dir.join("model.safetensors")
}

/// What is done to a folder.
type Change = dyn Fn(&std::path::Path);

#[test]
fn folders() {
    let error = |change: &Change| {
        let dir = tempfile::tempdir().unwrap();
        tiny().folder(dir.path());
        change(dir.path());
        let error = Model::open(dir.path()).unwrap_err();
        (
            error.exit_code(),
            error
                .message
                .replace(&dir.path().display().to_string(), "DIR"),
        )
    };
    let config = |from: &'static str, to: &'static str| {
        move |dir: &std::path::Path| {
            let path = dir.join("config.json");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
        }
    };
    let cases: [(&Change, u8, &str); 6] = [
        (
            &config("\"qwen2\"", "\"qwen3\""),
            3,
            "DIR: architecture `qwen3` cannot be run",
        ),
        (
            &config("\"silu\"", "\"gelu\""),
            3,
            "DIR: `hidden_act` of config.json is not `silu`, the only one that can be run",
        ),
        (
            &config("\"vocab_size\":40", "\"vocab_size\":41"),
            3,
            "DIR: tensor `model.embed_tokens.weight` is 40 x 32, the model's shape gives 41 x 32",
        ),
        (
            &config("\"hidden_size\":32,", ""),
            3,
            "DIR: `hidden_size` of config.json is missing",
        ),
        (
            &|dir| std::fs::remove_file(weights(dir)).unwrap(),
            2,
            "DIR: holds no .safetensors file",
        ),
        (
            &|dir| {
                std::fs::copy(weights(dir), dir.join("other.safetensors")).unwrap();
            },
            3,
            "DIR: tensor `lm_head.weight` is stored twice",
        ),
    ];
    for (change, code, message) in cases {
        assert_eq!(error(change), (code, message.into()));
    }
    let (code, message) = error(&|dir| {
        let bytes = std::fs::read(weights(dir)).unwrap();
        std::fs::write(weights(dir), &bytes[..bytes.len() - 1]).unwrap();
    });
    assert_eq!(code, 3);
    assert!(message.contains("cut off: its tensors take"), "{message}");
}
