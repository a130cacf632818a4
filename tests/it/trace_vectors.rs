//! Keys, queries and kept sets: written, read, imported; and the exact policies run on a file that has them.
#![allow(clippy::cast_possible_truncation, clippy::too_many_lines)] // small numbers; one long table

use std::fs;
use std::path::Path;

use kvplan::policy;
use kvplan::replay;
use kvplan::trace::import::{Options, import};
use kvplan::trace::{Header, Rows, Section, TraceReader, TraceWriter, half, verify};

use crate::policy_family::Headed;
use crate::trace_make::{file, flat, npy, row_at, zip};

const PROMPT: u32 = 6;
const ROWS: u32 = 21;
/// 2 layers of 2 KV heads, 3 query heads each, 4 wide.
const GROUP: usize = 3;

fn made() -> Headed {
    Headed::new(PROMPT as usize, ROWS as usize, 77, (4, GROUP))
}

/// Keys of all positions: `[position][lane][dim]`; the maker's numbers by lane.
fn position_major(lanes: &[&[f32]], width: usize) -> Vec<f32> {
    let positions = lanes[0].len() / width;
    (0..positions)
        .flat_map(|p| {
            lanes
                .iter()
                .flat_map(move |l| l[p * width..(p + 1) * width].to_vec())
        })
        .collect()
}

fn keys_and_queries() -> (Vec<f32>, Vec<f32>) {
    let vectors = made().vectors(ROWS).unwrap().unwrap();
    let all = PROMPT + ROWS;
    let keys: Vec<_> = (0..4).map(|l| vectors.keys(l, all)).collect();
    let queries: Vec<_> = (0..4).map(|l| vectors.queries(l, all)).collect();
    (
        position_major(&keys, 4),
        position_major(&queries, 4 * GROUP),
    )
}

/// Whether a lane kept a position at a step: some pattern.
fn kept(t: u32, lane: usize, p: u32) -> bool {
    p <= PROMPT + t && !(p + lane as u32 + t).is_multiple_of(3)
}

fn halves(values: &[f32]) -> Vec<u16> {
    values
        .iter()
        .map(|v| half::from_f64(f64::from(*v)))
        .collect()
}

fn bytes(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn header(window: u32) -> Header {
    let mut header = Header::new("toy", PROMPT);
    header.chunk_rows = 4;
    (
        header.layers,
        header.heads,
        header.kv_heads,
        header.head_dim,
    ) = (Some(2), Some(6), Some(2), Some(4));
    let sections = [
        Section::keys(&header),
        Section::queries(&header, window),
        Section::kept(&header),
    ];
    header.sections.extend(sections.into_iter().flatten());
    header
}

fn write(path: &Path, window: u32) {
    let (keys, queries) = keys_and_queries();
    let (keys, queries) = (halves(&keys), halves(&queries));
    let (k, q) = (16, 16 * GROUP);
    let mut writer = TraceWriter::create(path, header(window)).unwrap();
    writer
        .put_once("keys", &bytes(&keys[..PROMPT as usize * k]))
        .unwrap();
    if window > 0 {
        writer
            .put_once(
                "queries",
                &bytes(&queries[(PROMPT - window) as usize * q..PROMPT as usize * q]),
            )
            .unwrap();
    }
    for t in 0..ROWS {
        let at = (PROMPT + t) as usize;
        writer.push_row(&row_at(PROMPT, t)).unwrap();
        writer
            .push_vectors("keys", &keys[at * k..(at + 1) * k])
            .unwrap();
        writer
            .push_vectors("queries", &queries[at * q..(at + 1) * q])
            .unwrap();
        writer.push_kept(&bits(t)).unwrap();
    }
    writer.finish().unwrap();
}

fn bits(t: u32) -> Vec<u8> {
    let width = (PROMPT + t + 1).div_ceil(8);
    let byte = |lane: usize, b: u32| {
        (0..8)
            .map(|i| u8::from(kept(t, lane, 8 * b + i)) << i)
            .sum::<u8>()
    };
    (0..4)
        .flat_map(|lane| (0..width).map(move |b| byte(lane, b)))
        .collect()
}

const EXACT: [&str; 3] = [
    "h2o:heavy=4,recent=5",
    "r-kv:budget=9,window=3,interval=8",
    "snap-kv:budget=4,window=2,kernel=3",
];

/// What was written is read, and a replay of the file is the replay of the numbers themselves.
fn check(reader: &TraceReader) {
    assert!(!verify::verify(reader).unwrap().partial);
    assert_eq!(reader.prompt_queries(), Some(PROMPT));
    assert_eq!(reader.vectors(ROWS).unwrap(), made().vectors(ROWS).unwrap());
    let mut seen = 0;
    let each = &mut |t, got: &[u8]| {
        assert_eq!(got, bits(t), "row {t}");
        seen += 1;
        Ok(())
    };
    reader.for_each_kept(0..ROWS, each).unwrap();
    assert_eq!(seen, ROWS);
    for text in EXACT {
        let spec = [policy::parse(text).unwrap()];
        let from_file = replay::run(reader, &spec).unwrap().remove(0);
        let direct = replay::run(&made(), &spec).unwrap().remove(0);
        assert_eq!(from_file, direct, "{text}");
        assert!(direct.tokens_end()[3] > 0.0, "{text} destroys nothing here");
        // Fewer rows: the first ones.
        let part = replay::run_first(reader, 9, &spec).unwrap().remove(0);
        assert_eq!(part.mass[..], direct.mass[..9], "{text}");
    }
}

#[test]
fn written_sections_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kvt");
    write(&path, PROMPT);
    check(&TraceReader::open(&path).unwrap());
    // A copy carries them.
    let copy = dir.path().join("b.kvt");
    import(&path, &Options::default(), &copy).unwrap();
    check(&TraceReader::open(&copy).unwrap());
}

