//! The page answers with the numbers and the texts of the command line.

use crate::web_support::{Served, cli, difference, flags};

/// Settings as a link has them, each a corner of its own.
const QUERIES: [&str; 8] = [
    "hardware=h200-sxm",
    "hardware=gh200&policy=four-tier:hbm=0.35",
    "hardware=gh200&t1=direct&batch=12&output=9000",
    "hardware=h100-sxm&t1=host-attention&kv=fp8&policy=four-tier:hbm=0.2,evict=0.4,semantics=cumulative",
    "model=llama-3.1-8b&hardware=rtx-4090&weights=bf16&batch=16&output=4000",
    "hardware=h100-sxm&gpus=2&t1=selective:top-k=512",
    "hardware=h100-sxm,a100-sxm-80gb&gpus=1,2&prompt=200&output=2000",
    "model=llama-3.1-8b&hardware=rtx-4090&weights=q4_k_m&runtime=llama.cpp&trace=none",
];

fn printed(verb: &str, query: &str) -> (i32, String, String) {
    let flags = flags(query);
    let mut args = vec![verb, "--quiet", "--format", "json"];
    args.extend(flags.iter().map(String::as_str));
    cli(&args)
}

#[test]
fn the_plan_of_the_page_is_that_of_the_command_line() {
    let served = Served::start();
    for query in QUERIES {
        let reply = served.get(&format!("/api/plan?{query}"));
        let (_, text, _) = printed("plan", query);
        assert_eq!(reply.status, 200, "{query}: {}", reply.body);
        let here = serde_json::from_str(&text).unwrap();
        assert_eq!(difference(&reply.json(), &here, query), None);
        assert_eq!(reply.body, text, "{query}");
    }
}

#[test]
fn the_curve_of_the_page_is_a_sweep_of_the_command_line() {
    let served = Served::start();
    let query = "hardware=gh200&output=6000&vary=t1=stream,staged,host-attention&vary=policy.hbm=fit,0,0.2,1";
    let reply = served.get(&format!("/api/sweep?{query}"));
    let (_, text, _) = printed("sweep", query);
    let here = serde_json::from_str(&text).unwrap();
    assert_eq!(difference(&reply.json(), &here, "sweep"), None);
    assert_eq!(reply.body, text);
    assert_eq!(reply.json()["cells"].as_array().unwrap().len(), 12);
}

/// The scenario that the page gives away, planned: the same answer, though its settings are now a file's.
#[test]
fn the_scenario_of_the_page_gives_the_same_answer() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    for query in QUERIES {
        let reply = served.get(&format!("/download/scenario.toml?{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.body);
        let name = reply.header("content-disposition").unwrap();
        assert_eq!(name, "attachment; filename=\"scenario.toml\"");
        std::fs::write(&file, &reply.body).unwrap();
        let args = [
            "plan",
            file.to_str().unwrap(),
            "--quiet",
            "--format",
            "json",
        ];
        let (_, text, error) = cli(&args);
        assert_eq!(error, "", "{query}");
        let again: serde_json::Value = serde_json::from_str(&text).unwrap();
        let asked = served.get(&format!("/download/plan.json?{query}")).json();
        for key in ["rows", "verdict"] {
            assert_eq!(difference(&asked[key], &again[key], key), None, "{query}");
        }
    }
}

#[test]
fn the_report_of_the_page_is_that_of_the_command_line() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let query = QUERIES[1];
    let plan = served.get(&format!("/download/plan.json?{query}")).body;
    std::fs::write(path("plan.json"), plan).unwrap();
    let (code, _, error) = cli(&[
        "report",
        &path("plan.json"),
        "-o",
        &path("report.html"),
        "--quiet",
    ]);
    assert_eq!(code, 0, "{error}");
    let reply = served.get(&format!("/download/report.html?{query}"));
    assert_eq!(
        reply.header("content-disposition").unwrap(),
        "attachment; filename=\"report.html\""
    );
    assert!(reply.body == std::fs::read_to_string(path("report.html")).unwrap());
}

