//! The report as a file: complete, escaped, self-contained, well formed, the same bytes; and refused input by name.

use std::path::Path;
use std::process::{Command, Output};

use kvplan::cli::saved;
use kvplan::report::document::source::{Saved, Source};
use kvplan::report::document::{Document, document};
use kvplan::report::{html, md};
use proptest::prelude::*;
use serde_json::Value;

const PLAN: &str = include_str!("fixtures/plan.json");
const OUTCOME: &str = include_str!("fixtures/outcome.json");
const NO_FIT: &str = include_str!("fixtures/no-fit.json");

fn source(name: &str, text: &str) -> Source {
    saved::parsed(name, name.into(), text).unwrap()
}

fn page(sources: &[Source]) -> String {
    html::render(&document(sources)).unwrap()
}

fn kvplan(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Elements that have no end.
const EMPTY: [&str; 4] = ["meta", "input", "br", "!DOCTYPE"];

/// Every tag is closed in order; returns the tags. Scripts and styles hold no `<`.
fn tags(page: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::<String>::new(), Vec::new());
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        if tag.starts_with(' ') || tag.starts_with('=') {
            continue; // a comparison in the script
        }
        let name = tag.split([' ', '\n', '/']).find(|n| !n.is_empty()).unwrap();
        if let Some(end) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(end), "before {piece:.60}");
        } else {
            seen.push(tag.to_string());
            if !EMPTY.contains(&name) {
                open.push(name.to_string());
            }
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    seen
}

