//! Shards of a sweep come to the bytes of one run: whatever their number, in any order, killed or not.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kvplan::error::Cause;
use kvplan::scenario::{Settings, Verb};
use kvplan::sweep::axis::Axis;
use kvplan::sweep::equal::Equal;
use kvplan::sweep::grid::Grid;
use kvplan::sweep::merge::merge;
use kvplan::sweep::shard::{Part, Shard};
use kvplan::sweep::{Sweep, pareto, run, run_shard};
use proptest::prelude::*;

use crate::binary::told;

fn sweep(axes: &[&str], equal: Option<&str>, front: bool) -> Sweep {
    let axes = axes.iter().map(|a| Axis::parse(a).unwrap()).collect();
    let grid = Grid::new(Settings::defaults(Verb::Simulate), axes).unwrap();
    let equal = equal.map(|e| Equal::parse(e).unwrap());
    let front = front.then(|| pareto::parse("").unwrap());
    Sweep::new(grid, equal, front).unwrap()
}

/// Twelve cells, of which some do not fit and some cannot be asked.
fn small(front: bool) -> Sweep {
    let axes = ["gpus=1,2,3", "policy.hbm=0.3,0.6", "batch=2,64"];
    sweep(&axes, None, front)
}

fn part(sweep: &Sweep, number: usize, of: usize) -> Part {
    let shard = Shard { number, of };
    let cells = run_shard(sweep, shard, Vec::new(), &|_| Ok(())).unwrap();
    Part::new(sweep, shard, cells).unwrap()
}

/// A part as it comes back from its file.
fn through_a_file(part: &Part) -> Part {
    let text = serde_json::to_string_pretty(part).unwrap();
    Part::read(&text, "part.json").unwrap()
}

fn named(part: Part) -> (String, Part) {
    (format!("shard-{}.json", part.shard.number), part)
}

