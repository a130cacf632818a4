//! Foreign files become traces: the same rows by every road, and back again to the byte.

use crate::trace_make::{file, flat, npy, padded, row_at, zip};
use kvplan::trace::import::{Options, import};
use kvplan::trace::{Rows, TraceReader, export, verify};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

const PROMPT: u32 = 5;
const ROWS: u32 = 40;

fn with_prompt() -> Options {
    Options {
        prompt: Some(PROMPT),
        ..Options::default()
    }
}

/// Imports and checks that rows `0..ROWS` are those of the maker, to the bit.
fn same_rows(from: &Path, options: &Options) -> TraceReader {
    let out = from.with_extension("out.kvt");
    assert_eq!(import(from, options, &out).unwrap().rows, ROWS);
    let reader = TraceReader::open(&out).unwrap();
    assert_eq!((reader.prompt(), reader.rows()), (PROMPT, ROWS));
    assert!(!verify::verify(&reader).unwrap().partial);
    let each = &mut |t, row: &[u16]| {
        assert_eq!(row, row_at(PROMPT, t), "row {t}");
        Ok(())
    };
    reader.for_each(u32::MAX, each).unwrap();
    reader
}

/// Doubles of the flat rows: exact, so rounding them back gives the same bits.
fn flat_f64(prompt: u32, rows: u32) -> Vec<u8> {
    let value = |bits: u16| kvplan::trace::half::units(bits) as f64 / 16_777_216.0;
    let all = (0..rows).flat_map(|t| row_at(prompt, t));
    all.flat_map(|w| value(w).to_le_bytes()).collect()
}

#[test]
fn npy_flat_and_padded_in_each_width() {
    let dir = tempfile::tempdir().unwrap();
    // 5 * 40 + 40 * 41 / 2 = 1020 weights.
    let f16 = npy("<f2", "(1020,)", &flat(PROMPT, ROWS));
    same_rows(&file(dir.path(), "a.npy", &f16), &with_prompt());
    let f64s = npy("<f8", "(1020,)", &flat_f64(PROMPT, ROWS));
    same_rows(&file(dir.path(), "b.npy", &f64s), &with_prompt());
    let exact = npy("<f4", "(40, 45)", &padded(PROMPT, ROWS, 45, 0.0));
    same_rows(&file(dir.path(), "c.npy", &exact), &Options::default());
    let wider = npy("<f4", "(40, 64)", &padded(PROMPT, ROWS, 64, f32::NAN));
    same_rows(&file(dir.path(), "d.npy", &wider), &with_prompt());
}

#[test]
fn npz_with_prompt_as_length_and_as_ids() {
    let dir = tempfile::tempdir().unwrap();
    let rows = npy("<f2", "(1020,)", &flat(PROMPT, ROWS));
    let length = npy("<i8", "()", &5i64.to_le_bytes());
    let archive = zip(&[("rows.npy", &rows), ("prompt.npy", &length)]);
    same_rows(&file(dir.path(), "a.npz", &archive), &Options::default());

    let ids: Vec<u8> = [11i32, 12, 13, 14, 15]
        .iter()
        .flat_map(|i| i.to_le_bytes())
        .collect();
    let ids = npy("<i4", "(5,)", &ids);
    let sums: Vec<u8> = [3.0f32, 1.0, 0.5, 0.25, 0.25]
        .iter()
        .flat_map(|i| i.to_le_bytes())
        .collect();
    let sums = npy("<f4", "(5,)", &sums);
    let archive = zip(&[
        ("rows.npy", &rows),
        ("prompt.npy", &ids),
        ("column_sums.npy", &sums),
    ]);
    let reader = same_rows(&file(dir.path(), "b.npz", &archive), &Options::default());
    assert_eq!(
        reader.header().prompt_ids.as_deref(),
        Some(&[11, 12, 13, 14, 15][..])
    );
    assert_eq!(reader.column_sums(), Some(&[3.0, 1.0, 0.5, 0.25, 0.25][..]));
}

