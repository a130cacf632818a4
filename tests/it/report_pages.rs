//! Results as pages: complete, in order, within the width. The figures of the fixtures are made up, for layout only.

use kvplan::metrics::Outcome;
use kvplan::plan::answer::Plan;
use kvplan::report::document::source::{Saved, Source};
use kvplan::report::formulas::{Formula, OUTCOME, ROW, SERVING, SOLVED, SOME};
use kvplan::report::{Style, csv, document, explain, html, json, md, table};
use serde_json::Value;

const PLAN: &str = include_str!("fixtures/plan.json");
const OUTCOME_JSON: &str = include_str!("fixtures/outcome.json");
const NO_FIT: &str = include_str!("fixtures/no-fit.json");

fn plan() -> Plan {
    serde_json::from_str(PLAN).unwrap()
}

fn outcome(text: &str) -> Outcome {
    serde_json::from_str(text).unwrap()
}

fn pages() -> Vec<String> {
    vec![
        table::plan(&plan(), Style::default()),
        table::outcome(&outcome(OUTCOME_JSON), Style::default()),
        table::outcome(&outcome(NO_FIT), Style::default()),
    ]
}

#[test]
fn pages_keep_within_100_columns_without_trailing_blanks() {
    for line in pages().iter().flat_map(|p| p.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line, line.trim_end());
        assert!(
            !line.contains('\u{1b}'),
            "escape code without colour: {line}"
        );
    }
}

#[test]
fn colour_adds_codes_and_no_words() {
    let strip = |text: &str| {
        let mut out = String::new();
        let mut rest = text;
        while let Some((head, tail)) = rest.split_once('\u{1b}') {
            out.push_str(head);
            rest = tail.split_once('m').unwrap().1;
        }
        out + rest
    };
    let colored = table::plan(&plan(), Style { color: true });
    assert_ne!(colored, pages()[0]);
    assert_eq!(strip(&colored), pages()[0]);
}

