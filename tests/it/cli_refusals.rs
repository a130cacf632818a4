//! What a verb would do wrong in silence, refused or told.

use std::path::Path;
use std::process::{Command, Output};

fn kvplan(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.current_dir(folder).args(line.split_whitespace());
    command.output().unwrap()
}

#[track_caller]
fn refused(out: &Output, words: &str) {
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{told}");
    assert!(told.contains(words), "{words:?} is not in {told}");
}

#[test]
fn a_result_is_not_rerun_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let made = kvplan(folder.path(), "simulate --output 64 -o r.json");
    assert!(made.status.success());
    let before = std::fs::read(folder.path().join("r.json")).unwrap();
    refused(
        &kvplan(folder.path(), "rerun r.json -o ./r.json"),
        "would replace",
    );
    assert_eq!(std::fs::read(folder.path().join("r.json")).unwrap(), before);
}

#[test]
fn going_on_keeps_the_shard_of_another_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |vary: &str| {
        let line = format!("sweep --output 64 --vary batch={vary} --shard 1/2 --resume -o s.json");
        kvplan(folder.path(), &line)
    };
    assert!(sweep("1,2").status.success());
    assert!(sweep("1,2").status.success(), "it is there");
    refused(&sweep("4,8"), "is a shard of another sweep");
}

#[test]
fn a_calibration_looks_for_its_folder_first() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken"), "x").unwrap();
    for at in ["taken", "taken/below"] {
        let line = format!("calibrate --host-only --quick -o {at}");
        refused(&kvplan(folder.path(), &line), "is a file");
    }
}

/// vLLM keeps KV in 16 bit or fp8; a command that leaves the format out would run another deployment.
#[test]
fn no_command_for_a_format_that_the_engine_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |kv: &str| {
        let line = format!("plan --hardware h200-sxm --kv {kv} --intervals none --format json");
        let out = kvplan(folder.path(), &line);
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let ways = answer["rows"][0]["alternatives"].as_array().unwrap();
        let all = ways.iter().find(|a| a["name"] == "all-in-hbm").unwrap();
        all["runs_in"].as_array().unwrap().len()
    };
    assert_eq!(plan("fp16"), 1);
    assert_eq!(plan("fp8"), 1);
    assert_eq!(plan("int8"), 0);
    assert_eq!(plan("q4_0"), 0);
}

#[test]
fn what_a_plan_decides_itself_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, words) in [
        ("--occupancy staggered", "--occupancy has no effect"),
        ("--policy full", "name a policy that spills"),
    ] {
        let line = format!("plan --hardware gh200 --intervals none {flags}");
        let told = kvplan(folder.path(), &line);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(words), "{told}");
    }
}
