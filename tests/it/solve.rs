//! `plan --find`: the answer is the last that keeps to the limits, the next does not, and both were run.

use std::process::Command;
use std::sync::atomic::AtomicU64;

use kvplan::plan::simulate;
use kvplan::plan::solve::answer::Solution;
use kvplan::plan::solve::{Find, Limits, solve};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::units::Bytes;

pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(Verb::Plan);
    let base = [
        ("model", "llama-3.1-8b"),
        ("weights", "bf16"),
        ("trace", "none"),
        ("hardware", "h100-sxm"),
        ("intervals", "none"),
    ];
    for (name, value) in base.iter().chain(pairs) {
        settings
            .set(name, &[(*value).to_string()], Origin::Flag)
            .unwrap();
    }
    settings
}

pub(crate) fn found(pairs: &[(&str, &str)], find: Find, limits: &Limits) -> Solution {
    let settings = settings(pairs);
    let question = resolve::question(&settings).unwrap();
    solve(&question, &settings, find, limits, &AtomicU64::new(0)).unwrap()
}

pub(crate) fn base(pairs: &[(&str, &str)]) -> Scenario {
    resolve::question(&settings(pairs)).unwrap().base
}

pub(crate) const SHORT: [(&str, &str); 2] = [("prompt", "256"), ("output", "256")];

/// Every batch from 1 on by `simulate`: the first that is too slow is the next of the answer.
#[test]
fn max_batch_is_what_one_finds_by_trying_all() {
    let limits = Limits {
        tpot_p99: Some(0.0085),
        ..Limits::default()
    };
    let s = found(&SHORT, Find::MaxBatch, &limits);
    let row = &s.rows[0];
    let slow = |batch: u32| {
        let out = simulate(&Scenario {
            batch,
            ..base(&SHORT)
        })
        .unwrap();
        out.throughput.tpot_p99_s.unwrap() > 0.0085
    };
    let first = (1..400).find(|b| slow(*b)).unwrap();
    assert_eq!(row.answer, Some(f64::from(first - 1)));
    assert_eq!(row.limited_by, "tpot-p99");
    let next = row.next.as_ref().unwrap();
    assert_eq!(next.value.to_bits(), f64::from(first).to_bits());
    assert!(!next.keeps && next.tpot_p99_s.unwrap() > 0.0085);
    assert!(row.best.as_ref().unwrap().keeps);
    assert!(row.why.starts_with("next, at"), "{}", row.why);
}

/// Each limit is the one that is named when it is the tightest.
#[test]
fn the_limit_that_stops_it_is_named() {
    let gib = |n: u64| Some(Bytes(n << 30));
    for (limits, word) in [
        (
            Limits {
                ttft_p99: Some(0.5),
                ..Limits::default()
            },
            "ttft-p99",
        ),
        (
            Limits {
                max_hbm: gib(30),
                ..Limits::default()
            },
            "max-hbm",
        ),
        (
            Limits {
                max_ddr: gib(1),
                ..Limits::default()
            },
            "max-ddr",
        ),
        (Limits::default(), "hbm-capacity"),
    ] {
        let pairs = [&SHORT[..], &[("policy", "four-tier:hbm=300tok")]].concat();
        let s = found(&pairs, Find::MaxBatch, &limits);
        assert_eq!(s.rows[0].limited_by, word, "{:?}", s.rows[0]);
    }
    // What cannot be met at all: not even one request.
    let s = found(
        &SHORT,
        Find::MaxBatch,
        &Limits {
            tpot_p99: Some(1e-4),
            ..Limits::default()
        },
    );
    assert_eq!(s.rows[0].answer, None);
    assert!(
        s.rows[0].why.starts_with("already, at 1 requests"),
        "{}",
        s.rows[0].why
    );
    assert!(!s.any());
}

