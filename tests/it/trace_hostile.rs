//! Damaged .kvt files: every cut, a flip in every byte, headers that lie. Nothing panics, nothing passes unseen.

use crate::trace_make::{row_at, small};
use kvplan::error::Result;
use kvplan::policy;
use kvplan::replay::drive;
use kvplan::trace::{Header, Rows, TraceReader, TraceWriter, verify};

fn open(bytes: Vec<u8>) -> Result<TraceReader> {
    TraceReader::from_shared("x", bytes.into())
}

/// Reads every row as a replay would.
fn read(reader: &TraceReader) -> Result<u32> {
    let mut rows = 0;
    reader.for_each(u32::MAX, &mut |t, row| {
        assert_eq!(row, row_at(reader.prompt(), t));
        rows += 1;
        Ok(())
    })?;
    Ok(rows)
}

fn header_end(bytes: &[u8]) -> usize {
    24 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize
}

#[test]
fn every_truncation_leaves_the_whole_chunks_before_it() {
    let bytes = small();
    let start = header_end(&bytes);
    // Ends of the chunks of rows 0..4, 4..8, 8..10 after the header: 32 + 44, + 32 + 76, + 32 + 50.
    let ends = [(76, 4), (184, 8), (266, 10)];
    for cut in 0..bytes.len() {
        let result = open(bytes[..cut].to_vec());
        if cut < start {
            let e = result.unwrap_err();
            assert_eq!(e.exit_code(), 3, "cut at {cut}");
            assert!(e.message.starts_with("x.kvt"), "{e}");
            continue;
        }
        let reader = result.unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        let expected = ends
            .iter()
            .rev()
            .find(|(end, _)| start + end <= cut)
            .map_or(0, |e| e.1);
        assert!(reader.is_partial(), "cut at {cut}");
        assert_eq!(reader.rows(), expected, "cut at {cut}");
        assert_eq!(read(&reader).unwrap(), expected);
        assert!(verify::verify(&reader).unwrap().partial);
    }
}

#[test]
fn every_flipped_bit_is_found_by_reading() {
    let bytes = small();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let e = open(flipped)
                .and_then(|r| read(&r))
                .expect_err("a flip passed unseen");
            assert_eq!(e.exit_code(), 3, "byte {at} bit {bit}: {e}");
            assert!(e.message.starts_with("x.kvt"), "byte {at} bit {bit}: {e}");
        }
    }
}

#[test]
fn a_damaged_chunk_is_named_by_rows_and_bytes() {
    let mut bytes = small();
    let first = header_end(&bytes) + 32;
    bytes[first + 5] ^= 1;
    let e = read(&open(bytes).unwrap()).unwrap_err();
    assert!(
        e.message.contains("rows 0..4") && e.message.contains(&format!("{first}..")),
        "{e}"
    );
}

#[test]
fn bytes_after_the_end_and_swapped_chunks() {
    let mut longer = small();
    longer.push(0);
    let e = open(longer).unwrap_err();
    assert!(e.message.contains("1 bytes follow"), "{e}");

    // A chunk from elsewhere with sound checksums but the wrong place: the first one twice.
    let bytes = small();
    let start = header_end(&bytes);
    let mut twice = bytes[..start + 76].to_vec();
    twice.extend(&bytes[start..start + 76]);
    let e = open(twice).unwrap_err();
    assert!(e.message.contains("not the one that belongs there"), "{e}");
}

/// A preamble with right checksums before whatever JSON, and then `rest`.
fn craft(version: u32, length: Option<u32>, json: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut out = b"\x89KVT\r\n\x1a\n".to_vec();
    let length = length.unwrap_or_else(|| u32::try_from(json.len()).unwrap());
    out.extend(version.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(crc32fast::hash(json).to_le_bytes());
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(json);
    out.extend(rest);
    out
}

fn refused(bytes: Vec<u8>, word: &str) {
    let e = open(bytes).unwrap_err();
    assert_eq!(e.exit_code(), 3);
    assert!(e.message.contains(word), "`{word}` not in: {e}");
}

#[test]
fn not_a_trace_and_not_this_version() {
    refused(Vec::new(), "empty");
    refused(b"PK\x03\x04".to_vec(), "not a .kvt");
    refused(b"\x89".to_vec(), "cut off inside its header");
    refused(
        b"\x89KVT\n\x1a\n and so on, as a text-mode copy leaves it".to_vec(),
        "not a .kvt",
    );
    refused(craft(7, None, b"{}", &[]), "version 7");
    refused(craft(1, Some(u32::MAX), b"{}", &[]), "4294967295");
    refused(
        craft(1, Some(60 << 20), b"{}", &[]),
        "cut off inside its header",
    );
    refused(craft(1, None, b"", &[]), "header cannot be read");
    refused(craft(1, None, b"{\"model\": \"\xff\"}", &[]), "UTF-8");
    refused(
        craft(1, None, "[".repeat(100_000).as_bytes(), &[]),
        "header cannot be read",
    );
}

#[test]
fn headers_that_contradict_themselves() {
    let sound = serde_json::to_value(Header::new("toy", 3)).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut json = sound.clone();
        json[key] = value;
        craft(1, None, json.to_string().as_bytes(), &[])
    };
    assert!(open(with("model", "other".into())).is_ok());
    refused(
        with("prompt_ids", serde_json::json!([1, 2])),
        "prompt_ids has 2 entries",
    );
    refused(
        with("prompt_column_sums", serde_json::json!([1.0])),
        "prompt_column_sums",
    );
    refused(
        with("prompt_column_sums", serde_json::json!([1.0, -1.0, 0.0])),
        "prompt_column_sums[1]",
    );
    refused(
        with("prompt_length", serde_json::json!(-1)),
        "header cannot be read",
    );
    refused(
        with("prompt_length", serde_json::json!(u32::MAX)),
        "prompt_length",
    );
    refused(with("chunk_rows", serde_json::json!(0)), "chunk_rows");
    refused(with("chunk_rows", serde_json::json!(1 << 20)), "chunk_rows");
    refused(with("forced", serde_json::json!([3, 1])), "forced");
    refused(with("sections", serde_json::json!([])), "first section");
    let rows = serde_json::json!({"kind": "rows", "lanes": 1, "bits_per_position": 16});
    let two = |other: serde_json::Value| serde_json::json!([rows, other]);
    refused(with("sections", two(rows.clone())), "twice");
    refused(
        with(
            "sections",
            two(serde_json::json!({"kind": "x", "bits_per_position": 3})),
        ),
        "3 bits",
    );
    refused(
        with(
            "sections",
            two(serde_json::json!({"kind": "tokens", "bytes_per_row": 9})),
        ),
        "tokens",
    );
    // Sizes beyond 2^64 are refused or leave no whole row; they never wrap.
    let huge = serde_json::json!({"kind": "x", "lanes": u32::MAX, "bits_per_position": 4_294_967_288u32,
        "bytes_per_row": u32::MAX, "bytes_once": u64::MAX});
    let e = open(with("sections", two(huge))).unwrap_err();
    assert!(e.message.contains("2^64"), "{e}");
}

