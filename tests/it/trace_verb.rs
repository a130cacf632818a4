//! `kvplan trace`: what it prints and how it exits.

use crate::trace_make::{file, small};
use clap::Parser;
use kvplan::cli::trace::{TraceCommand, run};
use kvplan::error::Result;
use std::fs;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TraceCommand,
}

/// Runs a line; also what went to stdout.
fn trace(words: &[&str]) -> (Result<()>, String) {
    let line = Line::try_parse_from([&["trace"], words].concat()).unwrap();
    let mut out = Vec::new();
    let result = run(&line.command, &mut out);
    (result, String::from_utf8(out).unwrap())
}

fn answer(words: &[&str]) -> String {
    let (result, out) = trace(words);
    result.unwrap();
    out
}

#[test]
fn info_for_people_and_for_programs() {
    let table = answer(&["info", "smol_1_t9_s5"]);
    for part in [
        "SmolLM2-135M-Instruct Q4_1",
        "128 tokens",
        "1,000",
        "1.21 MiB",
        "rows, tokens",
        "30 layers",
    ] {
        assert!(table.contains(part), "{part} not in:\n{table}");
    }
    assert!(!table.contains("partial"));
    let json: serde_json::Value =
        serde_json::from_str(&answer(&["info", "smol_1_t9_s5", "--format", "json"])).unwrap();
    assert_eq!(
        (&json["prompt"], &json["rows"], &json["partial"]),
        (&128.into(), &1000.into(), &false.into())
    );
    let mass = |key: &str| json["mass"][key].as_f64().unwrap();
    assert!((mass("sinks") + mass("prompt") + mass("recent") + mass("middle") - 1.0).abs() < 1e-9);
}

#[test]
fn head_prints_what_it_was_asked_for() {
    let text = answer(&["head", "smol_1_t9_s5", "-n", "3"]);
    assert_eq!(text.lines().count(), 4);
    let first: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(&first[..2], ["0", "128"]);
    assert!(first[4].starts_with("0:0.46"), "{text}"); // the first token holds most, as in every such model
    assert_eq!(
        answer(&["head", "smol_1_t9_s5", "-n", "0"]).lines().count(),
        1
    );
}

#[test]
fn verify_tells_sound_partial_and_damaged_apart() {
    assert!(answer(&["verify", "smol_1_t9_s5"]).contains("sound"));
    let dir = tempfile::tempdir().unwrap();
    let bytes = small();
    let cut = file(dir.path(), "cut.kvt", &bytes[..bytes.len() - 40]);
    let (result, out) = trace(&["verify", cut.to_str().unwrap(), "--format", "json"]);
    let e = result.unwrap_err();
    assert_eq!(e.exit_code(), 1);
    assert!(e.message.contains("8 whole rows"), "{e}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["result"]["partial"],
        true
    );
    assert!(answer(&["info", cut.to_str().unwrap()]).contains("8, partial"));

    let mut flipped = bytes;
    let at = flipped.len() - 40;
    flipped[at] ^= 4;
    let bad = file(dir.path(), "bad.kvt", &flipped);
    let (result, out) = trace(&["verify", bad.to_str().unwrap()]);
    assert_eq!((result.unwrap_err().exit_code(), out.as_str()), (3, ""));
}

#[test]
fn export_and_import_close_the_circle() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    answer(&["export", "smol_1_t9_s5", "-o", &at("a.json")]);
    let said = answer(&["import", &at("a.json"), "-o", &at("b.kvt")]);
    assert!(said.contains("1,000 rows"), "{said}");
    answer(&["export", &at("b.kvt"), "--out", &at("c.json")]);
    assert_eq!(
        fs::read(at("a.json")).unwrap(),
        fs::read(at("c.json")).unwrap()
    );
    assert_eq!(
        fs::read(at("a.rows.f16")).unwrap(),
        fs::read(at("c.rows.f16")).unwrap()
    );
}

#[test]
fn an_import_of_a_partial_trace_finishes_it() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = small();
    let cut = file(dir.path(), "cut.kvt", &bytes[..bytes.len() - 40]);
    let out = dir.path().join("whole.kvt");
    answer(&["import", cut.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    let text = answer(&["verify", out.to_str().unwrap()]);
    assert!(text.contains("rows       8\n"), "{text}");
}

#[test]
fn a_path_that_is_not_there() {
    for verb in ["info", "head", "verify"] {
        let (result, out) = trace(&[verb, "no/such.kvt"]);
        let e = result.unwrap_err();
        assert_eq!((e.exit_code(), out.as_str()), (2, ""));
        assert!(e.message.contains("no/such.kvt"), "{e}");
    }
}

/// Names in a folder that begin so and end in `.part`.
fn halves(folder: &Path, target: &str) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap();
    let names = all.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut halves: Vec<String> = names
        .filter(|n| {
            n.strip_suffix(".part")
                .is_some_and(|n| n.starts_with(target))
        })
        .collect();
    halves.sort();
    halves
}

/// Half of a drawing or an import is made again, so what a kill left of it goes; half of a recording is not, and stays.
#[test]
fn what_a_killed_run_left_goes_with_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (gone, recorded) = (".kvplan-4000000000.part", ".4000000000.part"); // no process has such a number
    let leave = |target: &str| {
        for half in [gone, recorded] {
            fs::write(at(target) + half, small()).unwrap();
        }
    };
    let (drawn, whole, pair) = (at("drawn.kvt"), at("whole.kvt"), at("pair.json"));
    for target in ["drawn.kvt", "whole.kvt", "pair.json", "pair.rows.f16"] {
        leave(target);
    }
    answer(&["synth", "--prompt", "8", "--rows", "20", "-o", &drawn]);
    answer(&["import", &drawn, "-o", &whole]);
    answer(&["export", &drawn, "-o", &pair]);
    for target in ["drawn.kvt", "whole.kvt", "pair.json", "pair.rows.f16"] {
        let left = halves(dir.path(), target);
        assert_eq!(left, [format!("{target}{recorded}")]);
    }
    // What is read is kept, whatever its name.
    leave("whole.kvt");
    for half in [gone, recorded] {
        let half = whole.clone() + half;
        answer(&["import", &half, "-o", &whole]);
        assert!(fs::exists(&half).unwrap(), "{half}");
    }
}

/// A run that is killed while it draws.
#[test]
fn a_killed_drawing_is_cleared_away() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("drawn.kvt");
    let draw = |rows: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"));
        command.args(["-q", "trace", "synth", "--rows", rows, "-o"]);
        command.arg(&out);
        command.spawn().unwrap()
    };
    let mut child = draw("60000"); // 3.6 GB
    let size = || {
        let left = halves(dir.path(), "drawn.kvt");
        let first = left.first().map(|n| dir.path().join(n));
        first.map_or(0, |p| fs::metadata(p).map_or(0, |m| m.len()))
    };
    while size() < 20_000 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it could be killed"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(halves(dir.path(), "drawn.kvt").len(), 1);
    assert!(draw("20").wait().unwrap().success());
    assert!(halves(dir.path(), "drawn.kvt").is_empty());
    assert!(out.exists());
}