#[test]
fn a_short_window_of_queries_serves_policies_that_need_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.kvt");
    write(&path, 3);
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.prompt_queries(), Some(3));
    let run = |text: &str| replay::run(&reader, &[policy::parse(text).unwrap()]);
    let direct = replay::run(&made(), &[policy::parse(EXACT[1]).unwrap()]).unwrap();
    assert_eq!(run(EXACT[1]).unwrap(), direct);
    assert_eq!(run(EXACT[0]).unwrap_err().exit_code(), 2);
    write(&path, 0);
    assert_eq!(TraceReader::open(&path).unwrap().prompt_queries(), Some(0));
}

/// Arrays of an archive: names, types, shapes as Python writes them, data.
fn arrays() -> [(&'static str, Vec<u8>); 5] {
    let (keys, queries) = keys_and_queries();
    let floats = |v: &[f32]| -> Vec<u8> { v.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let all = PROMPT + ROWS;
    let truth: Vec<u8> = (0..ROWS)
        .flat_map(|t| {
            (0..4).flat_map(move |lane| (0..all).map(move |p| u8::from(kept(t, lane, p))))
        })
        .collect();
    // 6 * 21 + 21 * 22 / 2 = 357 weights.
    [
        ("rows.npy", npy("<f2", "(357,)", &flat(PROMPT, ROWS))),
        (
            "prompt.npy",
            npy("<i8", "()", &i64::from(PROMPT).to_le_bytes()),
        ),
        ("keys.npy", npy("<f4", "(27, 2, 2, 4)", &floats(&keys))),
        (
            "queries.npy",
            npy("<f2", "(27, 2, 6, 4)", &bytes(&halves(&queries))),
        ),
        ("kept.npy", npy("|b1", "(21, 2, 2, 27)", &truth)),
    ]
}

fn archive(arrays: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let files: Vec<_> = arrays.iter().map(|(n, b)| (*n, b.as_slice())).collect();
    zip(&files)
}

#[test]
fn npz_and_safetensors_bring_the_sections_along() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.kvt");
    let npz = file(dir.path(), "a.npz", &archive(&arrays()));
    assert_eq!(import(&npz, &Options::default(), &out).unwrap().rows, ROWS);
    check(&TraceReader::open(&out).unwrap());

    let data = |name: &str| {
        let all = arrays();
        let (_, npy) = all.iter().find(|(n, _)| *n == name).unwrap().clone();
        npy[10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]))..].to_vec()
    };
    let list = [
        ("rows", "F16", "[357]", data("rows.npy")),
        ("keys", "F32", "[27,2,2,4]", data("keys.npy")),
        ("queries", "F16", "[27,2,6,4]", data("queries.npy")),
        ("kept", "BOOL", "[21,2,2,27]", data("kept.npy")),
    ];
    let (mut at, mut json, mut body) = (
        0,
        vec![r#""__metadata__":{"prompt":"6"}"#.to_string()],
        Vec::new(),
    );
    for (name, dtype, shape, bytes) in list {
        let end = at + bytes.len();
        json.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{at},{end}]}}"#
        ));
        body.extend(bytes);
        at = end;
    }
    let json = format!("{{{}}}", json.join(","));
    let mut tensors = (json.len() as u64).to_le_bytes().to_vec();
    tensors.extend(json.as_bytes());
    tensors.extend(body);
    let path = file(dir.path(), "a.safetensors", &tensors);
    assert_eq!(import(&path, &Options::default(), &out).unwrap().rows, ROWS);
    check(&TraceReader::open(&out).unwrap());
}

