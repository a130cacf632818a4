//! `rerun` gives the same bytes for every kind of result.

use std::process::Command;

fn kvplan(args: &[&str]) -> (Option<i32>, Vec<u8>) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .output()
        .unwrap();
    (out.status.code(), out.stdout)
}

/// One of each kind.
const QUESTIONS: &[&[&str]] = &[
    &["simulate"],
    &[
        "simulate",
        "--hardware",
        "h100-sxm",
        "--t1",
        "host-attention",
        "--seed",
        "7",
        "--occupancy",
        "staggered",
    ],
    &["simulate", "--hardware", "h100-sxm", "--policy", "full"],
    &[
        "simulate",
        "--trace",
        "traces/smol_1_t9_s5.kvt",
        "--trace",
        "traces/smol_2_t9_s5.kvt",
        "--prompt",
        "100",
        "--output",
        "900",
    ],
    &["simulate", "desktop", "--batch", "2", "--overlap", "serial"],
    &[
        "plan",
        "--hardware",
        "h100-sxm,h200-sxm",
        "--gpus",
        "1,2",
        "--batch",
        "2",
    ],
    &[
        "plan",
        "desktop",
        "--t1",
        "direct",
        "--overlap",
        "serial",
        "--trace",
        "none",
    ],
    &[
        "plan",
        "--find",
        "max-batch",
        "--tpot-p99",
        "40ms",
        "--hardware",
        "h200-sxm,h100-sxm",
        "--trace",
        "none",
        "--price",
        "2.5",
        "--output",
        "4000",
        "--max-hbm",
        "120GiB",
    ],
    &[
        "plan",
        "--find",
        "max-rate",
        "--ttft-p99",
        "4s",
        "--tpot-p99",
        "50ms",
        "--lengths",
        "servegen-r1",
        "--requests",
        "20",
        "--hardware",
        "h200-sxm",
        "--trace",
        "none",
    ],
    &[
        "simulate",
        "--arrivals",
        "poisson:0.5",
        "--requests",
        "12",
        "--policy",
        "full",
        "--slo",
        "ttft=1s",
    ],
];

#[test]
fn the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let path = file.to_str().unwrap();
    for question in QUESTIONS {
        let (asked, _) = kvplan(&[question, &["--format", "json", "-o", path][..]].concat());
        let (again, bytes) = kvplan(&["rerun", path]);
        assert!(matches!(asked, Some(0 | 1)), "{question:?}: {asked:?}");
        assert_eq!(again, asked, "{question:?}");
        assert!(
            bytes == std::fs::read(&file).unwrap(),
            "{question:?}: other bytes"
        );
    }
}

fn noted(args: &[&str], folder: &std::path::Path) -> (Option<i32>, Vec<u8>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    (out.status.code(), out.stdout, said)
}

/// A result says what its files were, keeps their paths, and is told when they change.
#[test]
fn files_that_changed_since_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let card = kvplan::catalog::Shelf::Hardware.text("h100-sxm").unwrap();
    std::fs::write(at.join("own.toml"), card.replace("h100-sxm", "own-card")).unwrap();
    std::fs::copy("traces/smol_1_t9_s5.kvt", at.join("a.kvt")).unwrap();
    std::fs::write(at.join("lengths.csv"), "100,200\n").unwrap();
    let shared = ["--hardware", "own.toml", "--format", "json", "-o", "r.json"];
    for question in [
        &["simulate", "--trace", "*.kvt"][..],
        &[
            "simulate",
            "--arrivals",
            "poisson:1",
            "--requests",
            "3",
            "--lengths",
            "lengths.csv",
            "--trace",
            "a.kvt",
        ],
        &["plan", "--trace", "a.kvt", "--batch", "1"],
        &[
            "plan",
            "--find",
            "max-batch",
            "--tpot-p99",
            "40ms",
            "--trace",
            "a.kvt",
            "--output",
            "600",
        ],
        &["sweep", "--trace", "a.kvt", "--vary", "batch=1,2"],
    ] {
        std::fs::copy("traces/smol_1_t9_s5.kvt", at.join("a.kvt")).unwrap();
        let (asked, _, said) = noted(&[question, &shared].concat(), at);
        assert!(matches!(asked, Some(0 | 1)), "{question:?}: {said}");
        let (again, bytes, said) = noted(&["rerun", "r.json"], at);
        assert_eq!(again, asked, "{question:?}: {said}");
        assert!(!said.contains("has changed"), "{said}");
        assert!(
            bytes == std::fs::read(at.join("r.json")).unwrap(),
            "{question:?}: other bytes"
        );

        std::fs::copy("traces/smol_2_t9_s5.kvt", at.join("a.kvt")).unwrap();
        let (_, bytes, said) = noted(&["rerun", "r.json"], at);
        assert!(
            said.contains("a.kvt has changed since the result was made"),
            "{question:?}: {said}"
        );
        assert!(!said.contains("own.toml has changed"), "{said}");
        assert!(
            bytes != std::fs::read(at.join("r.json")).unwrap(),
            "the marks differ"
        );
        std::fs::remove_file(at.join("a.kvt")).unwrap();
        let (code, _, said) = noted(&["rerun", "r.json"], at);
        assert_eq!(code, Some(2), "{question:?}: {said}");
        assert!(
            said.contains("a.kvt, which the result was made from, is no longer there"),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    for (text, code) in [
        ("", 3),
        ("{}", 3),
        ("[1]", 3),
        ("{\"schema\":\"kvplan/outcome/1\"}", 3),
        ("{\"schema\":\"kvplan/solve/1\"}", 3),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(
            kvplan(&["rerun", file.to_str().unwrap()]).0,
            Some(code),
            "{text}"
        );
    }
    assert_eq!(kvplan(&["rerun", "nowhere.json"]).0, Some(2));
}
