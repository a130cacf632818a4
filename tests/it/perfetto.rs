//! A drawing of a run: well-formed, no two slices at once on a track, and the sums of the outcome.

use std::collections::BTreeMap;

use kvplan::engine::{Both, StepTimes};
use kvplan::metrics::Outcome;
use kvplan::metrics::perfetto::{Drawn, Perfetto};
use kvplan::plan::simulate_watched;
use kvplan::units::Ps;
use serde_json::Value;

use crate::engine_support::{Watch, scenario};

/// One slice as read back.
#[derive(Debug)]
struct Read {
    track: u64,
    name: String,
    begin: u64,
    end: u64,
    step: u64,
    bytes: f64,
    args: Value,
}

const COMPUTE: u64 = 1;
const UP: u64 = 2;
const DOWN: u64 = 3;
const GAP: u64 = 4;
const HOST: u64 = 5;

/// Microseconds of the file in picoseconds: exact, the runs here are far under 2^53 ps.
#[allow(clippy::cast_possible_truncation)] // checked to be a small positive number
fn ps(value: &Value) -> u64 {
    let micros = value.as_f64().unwrap();
    assert!((0.0..9e9).contains(&micros));
    (micros * 1e6).round() as u64
}

fn read(text: &[u8]) -> Vec<Read> {
    let file: Value = serde_json::from_slice(text).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let slices = events.iter().filter(|e| e["ph"] == "X");
    let read: Vec<Read> = slices
        .map(|e| Read {
            track: e["tid"].as_u64().unwrap(),
            name: e["name"].as_str().unwrap().into(),
            begin: ps(&e["ts"]),
            end: ps(&e["ts"]) + ps(&e["dur"]),
            step: e["args"]["step"].as_u64().unwrap(),
            bytes: e["args"]["bytes"].as_f64().unwrap(),
            args: e["args"].clone(),
        })
        .collect();
    assert_eq!(
        file["otherData"]["slices"].as_u64().unwrap(),
        read.len() as u64
    );
    read
}

struct Drawing {
    slices: Vec<Read>,
    drawn: Drawn,
    times: Vec<StepTimes>,
    outcome: Outcome,
}

fn draw(words: &str, window: Option<std::ops::Range<u64>>) -> Drawing {
    let s = scenario(&format!(
        "model llama-3.1-8b hardware h100-sxm weights int8 batch 3 prompt 200 output 90 fidelity layer {words}"
    ));
    let serial = words.contains("serial");
    let (mut text, mut watch) = (Vec::new(), Watch::default());
    let mut perfetto = Perfetto::new(&mut text, window, serial);
    let outcome = simulate_watched(&s, &mut Both(&mut perfetto, &mut watch)).unwrap();
    let drawn = perfetto.finish().unwrap();
    Drawing {
        slices: read(&text),
        drawn,
        times: watch.times,
        outcome,
    }
}

const SPILLS: &str = "policy four-tier:hbm=0.3,window=8,interval=16,t2=0.1";

const MODES: &[&str] = &[
    "t1 stream",
    "t1 stream write-back at-demotion depth 3",
    "t1 staged:2MB",
    "t1 host-attention write-back at-demotion",
    "t1 host-attention",
    "t1 host-attention trace smol_1_t9_s5 write-back at-demotion", // promotes: they are fetched
    "t1 stream overlap serial",
    "t1 host-attention overlap serial write-back at-demotion",
];

#[test]
fn slices_of_a_track_never_overlap() {
    for mode in MODES {
        let d = draw(&format!("{SPILLS} {mode}"), Some(0..1000));
        let mut tracks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for s in &d.slices {
            assert!(
                s.end > s.begin && s.bytes.is_finite() && s.bytes >= 0.0,
                "{mode}: {s:?}"
            );
            tracks.entry(s.track).or_default().push((s.begin, s.end));
        }
        for (track, times) in &mut tracks {
            times.sort_unstable();
            for pair in times.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "{mode}, track {track}: {pair:?}");
            }
        }
        assert_eq!(tracks.contains_key(&HOST), mode.contains("host"));
        let promotes = mode.contains("smol");
        assert_eq!(
            tracks.contains_key(&UP),
            promotes || !mode.contains("host"),
            "{mode}"
        );
        let fetched = d.slices.iter().any(|s| s.name == "fetch promoted");
        assert_eq!(fetched, promotes, "{mode}");
    }
}