#[test]
fn max_context_ends_at_the_models_own() {
    let s = found(
        &[("batch", "1"), ("policy", "full")],
        Find::MaxContext,
        &Limits::default(),
    );
    assert_eq!(s.rows[0].answer, Some(131_072.0));
    assert_eq!(s.rows[0].limited_by, "model-context");
    let s = found(
        &[("batch", "16"), ("policy", "full")],
        Find::MaxContext,
        &Limits::default(),
    );
    let row = &s.rows[0];
    assert_eq!(row.limited_by, "hbm-capacity");
    // The ledger says the same: tokens that each of 16 may reach.
    let out = simulate(&Scenario {
        batch: 16,
        policy: "full".into(),
        ..base(&SHORT)
    })
    .unwrap();
    assert_eq!(row.answer, Some(out.holds_tokens_per_request as f64));
}

/// Less HBM is slower: the least that keeps to the limit, and a token less does not.
#[test]
fn min_hbm_trades_memory_for_time() {
    let pairs = [
        ("prompt", "256"),
        ("output", "4096"),
        ("batch", "8"),
        ("policy", "four-tier:hbm=fit"),
    ];
    let all = found(&pairs, Find::MinHbm, &Limits::default());
    let fast = found(
        &pairs,
        Find::MinHbm,
        &Limits {
            tpot_p99: Some(0.010),
            ..Limits::default()
        },
    );
    let (all, fast) = (&all.rows[0], &fast.rows[0]);
    assert_eq!(all.limited_by, "policy-least");
    assert_eq!(fast.limited_by, "tpot-p99");
    assert!(all.answer.unwrap() < fast.answer.unwrap());
    assert!(fast.best.as_ref().unwrap().tpot_p99_s.unwrap() <= 0.010);
    assert!(fast.next.as_ref().unwrap().tpot_p99_s.unwrap() > 0.010);
    assert!(fast.best.as_ref().unwrap().ddr_peak_bytes.unwrap() > 0);
}

/// A rate a hundredth higher breaks the limit; the price of a million tokens is the hour's over what an hour makes.
#[test]
fn max_rate_and_what_it_costs() {
    let pairs = [
        &SHORT[..],
        &[
            ("arrivals", "poisson:1"),
            ("requests", "120"),
            ("batch", "64"),
        ],
    ]
    .concat();
    let limits = Limits {
        ttft_p99: Some(0.4),
        price: Some(3.6),
        ..Limits::default()
    };
    let s = found(&pairs, Find::MaxRate, &limits);
    let row = &s.rows[0];
    let (best, next) = (row.best.as_ref().unwrap(), row.next.as_ref().unwrap());
    assert!(best.keeps && !next.keeps);
    assert!(
        (next.value / best.value - 1.01).abs() < 0.002,
        "{} {}",
        best.value,
        next.value
    );
    // The rate as said is what runs.
    let rate = format!("poisson:{}", best.value);
    let flags = [
        &SHORT[..],
        &[
            ("arrivals", rate.as_str()),
            ("requests", "120"),
            ("batch", "64"),
        ],
    ]
    .concat();
    let out = simulate(&base(&flags)).unwrap().serving.unwrap();
    let off = out.ttft.p99_s.unwrap() / best.ttft_p99_s.unwrap() - 1.0;
    assert!(off.abs() < 1e-6, "{off}");
    // 3.6 USD an hour is a thousandth a second.
    let cost = 0.001 / best.output_tokens_per_s.unwrap() * 1e6;
    assert!((row.usd_per_million_output_tokens.unwrap() / cost - 1.0).abs() < 1e-12);
}

