//! `rerun` gives the same bytes for every kind of result.

use std::process::Command;

fn kvplan(args: &[&str]) -> (Option<i32>, Vec<u8>) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .output()
        .unwrap();
    (out.status.code(), out.stdout)
}

#[test]
fn the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let path = file.to_str().unwrap();
    for question in [
        &["simulate"][..],
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
    ] {
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

#[test]
fn what_is_no_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    for (text, code) in [
        ("", 3),
        ("{}", 3),
        ("[1]", 3),
        ("{\"schema\":\"kvplan/outcome/1\"}", 3),
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
