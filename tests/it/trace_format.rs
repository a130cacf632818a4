//! The .kvt format: round trips, a second reader written from FORMAT.md, what a kill leaves.

use crate::trace_make::{row_at, small};
use kvplan::trace::{Header, Rows, Section, TraceReader, TraceWriter, export, import, verify};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Mean rows by walking record after record as FORMAT.md 3 describes, with no closed form and no checks.
fn plain_rows(bytes: &[u8]) -> Vec<Vec<u16>> {
    let json_length = u32_at(bytes, 12);
    let header: serde_json::Value = serde_json::from_slice(&bytes[24..24 + json_length]).unwrap();
    let prompt = usize::try_from(header["prompt_length"].as_u64().unwrap()).unwrap();
    let mut at = 24 + json_length;
    let mut rows = Vec::new();
    loop {
        let (tag, section) = (&bytes[at..at + 4], u32_at(bytes, at + 4));
        let (count, length) = (u32_at(bytes, at + 12), u32_at(bytes, at + 16));
        let mut payload = &bytes[at + 32..at + 32 + length];
        at += 32 + length;
        match tag {
            b"DONE" => {
                assert_eq!((rows.len(), bytes.len()), (count, at));
                return rows;
            }
            b"CHNK" if section == 0 => {
                for _ in 0..count {
                    let (row, rest) = payload.split_at(2 * (prompt + rows.len() + 1));
                    let pair = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
                    rows.push(row.chunks(2).map(pair).collect());
                    payload = rest;
                }
                assert!(payload.is_empty());
            }
            b"CHNK" | b"ONCE" => {}
            other => panic!("tag {other:?}"),
        }
    }
}

fn read_rows(reader: &TraceReader) -> Vec<Vec<u16>> {
    let mut rows = Vec::new();
    reader
        .for_each(u32::MAX, &mut |t, row| {
            assert_eq!(t as usize, rows.len());
            rows.push(row.to_vec());
            Ok(())
        })
        .unwrap();
    rows
}

#[derive(Clone, Debug)]
struct Case {
    prompt: u32,
    rows: u32,
    chunk_rows: u32,
    layers: Option<u32>,
    tokens: bool,
    foreign: Option<Section>,
}

