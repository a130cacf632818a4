//! The binary against bad input: the exit code, a message that names the thing, and never a panic.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn kvplan<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command
}

/// Runs it; whatever the input, a bug message or a Rust panic is a failure.
fn run(mut command: Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(
        !err.contains("panicked") && !err.contains("a bug in kvplan"),
        "{command:?}: {err}"
    );
    (status.code().unwrap(), out.into_owned(), err.into_owned())
}

/// Asserts a refusal: nothing on stdout, this code, and every one of these texts on stderr.
fn refused(args: &[&str], code: i32, texts: &[&str]) {
    let (got, out, err) = run(kvplan(args));
    assert_eq!((got, out.as_str()), (code, ""), "{args:?}: {err}");
    for text in texts {
        assert!(err.contains(text), "{args:?}: `{text}` is not in:\n{err}");
    }
}

fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn no_verb_prints_help_and_is_no_answer() {
    refused(&[], 2, &["Usage: kvplan", "simulate", "explain"]);
    assert_eq!(run(kvplan(["--help"])).0, 0);
    assert_eq!(run(kvplan(["--version"])).0, 0);
}

#[test]
fn unknown_names_come_with_a_suggestion() {
    refused(&["plam"], 2, &["plan"]);
    refused(&["simulate", "--modle", "x"], 2, &["--model"]);
    refused(
        &["simulate", "--model", "lama-3.1-8b"],
        2,
        &["error: model `lama-3.1-8b`", "did you mean `llama-3.1-8b`"],
    );
    refused(
        &["simulate", "--hardware", "h100-sx"],
        2,
        &["did you mean `h100-sxm`"],
    );
    refused(
        &["plan", "--hardware", "h100-sxm,h20-sxm"],
        2,
        &["`h20-sxm`", "did you mean"],
    );
    refused(
        &["simulate", "--runtime", "vlm"],
        2,
        &["did you mean `vllm`"],
    );
    refused(
        &["simulate", "--policy", "four-teir"],
        2,
        &["did you mean `four-tier`"],
    );
    refused(&["simulate", "--policy", "four-tier:hmb=0.5"], 2, &["hmb"]);
    refused(&["simulate", "--weights", "fp88"], 2, &["fp8"]);
    refused(&["simulate", "defalt"], 2, &["did you mean `default`"]);
    refused(
        &["simulate", "--t1", "streem"],
        2,
        &["did you mean `stream`"],
    );
    refused(&["schema", "outcom"], 2, &["outcome"]);
}

#[test]
fn toml_errors_show_file_line_and_caret() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "s.toml", "batch = 8\n\nbatchs = 9\n");
    let (code, out, err) = run(kvplan(["simulate", &path]));
    let excerpt = format!(
        " --> {path}:3:1\n  |\n3 | batchs = 9\n  | ^^^^^^\n  help: did you mean `batch`?\n"
    );
    assert_eq!((code, out.as_str()), (3, ""));
    assert_eq!(err, format!("error: unknown key `batchs`\n{excerpt}"));

    let path = written(folder.path(), "syntax.toml", "batch = 8\nkv = \n");
    refused(
        &["simulate", &path],
        3,
        &["syntax.toml:2:", "2 | kv =", "^"],
    );
    let path = written(folder.path(), "twice.toml", "batch = 8\nbatch = 9\n");
    refused(&["simulate", &path], 3, &["twice.toml:2:1", "^"]);
    let path = written(folder.path(), "table.toml", "[batch]\nx = 1\n");
    refused(&["simulate", &path], 3, &["`batch` takes"]);
    let path = written(
        folder.path(),
        "escape.toml",
        "batch = \"\\u001b[2J\u{7}\"\n",
    );
    let (code, _, err) = run(kvplan(["simulate", &path]));
    assert!(
        code == 3 && !err.contains('\u{1b}') && !err.contains('\u{7}'),
        "{err:?}"
    );
}

#[test]
fn contradictory_flags_name_both_sides() {
    refused(
        &["simulate", "--depth", "3", "--t1", "host-attention"],
        2,
        &["--depth", "host-attention", "help:"],
    );
    refused(
        &["simulate", "--depth", "3", "--overlap", "serial"],
        2,
        &["--depth", "serial", "help:"],
    );
    refused(
        &["simulate", "--split", "1"],
        2,
        &["--split", "host-attention"],
    );
    refused(
        &["simulate", "--split", "3", "--t1", "host-attention"],
        2,
        &["--split", "between 1 and 2"],
    );
    refused(
        &["simulate", "--t1", "direct:8GiB"],
        2,
        &["`direct` takes no size", "help:"],
    );
    refused(
        &["simulate", "--t1", "selective"],
        2,
        &["selective", "top-k=512"],
    );
    refused(
        &["simulate", "--t1", "selective:top-p=0.9"],
        2,
        &["hbm=fit", "four-tier:hbm=0.5"],
    );
    refused(
        &["simulate", "--score-cost", "free"],
        2,
        &["--score-cost", "fused, recompute, eager"],
    );
    refused(
        &["simulate", "--home", "pear"],
        2,
        &["did you mean `peer`?"],
    );
    refused(&["simulate", "-q", "-v"], 2, &["--quiet", "--verbose"]);
    refused(
        &["simulate", "--hardware", "h100-sxm,h200-sxm"],
        2,
        &["one value", "kvplan plan"],
    );
}

