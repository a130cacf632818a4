//! Foreign files that are cut, swapped, swollen or no attention at all: exit 3 (or 2 for paths), never a panic, and no
//! output left behind.

use crate::trace_make::{file, flat, npy, padded, zip};
use kvplan::error::Error;
use kvplan::trace::import::{Options, import};
use std::fs;
use std::path::Path;

const PROMPT: u32 = 5;
/// 5 * 10 + 10 * 11 / 2 = 105 weights.
const ROWS: u32 = 10;

/// The import must fail; no output may be left, finished or not.
fn refused(from: &Path, prompt: Option<u32>) -> Error {
    let out = from.with_extension("out.kvt");
    let options = Options {
        prompt,
        ..Options::default()
    };
    let e = import(from, &options, &out).expect_err("the import went through");
    assert!(!out.exists(), "{e}");
    assert!(
        !from
            .with_extension(format!("out.kvt.kvplan-{}.part", std::process::id()))
            .exists(),
        "{e}"
    );
    e
}

fn bad_bytes(name: &str, bytes: &[u8], prompt: Option<u32>, word: &str) {
    let dir = tempfile::tempdir().unwrap();
    let e = refused(&file(dir.path(), name, bytes), prompt);
    assert_eq!(e.exit_code(), 3, "{e}");
    assert!(e.message.contains(word), "`{word}` not in: {e}");
    assert!(e.message.contains(name), "{name} not in: {e}");
}

/// Every prefix fails, whatever it is.
fn every_cut(name: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    for cut in 0..bytes.len() {
        let e = refused(&file(dir.path(), name, &bytes[..cut]), Some(PROMPT));
        assert_eq!(e.exit_code(), 3, "cut at {cut}: {e}");
    }
}

/// No flipped byte may panic; what is accepted must still be attention.
fn every_flip(name: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.kvt");
    let options = Options {
        prompt: Some(PROMPT),
        ..Options::default()
    };
    for at in 0..bytes.len() {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 0x55;
        let path = file(dir.path(), name, &flipped);
        match import(&path, &options, &out) {
            Ok(made) => assert!(made.rows > 0),
            Err(e) => assert!([2, 3].contains(&e.exit_code()), "byte {at}: {e}"),
        }
    }
}

fn good_npy() -> Vec<u8> {
    npy("<f2", "(105,)", &flat(PROMPT, ROWS))
}

fn good_npz() -> Vec<u8> {
    let prompt = npy("<i8", "()", &5i64.to_le_bytes());
    zip(&[("prompt.npy", &prompt), ("rows.npy", &good_npy())])
}

fn safetensors(json: &str, data: &[u8]) -> Vec<u8> {
    let mut out = (json.len() as u64).to_le_bytes().to_vec();
    out.extend(json.as_bytes());
    out.extend(data);
    out
}

fn good_safetensors() -> Vec<u8> {
    let json = "{\"rows\":{\"dtype\":\"F16\",\"shape\":[105],\"data_offsets\":[0,210]}}";
    safetensors(json, &flat(PROMPT, ROWS))
}

#[test]
fn cut_anywhere() {
    every_cut("a.npy", &good_npy());
    every_cut("a.npz", &good_npz());
    every_cut("a.safetensors", &good_safetensors());
}

#[test]
fn flipped_anywhere() {
    every_flip("a.npy", &good_npy());
    every_flip("a.npz", &good_npz());
    every_flip("a.safetensors", &good_safetensors());
}