#[test]
fn a_finished_file_that_belies_its_header() {
    let bytes = small();
    let end = header_end(&bytes);
    let edit = |key: &str, value: serde_json::Value| {
        let mut json: serde_json::Value = serde_json::from_slice(&bytes[24..end]).unwrap();
        json[key] = value;
        craft(1, None, json.to_string().as_bytes(), &bytes[end..])
    };
    assert!(open(edit("planned_rows", 10.into())).is_ok());
    refused(edit("planned_rows", 11.into()), "planned_rows is 11");
    refused(
        edit("forced", serde_json::json!([10])),
        "forced names row 10",
    );
    // Another prompt moves every offset: the records are no longer where they belong.
    let mut json: serde_json::Value = serde_json::from_slice(&bytes[24..end]).unwrap();
    json["prompt_length"] = 4.into();
    json["prompt_ids"] = serde_json::Value::Null;
    let moved = craft(1, None, json.to_string().as_bytes(), &bytes[end..]);
    let e = open(moved).and_then(|r| read(&r)).unwrap_err();
    assert_eq!(e.exit_code(), 3);
}

/// A finished trace of one row after one token, with these two weights.
fn two_weights(weights: [u16; 2]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.kvt");
    let mut writer = TraceWriter::create(&path, Header::new("toy", 1)).unwrap();
    writer.push_row(&[0x3800, 0x3800]).unwrap();
    writer.finish().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    // Replace the payload and both checksums that guard it.
    let at = header_end(&bytes);
    for (i, w) in weights.iter().enumerate() {
        bytes[at + 32 + 2 * i..at + 34 + 2 * i].copy_from_slice(&w.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes[at + 32..at + 36]).to_le_bytes();
    bytes[at + 24..at + 28].copy_from_slice(&crc);
    let crc = crc32fast::hash(&bytes[at..at + 28]).to_le_bytes();
    bytes[at + 28..at + 32].copy_from_slice(&crc);
    bytes
}

#[test]
fn weights_that_are_none_are_refused_with_row_and_byte() {
    for (bad, word) in [
        (0x7E00, "NaN"),
        (0xFE00, "NaN"),
        (0x7C00, "infinite"),
        (0x8000, "negative"),
        (0xB800, "negative"),
        (0xFC00, "negative"),
    ] {
        let bytes = two_weights([0x3800, bad]);
        let at = header_end(&bytes) + 32;
        let reader = open(bytes).unwrap();
        let e = reader.for_each(1, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(e.exit_code(), 3);
        for part in ["x.kvt", "row 0", &format!("byte {at}"), "position 1", word] {
            assert!(e.message.contains(part), "{part} not in: {e}");
        }
    }
}

#[test]
fn a_row_that_does_not_sum_to_one_is_found() {
    // 0.5 + 0.5 is fine; 0.5 + 0.25 is not attention.
    assert!(verify::verify(&open(two_weights([0x3800, 0x3800])).unwrap()).is_ok());
    let e = verify::verify(&open(two_weights([0x3800, 0x3400])).unwrap()).unwrap_err();
    assert_eq!(e.exit_code(), 3);
    assert!(
        e.message.contains("row 0") && e.message.contains("0.750000"),
        "{e}"
    );
    // So does a replay: masses over 1 would mean nothing.
    let full = || vec![policy::parse("full").unwrap().build().unwrap()];
    assert!(
        drive(
            &open(two_weights([0x3800, 0x3800])).unwrap(),
            1,
            &mut full()
        )
        .is_ok()
    );
    let e = drive(
        &open(two_weights([0x3800, 0x3400])).unwrap(),
        1,
        &mut full(),
    )
    .unwrap_err();
    assert_eq!(e.exit_code(), 3);
    assert!(
        e.message.starts_with("x.kvt") && e.message.contains("0.750000"),
        "{e}"
    );
}
