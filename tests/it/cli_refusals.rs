//! What a verb would do wrong in silence, refused or told.

use std::path::Path;
use std::process::{Command, Output};

use crate::forward_make::{Tiny, gguf_with, tokenizer, write};

fn kvplan(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.current_dir(folder).args(line.split_whitespace());
    command.output().unwrap()
}

#[track_caller]
fn refused(out: &Output, words: &str) {
    refused_with(out, 2, words);
}

#[track_caller]
fn refused_with(out: &Output, code: i32, words: &str) {
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{told}");
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

/// What stands in a file is exit 3, whatever kind of file it is; that none is there, or a folder, is exit 2.
#[test]
fn one_rule_for_every_kind_of_broken_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    for name in [
        "x.toml", "x.json", "x.kvt", "x.csv", "x.jsonl", "x.gguf", "x.log", "x.npy",
    ] {
        file(name, b"\x00\xff broken [[[");
    }
    file("keys.toml", b"batchs = 9\n");
    file("kind.toml", b"batch = [[1]]\n");
    std::fs::create_dir(folder.path().join("tables")).unwrap();
    file("tables/decode_attn.csv", b"\xff\n");
    std::fs::create_dir(folder.path().join("dir.toml")).unwrap();
    for line in [
        "simulate x.toml",
        "simulate keys.toml",
        "simulate kind.toml",
        "simulate --hardware x.toml",
        "simulate --runtime x.toml",
        "simulate --model x.toml",
        "simulate --model x.json",
        "simulate --weights x.gguf",
        "simulate --trace x.kvt",
        "simulate --occupancy x.csv",
        "simulate --arrivals x.jsonl",
        "simulate --arrivals all --lengths x.csv",
        "plan x.toml",
        "sweep x.toml --vary batch=1,2",
        "sweep --merge x.json",
        "show hardware x.toml",
        "show x.toml",
        "explain x.json fits",
        "report x.json",
        "rerun x.json",
        "compare x.json --engine-log x.log",
        "compare x.toml x.toml",
        "calibrate --from x.csv",
        "validate tables",
        "trace info x.kvt",
        "trace import x.npy -o y.kvt",
        "record --model x.gguf --text a -o r",
        "record --model x.gguf --prompts x.jsonl -o r",
        "eval --model x.gguf --problems x.jsonl --policy h2o",
        "eval --from x.json",
    ] {
        refused_with(&kvplan(folder.path(), line), 3, "");
    }
    for line in [
        "simulate none.toml",
        "simulate dir.toml",
        "simulate --hardware none.toml",
        "simulate --hardware dir.toml",
        "simulate --model none.json",
        "simulate --trace none.kvt",
        "explain none.json fits",
        "report tables",
        "validate none",
        "trace info none.kvt",
        "eval --from none.json",
    ] {
        refused(&kvplan(folder.path(), line), "");
    }
}

#[test]
fn an_ending_that_says_no_format_is_refused_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "simulate --output 64",
        "plan --output 64 --hardware gh200 --intervals none",
        "sweep --output 64 --vary batch=1,2",
        "reproduce",
        "selfcheck --output 64",
        "report",
        "validate tables",
        "fit tables",
    ] {
        let out = kvplan(folder.path(), &format!("{line} -o x.foo"));
        // `selfcheck` has no -o; the others name the endings.
        let words = if line.starts_with("self") {
            "-o"
        } else {
            ".md"
        };
        refused(&out, words);
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    let ok = |line: &str| {
        let out = kvplan(folder.path(), line);
        assert!(out.status.success(), "{line}: {out:?}");
    };
    for name in ["plain", "x.txt", "x.JSON", "/dev/null"] {
        ok(&format!("simulate --output 64 -o {name}"));
    }
    ok("simulate --output 64 --format csv -o x.foo");
    ok("simulate --print-config -o x.toml");
    refused(
        &kvplan(folder.path(), "simulate --print-config -o x.json"),
        ".toml",
    );
    refused(
        &kvplan(folder.path(), "simulate --print-config --format json"),
        "--format",
    );
    refused(&kvplan(folder.path(), "rerun x.JSON -o y.csv"), ".json");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("x.JSON").starts_with('{') && read("plain") == read("x.txt"));
}