/// Six requests over two seconds: no more than six slots are ever taken, and a budget of four tokens decodes four.
#[test]
fn max_batch_of_a_load_ends_with_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.csv");
    let line = |i: u32| format!("{},200,40\n", f64::from(i) * 0.4);
    let lines: String = (0..6).map(line).collect();
    std::fs::write(&file, format!("arrival_s,input_toks,output_toks\n{lines}")).unwrap();
    let path = file.to_str().unwrap();
    for (more, answer, word, part) in [
        (
            vec![("policy", "full")],
            6.0,
            "all-requests",
            "all 6 requests of the file, of which 1 at most",
        ),
        (
            vec![("policy", "full"), ("token-budget", "4")],
            4.0,
            "token-budget",
            "the 4 tokens of a step",
        ),
    ] {
        let pairs = [&[("arrivals", path)][..], &more].concat();
        let s = found(&pairs, Find::MaxBatch, &Limits::default());
        let row = &s.rows[0];
        assert_eq!(row.answer, Some(answer), "{row:?}");
        assert_eq!(row.limited_by, word);
        assert!(row.why.contains(part), "{}", row.why);
    }
    let at_once = [
        &SHORT[..],
        &[("arrivals", "all"), ("requests", "7"), ("policy", "full")],
    ]
    .concat();
    let s = found(&at_once, Find::MaxBatch, &Limits::default());
    assert_eq!(s.rows[0].answer, Some(7.0));
    let why = &s.rows[0].why;
    assert!(
        why.contains("all 7 requests of the load run at once; more slots change nothing"),
        "{why}"
    );
}

/// A limit a byte under what the answer's neighbour takes reads as another number.
#[test]
fn numbers_that_differ_read_apart() {
    let pairs = [&SHORT[..], &[("policy", "full")]].concat();
    let at = |batch: u32| {
        let out = simulate(&Scenario {
            batch,
            ..base(&pairs)
        });
        out.unwrap().memory.hbm_peak_bytes
    };
    let limits = Limits {
        max_hbm: Some(Bytes(at(9) - 1)),
        ..Limits::default()
    };
    let s = found(&pairs, Find::MaxBatch, &limits);
    let row = &s.rows[0];
    assert_eq!((row.answer, &row.limited_by[..]), (Some(8.0), "max-hbm"));
    let words: Vec<&str> = row.why.split_whitespace().collect();
    let gib = words
        .iter()
        .enumerate()
        .filter(|(_, w)| w.starts_with("GiB"));
    let shown: Vec<&str> = gib.map(|(i, _)| words[i - 1]).collect();
    let [used, most] = shown[..] else {
        panic!("{}", row.why)
    };
    assert!(used != most, "{}", row.why);
}

/// What a search sets is no flag beside it; a scenario file may say it, and is told.
#[test]
fn what_is_searched_is_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    std::fs::write(
        &file,
        "batch = 3\nprompt = 256\noutput = 64\ntrace = \"none\"\n",
    )
    .unwrap();
    let plan = |args: &[&str]| {
        let all = [
            &["plan", "--hardware", "h100-sxm", "--model", "llama-3.1-8b"],
            args,
        ]
        .concat();
        crate::binary::kvplan(&all)
    };
    for (args, flag) in [
        (&["--find", "max-batch", "--batch", "4"][..], "--batch"),
        (&["--find", "max-context", "--output", "900"], "--output"),
        (
            &[
                "--find",
                "max-rate",
                "--ttft-p99",
                "1s",
                "--arrivals",
                "poisson:3",
            ],
            "--arrivals",
        ),
        (
            &["--find", "min-hbm", "--policy", "four-tier:hbm=0.5"],
            "hbm=",
        ),
    ] {
        let (code, out, err) = plan(args);
        assert_eq!((code, out.len()), (2, 0), "{args:?}");
        assert!(
            err.contains("searches") && err.contains(&format!("leave {flag} out")),
            "{err}"
        );
    }
    let at = file.to_str().unwrap();
    let (code, out, err) = plan(&[
        at,
        "--find",
        "max-batch",
        "--tpot-p99",
        "9ms",
        "--format",
        "json",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("batch is what is searched: `3` has no effect on it"),
        "{out}"
    );
}

