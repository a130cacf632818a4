//! Policies that destroy tokens may lengthen answers: by a factor that somebody gives, and not in silence.

use serde_json::Value;

use crate::binary::kvplan;

fn simulate(args: &[&str]) -> Value {
    let base = [
        "simulate", "--trace", "none", "--prompt", "200", "--batch", "4", "--format", "json",
    ];
    let (code, out, err) = kvplan(&[&base, args].concat());
    assert!(code <= 1, "{args:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

const EVICTS: &str = "four-tier:evict=0.5,semantics=cumulative,hbm=1";

#[test]
fn a_factor_lengthens_what_destroys_and_nothing_else() {
    let asked = &["--policy", EVICTS, "--output", "1001"];
    let plain = simulate(asked);
    let longer = simulate(&[&asked[..], &["--length-factor", "1.8"]].concat());
    // 1.8 x 1,001 = 1,801.8, rounded up.
    assert_eq!(longer["output_tokens"], 1802);
    assert_eq!(longer["length_factor"], 1.8);
    assert_eq!(longer["engine"]["steps"], 1802);
    let rate = |o: &Value, key: &str| o["throughput"][key].as_f64().unwrap();
    let equal = rate(&longer, "equal_answers_tokens_per_s");
    assert!((equal * 1.8 / rate(&longer, "output_tokens_per_s") - 1.0).abs() < 1e-12);
    // Everything in HBM has answers of the asked length, as before.
    let full = "full_cache_output_tokens_per_s";
    assert_eq!(longer["throughput"][full], plain["throughput"][full]);
    // As a run of that length alone, but for what it is compared with.
    let alone = simulate(&["--policy", EVICTS, "--output", "1802"]);
    assert_eq!(
        longer["throughput"]["output_tokens_per_s"],
        alone["throughput"]["output_tokens_per_s"]
    );
    assert_eq!(
        longer["memory"]["hbm_peak_bytes"],
        alone["memory"]["hbm_peak_bytes"]
    );

    for keeps in ["full", "four-tier:hbm=0.5"] {
        let args = &["--policy", keeps, "--output", "1001"];
        let (mut with, mut without) = (
            simulate(&[&args[..], &["--length-factor", "1.8"]].concat()),
            simulate(args),
        );
        assert_eq!(with["length_factor"], Value::Null);
        let said = with["notes"].to_string();
        assert!(said.contains("--length-factor 1.8 has no effect"), "{said}");
        for o in [&mut with, &mut without] {
            o.as_object_mut().unwrap().remove("scenario");
            o.as_object_mut().unwrap().remove("notes");
        }
        assert_eq!(with, without, "{keeps}");
    }
}

/// A plan says once that a factor changes nothing, and never where one of its ways destroys.
#[test]
fn a_plan_says_whether_a_factor_counts() {
    let notes = |policy: &str| {
        let ask = [
            "plan",
            "--trace",
            "none",
            "--hardware",
            "h200-sxm",
            "--output",
            "1001",
            "--policy",
            policy,
            "--length-factor",
            "2",
            "--format",
            "json",
        ];
        let (_, out, err) = kvplan(&ask);
        let answer: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
        let notes = answer["notes"].as_array().unwrap().clone();
        let said = |n: &&Value| {
            n.as_str()
                .unwrap()
                .contains("--length-factor 2 has no effect")
        };
        notes.iter().filter(said).count()
    };
    assert_eq!(notes("four-tier:hbm=fit"), 1);
    assert_eq!(notes(EVICTS), 0);
}

#[test]
fn without_a_factor_the_published_ones_are_told() {
    let notes = |o: &Value| o["notes"].to_string();
    let evicts = notes(&simulate(&["--policy", EVICTS, "--output", "1001"]));
    assert!(
        evicts.contains("1.72 to 1.81 times as many") && evicts.contains("2605.09490"),
        "{evicts}"
    );
    let given = notes(&simulate(&[
        "--policy",
        EVICTS,
        "--output",
        "1001",
        "--length-factor",
        "1.5",
    ]));
    assert!(
        given.contains("1.5 times as long as asked") && !given.contains("1.72"),
        "{given}"
    );
    let keeps = notes(&simulate(&[
        "--policy",
        "four-tier:hbm=0.5",
        "--output",
        "1001",
    ]));
    assert!(!keeps.contains("1.72"), "{keeps}");
}

/// Under load each answer is longer, and a sweep's front compares answers, not tokens.
#[test]
fn loads_and_fronts_count_it() {
    let load = &[
        "--policy",
        EVICTS,
        "--output",
        "501",
        "--arrivals",
        "poisson:2",
        "--requests",
        "9",
    ];
    let (plain, longer) = (
        simulate(load),
        simulate(&[&load[..], &["--length-factor", "1.5"]].concat()),
    );
    let tokens = |o: &Value| o["serving"]["output_tokens_total"].as_u64().unwrap();
    // 1.5 x 501 = 751.5, rounded up; nine requests.
    assert_eq!((tokens(&plain), tokens(&longer)), (9 * 501, 9 * 752));
    let (code, out, err) = kvplan(&[
        "sweep",
        "--trace",
        "none",
        "--output",
        "1000",
        "--hardware",
        "h100-sxm",
        "--model",
        "llama-3.1-8b",
        "--length-factor",
        "100",
        "--batch",
        "2",
        "--vary",
        "policy=full,streaming-llm:window=200",
        "--pareto=tokens-per-s",
        "--format",
        "json",
    ]);
    assert_eq!(code, 0, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let front: Vec<&Value> = json["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["pareto"])
        .collect();
    assert_eq!(
        front,
        [&Value::Bool(true), &Value::Bool(false)],
        "a hundred times the tokens are no gain"
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = folder.path().join("l.csv");
    std::fs::write(&lengths, "10,20\n").unwrap();
    let file = lengths.to_str().unwrap();
    for args in [
        &["--length-factor", "0.5"][..],
        &["--length-factor", "101"],
        &["--length-factor", "nan"],
        &["--length-factor", "x"],
        &["--length-factor", "-1"],
        &["--length-factor", "2", "--occupancy", file],
        &[
            "--length-factor",
            "100",
            "--output",
            "16M",
            "--policy",
            EVICTS,
        ],
    ] {
        let (code, out, err) = kvplan(&[&["simulate", "--trace", "none"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains("length-factor"), "{args:?}: {err}");
    }
}
