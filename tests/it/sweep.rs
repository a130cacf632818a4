//! A sweep's cells are what `simulate` says, in any order of work, and survive a kill.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(stdout), text(stderr));
    assert!(
        !err.contains("panicked") && !err.contains("a bug in kvplan"),
        "{args:?}: {err}"
    );
    (status.code().unwrap(), out, err)
}

fn sweep_json(args: &[&str]) -> Value {
    let (code, out, err) = run(&[&["sweep", "--format", "json"], args].concat());
    assert!(code <= 1, "{args:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

fn cells(answer: &Value) -> &[Value] {
    answer["cells"].as_array().unwrap()
}

/// Every cell against the command line that asks for it alone; `policy.KEY` is put into the policy by hand.
fn same_as_simulate(shared: &[&str], varied: &[&str], policy: &str) {
    let answer = sweep_json(&[shared, varied].concat());
    for cell in cells(&answer) {
        let mut args: Vec<String> = shared.iter().map(ToString::to_string).collect();
        for (key, value) in cell["vary"].as_object().unwrap() {
            let value = value.as_str().unwrap();
            match key.strip_prefix("policy.") {
                Some(key) => args.extend(["--policy".into(), format!("{policy}{key}={value}")]),
                None => args.extend([format!("--{key}"), value.to_string()]),
            }
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, out, err) = run(&[&["simulate", "--format", "json"], &args[..]].concat());
        if code > 1 {
            let why = cell["refused"].as_str().unwrap();
            let first = why.split(';').next().unwrap();
            assert!(err.contains(first), "{args:?}: {err} against {why}");
            assert_eq!(cell["outcome"], Value::Null);
        } else {
            let mut alone: Value = serde_json::from_str(&out).unwrap();
            alone.as_object_mut().unwrap().remove("inputs"); // a sweep has them once
            assert_eq!(cell["outcome"], alone, "{args:?}");
        }
    }
}

#[test]
fn cells_are_what_simulate_says() {
    same_as_simulate(
        &["--output", "3000"],
        &[
            "--vary",
            "hardware=h100-sxm,gh200",
            "--vary",
            "gpus=1,2,3",
            "--vary",
            "kv=fp16,fp8",
        ],
        "",
    );
    same_as_simulate(
        &["--output", "2000", "--hardware", "h100-sxm"],
        &[
            "--vary",
            "t1=host-attention,staged:2GiB",
            "--vary",
            "policy.hbm=0.2..0.6+0.4,fit",
        ],
        "four-tier:",
    );
}

#[test]
fn cells_on_recordings_are_what_simulate_says() {
    let policies = "policy=four-tier:hbm=0.3,evict=0.05,semantics=per-interval,\
        h2o-mean:heavy=100,recent=50,streaming-llm:window=200,four-tier:score=ema:0.9,oracle:hbm=.2,full,h2o,\
        r-kv-importance";
    let traces = "trace=traces/smol_1_t9_s5.kvt,traces/smol_2_t9_s5.kvt,none";
    // Past the recorded rows, within them, and as many as there are.
    for shared in [
        &["--output", "1400", "--prompt", "60"][..],
        &["--output", "300"],
        &[],
    ] {
        same_as_simulate(shared, &["--vary", policies, "--vary", traces], "");
    }
}

#[test]
fn many_policies_in_one_pass_are_each_as_alone() {
    let trace = kvplan::trace::default_trace().unwrap();
    let specs: Vec<_> = [
        "four-tier:hbm=0.3",
        "four-tier:hbm=0.6,score=ema:0.9",
        "four-tier:hbm=0.5,t2=0.1,score=last",
        "oracle:hbm=0.5",
        "streaming-llm:window=300",
        "tova",
        "h2o-mean",
        "full",
        "raas",
        "four-tier:preset=prototype,evict=0.03,semantics=per-interval",
    ]
    .iter()
    .map(|s| kvplan::policy::parse(s).unwrap())
    .collect();
    for (prompt, output) in [(128, 200), (128, 1500), (300, 1200)] {
        let together = kvplan::replay::extended_together(&trace, &specs, prompt, output).unwrap();
        for (spec, together) in specs.iter().zip(together) {
            let alone = kvplan::replay::extended(&trace, spec, prompt, output);
            assert!(alone == together, "{spec} at {prompt} + {output}");
        }
    }
}

#[test]
fn the_order_is_that_of_the_grid_whatever_the_threads() {
    let args = &[
        "sweep",
        "--format",
        "json",
        "--vary",
        "batch=1,8",
        "--vary",
        "policy.hbm=0.2,0.4",
        "--vary",
        "output=900,1800",
        "--pareto",
    ];
    let (code, one, _) = run(&[&args[..], &["--jobs", "1"]].concat());
    assert_eq!(code, 0);
    for jobs in ["2", "16"] {
        assert!(
            one == run(&[&args[..], &["--jobs", jobs]].concat()).1,
            "--jobs {jobs}"
        );
    }
    let answer: Value = serde_json::from_str(&one).unwrap();
    let place = |c: &Value| {
        let of = |key: &str| c["vary"][key].as_str().unwrap().to_string();
        [of("batch"), of("policy.hbm"), of("output")].join(" ")
    };
    let places: Vec<String> = cells(&answer).iter().map(place).collect();
    assert_eq!(
        places,
        [
            "1 0.2 900",
            "1 0.2 1800",
            "1 0.4 900",
            "1 0.4 1800",
            "8 0.2 900",
            "8 0.2 1800",
            "8 0.4 900",
            "8 0.4 1800"
        ]
    );
}

/// What a sweep of some seconds is asked with.
const LONG: &[&str] = &[
    "--occupancy",
    "staggered",
    "--batch",
    "48",
    "--output",
    "8000",
    "--vary",
    "seed=1..30+1",
    "--vary",
    "t1=stream,host-attention",
    "--vary",
    "policy=four-tier:hbm=0.5,full",
    "--quiet",
];

fn lines(journal: &Path) -> usize {
    fs::read_to_string(journal).map_or(0, |text| text.matches('\n').count())
}

/// Starts a sweep and waits until its journal has some cells.
fn started(file: &str, journal: &Path, more: &[&str], at_least: usize) -> Child {
    let args = [&["sweep", "-o", file], LONG, more].concat();
    let child = command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while lines(journal) <= at_least && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// Sends Ctrl-C and waits; none where that cannot be sent.
fn interrupted(mut child: Child) -> Option<Output> {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    if !sent.is_ok_and(|s| s.success()) {
        child.kill().ok();
        child.wait().ok();
        return None;
    }
    child.wait_with_output().ok()
}

#[test]
fn a_stopped_sweep_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (whole, stopped) = (path("whole.json"), path("stopped.json"));
    let journal = path("stopped.json.part");
    let file = stopped.to_str().unwrap();
    assert_eq!(
        run(&[&["sweep", "-o", whole.to_str().unwrap()], LONG].concat()).0,
        0
    );
    assert!(!path("whole.json.part").exists());

    // Ctrl-C: what is finished stays, and the message says how to go on.
    let child = started(file, &journal, &[], 8);
    let Some(ended) = interrupted(child) else {
        skip!("no `kill` to send an interrupt with");
    };
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted") && said.contains("--resume"),
        "{said}"
    );
    assert!(!stopped.exists());
    let kept = lines(&journal);
    assert!((9..=120).contains(&kept), "{kept} lines");

    // Without --resume it is not thrown away.
    let (code, _, err) = run(&[&["sweep", "-o", file], LONG].concat());
    assert_eq!(code, 2);
    assert!(err.contains("--resume") && lines(&journal) == kept, "{err}");

    // Killed outright, with a line cut off at the end.
    let mut child = started(file, &journal, &["--resume"], kept + 4);
    child.kill().unwrap();
    child.wait().unwrap();
    let again = lines(&journal);
    assert!(again > kept && again <= 120, "{again} after {kept}");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 20]).unwrap();

    assert_eq!(
        run(&[&["sweep", "-o", file, "--resume"], LONG].concat()).0,
        0
    );
    assert!(
        fs::read(&stopped).unwrap() == fs::read(&whole).unwrap(),
        "other bytes"
    );
    assert!(!journal.exists());
}