/// A limit on HBM is one more: it neither replaces the card's memory nor gives back what is reserved of it.
#[test]
fn more_hbm_than_there_is_allows_no_more() {
    let answer = |pairs: &[(&str, &str)], gib: Option<u64>| {
        let limits = Limits {
            max_hbm: gib.map(|g| Bytes(g << 30)),
            ..Limits::default()
        };
        let mut all = vec![SHORT[0], ("output", "8000"), ("policy", "full")];
        all.extend(pairs);
        let row = found(&all, Find::MaxBatch, &limits).rows.remove(0);
        (row.answer.unwrap(), row.limited_by)
    };
    let card = answer(&[], None);
    assert_eq!(card.1, "hbm-capacity");
    assert_eq!(answer(&[], Some(200)), card);
    let less = answer(&[], Some(50));
    assert!(less.0 < card.0 && less.1 == "max-hbm", "{less:?} {card:?}");
    let reserved = answer(&[("vram-reserve", "40GiB")], None);
    assert!(reserved.0 < less.0);
    assert_eq!(answer(&[("vram-reserve", "40GiB")], Some(60)), reserved);
}

/// With one slot requests wait for each other for seconds; with more they do not: the search begins where some keep. Every
/// number of slots by `simulate`.
#[test]
fn slots_that_shorten_the_line_are_found() {
    let load = [
        SHORT[0],
        SHORT[1],
        ("arrivals", "poisson:4"),
        ("requests", "24"),
        ("policy", "full"),
    ];
    let ttft = |batch: u32| {
        let out = simulate(&Scenario {
            batch,
            ..base(&load)
        });
        out.unwrap().serving.unwrap().ttft.p99_s.unwrap()
    };
    let limit = 1.0001 * ttft(12);
    assert!(ttft(1) > limit);
    let keep: Vec<u32> = (1..=24).filter(|b| ttft(*b) <= limit).collect();
    let limits = Limits {
        ttft_p99: Some(limit),
        ..Limits::default()
    };
    let row = found(&load, Find::MaxBatch, &limits).rows.remove(0);
    assert_eq!(row.answer, keep.last().map(|b| f64::from(*b)), "{keep:?}");
    assert_eq!(row.limited_by, "all-requests");
    // A limit that nobody can keep says so of all that were tried.
    let never = Limits {
        ttft_p99: Some(1e-5),
        ..Limits::default()
    };
    let row = found(&load, Find::MaxBatch, &never).rows.remove(0);
    assert_eq!(row.answer, None);
    assert!(row.why.contains("nor does any larger one"), "{}", row.why);
}

#[test]
fn the_command_answers_and_refuses() {
    let run = |args: &[&str]| {
        let base = [
            "plan",
            "--model",
            "llama-3.1-8b",
            "--weights",
            "bf16",
            "--trace",
            "none",
            "--prompt",
            "256",
            "--output",
            "256",
        ];
        Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args(base)
            .args(args)
            .output()
            .unwrap()
    };
    let out = run(&[
        "--find",
        "max-batch",
        "--tpot-p99",
        "<=12ms",
        "--hardware",
        "h100-sxm,h100-pcie",
    ]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("limited by tpot-p99"), "{text}");
    assert!(text.contains("2.19 USD per GPU and hour"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100));
    let none = run(&[
        "--find",
        "max-batch",
        "--tpot-p99",
        "0.1ms",
        "--hardware",
        "h100-sxm",
    ]);
    assert_eq!(none.status.code(), Some(1));
    for wrong in [
        &["--find", "max-rate", "--hardware", "h100-sxm"][..],
        &["--find", "max-batch", "--tpot-p99", "fast"],
        &["--find", "everything"],
        &["--tpot-p99", "30ms"],
        &["--arrivals", "poisson:2"],
        &["--find", "min-hbm", "--policy", "full"],
    ] {
        let out = run(wrong);
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
        assert!(out.stdout.is_empty());
    }
}