/// What cannot be asked is refused in the words of the command line, with the way out and its exit code.
#[test]
fn a_wrong_setting_has_the_command_lines_text() {
    let served = Served::start();
    let wrong = [
        "model=llama-3.1-8",
        "hardware=h2000",
        "runtime=vlm",
        "batch=0",
        "batch=many",
        "output=1e99",
        "weights=fp7",
        "kv=fp61",
        "t1=streaming",
        "home=moon",
        "policy=four-tier:evict=0.4",
        "policy=five-tier",
        "policy=four-tier:hbm=2",
        "gpus=3",
        "hardware=gh200&gpus=2",
        "split=3",
        "overlap=serial&depth=4",
        "policy=full&layout=token",
        "memory-fraction=0",
        "batch=",
    ];
    for query in wrong {
        let reply = served.get(&format!("/api/plan?{query}"));
        assert_eq!(reply.status, 422, "{query}: {}", reply.body);
        let (code, out, error) = printed("plan", query);
        let (message, help) = reply.error();
        assert_eq!(code, 2, "{query}");
        assert_eq!(out, "");
        assert_eq!(reply.json()["error"]["exit_code"], 2);
        let expected = match help.as_str() {
            "" => format!("error: {message}\n"),
            _ => format!("error: {message}\n  help: {help}\n"),
        };
        assert_eq!(expected, error, "{query}");
    }
}

/// What is no question at all.
#[test]
fn a_malformed_query_is_told_what_is_wrong() {
    let served = Served::start();
    for (query, word, way) in [
        ("bach=8", "unknown setting `bach`", "did you mean `batch`?"),
        (
            "zzzzzzzz=1",
            "unknown setting `zzzzzzzz`",
            "the settings are model, ",
        ),
        ("batch=8&batch=9", "`batch` is given twice", "give it once"),
        (
            "weights-in-ddr=0.3",
            "a way of its own",
            "`kvplan simulate` takes",
        ),
        ("vary=zone=1", "zone", ""),
    ] {
        let path = if query.starts_with("vary") {
            "sweep"
        } else {
            "plan"
        };
        let reply = served.get(&format!("/api/{path}?{query}"));
        let (message, help) = reply.error();
        assert!(
            [400, 422].contains(&reply.status),
            "{query}: {}",
            reply.body
        );
        assert!(message.contains(word), "{message}");
        assert!(help.contains(way), "{help}");
    }
    for query in [
        "vary=model=llama-3.1-8b,qwen3-8b",
        "vary=batch=1,2",
        "vary=trace=none",
    ] {
        let reply = served.get(&format!("/api/sweep?hardware=gh200&{query}"));
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert!(reply.error().0.contains("does not vary here"), "{query}");
    }
    let reply = served.get("/api/sweep?hardware=gh200");
    assert!(reply.error().0.contains("nothing varies"), "{}", reply.body);
}

/// The choices are what the command line takes: every one of them is answered.
#[test]
fn every_choice_is_one_that_the_command_line_takes() {
    let served = Served::start();
    let choices = served.get("/api/choices").json();
    let ids = |key: &str| -> Vec<String> {
        let list = choices[key].as_array().unwrap().iter();
        let id = |v: &serde_json::Value| v["id"].as_str().or(v.as_str()).unwrap().to_string();
        list.map(id).collect()
    };
    for (key, count) in [
        ("models", 40),
        ("hardware", 25),
        ("runtimes", 2),
        ("weights", 9),
        ("kv", 5),
    ] {
        assert!(ids(key).len() >= count, "{key}: {}", ids(key).len());
    }
    for (setting, key) in [
        ("hardware", "hardware"),
        ("kv", "kv"),
        ("runtime", "runtimes"),
    ] {
        for id in ids(key) {
            let asked = match setting {
                "hardware" => format!("hardware={id}"),
                _ => format!("hardware=gh200&{setting}={id}"),
            };
            let reply = served.get(&format!("/api/plan?{asked}&trace=none&output=500"));
            assert_eq!(reply.status, 200, "{id}: {}", reply.body);
        }
    }
    for id in ids("models") {
        let asked =
            format!("model={id}&weights=bf16&hardware=b300-sxm&trace=none&output=500&batch=1");
        let reply = served.get(&format!("/download/scenario.toml?{asked}"));
        assert_eq!(reply.status, 200, "{id}: {}", reply.body);
    }
}