#[test]
fn a_journal_that_is_not_this_sweep_s_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.csv");
    let journal = folder.path().join("r.csv.part");
    let path = file.to_str().unwrap();
    let child = started(path, &journal, &[], 3);
    let mut child = child;
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = fs::read(&journal).unwrap();
    let resume = |more: &[&str]| run(&[&["sweep", "-o", path, "--resume"], LONG, more].concat());
    let (code, _, err) = resume(&["--prompt", "900"]);
    assert_eq!(code, 2);
    assert!(err.contains("prompt was 1024, is 900"), "{err}");
    let (code, _, err) = resume(&["--vary", "depth=2"]);
    assert_eq!(code, 2);
    assert!(err.contains("the grid was"), "{err}");
    let (code, _, err) = resume(&["--equal", "tpot"]);
    assert_eq!(code, 2);
    assert!(err.contains("the equality was nothing, is tpot"), "{err}");
    assert!(
        fs::read(&journal).unwrap() == kept,
        "a refusal changes nothing"
    );

    let end = kept.iter().position(|b| *b == b'\n').unwrap() + 1;
    let with = |line: &str| [&kept[..end], line.as_bytes(), b"\n"].concat();
    // One digit of the last finished cell.
    let last = kept.iter().rposition(|b| *b == b'\n').unwrap();
    let digit = kept[..last - 100].iter().rposition(u8::is_ascii_digit);
    let mut altered = kept[..=last].to_vec();
    altered[digit.unwrap()] ^= 1;
    for (garbage, code) in [
        (altered, 3),
        (b"\0\xff garbage".to_vec(), 3),
        (b"{}\n".to_vec(), 3),
        (b"[1,2]\n{}\n".to_vec(), 3),
        (with("{}"), 3),
        (with("not json"), 3),
        (with("{\"index\":99999999,\"vary\":{}}"), 3),
        (with("{\"index\":0,\"vary\":{\"batch\":\"7\"}}"), 3),
    ] {
        fs::write(&journal, &garbage).unwrap();
        let (got, out, err) = resume(&[]);
        assert_eq!((got, out.as_str()), (code, ""), "{err}");
        assert!(
            err.contains("line") && err.contains("remove the file"),
            "{err}"
        );
    }
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    assert_eq!(resume(&[]).0, 2);
}

