//! `kvplan eval` from end to end on a small model: forms of the answer, going on, and inputs that cannot be used.

use std::path::PathBuf;
use std::process::{Command, Output};

use kvplan::eval::Evaluation;

use crate::forward_make::{Key, Tiny, gguf_with, tokenizer, write};

const EVICTS: &str =
    "four-tier:hbm=0.5,evict=0.3,semantics=per-interval,window=3,sinks=1,interval=4";

struct World {
    dir: tempfile::TempDir,
    model: PathBuf,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = write(&dir, &gguf_with(&Tiny::new("llama", false, 4), tokenizer()));
        let world = Self { dir, model };
        world.file(
            "p.jsonl",
            "{\"question\": \"two.two?\", \"final\": \"4\"}\n{\"problem\": \"abc\", \"answer\": \"5\"}\n\
             {\"query\": \"which?\", \"choices\": [\"the\", \"moth\"], \"gold\": 1}\n{\"prompt\": \"the.end\", \"text\": \"thethe0123\"}\n",
        );
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Exit code, stdout, stderr of `kvplan eval` on a file of problems.
    fn eval(&self, problems: &str, args: &[&str]) -> (Option<i32>, String, String) {
        let model = self.model.display().to_string();
        let problems = self.path(problems).display().to_string();
        let asked = [
            "eval",
            "--max-new",
            "20",
            "--model",
            &model,
            "--problems",
            &problems,
        ];
        self.run(&[&asked, args].concat())
    }

    /// Exit code, stdout, stderr of `kvplan`.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let out: Output = Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args(args)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(out.stdout), text(out.stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        (out.status.code(), stdout, stderr)
    }

    fn answer(&self, args: &[&str]) -> Evaluation {
        let (code, out, err) = self.eval("p.jsonl", &[args, &["--format", "json"]].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str(&out).unwrap()
    }
}