/// Three layers equal to the mean, one row after another.
fn three_layers() -> Vec<u8> {
    let rows = (0..ROWS).map(|t| row_at(PROMPT, t));
    rows.flat_map(|r| r.repeat(3))
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[test]
fn npz_with_layers() {
    let dir = tempfile::tempdir().unwrap();
    let rows = npy("<f2", "(1020,)", &flat(PROMPT, ROWS));
    let layers = npy("<f2", "(3060,)", &three_layers());
    let archive = zip(&[("rows.npy", &rows), ("layers.npy", &layers)]);
    let reader = same_rows(&file(dir.path(), "a.npz", &archive), &with_prompt());
    assert_eq!(reader.header().layers, Some(3));
    let each = &mut |t, all: &[u16]| {
        assert_eq!(all, row_at(PROMPT, t).repeat(3));
        Ok(())
    };
    reader.for_each_layers(0..ROWS, each).unwrap();
}

fn safetensors(meta: &str, data: &[u8]) -> Vec<u8> {
    let json = format!(
        "{{{meta}\"rows\":{{\"dtype\":\"F16\",\"shape\":[1020],\"data_offsets\":[0,{}]}}}}",
        data.len()
    );
    let mut out = (json.len() as u64).to_le_bytes().to_vec();
    out.extend(json.as_bytes());
    out.extend(data);
    out
}

#[test]
fn safetensors_with_metadata_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let meta = "\"__metadata__\":{\"prompt\":\"5\",\"model\":\"toy\"},";
    let path = file(
        dir.path(),
        "a.safetensors",
        &safetensors(meta, &flat(PROMPT, ROWS)),
    );
    let reader = same_rows(&path, &Options::default());
    assert_eq!(reader.header().model, "toy");
    let path = file(
        dir.path(),
        "b.safetensors",
        &safetensors("", &flat(PROMPT, ROWS)),
    );
    same_rows(&path, &with_prompt());
}

#[test]
fn a_raw_pair_comes_back_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let meta = serde_json::json!({
        "format": "attn-trace-f16-v0", "model": "Toy-1B Q4_K_M GGUF (mit)", "arch": "llama", "gguf_sha256": "00ff",
        "layers": 3, "heads": 6, "kv_heads": 2, "head_dim": 8, "prompt_len": PROMPT, "rows": ROWS, "temp": 0.6,
        "top_p": 0.95, "seed": 9, "prompt": [1, 2, 3, 4, 5], "prompt_scores": [2.5, 1.0, 0.75, 0.5, 0.25],
        "tokens": (0..ROWS).collect::<Vec<_>>(), "logp": vec![-0.25; ROWS as usize], "forced": [3, 4],
        "averaged": "mean over layers and query heads", "text": "so …", "waits": 1, "notes": {"a": [1]},
    });
    let json = file(dir.path(), "p.json", meta.to_string().as_bytes());
    file(dir.path(), "p.rows.f16", &flat(PROMPT, ROWS));
    file(dir.path(), "p.layers.f16", &three_layers());
    let reader = same_rows(&json, &Options::default());
    let header = reader.header();
    assert_eq!(
        (header.model.as_str(), header.quantisation.as_deref()),
        ("Toy-1B", Some("Q4_K_M"))
    );
    assert_eq!(reader.tokens().unwrap().unwrap()[7], (7, -0.25));

    let out = dir.path().join("back.json");
    export::export(&reader, &out).unwrap();
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("back.rows.f16"), read("p.rows.f16"));
    assert_eq!(read("back.layers.f16"), read("p.layers.f16"));
    let back: serde_json::Value = serde_json::from_slice(&read("back.json")).unwrap();
    for (key, value) in meta.as_object().unwrap() {
        assert_eq!(&back[key], value, "{key}");
    }
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|n| n.to_string_lossy().ends_with(".part")),
        "{left:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn flat_rows_of_any_extent(prompt in 0u32..30, rows in 1u32..60) {
        let dir = tempfile::tempdir().unwrap();
        let data = flat(prompt, rows);
        let path = file(dir.path(), "a.npy", &npy("<f2", &format!("({},)", data.len() / 2), &data));
        let out = dir.path().join("a.kvt");
        let options = Options { prompt: Some(prompt), ..Options::default() };
        prop_assert_eq!(import(&path, &options, &out).unwrap().rows, rows);
        let reader = TraceReader::open(&out).unwrap();
        export::export(&reader, &dir.path().join("b.json")).unwrap();
        prop_assert_eq!(fs::read(dir.path().join("b.rows.f16")).unwrap(), data);
    }
}