/// With --resume nothing that is finished is lost: the same sweep is not run again, another's result is not replaced.
#[test]
fn going_on_keeps_the_result_of_another_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let sweep = |more: &str| kvplan(folder.path(), &format!("sweep --output 64 --resume {more}"));
    let told = |out: &Output| String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(sweep("--vary batch=1,2 -o s.json").status.success());
    let before = std::fs::read(&file).unwrap();
    let again = sweep("--vary batch=1,2 -o s.json");
    assert!(
        again.status.success() && told(&again).contains("finished before"),
        "{again:?}"
    );
    for more in [
        "--vary batch=4,8 -o s.json",
        "--vary batch=1,2 --seed 3 -o s.json",
        "--vary batch=1,2 --pareto -o s.json",
        "--vary batch=1,2 --format csv -o s.json",
        "--vary batch=1,2 --shard 1/2 -o s.json",
    ] {
        refused(&sweep(more), "leave out --resume to replace it");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let replaced = kvplan(
        folder.path(),
        "sweep --output 64 --vary batch=4,8 -o s.json",
    );
    assert!(replaced.status.success());
    assert_ne!(std::fs::read(&file).unwrap(), before);
    std::fs::write(&file, "").unwrap(); // made by a shell's `>`: holds nothing
    assert!(sweep("--vary batch=1,2 -o s.json").status.success());
}

#[test]
fn what_compare_would_ignore_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let compare = |rest: &str| kvplan(folder.path(), &format!("compare a.toml {rest}"));
    refused(&compare("b.toml --hardware gh200"), "--hardware");
    refused(
        &compare("--engine-log x.log --tolerance 0.2"),
        "--tolerance",
    );
    let eval = kvplan(folder.path(), "eval --from e.json --max-new 4");
    refused(&eval, "--max-new");
}

/// Host attention is among the ways of a plan, and --split is about it alone.
#[test]
fn a_plan_splits_the_batch_of_host_attention_alone() {
    let folder = tempfile::tempdir().unwrap();
    let ways = |more: &str| {
        let line = format!("plan --hardware h100-sxm --intervals none --format json {more}");
        let out = kvplan(folder.path(), &line);
        assert!(out.status.success(), "{out:?}");
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let all = answer["rows"][0]["alternatives"].as_array().unwrap();
        let speed = |a: &serde_json::Value| a["outcome"]["throughput"].clone();
        let flat = |a: &serde_json::Value| {
            if a["throughput"].is_null() {
                speed(a)
            } else {
                a["throughput"].clone()
            }
        };
        all.iter()
            .map(|a| (a["name"].to_string(), flat(a)))
            .collect::<Vec<_>>()
    };
    let (one, two) = (ways(""), ways("--split 2"));
    for ((name, plain), (_, halves)) in one.iter().zip(&two) {
        assert_eq!(plain != halves, name.contains("host-attention"), "{name}");
    }
    refused(
        &kvplan(folder.path(), "simulate --split 2"),
        "host-attention",
    );
    let search = "plan --find max-batch --split 2";
    refused(&kvplan(folder.path(), search), "host-attention");
}

#[test]
fn a_profile_is_told_from_the_card_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let text = kvplan(folder.path(), "show hardware h200-sxm --format toml").stdout;
    std::fs::create_dir(folder.path().join("old")).unwrap();
    for name in ["mine.toml", "old/mine.toml"] {
        std::fs::write(folder.path().join(name), &text).unwrap();
    }
    let cards = |hardware: &str| {
        let line = format!("plan --intervals none --format json --hardware {hardware}");
        let out = kvplan(folder.path(), &line);
        assert!(out.status.success(), "{out:?}");
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let name = |r: &serde_json::Value| r["hardware"].as_str().unwrap().to_string();
        let named = |list: &str| {
            answer[list]
                .as_array()
                .unwrap()
                .iter()
                .map(name)
                .collect::<Vec<_>>()
        };
        assert_eq!(named("rows"), named("expected_errors"));
        named("rows")
    };
    assert_eq!(cards("h200-sxm,mine.toml"), ["h200-sxm", "mine"]);
    assert_eq!(
        cards("mine.toml,old/mine.toml"),
        ["mine.toml", "old/mine.toml"]
    );
    let line = "simulate --output 64 --hardware mine.toml --format json";
    let one: serde_json::Value =
        serde_json::from_slice(&kvplan(folder.path(), line).stdout).unwrap();
    assert_eq!(one["hardware"], "mine");
}

#[test]
fn a_sweep_shows_its_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |more: &str| {
        let line = format!("sweep --hardware gh200 --output 64 --vary batch=1,2 {more}");
        String::from_utf8(kvplan(folder.path(), &line).stdout).unwrap()
    };
    assert!(!sweep("").contains("p5 to p95"));
    let (table, md) = (
        sweep("--intervals few"),
        sweep("--intervals few --format md"),
    );
    assert!(
        table.contains("p5 to p95") && md.contains("p5 to p95"),
        "{table}"
    );
    let row = table
        .lines()
        .find(|l| l.trim_start().starts_with("1 "))
        .unwrap();
    assert!(row.contains(" to "), "{table}");
}

/// The folder is held from before the first trace until the end.
#[test]
fn two_recordings_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = gguf_with(&Tiny::new("llama", false, 4), tokenizer());
    write(&folder, &tiny);
    let line = "record --model tiny.gguf --text the --max-new 3 -o traces";
    std::fs::create_dir(folder.path().join("traces")).unwrap();
    let held = std::fs::File::open(folder.path().join("traces")).unwrap();
    held.lock().unwrap();
    refused(&kvplan(folder.path(), line), "is writing into traces");
    drop(held);
    assert!(kvplan(folder.path(), line).status.success());
}