fn foreign() -> impl Strategy<Value = Section> {
    let bits = prop_oneof![Just(0u32), Just(1), Just(8), Just(24)];
    (0u32..4, bits, 0u32..5, 0u64..9).prop_map(
        |(lanes, bits_per_position, bytes_per_row, bytes_once)| Section {
            kind: "lab.unheard-of".into(),
            lanes,
            bits_per_position,
            bytes_per_row,
            bytes_once,
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let parts = (
        0u32..20,
        0u32..40,
        1u32..17,
        prop::option::of(1u32..4),
        any::<bool>(),
        prop::option::of(foreign()),
    );
    parts.prop_map(|(prompt, rows, chunk_rows, layers, tokens, foreign)| Case {
        prompt,
        rows,
        chunk_rows,
        layers,
        tokens,
        foreign,
    })
}

/// Bytes of the foreign section's row `t`: its length by the law of FORMAT.md 4, added up plainly.
fn foreign_row(s: &Section, prompt: u32, t: u32) -> Vec<u8> {
    let lane = (s.bits_per_position * (prompt + t + 1)).div_ceil(8);
    let length = s.lanes * lane + s.bytes_per_row;
    (0..length)
        .map(|i| u8::try_from((i + t) % 251).unwrap())
        .collect()
}

/// All layers equal to the mean, so that they average to it.
fn layer_rows(layers: u32, mean: &[u16]) -> Vec<u16> {
    mean.repeat(layers as usize)
}

fn write(case: &Case, path: &Path) -> TraceWriter {
    let mut header = Header::new("toy", case.prompt);
    if let Some(layers) = case.layers {
        header = header.with_layers(layers);
    }
    if case.tokens {
        header = header.with_tokens();
    }
    header.sections.extend(case.foreign.clone());
    header.chunk_rows = case.chunk_rows;
    let at = header.section("lab.unheard-of");
    let mut writer = TraceWriter::create(path, header).unwrap();
    if let Some(s) = case.foreign.as_ref().filter(|s| s.bytes_once > 0) {
        writer
            .put_once(&s.kind, &vec![0xAB; usize::try_from(s.bytes_once).unwrap()])
            .unwrap();
    }
    for t in 0..case.rows {
        let mean = row_at(case.prompt, t);
        writer.push_row(&mean).unwrap();
        if let Some(layers) = case.layers {
            writer.push_layers(&layer_rows(layers, &mean)).unwrap();
        }
        if case.tokens {
            writer.push_token(t * 3, -0.5).unwrap();
        }
        if let (Some(s), Some(at)) = (&case.foreign, at) {
            writer
                .push_bytes(at, &foreign_row(s, case.prompt, t))
                .unwrap();
        }
    }
    writer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read_by_both_readers(case in case()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kvt");
        write(&case, &path).finish().unwrap();
        let bytes = fs::read(&path).unwrap();
        let reader = TraceReader::open(&path).unwrap();
        prop_assert!(!reader.is_partial());
        prop_assert_eq!((reader.prompt(), reader.rows(), reader.name()), (case.prompt, case.rows, "a"));
        let expected: Vec<Vec<u16>> = (0..case.rows).map(|t| row_at(case.prompt, t)).collect();
        prop_assert_eq!(&read_rows(&reader), &expected);
        prop_assert_eq!(&plain_rows(&bytes), &expected);
        prop_assert!(verify::verify(&reader).is_ok());
        if let Some(layers) = case.layers {
            let mut seen = 0;
            reader.for_each_layers(0..case.rows, &mut |t, all| {
                assert_eq!(all, layer_rows(layers, &row_at(case.prompt, t)));
                seen += 1;
                Ok(())
            }).unwrap();
            prop_assert_eq!(seen, case.rows);
        }
        let tokens = case.tokens.then(|| (0..case.rows).map(|t| (t * 3, -0.5)).collect::<Vec<_>>());
        prop_assert_eq!(reader.tokens().unwrap(), tokens);
    }

    #[test]
    fn any_range_of_rows_is_that_range(case in case(), a in 0u32..45, b in 0u32..45) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kvt");
        write(&case, &path).finish().unwrap();
        let mut seen = Vec::new();
        TraceReader::open(&path).unwrap().for_each_in(a..b, &mut |t, row| {
            assert_eq!(row, row_at(case.prompt, t));
            seen.push(t);
            Ok(())
        }).unwrap();
        prop_assert_eq!(seen, (a..b.min(case.rows)).collect::<Vec<_>>());
    }

    #[test]
    fn a_copy_carries_every_section_whatever_its_kind(case in case()) {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("a.kvt"), dir.path().join("b.kvt"));
        let writer = write(&case, &path);
        prop_assert_eq!(writer.rows(), case.rows);
        let before = writer.header().clone();
        writer.finish().unwrap();
        import::import(&path, &import::Options::default(), &copy).unwrap();
        let (a, b) = (fs::read(&path).unwrap(), fs::read(&copy).unwrap());
        // The copy knows its number of rows, so only the header is longer: everything after it is equal to the byte.
        let after = |bytes: &[u8]| bytes[24 + u32_at(bytes, 12)..].to_vec();
        prop_assert_eq!(after(&a), after(&b));
        let header = TraceReader::open(&copy).unwrap().header().clone();
        prop_assert_eq!(header.planned_rows, Some(case.rows));
        prop_assert_eq!(header.sections, before.sections);
    }

    #[test]
    fn a_killed_recording_keeps_its_whole_chunks(case in case()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kvt");
        drop(write(&case, &path));
        prop_assert!(!path.exists());
        let reader = TraceReader::open(&dir.path().join(format!("a.kvt.{}.part", std::process::id()))).unwrap();
        prop_assert!(reader.is_partial());
        let whole = case.rows / case.chunk_rows * case.chunk_rows;
        prop_assert_eq!(reader.rows(), whole);
        let expected: Vec<Vec<u16>> = (0..whole).map(|t| row_at(case.prompt, t)).collect();
        prop_assert_eq!(read_rows(&reader), expected);
    }
}