#[test]
fn arrays_that_contradict_each_other_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.kvt");
    let floats = |n: usize, v: f32| -> Vec<u8> { (0..n).flat_map(|_| v.to_le_bytes()).collect() };
    for (name, array, word) in [
        (
            "keys.npy",
            npy("<f4", "(26, 2, 2, 4)", &floats(416, 0.0)),
            "positions",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 2, 16)", &floats(864, 0.0)),
            "dimensions",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 2, 2, 4)", &floats(431, 0.0)),
            "cut off",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 2, 2, 4)", &floats(433, 0.0)),
            "goes on",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 2, 2, 4)", &floats(432, f32::NAN)),
            "not finite",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 2, 2, 4)", &floats(432, 1e6)),
            "not finite",
        ),
        ("keys.npy", npy("<f4", "(27, 0, 2, 4)", &[]), "sides of 0"),
        (
            "keys.npy",
            npy("<f4", "(27, 4000000, 2, 4)", &[]),
            "sides of 0",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 65536, 65536, 65536)", &[]),
            "more than",
        ),
        (
            "keys.npy",
            npy("<f4", "(27, 3, 2, 4)", &floats(648, 0.0)),
            "layers",
        ),
        (
            "queries.npy",
            npy("<f4", "(20, 2, 6, 4)", &floats(960, 0.0)),
            "positions",
        ),
        (
            "queries.npy",
            npy("<f4", "(28, 2, 6, 4)", &floats(1344, 0.0)),
            "positions",
        ),
        (
            "queries.npy",
            npy("<f4", "(27, 2, 5, 4)", &floats(1080, 0.0)),
            "groups",
        ),
        (
            "queries.npy",
            npy("<f4", "(27, 2, 6, 5)", &floats(1620, 0.0)),
            "dim",
        ),
        (
            "kept.npy",
            npy("<f4", "(21, 2, 2, 27)", &floats(2268, 0.0)),
            "truth values",
        ),
        (
            "kept.npy",
            npy("|u1", "(21, 2, 2, 26)", &[0; 2184]),
            "last row",
        ),
        (
            "kept.npy",
            npy("|u1", "(21, 2, 2, 27)", &[2; 2268]),
            "0 or 1",
        ),
        (
            "kept.npy",
            npy("|b1", "(21, 2, 2, 27)", &[1; 2268]),
            "after position",
        ),
    ] {
        let mut all = arrays().to_vec();
        all.iter_mut().find(|(n, _)| *n == name).unwrap().1 = array;
        let path = file(dir.path(), "bad.npz", &archive(&all));
        let error = import(&path, &Options::default(), &out).unwrap_err();
        let text = format!("{error} {}", error.help.as_deref().unwrap_or_default());
        assert_eq!(error.exit_code(), 3, "{text}");
        assert!(text.contains(word), "`{text}` lacks `{word}`");
        assert!(
            !out.exists() && fs::read_dir(dir.path()).unwrap().count() == 1,
            "{text}: nothing is left behind"
        );
    }
}

/// A header whose queries are no whole number of positions, or of more than the prompt, is not believed.
#[test]
fn sizes_that_contradict_the_shape_are_refused() {
    let good = header(3);
    good.validate().unwrap();
    let row = u64::from(good.sections[2].bytes_per_row);
    for once in [1, row + 1, row * 7] {
        let mut bad = header(3);
        bad.sections[2].bytes_once = once;
        assert_eq!(bad.validate().unwrap_err().exit_code(), 3, "{once}");
    }
}