#[test]
fn every_form_of_the_answer() {
    let world = World::new();
    let asked = [
        "--policy",
        EVICTS,
        "--policy",
        "streaming-llm:sinks=1,window=6",
    ];
    let e = world.answer(&asked);
    assert_eq!(e.schema, "kvplan/eval/1");
    let names: Vec<&str> = e.policies.iter().map(|p| p.policy.as_str()).collect();
    assert_eq!(names, ["full", EVICTS, "streaming-llm:sinks=1,window=6"]);
    for p in &e.policies {
        assert_eq!((p.n, p.graded), (4, 3));
        assert!(
            p.accuracy_low.unwrap() <= p.accuracy.unwrap()
                && p.accuracy.unwrap() <= p.accuracy_high.unwrap()
        );
    }
    let full = &e.policies[0];
    assert_eq!(
        (
            full.kl_mean,
            full.argmax_agreement,
            full.texts_identical_share
        ),
        (Some(0.0), Some(1.0), Some(1.0))
    );
    assert!(
        e.policies[1..].iter().all(|p| p.kl_mean > Some(0.0)
            && p.destroyed_share > 0.0
            && p.destroyed_mass_mean > 0.0)
    );
    assert!(e.policies[1].retained_share < 1.0 && e.policies[1].hbm_peak_share < 1.0);
    // Sums over problems are those of the problems.
    let tokens: u32 = e
        .problems
        .iter()
        .map(|p| p.answers[1].tokens.unwrap())
        .sum();
    assert!((e.policies[1].tokens_per_answer.unwrap() - f64::from(tokens) / 4.0).abs() < 1e-12);
    // The answer of a given version is the schema's.
    let (code, page, err) = world.eval("p.jsonl", &asked);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(page.lines().all(|l| l.chars().count() <= 100), "{page}");
    for word in [
        "OWN TEXTS",
        "ALONG THE FULL CACHE'S TEXTS",
        "SHOWS AND DOES NOT SHOW",
        "McNemar",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    let (code, _, err) = world.eval(
        "p.jsonl",
        &[
            &asked[..],
            &["-q", "-o", "r.csv", "--answers", "a.csv", "--plot", "f.svg"],
        ]
        .concat(),
    );
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let read = |name: &str| std::fs::read_to_string(world.path(name)).unwrap();
    let table = read("r.csv");
    assert_eq!(table.lines().count(), 4);
    assert!(
        table.starts_with("policy,resolved,n,graded,correct,accuracy,accuracy_low,accuracy_high,")
    );
    let mut answers = csv::Reader::from_path(world.path("a.csv")).unwrap();
    let rows: Vec<csv::StringRecord> = answers.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 12);
    assert_eq!(
        &rows[1][16],
        e.problems[0].answers[1].text.as_ref().unwrap()
    );
    let figure = read("f.svg");
    for text in [
        "KL(full || policy)",
        "n = 4 problems",
        "tokens retained",
        "four-tier",
        "streaming-llm",
    ] {
        assert!(figure.contains(text), "{text}");
    }
    assert!(!world.path("r.csv.part").exists());
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bytes() {
    let world = World::new();
    let asked = [
        "--policy",
        EVICTS,
        "--policy",
        "h2o:heavy=4,recent=4",
        "--temperature",
        "1",
        "-q",
    ];
    let go = |out: &str, more: &[&str]| {
        world.eval("p.jsonl", &[&asked[..], &["-o", out], more].concat())
    };
    assert_eq!(go("whole.json", &[]).0, Some(0));
    let whole = std::fs::read(world.path("whole.json")).unwrap();
    // A journal as a kill leaves it: a directory in the place of the result keeps the run from removing it.
    let journal = world.path("r.json.part");
    assert_eq!(
        go("r.json", &["--answers", "no/such/folder.csv"]).0,
        Some(2)
    );
    assert!(!journal.exists(), "nothing was begun");
    assert_eq!(go("r.json", &["--together", "3"]).0, Some(0));
    assert_eq!(std::fs::read(world.path("r.json")).unwrap(), whole);
    let lines = journal_of(&world, &asked);
    assert_eq!(lines.len(), 1 + 4 * 3, "a head and the cells");
    for cut in [1, 2, 5, 9, 13] {
        let mut text = lines[..cut].concat();
        text.push_str(&lines[cut.min(12)][..20]); // the line that was being written
        std::fs::write(&journal, text).unwrap();
        let (code, _, err) = go("r.json", &[]);
        assert_eq!(code, Some(2));
        assert!(err.contains("--resume"), "{err}");
        assert_eq!(go("r.json", &["--resume"]).0, Some(0), "{cut}");
        assert_eq!(std::fs::read(world.path("r.json")).unwrap(), whole, "{cut}");
        assert!(!journal.exists());
    }
    // Another question, and damage.
    std::fs::write(&journal, lines.concat()).unwrap();
    let (code, _, err) = go("r.json", &["--resume", "--limit", "2"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("the number of problems was 4, is 2"), "{err}");
    let (code, _, err) = go("r.json", &["--resume", "--seed", "3"]);
    assert_eq!(code, Some(2), "{err}");
    std::fs::write(
        &journal,
        lines.concat().replacen("\"ended\":", "\"ended\": ", 1),
    )
    .unwrap();
    let (code, _, err) = go("r.json", &["--resume"]);
    assert_eq!(code, Some(3));
    assert!(err.contains("checksum"), "{err}");
}

#[test]
fn going_on_keeps_what_is_finished() {
    let world = World::new();
    let go = |more: &[&str]| {
        world.eval(
            "p.jsonl",
            &[&["--policy", EVICTS, "--resume"], more].concat(),
        )
    };
    assert_eq!(go(&["-o", "r.json"]).0, Some(0));
    let before = std::fs::read(world.path("r.json")).unwrap();
    let (code, _, err) = go(&["-o", "r.json"]);
    assert!(code == Some(0) && err.contains("finished before"), "{err}");
    for more in [
        &["-o", "r.json", "--seed", "3"][..],
        &["-o", "r.json", "--limit", "2"],
        &["-o", "r.json", "--policy", "h2o:heavy=4,recent=4"],
        &["-o", "r.json", "--format", "csv"],
        &["-o", "r.json", "--answers", "a.csv"],
    ] {
        let (code, _, err) = go(more);
        assert!(code == Some(2) && err.contains("help:"), "{more:?}: {err}");
    }
    assert_eq!(std::fs::read(world.path("r.json")).unwrap(), before);
}

/// A result of another verb is no evaluation, and says so.
#[test]
fn from_names_what_is_none() {
    let world = World::new();
    let (code, out, err) = world.run(&[
        "plan",
        "--hardware",
        "gh200",
        "--trace",
        "none",
        "-o",
        "p.json",
    ]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, _, err) = world.run(&["eval", "--from", "p.json"]);
    assert!(
        code == Some(3) && err.contains("its schema is `kvplan/plan/1`"),
        "{err}"
    );
}

/// The lines that a run writes while it goes: those of one whose result cannot be put in its place.
fn journal_of(world: &World, asked: &[&str]) -> Vec<String> {
    let folder = world.path("kept");
    std::fs::create_dir(&folder).unwrap();
    let result = folder.join("r.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(["eval", "--max-new", "20", "--model"])
        .arg(&world.model)
        .arg("--problems")
        .arg(world.path("p.jsonl"))
        .args(asked)
        .arg("-o")
        .arg(&result)
        .args(["--answers", "/dev/full"])
        .spawn()
        .unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    let text = std::fs::read_to_string(folder.join("r.json.part")).unwrap();
    text.split_inclusive('\n').map(String::from).collect()
}

#[test]
fn the_grid_says_where_hbm_makes_no_difference() {
    let world = World::new();
    let e = world.answer(&["--grid=window=3,sinks=1,interval=4"]);
    assert_eq!(e.policies.len(), 13);
    let note = e
        .notes
        .iter()
        .find(|n| n.contains("Proposition 1"))
        .unwrap();
    assert_eq!(note.matches(" at hbm 0.3 = 0.5 = 0.7").count(), 4, "{note}");
    for evict in ["0.01", "0.03", "0.05", "0.1"] {
        let alike: Vec<_> = e
            .policies
            .iter()
            .filter(|p| p.policy.contains(&format!("evict={evict},")))
            .collect();
        assert_eq!(alike.len(), 3);
        assert!(alike.iter().all(|p| p.perplexity == alike[0].perplexity
            && p.destroyed_mass_mean.to_bits() == alike[0].destroyed_mass_mean.to_bits()));
        assert!(alike[0].hbm_peak_tokens_mean < alike[2].hbm_peak_tokens_mean);
    }
    // The prototype chooses T3 among what is in HBM: there hbm makes a difference, and the note says so.
    let e = world.answer(&["--grid=window=3,sinks=1,interval=4,preset=prototype"]);
    assert!(
        e.notes.iter().any(|n| n.contains("does make a difference"))
            || e.policies.iter().all(|p| p.destroyed_share == 0.0),
        "{:?}",
        e.notes
    );
}

/// Policies brought to the tokens that the first retains, along given texts.
const BROUGHT: [&str; 9] = [
    "--equal",
    "retained",
    "--teacher-forced",
    "--policy",
    EVICTS,
    "--policy",
    "tova",
    "--policy",
    "streaming-llm:sinks=1",
];

/// Every policy but the full cache is near the target.
fn near_the_target(e: &Evaluation) {
    let target = e.question.equal.as_ref().unwrap().target_tokens;
    for p in &e.policies[1..] {
        let off = p.retained_tokens_mean / target - 1.0;
        assert!(off.abs() < 0.05, "{}: {off}", p.policy);
    }
}

/// A share and a number of tokens are equal at one length only: budgets hold over the lengths of all problems.
#[test]
fn policies_are_brought_to_equal_tokens_over_unequal_lengths() {
    let world = World::new();
    world.file(
        "p.jsonl",
        "{\"prompt\": \"the\", \"text\": \"0123456012\"}\n\
         {\"prompt\": \"the.end.the.end.the.end\", \"text\": \"01234560123456012345601012345601234560\"}\n",
    );
    let e = world.answer(&BROUGHT);
    let lengths: Vec<u32> = e.problems.iter().map(|p| p.prompt_tokens).collect();
    assert!(lengths[0] < lengths[1], "{lengths:?}");
    near_the_target(&e);
}

/// A policy that holds more diverges less: no ranking where tokens differ, and none of one that never acted.
#[test]
fn unequal_and_idle_policies_are_not_ranked() {
    let world = World::new();
    world.file(
        "p.jsonl",
        "{\"prompt\": \"the.end\", \"text\": \"01234560123456012345601\"}\n",
    );
    let page = |policies: [&str; 2]| {
        let [a, b] = policies;
        let asked = ["--teacher-forced", "--policy", a, "--policy", b];
        let (code, text, err) = world.eval("p.jsonl", &asked);
        assert_eq!(code, Some(0), "{err}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let unequal = page([EVICTS, "tova:budget=3"]);
    assert!(unequal.contains("Not ranked"), "{unequal}");
    // Its first decision comes after the last step.
    let idle = page([
        "four-tier:evict=0.5,semantics=cumulative,interval=20,window=2",
        "tova:budget=3",
    ]);
    assert!(
        !idle.contains("stays nearest") && !idle.contains("Not ranked"),
        "{idle}"
    );
    assert!(idle.contains("too short for it to act"), "{idle}");
}

#[test]
fn policies_are_brought_to_equal_tokens() {
    let world = World::new();
    // A text of 20 tokens, so that the lengths are those at which budgets are solved.
    world.file(
        "p.jsonl",
        "{\"prompt\": \"the.end\", \"text\": \"01234560123456012345601\"}\n",
    );
    let e = world.answer(&BROUGHT);
    let equal = e.question.equal.as_ref().unwrap();
    assert_eq!(equal.by, "retained");
    assert!((equal.output_tokens - 20.0).abs() < 1e-12);
    assert!(e.notes.iter().any(|n| n.contains("equal retained")));
    assert_eq!(e.policies[1].policy, EVICTS, "the reference stays as it is");
    assert_eq!(e.policies[0].predicted_tokens, 20);
    near_the_target(&e);
    for (args, words) in [
        (
            vec!["--equal", "tpot", "--policy", "tova", "--policy", EVICTS],
            "unknown `tpot`",
        ),
        (
            vec!["--equal", "retained", "--policy", "tova"],
            "there is one",
        ),
        (
            vec![
                "--equal", "retained", "--policy", EVICTS, "--policy", "full",
            ],
            "no budget",
        ),
    ] {
        let (code, _, err) = world.eval("p.jsonl", &args);
        assert_eq!(code, Some(2));
        assert!(err.contains(words), "{err}");
    }
}

#[test]
fn given_texts_alone() {
    let world = World::new();
    let e = world.answer(&["--teacher-forced", "--policy", EVICTS]);
    assert_eq!(e.policies[1].accuracy, None);
    assert_eq!(e.policies[1].tokens_per_answer, None);
    // `thethe0123`: the, the, 0, 1, 2, 3.
    assert_eq!(e.problems[3].answers[1].predicted_tokens, 6);
    assert_eq!(e.problems[3].answers[1].text, None);
    let (code, page, _) = world.eval("p.jsonl", &["--teacher-forced", "--policy", EVICTS]);
    assert_eq!(code, Some(0));
    assert!(
        !page.contains("OWN TEXTS") && page.contains("ALONG GIVEN TEXTS"),
        "{page}"
    );
}

#[test]
fn what_cannot_be_used_is_named() {
    let world = World::new();
    world.file("empty.jsonl", "");
    world.file("bad.jsonl", "\"fine\"\n{\n");
    world.file("nogold.jsonl", "{\"question\": \"abc\"}\n");
    world.file("long.jsonl", &format!("\"abc\"\n\"{}\"\n", "a".repeat(80)));
    for (problems, args, code, words) in [
        (
            "empty.jsonl",
            vec!["--policy", "h2o"],
            3,
            "holds no problem",
        ),
        ("bad.jsonl", vec!["--policy", "h2o"], 3, "line 2: not JSON"),
        (
            "nogold.jsonl",
            vec!["--policy", "h2o"],
            3,
            "line 1: neither `final`",
        ),
        (
            "long.jsonl",
            vec!["--policy", "h2o"],
            3,
            "line 2: its prompt of",
        ),
        ("gone.jsonl", vec!["--policy", "h2o"], 2, "gone.jsonl"),
        ("p.jsonl", vec![], 2, "no policy"),
        (
            "p.jsonl",
            vec!["--policy", "streaming-lm"],
            2,
            "did you mean `streaming-llm`",
        ),
        ("p.jsonl", vec!["--policy", "oracle"], 2, "reads the future"),
        (
            "p.jsonl",
            vec!["--policy", "four-tier:hbm=fit"],
            2,
            "needs the memory of a machine",
        ),
        (
            "p.jsonl",
            vec!["--policy", "four-tier:hbm=2GiB"],
            2,
            "needs the memory of a machine",
        ),
        (
            "p.jsonl",
            vec!["--policy", "h2o", "--t2", "per-row"],
            2,
            "no quantiser",
        ),
        (
            "p.jsonl",
            vec!["--policy", "h2o", "--positions", "lost"],
            2,
            "neither kept nor restart",
        ),
        ("p.jsonl", vec!["--policy", "h2o", "--resume"], 2, "-o FILE"),
        (
            "p.jsonl",
            vec!["--policy", "h2o", "-o", "p.jsonl"],
            2,
            "is read by this run",
        ),
        (
            "p.jsonl",
            vec!["--policy", "h2o", "--plot", "f.gif"],
            2,
            ".svg or .png",
        ),
        (
            "p.jsonl",
            vec!["--policy", "h2o", "--max-new", "0"],
            2,
            "--max-new",
        ),
    ] {
        let (found, out, err) = world.eval(problems, &args);
        assert_eq!(found, Some(code), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
        assert!(out.is_empty());
    }
    let bytes = std::fs::read(world.path("p.jsonl")).unwrap();
    assert!(
        bytes.starts_with(b"{\"question\""),
        "the problems are still there"
    );
}

#[test]
fn a_model_without_a_chat_template_asks_for_raw() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<(String, Key)> = tokenizer()
        .into_iter()
        .filter(|k| !k.0.contains("template"))
        .collect();
    let plain = World {
        model: write(&dir, &gguf_with(&Tiny::new("llama", false, 4), keys)),
        dir,
    };
    plain.file("p.jsonl", "\"abc\"");
    let (code, _, err) = plain.eval("p.jsonl", &["--policy", "tova:budget=6"]);
    assert!(code == Some(2) && err.contains("--raw"), "{err}");
    assert_eq!(
        plain
            .eval("p.jsonl", &["--raw", "--policy", "tova:budget=6"])
            .0,
        Some(0)
    );
}

#[test]
fn a_saved_evaluation_is_printed_and_drawn_again() {
    let world = World::new();
    let asked = [
        "--policy",
        EVICTS,
        "--policy",
        "streaming-llm:sinks=1,window=6",
    ];
    let (code, _, err) = world.eval(
        "p.jsonl",
        &[
            &asked[..],
            &[
                "-o",
                "r.json",
                "--answers",
                "a.csv",
                "--plot",
                "f.svg",
                "-q",
            ],
        ]
        .concat(),
    );
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for form in ["table", "md", "csv", "json"] {
        let (_, first, _) = world.eval("p.jsonl", &[&asked[..], &["--format", form]].concat());
        let (code, second, err) = world.run(&["eval", "--from", "r.json", "--format", form]);
        assert_eq!(code, Some(0), "{form}: {err}");
        assert_eq!(first, second, "{form}");
    }
    let more = [
        "eval",
        "--from",
        "r.json",
        "-o",
        "s.json",
        "--answers",
        "b.csv",
        "--plot",
        "g.svg",
    ];
    assert_eq!(world.run(&more).0, Some(0));
    for (a, b) in [("r.json", "s.json"), ("a.csv", "b.csv"), ("f.svg", "g.svg")] {
        let read = |name: &str| std::fs::read(world.path(name)).unwrap();
        assert_eq!(read(a), read(b), "{a}");
    }
    let refused = |args: &[&str]| {
        let (code, out, err) = world.run(args);
        assert_eq!(out, "");
        (code, err)
    };
    let (code, err) = refused(&["eval", "--from", "r.json", "-o", "r.json"]);
    assert!(
        code == Some(2) && err.contains("is read by this run"),
        "{err}"
    );
    let (code, err) = refused(&["eval", "--from", "p.jsonl"]);
    assert_eq!(code, Some(3), "{err}");
    let (code, err) = refused(&["eval", "--from", "r.json", "--policy", "full"]);
    assert!(code == Some(2) && err.contains("--policy"), "{err}");
    let (code, err) = refused(&["eval", "--policy", EVICTS]);
    assert!(code == Some(2) && err.contains("--model"), "{err}");
    let (code, err) = refused(&["rerun", "r.json"]);
    assert!(
        code == Some(2) && err.contains("does not hold its model"),
        "{err}"
    );
    let plan = world.run(&["simulate", "--format", "json", "-o", "o.json"]);
    assert!(plan.0 == Some(0) || plan.0 == Some(1), "{}", plan.2);
    let (code, err) = refused(&["eval", "--from", "o.json"]);
    assert!(code == Some(3) && err.contains("no evaluation"), "{err}");
    let (code, page, _) = world.run(&["explain", "r.json", "policies[1].kl_mean"]);
    assert!(code == Some(0) && page.contains("kl_mean"), "{page}");
}