#[test]
fn zero_and_absurd_values_are_refused() {
    for (flag, value, text) in [
        ("--batch", "0", "between 1 and 100,000"),
        ("--batch", "-3", "between 1 and 100,000"),
        (
            "--batch",
            "99999999999999999999999999999999999999999999",
            "between 1 and 100,000",
        ),
        ("--prompt", "0", "between 1 and"),
        ("--output", "0", "between 1 and"),
        ("--output", "1e300", "--output"),
        ("--gpus", "0", "between 1 and"),
        ("--gpus", "3", "64 query heads"),
        ("--memory-fraction", "0", "over 0 and at most at 1"),
        ("--memory-fraction", "1.5", "between 0 and 1"),
        ("--vram-reserve", "3", "3GiB"),
        ("--vram-reserve", "9999GiB", "nothing is left"),
        ("--seed", "x", "2^64"),
        ("--batch", "", "empty"),
        ("--hardware", "", "empty"),
        ("--trace", "", "empty"),
    ] {
        refused(&["simulate", flag, value], 2, &[text]);
    }
}

#[test]
fn files_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let garbage: Vec<u8> = (0..4000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect();
    let binary = written(folder.path(), "garbage.toml", &garbage);
    let zeros = written(folder.path(), "zeros.toml", vec![0u8; 100]);
    refused(
        &["simulate", "/no/such.toml"],
        2,
        &["/no/such.toml", "no such file"],
    );
    refused(&["simulate", here], 2, &["is a directory"]);
    refused(&["simulate", &binary], 3, &["is not text"]);
    refused(&["simulate", &zeros], 3, &["zeros.toml:1:"]);
    refused(
        &["simulate", "--trace", "/no/such.kvt"],
        2,
        &["/no/such.kvt"],
    );
    refused(&["explain", "/no/such.json", "fits"], 2, &["/no/such.json"]);
    refused(&["explain", here, "fits"], 2, &["is a directory"]);
    refused(
        &["explain", &binary, "fits"],
        3,
        &["not a result of kvplan"],
    );
    refused(&["explain", &zeros, "fits"], 3, &["not a result of kvplan"]);
}

#[test]
fn results_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let cut = &include_str!("fixtures/outcome.json")[..300];
    for (name, text) in [
        ("empty.json", ""),
        ("list.json", "[1]"),
        ("number.json", "3"),
        ("other.json", "{\"schema\": \"other/1\"}"),
        ("hollow.json", "{\"schema\": \"kvplan/outcome/1\"}"),
        ("cut.json", cut),
    ] {
        let path = written(folder.path(), name, text);
        refused(
            &["explain", &path, "fits"],
            3,
            &["not a result of kvplan", name],
        );
    }
    let deep = written(folder.path(), "deep.json", "[".repeat(100_000));
    refused(&["explain", &deep, "fits"], 3, &["not a result of kvplan"]);
}

#[test]
fn explain_knows_its_keys() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixtures/plan.json");
    let (code, out, _) = run(kvplan([
        "explain",
        fixture,
        "rows[0].alternatives[5].memory.kv_full_bytes",
    ]));
    assert_eq!(code, 0);
    for text in [
        "42,949,672,960 bytes (40.0 GiB)",
        "KV heads",
        "batch",
        "not query heads",
    ] {
        assert!(out.contains(text), "{out}");
    }
    refused(
        &[
            "explain",
            fixture,
            "rows[0].alternatives[5].memory.kv_full_byte",
        ],
        2,
        &["did you mean `rows[0].alternatives["],
    );
    for key in [
        "",
        ".",
        "[",
        "rows[99999999999999999999].x",
        "rows[-1]",
        "rows..[]",
        "schema.x",
        "😀",
    ] {
        refused(&["explain", fixture, key], 2, &["no figure", "help:"]);
    }
}