fn whole(sweep: &Sweep) -> String {
    let cells = run(sweep, Vec::new(), &|_| Ok(())).unwrap();
    serde_json::to_string_pretty(&sweep.answer(cells).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Any cut, merged in any order, is one run; more shards than cells leave some empty.
    #[test]
    fn any_number_of_shards_in_any_order(
        of in 1usize..=15,
        order in any::<u64>(),
        front in any::<bool>(),
    ) {
        let sweep = small(front);
        let mut parts: Vec<(String, Part)> =
            (1..=of).map(|n| named(through_a_file(&part(&sweep, n, of)))).collect();
        let held: usize = parts.iter().map(|(_, p)| p.cells.len()).sum();
        prop_assert_eq!(held, 12);
        // A shuffle by sorting on a hash of the number.
        parts.sort_by_key(|(_, p)| (p.shard.number as u64).wrapping_mul(order | 1).rotate_left(17));
        let merged = serde_json::to_string_pretty(&merge(parts).unwrap()).unwrap();
        prop_assert!(merged == whole(&sweep), "{} shards, order {}", of, order);
    }
}

#[test]
fn policies_made_equal_in_shards_are_those_of_one_run() {
    let axes = [
        "policy=four-tier:hbm=0.4,stream-evict,h2o-mean",
        "output=1500,3000",
    ];
    let sweep = sweep(&axes, Some("hbm-peak"), true);
    let parts = (1..=4).map(|n| named(through_a_file(&part(&sweep, n, 4))));
    let merged = merge(parts.collect()).unwrap();
    assert!(serde_json::to_string_pretty(&merged).unwrap() == whole(&sweep));
}

fn refused(parts: Vec<(String, Part)>) -> (String, String) {
    let error = merge(parts).unwrap_err();
    assert_eq!(error.cause, Cause::Usage, "{error}");
    (error.message, error.help.unwrap())
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let sweep = small(false);
    let [one, two, three] = [1, 2, 3].map(|n| named(part(&sweep, n, 3)));
    let (message, help) = refused(vec![one.clone(), three.clone()]);
    assert_eq!(message, "shard 2/3 is missing");
    assert_eq!(
        help,
        "make it with: kvplan sweep --vary gpus=1,2,3 --vary policy.hbm=0.3,0.6 --vary batch=2,64 --shard 2/3 \
         --out shard-2.json"
    );
    let (message, help) = refused(vec![two.clone()]);
    assert_eq!(message, "shards 1/3, 3/3 are missing");
    assert!(help.contains("--shard 1/3"), "{help}");

    let again = ("copy.json".to_string(), two.1.clone());
    let (message, _) = refused(vec![one.clone(), two.clone(), again, three.clone()]);
    assert_eq!(message, "shard-2.json and copy.json are both shard 2/3");

    let (message, _) = refused(vec![one.clone(), named(part(&sweep, 2, 2))]);
    assert!(
        message.contains("it is shard 2/2, the other 1/3"),
        "{message}"
    );

    let fewer = self::sweep(
        &["gpus=1,2", "policy.hbm=0.3,0.6", "batch=2,64"],
        None,
        false,
    );
    let (message, _) = refused(vec![one.clone(), named(part(&fewer, 2, 3)), three.clone()]);
    let what = "shard-2.json is of another sweep than shard-1.json: the grid was gpus=1,2,3 ";
    assert!(message.starts_with(what), "{message}");

    let (message, _) = refused(vec![
        one.clone(),
        named(part(&small(true), 2, 3)),
        three.clone(),
    ]);
    assert!(message.contains("--pareto differs"), "{message}");

    let mut old = [one, two, three];
    for (_, part) in &mut old {
        part.sweep.kvplan_version = "0.0.9".into();
    }
    let (message, help) = refused(old.to_vec());
    assert!(
        message.starts_with("shard-1.json is of kvplan 0.0.9, this is"),
        "{message}"
    );
    assert!(help.contains("make all of them again"), "{help}");
    old[0].1.sweep.kvplan_version = env!("CARGO_PKG_VERSION").into();
    assert!(
        refused(old.to_vec()).0.contains("kvplan was"),
        "one of another version"
    );
    assert_eq!(merge(Vec::new()).unwrap_err().cause, Cause::Usage);
}

#[test]
fn what_was_changed_after_it_was_written_is_damage() {
    let good = serde_json::to_string(&part(&small(false), 1, 3)).unwrap();
    assert!(Part::read(&good, "x").is_ok());
    let bad = |text: &str| {
        assert!(text != good);
        let error = Part::read(text, "x.json").unwrap_err();
        assert_eq!(error.cause, Cause::Data, "{error}");
        assert!(error.message.starts_with("x.json: "), "{error}");
    };
    bad(&good.replacen("\"batch\":2,", "\"batch\":3,", 1));
    bad(&good.replacen("kvplan/sweep-shard/1", "kvplan/sweep-shard/9", 1));
    bad(&good.replacen("\"shard\":{\"number\":1,", "\"shard\":{\"number\":2,", 1));
    bad(&good.replacen("\"of\":3}", "\"of\":0}", 1));
    bad(&good.replacen("\"of\":3}", "\"of\":99999999999999}", 1));
    bad(&good.replacen("\"values\":[\"1\",\"2\",\"3\"]", "\"values\":[]", 1));
    bad(&good.replacen("\"gpus\",\"values\"", "\"gpos\",\"values\"", 1));
    for text in ["", "{}", "[]", "null", &good[..good.len() / 2]] {
        bad(text);
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvplan"));
    command.args(args).stdin(Stdio::null());
    command
}

fn kvplan(args: &[&str]) -> (i32, String, String) {
    told(command(args).output().unwrap())
}

/// Runs a line of a shell in a folder, `kvplan` being the binary under test.
fn shell(line: &str, folder: &Path, set: &[(&str, &str)]) -> (bool, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_kvplan"));
    let path = std::env::var("PATH").unwrap_or_default();
    let own = binary.parent().unwrap().display();
    let out = Command::new("sh")
        .args(["-ceu", line])
        .current_dir(folder)
        .env("PATH", format!("{own}:{path}"))
        .env_remove("KVPLAN_SHARDS")
        .envs(set.iter().copied())
        .output()
        .unwrap();
    (out.status.success(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_missing_shard_is_made_by_the_command_of_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let trace = fs::canonicalize("traces/smol_1_t9_s5.kvt").unwrap();
    fs::copy(trace, folder.path().join("it's one.kvt")).unwrap();
    let question = "sweep --trace \"it's one.kvt\" --prompt 100 --output 900 --hardware gh200 --audit \
        --vary policy=four-tier:hbm=0.4,window=64,h2o-mean --vary batch=1..4*2 --equal hbm-peak=90GiB --pareto=tpot,gpus";
    let run = |line: &str| {
        let (worked, err) = shell(line, folder.path(), &[]);
        (worked, err)
    };
    assert!(run(&format!("kvplan {question} -o whole.json || test $? = 1")).0);
    for shard in [1, 3] {
        let line = format!("kvplan {question} --shard {shard}/3 -o shard-{shard}.json");
        let (worked, err) = run(&line);
        assert!(worked, "{err}");
    }
    let merge = "kvplan sweep --merge shard-*.json -o merged.json || test $? = 1";
    let (worked, err) = run(merge);
    assert!(!worked && err.contains("shard 2/3 is missing"), "{err}");
    let (_, made) = err.split_once("make it with: ").unwrap();
    let (worked, err) = run(made.trim());
    assert!(worked, "{made}: {err}");
    let (worked, err) = run(merge);
    assert!(worked, "{err}");
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(bytes("merged.json") == bytes("whole.json"), "other bytes");
    let csv = "kvplan sweep --merge shard-*.json --format csv >merged.csv || test $? = 1; \
        kvplan sweep --merge shard-*.json >merged.txt || test $? = 1";
    assert!(run(csv).0);
    assert!(run(&format!("kvplan {question} --format csv >whole.csv || test $? = 1; kvplan {question} >whole.txt || test $? = 1")).0);
    assert!(bytes("merged.csv") == bytes("whole.csv") && bytes("merged.txt") == bytes("whole.txt"));

    // A recording that changed since is another sweep.
    fs::copy(
        "traces/smol_2_t9_s5.kvt",
        folder.path().join("it's one.kvt"),
    )
    .unwrap();
    let (worked, err) = run(made.trim());
    assert!(worked, "{err}");
    let (worked, err) = run(merge);
    assert!(
        !worked && err.contains("a file it reads has changed"),
        "{err}"
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
    "seed=1..24+1",
    "--vary",
    "t1=stream,host-attention",
    "--quiet",
];

#[test]
fn a_killed_shard_goes_on_and_a_finished_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (first, second) = (path("1.json"), path("2.json"));
    let ask = |file: &str, more: &[&str]| kvplan(&[&["sweep", "-o", file], LONG, more].concat());
    let whole = path("whole.json");
    assert_eq!(ask(&whole, &[]).0, 0);
    assert_eq!(ask(&first, &["--shard", "1/2"]).0, 0);

    let journal = folder.path().join("2.json.part");
    let lines = || fs::read_to_string(&journal).map_or(0, |t| t.matches('\n').count());
    let args = [
        &["sweep", "-o", &second, "--shard", "2/2", "--resume"],
        LONG,
    ]
    .concat();
    let mut child = command(&args).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while lines() < 4 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!((4..=24).contains(&lines()), "{} lines", lines());
    assert!(!Path::new(&second).exists());

    // Its journal is no other shard's, and not the whole sweep's.
    for other in [&["--shard", "1/2"][..], &["--shard", "2/3"], &[]] {
        let (code, _, err) = ask(&second, &[&["--resume"], other].concat());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("the shard was 2/2, is "), "{err}");
    }
    assert_eq!(ask(&second, &["--shard", "2/2", "--resume"]).0, 0);
    assert!(!journal.exists());
    let merged = path("merged.json");
    assert_eq!(
        kvplan(&["sweep", "--merge", &second, &first, "-o", &merged]).0,
        0
    );
    assert!(
        fs::read(&merged).unwrap() == fs::read(&whole).unwrap(),
        "other bytes"
    );

    // A finished shard is not run again, as a scheduler would that lost its word; one of another question is not replaced
    // by going on, only by asking anew.
    let made = || fs::metadata(&second).unwrap().modified().unwrap();
    let before = made();
    let (code, out, err) = kvplan(
        &[
            &["sweep", "-o", &second, "--shard", "2/2", "--resume"],
            &LONG[..LONG.len() - 1],
        ]
        .concat(),
    );
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(
        err.contains("shard 2/2 was finished before") && made() == before,
        "{err}"
    );
    let other = ["--shard", "2/2", "--prompt", "900"];
    assert_eq!(ask(&second, &[&other[..], &["--resume"]].concat()).0, 2);
    assert_eq!(ask(&second, &other).0, 0);
    let (code, _, err) = kvplan(&["sweep", "--merge", &first, &second]);
    assert_eq!(code, 2);
    assert!(
        err.contains("prompt was 1024, is 900") || err.contains("prompt was 900, is 1024"),
        "{err}"
    );
}

#[test]
fn bad_shards_are_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let path = file.to_str().unwrap();
    let vary = &["sweep", "--vary", "batch=1,2"];
    assert_eq!(
        kvplan(&[&vary[..], &["--shard", "1/2", "-o", path]].concat()).0,
        0
    );
    for (args, text) in [
        (
            &[&vary[..], &["--shard", "0/3"]].concat()[..],
            "there is no shard 0 of 3",
        ),
        (
            &[&vary[..], &["--shard", "4/3"]].concat(),
            "there is no shard 4 of 3",
        ),
        (&[&vary[..], &["--shard", "2"]].concat(), "i/n"),
        (
            &[&vary[..], &["--shard", "1/2", "--format", "csv"]].concat(),
            "is JSON",
        ),
        (
            &[&vary[..], &["--shard", "1/2", "--format", "table"]].concat(),
            "is JSON",
        ),
        (
            &[&vary[..], &["--shard", "1/2", "-o", "/nowhere/s.json"]].concat(),
            "/nowhere/s.json",
        ),
        (
            &[&vary[..], &["--merge", path]].concat(),
            "cannot be used with",
        ),
        (
            &["sweep", "--merge", path, "--batch", "3"],
            "--merge and --batch",
        ),
        (
            &["sweep", "desktop", "--merge", path],
            "--merge and desktop",
        ),
        (&["sweep", "--merge", path], "shard 2/2 is missing"),
        (&["sweep", "--merge", path, path], "both shard 1/2"),
        (
            &["sweep", "--merge", path, "-o", path],
            "would replace a shard",
        ),
        (&["sweep", "--merge", "nowhere.json"], "nowhere.json"),
        (&["sweep", "--merge"], "--merge"),
        (&["explain", path, "cells"], "--merge"),
        (&["rerun", path], "--merge"),
    ] {
        let (code, out, err) = kvplan(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(text), "{args:?}: {err}");
    }
    for text in ["", "{}", "\u{0}", "{\"schema\":\"kvplan/sweep/1\"}"] {
        fs::write(&file, text).unwrap();
        let (code, _, err) = kvplan(&["sweep", "--merge", path]);
        assert_eq!(code, 3, "{text}: {err}");
        assert!(err.contains("not the result of a shard"), "{err}");
    }
}

/// The lines under `key: |` of a YAML text, without their margin.
fn block(yaml: &str) -> String {
    let mut lines = yaml
        .lines()
        .skip_while(|l| l.trim() != "- |")
        .skip(1)
        .peekable();
    let margin = lines.peek().map_or(0, |l| l.len() - l.trim_start().len());
    let own = lines.take_while(|l| l.len() - l.trim_start().len() >= margin);
    let bare: Vec<&str> = own.map(|l| &l[margin..]).collect();
    bare.join("\n")
}

fn cluster(name: &str) -> String {
    fs::read_to_string(Path::new("models/scenarios/cluster").join(name)).unwrap()
}

#[test]
fn the_kubernetes_job_makes_all_shards() {
    let yaml = cluster("kubernetes.yaml");
    let value = |key: &str| {
        let line = yaml.lines().find(|l| l.trim().starts_with(key)).unwrap();
        line.split_once(':')
            .unwrap()
            .1
            .trim()
            .trim_matches('"')
            .to_string()
    };
    let shards = yaml.split_once("name: KVPLAN_SHARDS").unwrap().1;
    assert!(
        shards
            .trim_start()
            .starts_with(&format!("value: \"{}\"", value("completions:")))
    );
    assert_eq!(value("completionMode:"), "Indexed");
    let line = block(&yaml);
    assert!(
        line.contains("--shard") && line.lines().count() == 4,
        "{line}"
    );
    let folder = tempfile::tempdir().unwrap();
    let n: usize = value("completions:").parse().unwrap();
    for index in 0..n {
        let index = index.to_string();
        let set = [
            ("JOB_COMPLETION_INDEX", index.as_str()),
            ("KVPLAN_SHARDS", "8"),
            ("KVPLAN_FOLDER", "."),
        ];
        let (worked, err) = shell(&line, folder.path(), &set);
        assert!(worked, "index {index}: {err}");
    }
    merged_is_whole(
        folder.path(),
        "--hardware gh200 --vary 'batch=1..64*2' --vary 'policy.hbm=0.1..0.9+0.1'",
        "shard-*.json",
    );
}

#[test]
fn the_slurm_array_makes_all_shards() {
    let script = cluster("slurm.sh");
    assert!(script.contains("#SBATCH --array=1-8\n") && script.contains("${KVPLAN_SHARDS:-8}"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("slurm.sh"), &script).unwrap();
    let question = "--hardware gh200 --vary batch=1,2,3 --vary policy.hbm=0.2,0.5";
    let line = format!("bash slurm.sh {question}");
    let (worked, err) = shell(&line, folder.path(), &[]);
    assert!(
        !worked && err.contains("submit this script with sbatch"),
        "{err}"
    );
    for task in 1..=8 {
        let task = task.to_string();
        let set = [
            ("SLURM_ARRAY_TASK_ID", task.as_str()),
            ("SLURM_CPUS_PER_TASK", "2"),
        ];
        let (worked, err) = shell(&line, folder.path(), &set);
        assert!(worked, "task {task}: {err}");
    }
    merged_is_whole(folder.path(), question, "shards/shard-*.json");
    let set = [("SLURM_ARRAY_TASK_ID", "9")];
    let (worked, err) = shell(&line, folder.path(), &set);
    assert!(!worked && err.contains("there is no shard 9 of 8"), "{err}");
}

fn merged_is_whole(folder: &Path, question: &str, files: &str) {
    let line = format!(
        "kvplan sweep {question} -o whole.json; kvplan sweep --merge {files} -o merged.json; cmp whole.json merged.json"
    );
    let (worked, err) = shell(&line, folder, &[]);
    assert!(worked, "{err}");
}