/// A kill leaves no file but the journal, and none of an earlier kill stays.
#[test]
fn a_killed_sweep_leaves_only_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let names = || {
        let all = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> = all
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let stale = "s.json.kvplan-4000000000.part"; // no process has such a number
    let mine = [
        "s.json.4000000000.part",
        "s.json.kvplan-4000000000.part.bak",
    ];
    for name in mine.iter().chain([&stale]) {
        std::fs::write(folder.path().join(name), "x").unwrap();
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .current_dir(folder.path())
        .args([
            "sweep",
            "--vary",
            "seed=1..2000+1",
            "--occupancy",
            "staggered",
            "-o",
            "s.json",
        ])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let journal = folder.path().join("s.json.part");
    while std::fs::metadata(&journal).map_or(0, |m| m.len()) < 20_000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it could be killed"
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(), [mine[0], mine[1], "s.json.part"]);
}

#[test]
fn two_results_of_a_run_are_not_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = kvplan(folder.path(), "reproduce -o x.md --plot ./x.md");
    refused(&out, "x.md");
    std::fs::create_dir(folder.path().join("tables")).unwrap();
    let out = kvplan(folder.path(), "validate tables -o x.csv --rows ./x.csv");
    refused(&out, "this run writes another result there");
}

#[test]
fn what_show_plot_and_man_would_ignore_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| kvplan(folder.path(), line);
    refused(&run("show hardware h100-sxm --kv fp8"), "--kv");
    refused(&run("show policy four-tier --weights fp8"), "--weights");
    refused(
        &run("show model llama-3.1-8b --format toml --kv fp8"),
        "--kv",
    );
    let text = run("show hardware h100-sxm --format toml").stdout;
    std::fs::write(folder.path().join("m.toml"), text).unwrap();
    refused(&run("show m.toml --format toml"), "is a file already");
    refused(&run("plot --list -o x.svg"), "--out");
    refused(&run("plot --print-config -o x.svg"), ".toml");
    assert!(run("plot --print-config -o x.toml").status.success());
    assert!(
        run("plan --intervals none x.toml --hardware gh200 -q")
            .status
            .success()
    );
    let page = String::from_utf8(run("man trace synth").stdout).unwrap();
    assert!(page.contains("recency"), "{page}");
    refused(&run("man trace synt"), "did you mean `synth`");
    refused(&run("man plan synth"), "kvplan man plan");
}

/// What is no way to arrive says so, though --output is there.
#[test]
fn a_wrong_load_is_not_taken_for_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let line = "simulate --output 64 --arrivals NaN";
    refused(&kvplan(folder.path(), line), "is no way to arrive");
    let line = "simulate --export-decisions x.npz --prompt 7";
    refused(&kvplan(folder.path(), line), "--export-decisions");
}

/// A model, a machine, a load and a scenario are kept from the result, the drawing and the printed configuration alike.
#[test]
fn no_result_replaces_what_the_run_reads() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| kvplan(folder.path(), line);
    let model = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":4096,\
        \"intermediate_size\":14336,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,\
        \"vocab_size\":128256,\"max_position_embeddings\":131072,\"tie_word_embeddings\":false}";
    let machine = String::from_utf8(run("show hardware h100-sxm --format toml").stdout).unwrap();
    let files = [
        ("m.json", model),
        ("h.toml", &machine),
        ("s.toml", "batch = 2\n"),
        ("l.csv", "100,200\n300,400\n"),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for line in [
        "simulate --output 64 --model m.json -o m.json",
        "simulate --output 64 --model m.json -o ./m.json",
        "simulate --output 64 --model m.json --perfetto m.json",
        "simulate --output 64 --hardware h.toml --format json -o h.toml",
        "simulate s.toml --export-decisions s.toml",
        "simulate s.toml --print-config -o s.toml",
        "simulate --hardware h.toml --print-config -o h.toml",
        "simulate --occupancy l.csv -o l.csv",
        "simulate --arrivals all --requests 4 --lengths l.csv -o l.csv",
        "plan --model m.json --hardware gh200 --intervals none -o m.json",
        "plan --find max-batch --model m.json --hardware gh200 -o m.json",
        "plan s.toml --print-config -o s.toml",
        "sweep --output 64 --vary model=llama-3.1-8b,m.json -o m.json",
        "sweep --output 64 --model m.json --vary batch=1,2 -o m.json",
        "sweep s.toml --vary output=1,2 --print-config -o s.toml",
        "plot s.toml --print-config -o s.toml",
    ] {
        refused(&run(line), "");
    }
    for (name, text) in files {
        let now = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(now, text, "{name}");
    }
}