#[test]
fn an_unwritable_output_fails_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    refused(
        &["plan", "-o", "/no/such/folder/x.json"],
        2,
        &["cannot write /no/such/folder/x.json"],
    );
    refused(&["plan", "-o", here], 2, &["is a directory"]);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_result_file_is_whole_and_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "x.toml", "what was there before");
    let (code, out, _) = run(kvplan(["plan", "--print-config", "-o", &path]));
    assert_eq!((code, out.as_str()), (0, ""));
    let again = run(kvplan(["plan", &path, "--print-config"])).1;
    assert!(
        again.contains("model = \"deepseek-r1-distill-llama-70b\""),
        "{again}"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no part file is left"
    );
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for args in [
        &["plan", "--print-config"][..],
        &["schema", "plan"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = kvplan(args);
        command.stdout(writer).stderr(Stdio::piped());
        let Output { status, stderr, .. } = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(
            (status.code(), String::from_utf8_lossy(&stderr).as_ref()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = kvplan(["schema", "plan"]);
    command.stdout(full).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot write stdout"), "{err}");
}

#[test]
fn overlong_arguments_are_cropped() {
    let long = "x".repeat(100_000);
    for args in [
        vec!["simulate", "--model", &long],
        vec!["simulate", "--batch", &long],
        vec!["simulate", &long],
        vec!["simulate", "--policy", &long],
        vec![long.as_str()],
        vec!["explain", "x", &long],
    ] {
        let (code, _, err) = run(kvplan(&args));
        assert_eq!(code, 2, "{}", args[0]);
        assert!(err.len() < 10_000, "{} bytes on stderr", err.len());
    }
}

#[cfg(unix)]
#[test]
fn arguments_that_are_not_text() {
    use std::os::unix::ffi::OsStrExt;
    let bad = OsStr::from_bytes(b"\xff\xfe.toml");
    for args in [
        vec![OsStr::new("simulate"), bad],
        vec![OsStr::new("simulate"), OsStr::new("--model"), bad],
        vec![OsStr::new("simulate"), OsStr::new("--trace"), bad],
        vec![OsStr::new("explain"), bad, bad],
        vec![bad],
    ] {
        assert_eq!(run(kvplan(&args)).0, 2, "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn interrupted_is_130() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    // Reading a pipe that nobody writes to lasts for ever.
    let mut command = kvplan([OsStr::new("explain"), fifo.as_os_str(), OsStr::new("fits")]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            // Before its handler is in, the signal itself ends the process.
            assert!(status.code().is_none_or(|c| c == 130), "{status:?}");
            return;
        }
    }
    child.kill().unwrap();
    panic!("still running after 5 s of Ctrl-C");
}

#[test]
fn colour_follows_flag_then_no_color_then_force() {
    let shown = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = kvplan(args);
        command.envs(env.iter().copied());
        run(command).2.contains('\u{1b}')
    };
    let wrong = ["simulate", "--batch", "0"];
    assert!(!shown(&wrong, &[]), "a pipe has no colour");
    assert!(shown(&wrong, &[("CLICOLOR_FORCE", "1")]));
    assert!(!shown(
        &wrong,
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
    let always = ["simulate", "--batch", "0", "--color", "always"];
    assert!(shown(&always, &[("NO_COLOR", "1")]));
    let never = ["simulate", "--batch", "0", "--color", "never"];
    assert!(!shown(&never, &[("CLICOLOR_FORCE", "1")]));
}

/// The answer is no: the page is on stdout all the same, in every format, and the exit code is 1.
#[test]
fn what_does_not_fit_is_an_answer_with_exit_1() {
    let ask = [
        "simulate",
        "--hardware",
        "h100-sxm",
        "--policy",
        "full",
        "--format",
    ];
    for (format, text) in [
        ("table", "Does not fit"),
        ("json", "\"fits\": false"),
        ("csv", ",false,"),
        ("md", "**Does not fit"),
    ] {
        let (code, out, _) = run(kvplan(ask.iter().chain([&format])));
        assert_eq!(code, 1, "{format}");
        assert!(out.contains(text), "{format}: {out}");
    }
}

/// Law 9: same question, same bytes; a saved answer can be explained.
#[test]
fn equal_questions_give_equal_bytes_that_explain_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answer.json");
    let path = path.to_str().unwrap();
    let ask = |out: &str| {
        run(kvplan([
            "plan",
            "--hardware",
            "gh200",
            "--format",
            "json",
            "-o",
            out,
        ]))
    };
    let (code, out, _) = ask(path);
    assert_eq!((code, out.as_str()), (0, ""), "-o leaves stdout empty");
    let (_, stdout, _) = run(kvplan([
        "plan",
        "--hardware",
        "gh200",
        "--format",
        "json",
        "-q",
    ]));
    assert_eq!(fs::read_to_string(path).unwrap(), stdout);
    let (code, page, _) = run(kvplan(["explain", path, "rows[0].pool_tokens"]));
    assert!(
        code == 0 && page.contains("FORMULA") && page.contains("memory_fraction"),
        "{page}"
    );
}