#[test]
fn npy_shapes_that_hold_no_rows() {
    let data = flat(PROMPT, ROWS);
    bad_bytes("a.npy", b"", None, "cut off");
    bad_bytes("a.npy", b"not an array", None, "does not start");
    bad_bytes(
        "a.npy",
        &npy("<f2", "(104,)", &data[2..]),
        Some(PROMPT),
        "no whole number of rows",
    );
    bad_bytes("a.npy", &npy("<f2", "(0,)", &[]), Some(PROMPT), "no rows");
    bad_bytes(
        "a.npy",
        &npy("<f2", "(7, 3, 5)", &data),
        Some(PROMPT),
        "3 dimensions",
    );
    bad_bytes("a.npy", &npy("<f2", "(15, 7)", &data), None, "cannot hold");
    bad_bytes("a.npy", &npy(">f2", "(105,)", &data), Some(PROMPT), ">f2");
    bad_bytes(
        "a.npy",
        &npy("<f2", "(1000000000000,)", &data),
        Some(PROMPT),
        "shape",
    );
    bad_bytes(
        "a.npy",
        &npy("<f2", "(4294967296, 4294967296)", &data),
        None,
        "2^64",
    );
    let e = {
        let dir = tempfile::tempdir().unwrap();
        refused(&file(dir.path(), "a.npy", &good_npy()), None)
    };
    assert_eq!(e.exit_code(), 2); // the flag is missing, the data is fine
    assert!(e.help.unwrap().contains("--prompt"));
}

#[test]
fn rows_that_are_no_attention() {
    let with = |at: usize, bits: u16| {
        let mut data = flat(PROMPT, ROWS);
        data[2 * at..2 * at + 2].copy_from_slice(&bits.to_le_bytes());
        npy("<f2", "(105,)", &data)
    };
    // Weight 6 is the first of row 1 (row 0 has 6), so its row begins 12 bytes into the data.
    bad_bytes("a.npy", &with(6, 0x7E00), Some(PROMPT), "row 1 (byte ");
    bad_bytes("a.npy", &with(6, 0x7E00), Some(PROMPT), "position 0 is NaN");
    bad_bytes(
        "a.npy",
        &with(8, 0x7C00),
        Some(PROMPT),
        "position 2 is infinite",
    );
    bad_bytes(
        "a.npy",
        &with(8, 0x9000),
        Some(PROMPT),
        "position 2 is negative",
    );
    bad_bytes("a.npy", &with(0, 0x3C00), Some(PROMPT), "row 0");
    bad_bytes("a.npy", &with(0, 0x3C00), Some(PROMPT), "misses 1");
    // The right numbers at another prompt length are other rows, and do not sum to 1: 105 = 14 * 0 + 14 * 15 / 2.
    bad_bytes("a.npy", &good_npy(), Some(0), "misses 1");
    let mut future = padded(PROMPT, ROWS, 15, 0.0);
    future[4 * 14..4 * 15].copy_from_slice(&0.25f32.to_le_bytes());
    bad_bytes(
        "a.npy",
        &npy("<f4", "(10, 15)", &future),
        None,
        "after its own position 5",
    );
    let overflow = [f64::MAX, 0.0].map(f64::to_le_bytes).concat();
    bad_bytes("a.npy", &npy("<f8", "(1, 2)", &overflow), None, "infinite");
}

#[test]
fn archives_that_lie() {
    let prompt = |n: i64| npy("<i8", "()", &n.to_le_bytes());
    let rows = good_npy();
    bad_bytes(
        "a.npz",
        &zip(&[("other.npy", &rows)]),
        Some(PROMPT),
        "no array `rows`",
    );
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", b"junk that is no array")]),
        Some(PROMPT),
        "does not start",
    );
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &rows), ("prompt.npy", &prompt(-1))]),
        None,
        "whole numbers",
    );
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &rows), ("prompt.npy", &prompt(6))]),
        None,
        "row",
    );
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &rows), ("prompt.npy", &prompt(6))]),
        Some(5),
        "--prompt gives 5",
    );
    let long = npy("<f2", "(105,)", &[flat(PROMPT, ROWS), vec![0; 2]].concat());
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &long)]),
        Some(PROMPT),
        "goes on after the last row",
    );
    let vast = npy("<i8", "(99999999999,)", &[]);
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &rows), ("prompt.npy", &vast)]),
        None,
        "at most",
    );
    let layers = npy("<f2", "(106,)", &[0; 212]);
    bad_bytes(
        "a.npz",
        &zip(&[("rows.npy", &rows), ("layers.npy", &layers)]),
        Some(PROMPT),
        "layers",
    );
}