#[test]
fn a_small_file_byte_by_byte() {
    // Prompt 3, 10 rows in chunks of 4: rows have 4..=13 weights. Payloads: 2 * (4+5+6+7) = 44, 2 * (8+9+10+11) = 76,
    // 2 * (12+13) = 50; with three chunk records and the end record after the header: 170 + 4 * 32 = 298.
    let bytes = small();
    let json = u32_at(&bytes, 12);
    assert_eq!(bytes.len() - 24 - json, 298);
    assert_eq!(&bytes[..8], b"\x89KVT\r\n\x1a\n");
    assert_eq!(u32_at(&bytes, 8), 1);
    let chunk = 24 + json;
    assert_eq!(&bytes[chunk..chunk + 4], b"CHNK");
    assert_eq!(u32_at(&bytes, chunk + 16), 44);
    let second = chunk + 32 + 44;
    assert_eq!(
        (u32_at(&bytes, second + 8), u32_at(&bytes, second + 12)),
        (4, 4)
    );
    assert_eq!(u32_at(&bytes, second + 16), 76);
    assert_eq!(&bytes[bytes.len() - 32..bytes.len() - 28], b"DONE");
    assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926); // the checksum FORMAT.md names
}

#[test]
fn bytes_in_memory_read_like_a_file() {
    let shared = TraceReader::from_shared("small", small().into()).unwrap();
    let fixed = TraceReader::from_bytes("small", small().leak()).unwrap();
    assert_eq!(read_rows(&shared), plain_rows(&small()));
    assert_eq!(read_rows(&fixed), plain_rows(&small()));
    assert_eq!(
        (fixed.name(), fixed.rows(), fixed.prompt()),
        ("small", 10, 3)
    );
}

#[test]
fn the_writer_refuses_what_no_reader_could_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kvt");
    let start = || TraceWriter::create(&path, Header::new("toy", 2).with_tokens()).unwrap();
    assert_eq!(start().push_row(&[0x3C00; 4]).unwrap_err().exit_code(), 70); // row 0 has 3 weights
    assert_eq!(
        start().push_row(&[0x7E00, 0, 0]).unwrap_err().exit_code(),
        3
    ); // NaN
    let mut ahead = start();
    ahead.push_row(&[0x3C00, 0, 0]).unwrap();
    assert_eq!(
        ahead.push_row(&[0x3C00, 0, 0, 0]).unwrap_err().exit_code(),
        70
    ); // its token is missing
    let mut short = start();
    short.push_row(&[0x3C00, 0, 0]).unwrap();
    assert_eq!(short.finish().unwrap_err().exit_code(), 70);
    let mut planned = Header::new("toy", 2);
    planned.planned_rows = Some(5);
    let few = TraceWriter::create(&path, planned).unwrap();
    assert_eq!(few.finish().unwrap_err().exit_code(), 3);
    assert!(!path.exists());
    let missing = dir.path().join("no").join("a.kvt");
    let e = TraceWriter::create(&missing, Header::new("toy", 2)).unwrap_err();
    assert_eq!(e.exit_code(), 2);
    assert!(e.message.contains("a.kvt"), "{e}");
}

#[test]
fn an_export_without_its_ending_is_refused() {
    let reader = TraceReader::from_shared("small", small().into()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let e = export::export(&reader, &dir.path().join("out.txt")).unwrap_err();
    assert_eq!(e.exit_code(), 2);
    let e = export::export(&reader, &dir.path().join("no").join("out.json")).unwrap_err();
    assert_eq!(e.exit_code(), 2);
}

#[test]
fn chunks_stay_under_32_mib_at_any_length() {
    // 80 layers at 200,000 positions: a row of 2 * 80 * 200,000 = 32 MB, so one a chunk (33,554,432 / 32,000,000).
    let long = Header::new("toy", 100_000).with_layers(80);
    assert_eq!(long.with_chunks_for(100_000).chunk_rows, 1);
    // Means alone at 32,768 positions: 65,536 bytes a row, 512 would fit, 32 are taken.
    assert_eq!(Header::new("toy", 0).with_chunks_for(32_768).chunk_rows, 32);
    // 30 layers at 45,000 positions: 2.7 MB a row, 12 fit.
    let middle = Header::new("toy", 5_000).with_layers(30);
    assert_eq!(middle.with_chunks_for(40_000).chunk_rows, 12);
}