/// Well formed, and no figure that is none.
fn is_sound(page: &str) {
    for tag in tags(page) {
        for (name, value) in tag
            .split("=\"")
            .map(|p| p.rsplit([' ', '"']).next().unwrap())
            .zip(tag.split("=\"").skip(1))
        {
            let value = value.split('"').next().unwrap();
            if [
                "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "points", "d",
            ]
            .contains(&name)
            {
                assert!(!value.contains("NaN") && !value.contains("inf"), "{tag}");
            }
        }
    }
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// The CSV behind a table, out of its link.
fn csv(page: &str, name: &str) -> Vec<Vec<String>> {
    let at = page.find(&format!("download=\"{name}.csv\"")).expect(name);
    let link = page[at..].split("charset=utf-8,").nth(1).unwrap();
    let coded = link.split('"').next().unwrap().as_bytes();
    let (mut bytes, mut i) = (Vec::new(), 0);
    while i < coded.len() {
        if coded[i] == b'%' {
            let hex = std::str::from_utf8(&coded[i + 1..i + 3]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            i += 3;
        } else {
            bytes.push(coded[i]);
            i += 1;
        }
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(&bytes[..]);
    reader
        .records()
        .map(|r| r.unwrap().iter().map(String::from).collect())
        .collect()
}

#[test]
fn sections_come_in_the_order_in_which_one_decides() {
    let page = page(&[source("plan.json", PLAN)]);
    is_sound(&page);
    let order = [
        "<h1>",
        "class=\"verdict good\"",
        ">By card<",
        ">Where the memory goes<",
        ">Throughput against HBM<",
        ">Where a step goes<",
        ">Tier occupancy<",
        ">Every way to run it<",
        ">What would flip the verdict<",
        ">What runs it today<",
        ">What the numbers rest on<",
        ">How to make it again<",
    ];
    let main = |text: &str| {
        let heads = page.match_indices(text);
        heads.map(|(i, _)| i).find(|i| {
            !page[..*i].ends_with("</a>")
                && page[..*i]
                    .rfind("<a ")
                    .is_none_or(|a| page[a..*i].contains("</a>"))
        })
    };
    let places: Vec<usize> = order
        .iter()
        .map(|t| main(t).unwrap_or_else(|| panic!("{t}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    let plan: Value = serde_json::from_str(PLAN).unwrap();
    let sentence = plan["verdict"]["sentence"].as_str().unwrap();
    assert!(unescaped(&page).contains(sentence));
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = page(&[source("plan.json", PLAN), source("o.json", OUTCOME)]);
    for word in [
        "http://",
        "https://",
        "@import",
        "url(",
        " src=",
        "<link",
        "<img",
        "fetch(",
        "XMLHttpRequest",
        "localStorage",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("<script").count(), 1);
}

#[test]
fn every_figure_has_words_and_every_mark_its_value() {
    let page = page(&[source("plan.json", PLAN)]);
    let figures: Vec<&str> = page
        .split("<figure")
        .skip(1)
        .map(|f| f.split("</figure>").next().unwrap())
        .collect();
    assert!(figures.len() >= 4);
    for f in figures {
        assert!(
            f.contains("<figcaption>")
                && f.contains("aria-describedby")
                && f.contains("data:text/csv")
        );
        for svg in f.split("<svg").skip(1) {
            let head = svg.split('>').next().unwrap();
            assert!(
                head.contains("aria-label=") || head.contains("aria-hidden=\"true\""),
                "{head}"
            );
        }
        for mark in f.split("class=\"mark").skip(1) {
            let head = mark.split('>').next().unwrap();
            assert!(
                head.contains("data-tip=") && head.contains("aria-label="),
                "{head}"
            );
        }
    }
}

#[test]
fn tables_hold_the_exact_values_of_the_result() {
    let page = page(&[source("plan.json", PLAN)]);
    let plan: Value = serde_json::from_str(PLAN).unwrap();
    let table = csv(&page, "ways");
    let at = |key: &str| table[0].iter().position(|h| h == key).unwrap();
    let (rate, peak) = (at("output_tokens_per_s"), at("hbm_peak_bytes"));
    let ways: Vec<&Value> = plan["rows"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r["alternatives"].as_array().unwrap())
        .collect();
    assert_eq!(table.len(), ways.len() + 1);
    for (row, way) in table[1..].iter().zip(ways) {
        assert_eq!(row[peak], way["memory"]["hbm_peak_bytes"].to_string());
        match way["throughput"]["output_tokens_per_s"].as_f64() {
            Some(v) => assert_eq!(row[rate].parse::<f64>().unwrap().to_bits(), v.to_bits()),
            None => assert_eq!(row[rate], ""),
        }
    }
    let sources = csv(&page, "assumptions");
    assert!(sources.len() > 3 && sources[0].contains(&"reference".to_string()));
}

/// Texts that would be markup, put in place of every name.
fn hostile(value: &mut Value) {
    match value {
        Value::String(s)
            if !s.starts_with("kvplan/")
                && !["measured", "datasheet", "published", "assumed"].contains(&s.as_str()) =>
        {
            s.push_str("<script>alert(1)</script>\"'&<img src=x onerror=y>|`*");
        }
        Value::Array(list) => list.iter_mut().for_each(hostile),
        Value::Object(map) => map.values_mut().for_each(hostile),
        _ => {}
    }
}

#[test]
fn names_are_never_markup() {
    for text in [PLAN, OUTCOME, NO_FIT] {
        let mut value: Value = serde_json::from_str(text).unwrap();
        hostile(&mut value);
        let made = source("<b>.json", &value.to_string());
        let page = page(std::slice::from_ref(&made));
        is_sound(&page);
        assert_eq!(
            page.matches("<script").count(),
            1,
            "only the page's own script"
        );
        assert!(!page.contains("<img") && !page.contains("<b>.json"));
        let text = md::document(&document(&[made]));
        let outside: String = text.split("```").step_by(2).collect();
        assert!(!outside.contains("<script") || outside.contains("\\<script"));
        assert!(
            outside
                .match_indices("<script")
                .all(|(i, _)| outside[..i].ends_with('\\'))
        );
    }
}

#[test]
fn the_same_results_give_the_same_bytes_wherever_they_lie() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut pages = Vec::new();
    for folder in [a.path(), b.path()] {
        std::fs::write(folder.join("plan.json"), PLAN).unwrap();
        let path = folder.join("plan.json");
        let out = kvplan(
            &["report", path.to_str().unwrap(), "-o", "report.html"],
            folder,
        );
        assert!(out.status.success() && out.stdout.is_empty());
        pages.push(std::fs::read(folder.join("report.html")).unwrap());
    }
    assert!(pages[0] == pages[1]);
}

/// A new user's two commands, and the same by way of a saved plan; the commands that the page names give its bytes again.
#[test]
fn a_report_needs_no_result_and_says_how_to_make_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    assert!(
        kvplan(&["report", "-o", "default.html"], here)
            .status
            .success()
    );
    assert!(
        kvplan(&["plan", "--format", "json", "-o", "plan.json"], here)
            .status
            .success()
    );
    assert!(
        kvplan(&["report", "plan.json", "-o", "saved.html"], here)
            .status
            .success()
    );
    let [one, two] =
        ["default.html", "saved.html"].map(|f| std::fs::read_to_string(here.join(f)).unwrap());
    assert!(
        one == two,
        "the default question planned in place is the one planned before"
    );
    is_sound(&one);
    let asked = [
        "plan",
        "--model",
        "llama-3.1-8b",
        "--weights",
        "bf16",
        "--hardware",
        "rtx-4090,l40s",
        "--batch",
        "16",
        "--format",
        "json",
        "-o",
        "p.json",
    ];
    assert!(kvplan(&asked, here).status.success());
    assert!(
        kvplan(&["report", "p.json", "-o", "p.html"], here)
            .status
            .success()
    );
    let page = std::fs::read_to_string(here.join("p.html")).unwrap();
    let again = page
        .split("id=\"again\"")
        .nth(1)
        .unwrap()
        .split("<code>")
        .nth(1)
        .unwrap()
        .split("</code>")
        .next()
        .unwrap();
    let commands: Vec<String> = unescaped(again).lines().map(String::from).collect();
    let words: Vec<&str> = commands[0].split(' ').skip(1).collect();
    let was = std::fs::read(here.join("p.json")).unwrap();
    assert!(kvplan(&words, here).status.success(), "{commands:?}");
    assert!(std::fs::read(here.join("p.json")).unwrap() == was);
    let words: Vec<&str> = commands[1]
        .split(" | ")
        .next()
        .unwrap()
        .split(' ')
        .skip(1)
        .collect();
    assert!(kvplan(&words, here).stdout == was, "{commands:?}");
}

#[test]
fn results_of_one_question_stand_side_by_side_and_others_apart() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let plan = |card: &str, file: &str, more: &[&str]| {
        let args = [
            &["plan", "--hardware", card, "--format", "json", "-o", file],
            more,
        ]
        .concat();
        assert!(kvplan(&args, here).status.success());
        saved::parsed(
            file,
            file.into(),
            &std::fs::read_to_string(here.join(file)).unwrap(),
        )
        .unwrap()
    };
    let (a, b) = (
        plan("h100-sxm", "a.json", &[]),
        plan("gh200", "b.json", &[]),
    );
    let both: Document = document(&[a.clone(), b]);
    assert_eq!((both.parts.len(), both.verdicts.len()), (1, 2));
    let cards = csv(&html::render(&both).unwrap(), "cards");
    let names: Vec<&str> = cards[1..].iter().map(|r| r[0].as_str()).collect();
    assert_eq!(names, ["h100-sxm", "gh200"]);
    let other = plan("gh200", "c.json", &["--batch", "4"]);
    let apart = document(&[a, other, source("o.json", OUTCOME)]);
    assert_eq!(apart.parts.len(), 3);
    let page = html::render(&apart).unwrap();
    is_sound(&page);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|p| p.split('"').next().unwrap())
        .collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "every id is there once");
}

#[test]
fn sweeps_searches_and_servers_have_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let made: [&[&str]; 3] = [
        &[
            "sweep",
            "--vary",
            "hardware=h100-sxm,gh200",
            "--vary",
            "batch=1,4,8",
            "--pareto",
            "--format",
            "json",
            "-o",
        ],
        &[
            "plan",
            "--find",
            "max-batch",
            "--tpot-p99",
            "60ms",
            "--hardware",
            "gh200",
            "--format",
            "json",
            "-o",
        ],
        &[
            "simulate",
            "--hardware",
            "h200-sxm",
            "--arrivals",
            "poisson:0.3",
            "--requests",
            "20",
            "--lengths",
            "servegen-r1",
            "--batch",
            "16",
            "--policy",
            "full",
            "--format",
            "json",
            "-o",
        ],
    ];
    for (args, words) in made.into_iter().zip([
        ["Every cell", "on the front"],
        ["Where it stops", "limited by"],
        ["Under load", "The server over time"],
    ]) {
        let out = kvplan(&[args, &["r.json"]].concat(), here);
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let out = kvplan(&["report", "r.json"], here);
        let page = String::from_utf8(out.stdout).unwrap();
        is_sound(&page);
        for word in words {
            assert!(page.contains(word), "{args:?}: {word}");
        }
        let text = String::from_utf8(kvplan(&["report", "r.json", "--format", "md"], here).stdout)
            .unwrap();
        assert!(text.starts_with("# ") && text.contains("| --- |"));
    }
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let write = |name: &str, text: &[u8]| std::fs::write(here.join(name), text).unwrap();
    write("empty.json", b"");
    write("cut.json", &PLAN.as_bytes()[..PLAN.len() / 2]);
    write("garbage.json", b"\x00\xff\xfe\x01garbage");
    write("list.json", b"[1, 2]");
    write(
        "nan.json",
        OUTCOME
            .replacen("\"seed\": 0", "\"seed\": NaN", 1)
            .as_bytes(),
    );
    write(
        "newer.json",
        PLAN.replacen("kvplan/plan/1", "kvplan/plan/2", 1)
            .as_bytes(),
    );
    write("eval.json", br#"{"schema": "kvplan/eval/1"}"#);
    write("bare.json", b"{}");
    write(
        "hole.json",
        OUTCOME.replacen("\"fits\"", "\"fist\"", 1).as_bytes(),
    );
    write("plan.json", PLAN.as_bytes());
    let cases: [(&[&str], i32, &[&str]); 12] = [
        (&["none.json"], 2, &["none.json", "help:"]),
        (&["."], 2, &["is a directory"]),
        (&["empty.json"], 3, &["empty.json", "cut off", "help:"]),
        (&["cut.json"], 3, &["cut.json", "cut off", "help:"]),
        (&["garbage.json"], 3, &["garbage.json", "not text"]),
        (&["list.json"], 3, &["list.json", "no JSON object"]),
        (&["nan.json"], 3, &["nan.json", "not JSON", "help:"]),
        (
            &["newer.json"],
            3,
            &[
                "newer.json",
                "kvplan/plan/2",
                "another version",
                "kvplan plan",
            ],
        ),
        (
            &["eval.json"],
            3,
            &[
                "eval.json",
                "kvplan/eval/1",
                "a report takes",
                "kvplan/plan/1",
            ],
        ),
        (&["bare.json"], 3, &["bare.json", "no `schema`"]),
        (&["hole.json"], 3, &["hole.json", "`fits`", "help:"]),
        (
            &["plan.json", "-o", "plan.json"],
            2,
            &["plan.json", "would replace", "-o"],
        ),
    ];
    for (args, code, words) in cases {
        let out = kvplan(&[&["report"], args].concat(), here);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        assert!(out.stdout.is_empty());
        for word in words {
            assert!(said.contains(word), "{args:?}: `{word}` is not in:\n{said}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(here.join("plan.json")).unwrap(),
        PLAN
    );
}

/// Paths of the leaves of a value.
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(i, v)| leaves(v, &format!("{path}/{i}"), out)),
        Value::Object(map) => map
            .iter()
            .for_each(|(k, v)| leaves(v, &format!("{path}/{k}"), out)),
        _ => out.push(path.into()),
    }
}