#[test]
fn what_cannot_be_asked_is_refused_before_anything_runs() {
    for (args, text) in [
        (&[][..], "nothing varies"),
        (&["--vary", "batch"], "has no values"),
        (&["--vary", "batch="], "empty"),
        (&["--vary", "bacth=1"], "did you mean `batch`"),
        (&["--vary", "hbm=1"], "did you mean `policy.hbm`"),
        (&["--vary", "policy.hbn=1"], "did you mean `policy.hbm`"),
        (&["--vary", "batch=1", "--vary", "batch=2"], "varied twice"),
        (&["--batch", "2", "--vary", "batch=1,2"], "given and varied"),
        (&["--vary", "batch=1,1"], "given twice"),
        (&["--vary", "batch=0"], "out of range"),
        (&["--vary", "batch=-1"], "out of range"),
        (&["--batch", "0", "--vary", "gpus=1,2"], "out of range"),
        (&["--vary", "hardware=h1000"], "not in the catalog"),
        (&["--vary", "policy=four-tiers"], "did you mean `four-tier`"),
        (
            &["--vary", "policy.evict=0.1", "--policy", "nix"],
            "unknown policy",
        ),
        (&["--vary", "trace=nowhere.kvt"], "nowhere.kvt"),
        (
            &["--vary", "batch=1..100000+1", "--vary", "seed=1,2"],
            "too many cells",
        ),
        (&["--vary", "seed=0..99999999999+1"], "over 100,000 values"),
        (&["--vary", "batch=1..8"], "without a step"),
        (
            &["--vary", "batch=1,2", "--equal", "hbm-peak"],
            "there is one",
        ),
        (
            &["--vary", "policy=full,h2o-mean", "--equal", "hbm-peek"],
            "did you mean `hbm-peak`",
        ),
        (&["--vary", "batch=1", "--equal", "hbm-peak=3"], "no unit"),
        (
            &["--vary", "batch=1,2", "--pareto=tpots"],
            "did you mean `tpot`",
        ),
        (&["--vary", "batch=1,2", "--resume"], "-o FILE"),
        (
            &["--vary", "batch=1,2", "-o", "/nowhere/x.json"],
            "/nowhere/x.json",
        ),
        (&["--vary", "batch=1,2", "-o", "."], "is a directory"),
        (&["--vary", "batch=1,2", "--jobs", "0"], "--jobs"),
        (
            &[
                "--vary",
                "trace=traces/smol_1_t9_s5.kvt",
                "-o",
                "traces/smol_1_t9_s5.kvt",
            ],
            "that the run reads",
        ),
    ] {
        let (code, out, err) = run(&[&["sweep"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(text), "{args:?}: {err}");
    }
}

#[test]
fn hostile_texts_are_cropped_and_printable() {
    let long = format!("batch={}", "9".repeat(100_000));
    let many = format!("policy={}", "full,".repeat(20_000));
    let codes = "hardware=\u{1b}[2J\u{7},h100-sxm";
    let odd = [
        "policy.=",
        "policy==",
        "=",
        ",",
        "policy=:,=",
        "policy=,",
        "policy=hbm=1",
        "trace=/dev/null",
        "\u{1f980}=1",
    ];
    for text in [&[long.as_str(), many.as_str(), codes][..], &odd].concat() {
        let (code, out, err) = run(&["sweep", "--vary", text]);
        assert!(
            code == 2 || code == 3,
            "{code} {}",
            &err[..err.len().min(300)]
        );
        assert!(
            out.is_empty() && err.len() < 6000 && !err.contains('\u{1b}'),
            "{err}"
        );
    }
}

#[test]
fn a_cell_that_cannot_be_asked_does_not_stop_the_others() {
    let answer = sweep_json(&["--output", "500", "--vary", "gpus=3,1"]);
    let [bad, good] = cells(&answer) else {
        panic!("two cells");
    };
    assert!(bad["refused"].as_str().unwrap().contains("do not divide"));
    assert_eq!(bad["outcome"], Value::Null);
    assert_eq!(good["refused"], Value::Null);
    assert_eq!(
        run(&["sweep", "--vary", "gpus=3,5"]).0,
        1,
        "the answer is no"
    );
    let not = [
        "sweep",
        "--hardware",
        "h100-sxm",
        "--policy",
        "full",
        "--vary",
        "batch=8,9",
    ];
    assert_eq!(run(&not).0, 1, "none fits");
}

#[test]
fn all_formats_name_the_same_cells() {
    let args = [
        "sweep",
        "--vary",
        "batch=1,2",
        "--vary",
        "gpus=1,3",
        "--pareto",
        "--format",
    ];
    let csv = run(&[&args[..], &["csv"]].concat()).1;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let head: Vec<String> = reader.headers().unwrap().iter().map(String::from).collect();
    assert_eq!(head[..4], ["index", "vary.batch", "vary.gpus", "pareto"]);
    let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.unwrap()).collect();
    let json: Value = serde_json::from_str(&run(&[&args[..], &["json"]].concat()).1).unwrap();
    assert_eq!(json["schema"], "kvplan/sweep/1");
    let speed = head
        .iter()
        .position(|h| h == "throughput.output_tokens_per_s")
        .unwrap();
    for (row, cell) in rows.iter().zip(cells(&json)) {
        assert_eq!(row[0], cell["index"].to_string());
        match cell["outcome"]["throughput"]["output_tokens_per_s"].as_f64() {
            Some(f) => assert!((row[speed].parse::<f64>().unwrap() - f).abs() < 1e-12 * f),
            None => assert_eq!(&row[speed], ""),
        }
    }
    assert_eq!(rows.len(), 4);
    let md = run(&[&args[..], &["md"]].concat()).1;
    assert!(md.contains("| BATCH | GPUS |"), "{md}");
    let schema: Value = serde_json::from_str(&run(&["schema", "sweep"]).1).unwrap();
    for key in json.as_object().unwrap().keys() {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
}

#[test]
fn a_sweep_is_explained_and_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let path = file.to_str().unwrap();
    for args in [
        &[
            "--vary",
            "batch=1,9",
            "--pareto=tpot,hbm-peak",
            "--hardware",
            "h100-sxm",
        ][..],
        &[
            "--trace",
            "traces/smol_1_t9_s5.kvt",
            "--vary",
            "policy.hbm=0.2,0.5",
            "--t1",
            "host-attention",
        ],
        &[
            "--vary",
            "policy=full,four-tier",
            "--equal",
            "hbm-peak=79GiB",
            "--output",
            "3000",
        ],
    ] {
        let (asked, _, _) = run(&[&["sweep", "-o", path], args].concat());
        let (again, out, err) = run(&["rerun", path]);
        assert_eq!(asked, again, "{err}");
        assert!(out == fs::read_to_string(&file).unwrap(), "{args:?}");
    }
    let (code, out, _) = run(&["explain", path, "cells[1].outcome.memory.hbm_peak_bytes"]);
    assert_eq!(code, 0);
    assert!(out.contains("kv_t0"), "{out}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(&[
        "sweep",
        "--format",
        "json",
        "--vary",
        "seed=1..60+1",
        "--output",
        "400",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// Recordings in a folder: one sound, one with a wrong byte in its rows 384 to 416, one with a wrong byte in its header.
fn recordings(folder: &Path) -> [String; 3] {
    let paths = ["sound.kvt", "rows.kvt", "header.kvt"]
        .map(|name| folder.join(name).to_str().unwrap().to_string());
    let drawn = ["trace", "synth", "--prompt", "128", "--rows", "600", "-o"];
    let (code, _, err) = run(&[&drawn[..], &[&paths[0]]].concat());
    assert_eq!(code, 0, "{err}");
    let whole = fs::read(&paths[0]).unwrap();
    for (path, at) in paths[1..].iter().zip([whole.len() / 2, 30]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(path, bytes).unwrap();
    }
    paths
}

/// Damage in the rows of one recording costs the cells that read them; the others, and shorter ones of the same file, run.
#[test]
fn a_damaged_recording_among_several_costs_its_own_cells() {
    let folder = tempfile::tempdir().unwrap();
    let [sound, rows, _] = recordings(folder.path());
    let both = format!("trace={sound},{rows}");
    let varied = [
        "--vary",
        &both,
        "--vary",
        "batch=1,2",
        "--vary",
        "output=100,600",
    ];
    let answer = sweep_json(&varied);
    for cell in cells(&answer) {
        let lost = cell["vary"]["trace"] == rows.as_str() && cell["vary"]["output"] == "600";
        let why = cell["refused"].as_str().unwrap_or_default();
        assert_eq!(lost, cell["outcome"].is_null(), "{cell}");
        assert_eq!(
            lost,
            why.contains("rows.kvt: rows ")
                && why.contains("are damaged")
                && why.contains("; copy"),
            "{why}"
        );
    }
    assert_eq!(cells(&answer).len(), 8);
    // The same where a budget is solved on it.
    let solved = [
        "--policy",
        "four-tier",
        "--policy",
        "h2o-mean",
        "--equal",
        "hbm-peak",
    ];
    let answer = sweep_json(&[&["--vary", &both, "--output", "600"], &solved[..]].concat());
    for cell in cells(&answer) {
        let why = cell["refused"].as_str().unwrap_or_default();
        let lost = cell["vary"]["trace"] == rows.as_str();
        assert_eq!(lost, why.contains("are damaged"), "{cell}");
        assert_eq!(lost, cell["outcome"].is_null(), "{cell}");
    }
    // What all cells rest on stops the sweep.
    let (code, out, err) = run(&["sweep", "--trace", &rows, "--vary", "batch=1,2"]);
    assert!(code == 3 && out.is_empty(), "{out}{err}");
    assert!(err.contains("rows.kvt: rows "), "{err}");
}

/// What a look tells is refused before any cell runs, with the flag and the value.
#[test]
fn a_broken_file_among_values_is_named_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let [sound, _, header] = recordings(here);
    let file = |name: &str, text: &str| {
        fs::write(here.join(name), text).unwrap();
        here.join(name).to_str().unwrap().to_string()
    };
    let machine = file("machine.toml", "[gpuu]\n");
    let lengths = file("lengths.csv", "1,2\nx,3\n");
    let requests = file("requests.jsonl", "{\"arrival_s\":0,\"input_toks\":100}\n");
    let gone = here.join("gone.toml").to_str().unwrap().to_string();
    let result = here.join("r.json");
    for (vary, code, words) in [
        (
            format!("trace={sound},{header}"),
            3,
            format!("--vary trace: {header}: "),
        ),
        (
            format!("hardware=gh200,{machine}"),
            3,
            format!("--vary hardware={machine}: "),
        ),
        (
            format!("hardware=gh200,{gone}"),
            2,
            format!("--vary hardware: {gone}: "),
        ),
        (
            format!("occupancy=lockstep,{lengths}"),
            3,
            format!("--vary occupancy: lengths {lengths}, line 2"),
        ),
        (
            format!("arrivals=all,{requests}"),
            3,
            format!("--vary arrivals: arrivals {requests}, line 1"),
        ),
    ] {
        let args = [
            "sweep",
            "--vary",
            &vary,
            "--vary",
            "batch=1,2",
            "-o",
            result.to_str().unwrap(),
        ];
        let (ours, _, err) = run(&args);
        assert_eq!(ours, code, "{vary}: {err}");
        assert!(err.contains(&words), "{vary}: {err}");
        assert!(!here.join("r.json.part").exists() && !result.exists());
    }
}