#[test]
fn layers_that_do_not_average_to_the_mean() {
    let mut all = Vec::new();
    for t in 0..ROWS {
        let mut row = vec![0u16; (PROMPT + t + 1) as usize];
        row[0] = 0x3C00;
        all.extend(row.iter().flat_map(|w| w.to_le_bytes()));
    }
    let layers = npy("<f2", "(105,)", &all);
    let archive = zip(&[("rows.npy", &good_npy()), ("layers.npy", &layers)]);
    bad_bytes("a.npz", &archive, Some(PROMPT), "as the mean of 1 layers");
}

#[test]
fn an_archive_that_swells_ends_at_its_first_row() {
    // 64 MiB of zeros in about 64 kB; announced as one row of 16M positions, or as many rows.
    let zeros = vec![0; 64 << 20];
    for (shape, prompt) in [("(1, 16777216)", None), ("(33554432,)", Some(PROMPT))] {
        let archive = zip(&[("rows.npy", &npy("<f2", shape, &zeros))]);
        assert!(archive.len() < 1 << 20);
        let word = if prompt.is_none() {
            "sum to 0.000000"
        } else {
            "row"
        };
        bad_bytes("a.npz", &archive, prompt, word);
    }
}

#[test]
fn tensors_that_lie() {
    let data = flat(PROMPT, ROWS);
    let with = |json: &str| safetensors(json, &data);
    bad_bytes("a.safetensors", b"", None, "shorter than 8");
    bad_bytes("a.safetensors", &u64::MAX.to_le_bytes(), None, "announced");
    bad_bytes("a.safetensors", &with("junk"), None, "not a readable");
    bad_bytes("a.safetensors", &with("{\"\u{1}"), None, "not a readable");
    let tensor = |name: &str, dtype: &str, shape: &str, offsets: &str| {
        format!(
            "{{\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"
        )
    };
    bad_bytes(
        "a.safetensors",
        &with(&tensor("x", "F16", "[105]", "[0,210]")),
        None,
        "no tensor `rows`",
    );
    bad_bytes(
        "a.safetensors",
        &with(&tensor("rows", "F16", "[106]", "[0,210]")),
        None,
        "not a readable",
    );
    bad_bytes(
        "a.safetensors",
        &with(&tensor("rows", "F16", "[104]", "[0,208]")),
        None,
        "take 208 bytes",
    );
    bad_bytes(
        "a.safetensors",
        &with(&tensor("rows", "F16", "[105]", "[210,0]")),
        None,
        "not a readable",
    );
    bad_bytes(
        "a.safetensors",
        &with(&tensor("rows", "I16", "[105]", "[0,210]")),
        Some(5),
        "I16",
    );
    let meta = "{\"__metadata__\":{\"prompt\":\"five\"},\"rows\":{\"dtype\":\"F16\",\"shape\":[105],\"data_offsets\":[0,210]}}";
    bad_bytes("a.safetensors", &with(meta), None, "five");
}

/// A raw pair from this JSON with these rows.
fn pair(json: &str, rows: &[u8]) -> Error {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "p.rows.f16", rows);
    refused(&file(dir.path(), "p.json", json.as_bytes()), None)
}

#[test]
fn a_prompt_length_other_than_the_file_s_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "p.rows.f16", &flat(PROMPT, ROWS));
    let json = file(dir.path(), "p.json", b"{\"prompt_len\": 5, \"rows\": 10}");
    let kvt = dir.path().join("p.kvt");
    import(&json, &Options::default(), &kvt).unwrap();
    for source in [&json, &kvt] {
        let e = refused(source, Some(4));
        assert_eq!(e.exit_code(), 3, "{e}");
        assert!(e.message.contains("5 tokens, --prompt says 4"), "{e}");
        let options = Options {
            prompt: Some(5),
            model: Some("mine".into()),
        };
        let out = dir.path().join("named.kvt");
        let made = import(source, &options, &out).unwrap();
        assert_eq!((made.prompt, made.rows), (5, 10));
        let reader = kvplan::trace::TraceReader::open(&out).unwrap();
        assert_eq!(reader.header().model, "mine");
    }
}

