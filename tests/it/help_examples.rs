//! The examples of every `--help`: whole lines of a shell, flags that exist, and those that need no model, engine or browser run.

use std::path::Path;
use std::process::Command;

use crate::binary::kvplan;

/// Programs that an example may begin with.
const PROGRAMS: [&str; 5] = ["kvplan", "vllm", "docker", "nvbandwidth", "curl"];

/// Parts of examples that cannot run here: other programs, a model's weights, minutes of measuring, tables beside the checkout.
const ELSEWHERE: [&str; 11] = [
    "vllm",
    "docker",
    "nvbandwidth",
    "curl",
    "kvplan serve",
    "kvplan calibrate",
    ".gguf",
    "reference",
    "validate tables",
    "grid.json",
    "~/",
];

/// Every verb, with the words that ask for it.
fn verbs(command: &clap::Command, path: &[String], out: &mut Vec<Vec<String>>) {
    out.push(path.to_vec());
    for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let path = [path, &[below.get_name().to_string()]].concat();
        verbs(below, &path, out);
    }
}

/// The examples of a help text, continued lines joined.
fn examples(help: &str) -> Vec<String> {
    let Some(text) = help.split("EXAMPLES:\n").nth(1) else {
        return Vec::new();
    };
    let mut out: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines().take_while(|l| !l.is_empty()) {
        let (whole, more) = line
            .strip_suffix(" \\")
            .map_or((line, false), |l| (l, true));
        let words = whole.trim_start();
        if goes_on {
            let last = out.last_mut().unwrap();
            *last = format!("{last} {words}");
        } else {
            let program = words.split(' ').next().unwrap();
            assert!(
                line.starts_with("  ") && PROGRAMS.contains(&program),
                "not a command: {line:?} of\n{text}"
            );
            out.push(words.to_string());
        }
        goes_on = more;
    }
    assert!(!goes_on, "{text}");
    out
}

fn all() -> Vec<String> {
    let mut paths = Vec::new();
    verbs(&kvplan::cli::command(), &[], &mut paths);
    let mut out = Vec::new();
    for path in paths {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("--help");
        let (code, help, err) = kvplan(&args);
        assert_eq!(code, 0, "{args:?}: {err}");
        let found = examples(&help);
        let group = path.first().is_some_and(|v| v == "trace") && path.len() == 1;
        assert!(group || !found.is_empty(), "{path:?} has no example");
        out.extend(found);
    }
    out
}

/// The commands of kvplan in a line of a shell, as words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let parts = line.split(" && ").flat_map(|l| l.split(" | "));
    let own = parts.filter(|p| p.starts_with("kvplan"));
    let words = |p: &str| {
        let bare = p.split(" > ").next().unwrap();
        let mut words = Vec::new();
        for (i, quoted) in bare.split('\'').enumerate() {
            if i % 2 == 1 {
                words.push(quoted.to_string());
            } else {
                words.extend(quoted.split_whitespace().map(String::from));
            }
        }
        words
    };
    own.map(words).collect()
}

#[test]
fn every_example_is_a_line_whose_flags_exist() {
    let all = all();
    assert!(all.len() > 60, "{}", all.len());
    for words in all.iter().flat_map(|l| commands(l)) {
        let parsed = kvplan::cli::command().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
    }
}

#[test]
fn a_wrapped_example_is_no_example() {
    let broken = "EXAMPLES:\n  kvplan plan --batch 16 --format json\n  -o plan.json\n";
    assert!(std::panic::catch_unwind(|| examples(broken)).is_err());
    let whole = "EXAMPLES:\n  kvplan plan --batch 16 \\\n    -o plan.json\n\nAfter it.\n";
    assert_eq!(examples(whole), ["kvplan plan --batch 16 -o plan.json"]);
}

/// What the examples read and another does not make.
fn prepare(folder: &Path) {
    let make = |line: &str| {
        let out = shell(folder, line);
        assert!(out.status.success(), "{line}: {out:?}");
    };
    std::fs::write(folder.join("lengths.csv"), "100,200\n300,400\n").unwrap();
    std::fs::create_dir(folder.join("calibration")).unwrap();
    for line in [
        "kvplan simulate --output 64 -o result.json",
        "kvplan plan --hardware h100-sxm --intervals none -o answer.json",
        "kvplan plan --hardware h100-sxm --intervals none -o plan-h100.json",
        "kvplan plan --hardware gh200 --intervals none -o plan-mine.json",
        "kvplan plan --hardware gh200 --print-config -o scenario.toml",
        "kvplan sweep --output 64 --vary batch=1,2,4,8 -o sweep.json",
        "kvplan simulate --arrivals poisson:2 --requests 8 --policy full -o load.json",
        "kvplan plan --find max-batch --hardware h200-sxm --trace none --output 900 -o found.json",
        "kvplan show hardware rtx-5080 --format toml > calibration/build-7-rtx-5080-2026-11-01.toml",
        "kvplan show hardware rtx-5080 --format toml > calibration/build-7-rtx-5080-2026-11-30.toml",
        "kvplan trace synth --rows 50 -o mine.kvt",
        "kvplan trace export mine.kvt -o rows.json",
    ] {
        make(line);
    }
}

fn shell(folder: &Path, line: &str) -> std::process::Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_kvplan")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.current_dir(folder).args(["-ec", line]);
    command.env("PATH", format!("{}:{path}", binary.display()));
    command.output().unwrap()
}

#[cfg(unix)]
#[test]
fn every_example_that_can_runs_as_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut ran = 0;
    for line in all() {
        if ELSEWHERE.iter().any(|e| line.contains(e)) || line.contains("man -l") {
            continue;
        }
        // A sweep that goes on must not find the result of another example.
        if line.contains("--resume") {
            std::fs::remove_file(folder.path().join("sweep.json")).unwrap();
        }
        let out = shell(folder.path(), &line);
        let code = out.status.code();
        assert!(matches!(code, Some(0 | 1)), "{line}: {out:?}");
        assert!(!out.stderr.starts_with(b"error"), "{line}: {out:?}");
        ran += 1;
    }
    assert!(ran > 40, "{ran}");
}