#[test]
fn slices_add_up_to_the_outcome() {
    for mode in MODES {
        let d = draw(&format!("{SPILLS} {mode}"), Some(0..1000));
        assert_eq!(d.drawn.steps, 0..90);
        let time = |of: &dyn Fn(&Read) -> bool| -> Ps {
            Ps(d.slices
                .iter()
                .filter(|s| of(s))
                .map(|s| s.end - s.begin)
                .sum())
        };
        let sum = |of: fn(&StepTimes) -> Ps| -> Ps { d.times.iter().map(of).sum() };
        let retier = |s: &Read| s.name == "pack" || s.name.starts_with("fetch");
        assert_eq!(
            time(&|s| s.track == COMPUTE && !retier(s)),
            sum(|t| t.compute),
            "{mode}"
        );
        assert_eq!(time(&|s| s.track == GAP), sum(|t| t.gap), "{mode}");
        assert_eq!(time(&retier), sum(|t| t.retier), "{mode}");
        if !mode.contains("host") {
            assert_eq!(time(&|s| s.track == UP), sum(|t| t.h2d_busy), "{mode}");
        }
        bytes_add_up(mode, &d);
        let end = d.slices.iter().map(|s| s.end).max().unwrap();
        let last = d.times.last().unwrap().end;
        assert_eq!(Ps(end), last, "{mode}");
        let spans = 90 * 33; // every layer and the head of every step
        let computed = d.slices.iter().filter(|s| s.track == COMPUTE && !retier(s));
        assert_eq!(computed.count(), spans, "{mode}");
    }
}

fn bytes_add_up(mode: &str, d: &Drawing) {
    let moved = |track: u64, key: &str| -> f64 {
        let on = d.slices.iter().filter(|s| s.track == track);
        let own: f64 = on.map(|s| s.bytes).sum();
        let host = d.slices.iter().filter(|s| s.track == HOST);
        own + host.map(|s| s.args[key].as_f64().unwrap()).sum::<f64>()
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b + 1.0, "{mode}: {a} {b}");
    near(
        moved(UP, "output_bytes"),
        d.outcome.traffic.h2d_bytes as f64,
    );
    // What the last step writes goes down under a step that does not come.
    let pending = if mode.contains("serial") {
        0.0
    } else {
        let queries = d.slices.iter().filter(|s| s.track == HOST && s.step == 89);
        let asked: f64 = queries
            .map(|s| s.args["query_bytes"].as_f64().unwrap())
            .sum();
        d.times[89].d2h_bytes - asked
    };
    near(
        moved(DOWN, "query_bytes") + pending,
        d.outcome.traffic.d2h_bytes as f64,
    );
}

#[test]
fn the_window_is_around_the_first_re_tier() {
    // Window 8 and interval 16 in lockstep: the first decision that finds a candidate is that of step 15, its moves and
    // its cost are step 16's; two steps before, eight in all.
    let d = draw(&format!("{SPILLS} phase lockstep"), None);
    assert_eq!((d.drawn.steps.clone(), d.drawn.of), (14..22, 90));
    assert!(d.slices.iter().all(|s| (14..22).contains(&s.step)));
    assert!(d.times[..16].iter().all(|t| t.retier == Ps::ZERO));
    assert!(d.times[16].retier > Ps::ZERO);
    // Nothing moves: the first eight.
    let d = draw("policy full", None);
    assert_eq!(d.drawn.steps, 0..8);
    // As asked, cut where the run ends.
    assert_eq!(draw(SPILLS, Some(86..96)).drawn.steps, 86..90);
}