#[test]
fn raw_pairs_that_do_not_belong_together() {
    let data = flat(PROMPT, ROWS);
    let good = "{\"prompt_len\": 5, \"rows\": 10";
    let cases = [
        (
            "{\"prompt_len\": 5, \"rows\": 10, \"forced\": [3, 10]}",
            data.clone(),
            "`forced` names row 10 of 10",
        ),
        (
            "{\"prompt_len\": 5, \"rows\": 9}",
            data.clone(),
            "210 bytes",
        ),
        (
            "{\"prompt_len\": 6, \"rows\": 10}",
            data.clone(),
            "210 bytes",
        ),
        (
            "{\"prompt_len\": 5, \"rows\": 10}",
            data[..209].to_vec(),
            "209 bytes",
        ),
        ("{\"prompt_len\": 5, \"rows\": 0}", Vec::new(), "no rows"),
        (
            "{\"prompt_len\": 4000000000, \"rows\": 4000000000}",
            data.clone(),
            "8000000000",
        ),
        ("{\"prompt_len\": -5, \"rows\": 10}", data.clone(), "p.json"),
        ("{\"rows\": 10}", data.clone(), "prompt_len"),
        ("{\"prompt_len\": 5, \"rows\": 10", data.clone(), "line 1"),
        ("[]", data.clone(), "p.json"),
        ("", data.clone(), "p.json"),
        (&format!("{good}, \"format\": \"v9\"}}"), data.clone(), "v9"),
        (
            &format!("{good}, \"row_dtype\": \"<f4\"}}"),
            data.clone(),
            "<f4",
        ),
        (
            &format!("{good}, \"tokens\": [1]}}"),
            data.clone(),
            "`tokens` has 1",
        ),
        (
            &format!("{good}, \"prompt\": [1]}}"),
            data.clone(),
            "prompt_ids has 1",
        ),
        (
            &format!("{good}, \"forced\": [3, 2]}}"),
            data.clone(),
            "forced",
        ),
    ];
    for (json, rows, word) in cases {
        let e = pair(json, &rows);
        assert_eq!(e.exit_code(), 3, "{json}: {e}");
        assert!(e.message.contains(word), "`{word}` not in: {e}");
    }
    let deep = format!("{good}, \"x\": {}", "[".repeat(200_000));
    assert_eq!(pair(&deep, &data).exit_code(), 3);
}

#[test]
fn paths_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let here = |name: &str| dir.path().join(name);
    let missing = ["no.npy", "no.npz", "no.safetensors", "no.json", "no.kvt"];
    for name in missing {
        let e = refused(&here(name), None);
        assert_eq!(e.exit_code(), 2, "{e}");
        assert!(e.message.contains(name), "{e}");
    }
    // The JSON is there, its rows are not.
    let json = file(
        dir.path(),
        "lone.json",
        b"{\"prompt_len\": 5, \"rows\": 10}",
    );
    let e = refused(&json, None);
    assert_eq!(
        (e.exit_code(), e.message.contains("lone.rows.f16")),
        (2, true),
        "{e}"
    );
    let e = refused(&file(dir.path(), "a.csv", b"1,2"), None);
    assert_eq!(e.exit_code(), 2);
    assert!(e.help.unwrap().contains(".safetensors"));
    fs::create_dir(here("folder.npy")).unwrap();
    assert_eq!(refused(&here("folder.npy"), None).exit_code(), 2);

    let source = file(dir.path(), "a.npy", &good_npy());
    let options = Options {
        prompt: Some(PROMPT),
        ..Options::default()
    };
    let special = ["/dev/full", "-"].map(std::path::PathBuf::from);
    for out in [here("no").join("a.kvt"), dir.path().to_path_buf()]
        .into_iter()
        .chain(special)
    {
        let e = import(&source, &options, &out).unwrap_err();
        assert_eq!(e.exit_code(), 2, "{e}");
    }
}

#[test]
fn a_failed_import_leaves_the_older_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let out = file(dir.path(), "a.kvt", b"older");
    let source = file(dir.path(), "a.npy", &good_npy());
    let options = Options {
        prompt: Some(0),
        ..Options::default()
    };
    assert!(import(&source, &options, &out).is_err());
    assert_eq!(fs::read(&out).unwrap(), b"older");
}
