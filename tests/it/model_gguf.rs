//! A .gguf file weighs its own tensors, and a damaged one is an error, never a panic.

use kvplan::model::{MatrixKind, WeightFormat};
use std::path::PathBuf;

fn text(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

/// Three tensors: embedding 256 x 4 in F16 (2,048 B), head 256 x 4 in `Q6_K` (4 x 210 = 840 B), a layer's 256 x 8 in `Q4_K`
/// (8 x 144 = 1,152 B), each aligned to 32.
fn small() -> Vec<u8> {
    let mut f = b"GGUF".to_vec();
    f.extend(3u32.to_le_bytes());
    f.extend(3u64.to_le_bytes());
    f.extend(2u64.to_le_bytes());
    text(&mut f, "general.architecture");
    f.extend(8u32.to_le_bytes());
    text(&mut f, "llama");
    text(&mut f, "tokenizer.ggml.tokens");
    f.extend(9u32.to_le_bytes());
    f.extend(8u32.to_le_bytes());
    f.extend(2u64.to_le_bytes());
    text(&mut f, "a");
    text(&mut f, "b");
    let mut offset = 0u64;
    for (name, rows, kind, bytes) in [
        ("token_embd.weight", 4u64, 1u32, 2048u64),
        ("output.weight", 4, 14, 840),
        ("blk.0.ffn_down.weight", 8, 12, 1152),
    ] {
        text(&mut f, name);
        f.extend(2u32.to_le_bytes());
        f.extend(256u64.to_le_bytes());
        f.extend(rows.to_le_bytes());
        f.extend(kind.to_le_bytes());
        f.extend(offset.to_le_bytes());
        offset += bytes.next_multiple_of(32);
    }
    let start = f.len().next_multiple_of(32);
    f.resize(start + usize::try_from(offset).unwrap(), 7);
    f
}

fn parse(bytes: &[u8], dir: &tempfile::TempDir) -> kvplan::error::Result<WeightFormat> {
    let path: PathBuf = dir.path().join("m.gguf");
    std::fs::write(&path, bytes).unwrap();
    WeightFormat::parse(path.to_str().unwrap())
}

#[test]
fn a_file_weighs_its_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let format = parse(&small(), &dir).unwrap();
    let m = kvplan::catalog::model("llama-3.1-8b").unwrap();
    let w = m.weights_bytes(&format);
    assert_eq!((w.embedding, w.head, w.layers), (2048, 840, 1152));
    // 1,152 B for 2,048 elements are 4.5 bits.
    assert_eq!(format.bits(MatrixKind::Attention), 4);
    let o = m.layers[0].matrices(m.hidden)[1];
    assert!((format.matrix_bytes(&o) - 4096.0 * 4096.0 * 4.5 / 8.0).abs() < 1e-6);
    let e = m.accepts(&format).unwrap_err();
    assert!(e.message.contains("holds 0.00 billion"), "{}", e.message);
}

#[test]
fn a_truncated_file_is_an_error_wherever_it_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let whole = small();
    let last = whole.len() - 1;
    for n in (0..450).chain((450..last).step_by(97)).chain([last]) {
        let e = parse(&whole[..n], &dir).unwrap_err();
        assert_eq!(e.exit_code(), 3, "{n}: {}", e.message);
    }
}

#[test]
fn no_flip_panics() {
    let dir = tempfile::tempdir().unwrap();
    let whole = small();
    for i in 0..whole.len().min(400) {
        for flip in [1u8, 0x80, 0xff] {
            let mut bad = whole.clone();
            bad[i] ^= flip;
            if let Ok(format) = parse(&bad, &dir) {
                let m = kvplan::catalog::model("llama-3.1-8b").unwrap();
                assert!(m.weights_bytes(&format).total() > 0);
            }
        }
    }
}

#[test]
fn shards_are_refused_with_the_way_out() {
    let e = WeightFormat::parse("m-00002-of-00003.gguf").unwrap_err();
    assert!(e.message.contains("shard 2 of 3") && e.help.unwrap().contains("--merge"));
}