#[test]
fn a_drawing_changes_nothing() {
    let flags = format!(
        "model llama-3.1-8b hardware h100-sxm weights int8 batch 3 prompt 200 output 90 fidelity layer {SPILLS}"
    );
    let plain = kvplan::plan::simulate(&scenario(&flags)).unwrap();
    assert_eq!(draw(SPILLS, Some(3..9)).outcome, plain);
    assert_eq!(plain.engine.fidelity, "layer");
    assert!(plain.engine.events > 90 * 64, "a layer is an event or more");
}

#[test]
fn a_window_past_the_end_is_refused() {
    let s = scenario("model smollm2-135m output 20 fidelity layer");
    let mut text = Vec::new();
    let mut perfetto = Perfetto::new(&mut text, Some(500..600), false);
    simulate_watched(&s, &mut perfetto).unwrap();
    let e = perfetto.finish().unwrap_err();
    assert!(e.message.contains("the run has 20 steps"), "{e:?}");
}

/// The exit code and stderr of `kvplan simulate` on a small model in `folder`.
fn simulated(folder: &std::path::Path, args: &[&str]) -> (i32, String) {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args([
            "simulate",
            "--model",
            "smollm2-135m",
            "--output",
            "200",
            "--trace",
            "none",
        ])
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code().unwrap(), text)
}

#[test]
fn the_flag_writes_a_file_and_says_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "--policy",
        "four-tier:hbm=0.3,window=8",
        "--perfetto",
        "p.json",
        "-o",
        "r.json",
    ];
    let (code, said) = simulated(folder.path(), &args);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("p.json: steps 62 to 69 of 200"), "{said}");
    let slices = read(&std::fs::read(folder.path().join("p.json")).unwrap());
    assert!(
        slices
            .iter()
            .any(|s| s.track == UP && s.args["tokens"].as_f64() > Some(0.0))
    );
    // A window of one's own, by the audited way and without.
    for audit in [&[][..], &["--audit"]] {
        let asked = ["--perfetto", "q.json", "--perfetto-steps", "100..103", "-q"];
        let (code, said) = simulated(folder.path(), &[&asked, audit].concat());
        assert_eq!((code, said.as_str()), (0, ""));
        let slices = read(&std::fs::read(folder.path().join("q.json")).unwrap());
        let steps: std::collections::BTreeSet<u64> = slices.iter().map(|s| s.step).collect();
        assert_eq!(steps.into_iter().collect::<Vec<_>>(), [100, 101, 102]);
    }
    let result = std::fs::read(folder.path().join("r.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(result["engine"]["fidelity"], "layer");
    assert_eq!(result["scenario"]["fidelity"], "layer");
}

#[test]
fn drawings_that_make_no_sense_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (
            &["--perfetto", "p.json", "--fidelity", "step"],
            "--perfetto draws layer by layer",
        ),
        (&["--perfetto-steps", "3..9"], "--perfetto"),
        (
            &["--perfetto", "p.json", "--perfetto-steps", "9..3"],
            "draws nothing",
        ),
        (&["--perfetto", "p.json", "--perfetto-steps", "9"], "A..B"),
        (
            &["--perfetto", "p.json", "--perfetto-steps", "0..1001"],
            "at most",
        ),
        (
            &[
                "--perfetto",
                "p.json",
                "--perfetto-steps",
                "1..99999999999999999999",
            ],
            "A..B",
        ),
        (
            &["--perfetto", "p.json", "--perfetto-steps", "200..210"],
            "the run has 200 steps",
        ),
        (&["--perfetto", "-"], "a drawing needs a file"),
        (
            &["--perfetto", "p.json", "-o", "./p.json"],
            "cannot be one file",
        ),
        (&["--perfetto", "none/p.json"], "none/p.json"),
        (&["--perfetto", "."], "is a directory"),
        (&["--perfetto", ""], ""),
        (&["--fidelity", "leyer"], "did you mean `layer`"),
    ];
    for (args, text) in cases {
        let (code, said) = simulated(folder.path(), args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