/// What a damaged or odd result may hold.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(Value::from(0)),
        Just(Value::from(-1)),
        Just(Value::from(u64::MAX)),
        Just(Value::from(i64::MIN)),
        Just(Value::from(1e308)),
        Just(Value::from(-1e308)),
        Just(Value::from(5e-324)),
        Just(Value::from("")),
        Just(Value::from("</script><svg onload=x>\u{0}\u{1b}[2J\n|")),
        Just(Value::from(true)),
        Just(Value::Array(Vec::new())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever one leaf is changed to, there is a sound page or an error that names the file and a way out.
    #[test]
    fn odd_values_never_break_a_page(which in 0..3usize, at in any::<prop::sample::Index>(), value in odd()) {
        let text = [PLAN, OUTCOME, NO_FIT][which];
        let mut tree: Value = serde_json::from_str(text).unwrap();
        let mut paths = Vec::new();
        leaves(&tree, "", &mut paths);
        let path: &String = at.get(&paths);
        *tree.pointer_mut(path).unwrap() = value;
        match saved::parsed("odd.json", "odd.json".into(), &tree.to_string()) {
            Ok(made) => {
                let page = html::render(&document(std::slice::from_ref(&made))).unwrap();
                is_sound(&page);
                prop_assert_eq!(page.matches("<script").count(), 1);
                prop_assert!(!md::document(&document(&[made])).is_empty());
            }
            Err(e) => prop_assert!(e.message.contains("odd.json") && e.help.is_some() && e.exit_code() == 3, "{}", e.message),
        }
    }

    /// A result cut off anywhere is refused, and says that it is.
    #[test]
    fn a_cut_result_is_refused(at in 0..OUTCOME.len() - 2) {
        let cut = &OUTCOME[..(0..=at).rev().find(|i| OUTCOME.is_char_boundary(*i)).unwrap()];
        let e = saved::parsed("cut.json", "cut.json".into(), cut).unwrap_err();
        prop_assert!(e.message.contains("cut.json") && e.help.is_some() && e.exit_code() == 3);
    }
}

#[test]
fn a_saved_result_keeps_its_hash() {
    // `printf '{}' | sha256sum` begins with 44136fa355b3678a; the hash is over the bytes as they were read.
    let made = source("o.json", OUTCOME);
    assert_eq!((made.sha256.len(), made.bytes), (64, OUTCOME.len() as u64));
    assert!(matches!(made.saved, Saved::Outcome(_)));
    assert_ne!(made.sha256, source("o.json", &format!("{OUTCOME} ")).sha256);
}