#[test]
fn an_answer_comes_in_the_order_in_which_one_decides() {
    let sections = [
        "QUESTION",
        "VERDICT",
        "BY CARD",
        "HOW SURE",
        "WHERE THE MEMORY GOES",
        "DOES TIERING PAY?",
        "IF NOT IN LOCKSTEP",
        "QUALITY",
        "WHAT RUNS IT TODAY",
        "WHAT THE NUMBERS REST ON",
        "WHAT WOULD FLIP THE VERDICT",
        "EXPECTED ERROR",
    ];
    let page = &pages()[0];
    let places: Vec<usize> = sections
        .iter()
        .map(|s| {
            page.find(&format!("\n{s}"))
                .or_else(|| page.starts_with(s).then_some(0))
                .unwrap()
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// The verdict counts the draws in which a card stays ahead of the others, the column those in which a way stays the best of its
/// card: where both stand, the page says which is which, and of one card nothing about others.
#[test]
fn what_stays_best_of_what_is_said_in_every_form() {
    let several = plan();
    let mut one = plan();
    one.rows.truncate(1);
    for (plan, others) in [(several, true), (one, false)] {
        let text = json::pretty(&plan).unwrap();
        let source = Source::of("p.json".into(), &text, Saved::Plan(Box::new(plan.clone())));
        let document = document::document(&[source]);
        for page in [
            table::plan(&plan, Style::default()),
            md::plan(&plan),
            md::document(&document),
            html::render(&document).unwrap(),
        ] {
            let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
            let at = page.find("STAYS BEST: draws in which no other way that runs today is faster");
            assert!(at.is_some(), "{page}");
            assert_eq!(
                page.contains("stays ahead of the others is said with the verdict"),
                others
            );
        }
        let mut undrawn = plan;
        undrawn.draws = None;
        undrawn.rows.iter_mut().for_each(|r| r.in_draws = None);
        assert!(!md::plan(&undrawn).contains("STAYS BEST"));
    }
}

/// The row of the H100 in the fixture: all in HBM does not fit, the engine preempts at 46, streaming gives 25.3, staged
/// 25.1, host attention 74.2, the best that runs today is fp8 KV at 92; 2,212 tokens a request, 35.3 GiB short.
#[test]
fn a_card_is_one_row_with_every_figure() {
    let page = &pages()[0];
    let row = page
        .lines()
        .find(|l| l.trim_start().starts_with("h100-sxm  "))
        .unwrap();
    let cells: Vec<&str> = row
        .split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect();
    assert_eq!(
        cells,
        [
            "h100-sxm",
            "2,212",
            "35.3",
            "no fit",
            "46.0 *",
            "25.3",
            "25.1",
            "74.2",
            "92.0 fp8 KV, preempts"
        ]
    );
}

#[test]
fn what_does_not_fit_says_by_how_much_and_what_would() {
    let page = &pages()[2];
    assert!(
        page.contains("Does not fit: 35.3 GiB of HBM missing"),
        "{page}"
    );
    assert!(page.contains("--gpus 2: peak 109 GiB of 150 GiB"));
    assert!(!page.contains("SPEED"), "no speed of what cannot run");
}

#[test]
fn a_policy_that_destroys_says_so_with_its_caveat() {
    let page = &pages()[1];
    assert!(page.contains("3.00 % of the generated tokens are destroyed"));
    assert!(page.contains("it is not accuracy"));
    assert!(page.contains("smollm2-135m-gsm8k-17"));
}

#[test]
fn a_command_over_several_lines_is_one_command_for_a_shell() {
    let page = &pages()[0];
    let from = page.find("    vllm serve").unwrap();
    let command: String = page[from..]
        .lines()
        .take(2)
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("\n");
    let joined = command.replace(" \\\n", " ");
    let asked = plan().rows[0].alternatives[3].runs_in[0].command.clone();
    assert_eq!(joined, asked);
}

#[test]
fn markdown_says_what_the_terminal_says() {
    let (page, document) = (&pages()[0], md::plan(&plan()));
    let words = |t: &str| -> Vec<String> {
        let mut words: Vec<String> = t
            .to_lowercase()
            .split(|c: char| !(c.is_alphanumeric() || c == '.'))
            .filter(|w| w.chars().any(char::is_alphanumeric) && *w != "sh")
            .map(String::from)
            .collect();
        words.sort();
        words
    };
    assert_eq!(words(page), words(&document));
    assert_eq!(
        document.matches("\n## ").count(),
        page.lines()
            .filter(|l| !l.is_empty() && !l.starts_with(' '))
            .count()
            - 1
    );
}

#[test]
fn json_survives_reading_back() {
    let text = json::pretty(&plan()).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan());
    assert!(text.starts_with("{\n  \"schema\": \"kvplan/plan/1\""));
}

fn leaves(text: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(text).unwrap();
    let skip = ["assumptions[", "notes[", "changes[", "depends_on_trace["];
    explain::keys(&value)
        .into_iter()
        .filter(|k| !skip.iter().any(|s| k.starts_with(s)))
        .collect()
}

#[test]
fn csv_has_a_column_for_every_figure() {
    let mut columns: Vec<&str> = csv::OUTCOME_COLUMNS.to_vec();
    columns.sort_unstable();
    let mut leaves = leaves(OUTCOME_JSON);
    leaves.sort();
    assert_eq!(columns, leaves);
}

#[test]
fn csv_reads_back_with_the_values_of_the_json() {
    let text = csv::plan(&plan()).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let alternatives: usize = plan().rows.iter().map(|r| r.alternatives.len()).sum();
    assert_eq!(rows.len(), alternatives);
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    assert_eq!(&rows[1][column("throughput.output_tokens_per_s")], "46.0");
    assert_eq!(
        &rows[0][column("throughput.output_tokens_per_s")],
        "",
        "what does not exist is empty, not 0"
    );
    assert_eq!(&rows[0][column("memory.kv_full_bytes")], "42949672960");
}

#[test]
fn every_figure_can_be_explained() {
    let words = [
        "schema",
        "kvplan_version",
        "model",
        "hardware",
        "gpus",
        "runtime",
        "batch",
        "prompt_tokens",
        "output_tokens",
        "weights",
        "kv",
        "policy",
        "t1_mode",
        "overlap",
        "occupancy",
        "seed",
        "trace.name",
        "trace.recorded_model",
        "bound_by",
    ];
    let missing: Vec<String> = leaves(OUTCOME_JSON)
        .into_iter()
        .filter(|k| !words.contains(&k.as_str()) && !OUTCOME.iter().any(|f| f.key == k))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Every figure of every alternative has a page with its formula, and what it rests on is there with its source.
#[test]
fn every_figure_of_every_alternative_of_a_plan_can_be_explained() {
    let plan = asked(&[
        "plan",
        "--hardware",
        "h100-sxm,gh200,rtx-pro-6000",
        "--trace",
        "none",
    ]);
    let mut seen = 0;
    for key in explain::keys(&plan) {
        let Some((row, inner)) = key.strip_prefix("rows[").and_then(|k| k.split_once("].")) else {
            continue;
        };
        let figure = inner
            .split_once("].")
            .filter(|_| inner.starts_with("alternatives["));
        let value = explain::find(&plan, &key).unwrap();
        let names = [
            "assumptions[",
            "scenario.",
            "changes[",
            "runs_in[",
            "notes[",
            "swings",
            "tornado",
        ];
        let within = figure.map_or(inner, |f| f.1);
        if !value.is_number() || names.iter().any(|n| within.contains(n)) || within == "gpus" {
            continue;
        }
        let words = ["batch", "prompt_tokens", "output_tokens", "seed", "gpus"];
        if words.contains(&within) {
            continue;
        }
        let page = table::render(&explain::page(&plan, &key), Style::default());
        assert!(page.contains("FORMULA"), "{row}: {key}:\n{page}");
        let tables: &[&[Formula]] = if figure.is_some() {
            &[OUTCOME, SOME]
        } else {
            &[ROW]
        };
        let formula = tables.iter().copied().flatten().find(|f| f.key == within);
        let rests = formula.map_or(&[][..], |f| f.rests);
        // Numbers that every run has; others are there where their path is taken (pages, a second GPU).
        let always = ["memory", "kernel", "reserve", "pinned", "link"];
        let numbers = !always.iter().any(|a| rests.contains(a));
        let numbers = numbers || page.contains("NUMBERS BEHIND IT");
        assert!(numbers, "{key}:\n{page}");
        let link = !rests.contains(&"link") || page.contains("link.h2d");
        assert!(link, "{key} lacks its link:\n{page}");
        seen += 1;
    }
    assert!(seen > 1000, "{seen}");
}

/// What the binary answers, as JSON.
fn asked(args: &[&str]) -> Value {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .args(["--format", "json"])
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

#[rustfmt::skip] // one question a line
const UNDER_LOAD: &[&str] = &["simulate", "--arrivals", "poisson:2", "--requests", "8", "--policy", "full", "--slo", "ttft=1s"];
#[rustfmt::skip]
const SEARCH: &[&str] = &["plan", "--find", "max-batch", "--tpot-p99", "40ms", "--hardware", "h200-sxm", "--trace", "none", "--output", "900"];

#[rustfmt::skip]
const SOME_QUESTION: &[&str] = &["simulate", "--trace", "none", "--output", "900", "--weights-in-ddr", "0.3", "--length-factor", "1.5",
    "--policy", "four-tier:evict=0.5,semantics=cumulative,hbm=1"];

#[test]
fn every_figure_under_load_and_of_a_search_can_be_explained() {
    let load = asked(UNDER_LOAD);
    for key in explain::keys(&load)
        .iter()
        .filter(|k| k.starts_with("serving."))
    {
        let word = key == "serving.own_lengths" || key.starts_with("serving.unused_tiers");
        assert!(word || explain::explained(key, false), "{key}");
    }
    let page = |key: &str| {
        let page = explain::page(&load, key);
        table::render(&page, Style::default())
    };
    let ttft = page("serving.ttft.p99_s");
    assert!(ttft.contains("TTFT: the way to the engine"), "{ttft}");
    assert!(
        ttft.contains("serving.queued.mean_s") && ttft.contains("front"),
        "{ttft}"
    );
    assert!(page("serving.goodput_requests_per_s").contains("requests/s"));
    let row = &asked(SEARCH)["rows"][0];
    let words = ["hardware", "hardware_name", "gpus", "limited_by", "why"];
    for key in explain::keys(row) {
        assert!(
            words.contains(&key.as_str()) || explain::explained(&key, true),
            "{key}"
        );
    }
}

/// A formula may only name what a result has.
#[test]
fn formulas_name_keys_that_exist() {
    let result: Value = serde_json::from_str(PLAN).unwrap();
    let alternative = &result["rows"][0]["alternatives"][0];
    for f in OUTCOME {
        for key in f.values.iter().chain([&f.key]) {
            assert!(explain::find(alternative, key).is_some(), "{key}");
        }
    }
    let (load, search) = (asked(UNDER_LOAD), asked(SEARCH));
    for f in SERVING {
        for key in f.values.iter().chain([&f.key]) {
            assert!(explain::find(&load, key).is_some(), "{key}");
        }
    }
    let some = asked(SOME_QUESTION);
    for f in SOME {
        for key in f.values.iter().chain([&f.key]) {
            assert!(explain::find(&some, key).is_some(), "{key}");
        }
    }
    for f in SOLVED {
        for key in f.values.iter().chain([&f.key]) {
            assert!(explain::find(&search["rows"][0], key).is_some(), "{key}");
        }
    }
    for f in ROW {
        for key in f.values.iter().chain([&f.key]) {
            assert!(explain::find(&result["rows"][0], key).is_some(), "{key}");
        }
    }
}
