//! `--occupancy FILE`: lengths from a file, what is refused, and a batch whose requests differ, by hand.

use std::path::Path;
use std::process::Command;

use kvplan::error::Cause;
use kvplan::plan::{plan, simulate};
use kvplan::report::document;
use kvplan::report::document::source::{Saved, Source};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Scenario, Settings, Verb, resolve};
use kvplan::workload::Lengths;
use proptest::prelude::*;

fn scenario(file: &Path, words: &str) -> Scenario {
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut settings = Settings::defaults(Verb::Simulate);
    settings.audit = true;
    let path = file.to_str().unwrap();
    for pair in [["trace", "none"], ["occupancy", path]]
        .iter()
        .map(|p| &p[..])
        .chain(words.chunks(2))
    {
        settings
            .set(pair[0], &[pair[1].to_string()], Origin::Flag)
            .unwrap();
    }
    resolve::scenario(&settings).unwrap()
}

fn set(settings: &mut Settings, pairs: &[(&str, &str)]) {
    for (name, text) in pairs {
        settings
            .set(name, &[(*text).to_string()], Origin::Flag)
            .unwrap();
    }
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn csv_and_json_lines_are_read_and_taken_in_turn() {
    let csv = "prompt,output\n# two requests\n100, 2000\n\n30,400\r\n";
    let json = "{\"prompt_tokens\": 100, \"output_tokens\": 2000, \"arrival\": 0.5}\n{\"output_tokens\":400,\"prompt_tokens\":30}";
    for text in [csv, json] {
        let l = Lengths::parse(text, "x").unwrap();
        assert_eq!(l.count(), 2);
        assert_eq!(
            [l.of(0), l.of(1), l.of(2), l.of(7)],
            [(100, 2000), (30, 400), (100, 2000), (30, 400)]
        );
    }
}

#[test]
fn hostile_lines_are_refused_with_their_number() {
    for (text, part) in [
        ("", "no request"),
        ("prompt,output\n", "no request"),
        ("1,2\n3", "line 2: 1 fields"),
        ("1,2,3", "line 1: 3 fields"),
        ("1,2\nprompt,output", "line 2"),
        ("1,0", "line 1: output 0 is out of range"),
        ("1,-5", "line 1"),
        ("1,99999999999999999999999", "line 1"),
        ("2000000,5", "line 1: prompt 2000000 is out of range"),
        ("1,nan", "line 1"),
        ("1,1e3", "line 1"),
        (
            "{\"prompt_tokens\": 5}",
            "line 1: `output_tokens` is missing",
        ),
        (
            "{\"prompt_tokens\": 5, \"output_tokens\": \"6\"}",
            "is no number",
        ),
        (
            "{\"prompt_tokens\": 5, \"output_tokens\": 1.5}",
            "is no number",
        ),
        ("{\"prompt_tokens\": ", "line 1"),
        ("[1,2]", "line 1"),
        (&format!("1,{}", "9".repeat(100_000)), "line 1"),
        (&"[".repeat(100_000), "line 1"),
        (&"1,1\n".repeat(65_537), "line 65537"),
    ] {
        let e = Lengths::parse(text, "x.csv").unwrap_err();
        assert!(e.cause == Cause::Data && e.message.contains(part), "{e}");
        assert!(e.message.len() < 300, "{}", e.message.len());
    }
    let folder = tempfile::tempdir().unwrap();
    for (bytes, part) in [
        (vec![b'1'; (4 << 20) + 1], "4 MiB"),
        (vec![0xff, 0xfe], "UTF-8"),
    ] {
        let path = folder.path().join("lengths.csv");
        std::fs::write(&path, bytes).unwrap();
        assert!(Lengths::read(&path).unwrap_err().message.contains(part));
    }
    for path in [
        folder.path().to_path_buf(),
        folder.path().join("absent.csv"),
    ] {
        assert_eq!(Lengths::read(&path).unwrap_err().cause, Cause::Usage);
    }
}

#[test]
fn equal_lengths_are_a_lockstep_batch() {
    let file = written("200,300\n200,300\n");
    let words = "model llama-3.1-8b weights int8 batch 5 hardware h100-sxm policy four-tier:hbm=0.3,interval=16";
    let listed = simulate(&scenario(file.path(), words)).unwrap();
    let mut alike = scenario(file.path(), words);
    (alike.lengths, alike.occupancy) = (None, kvplan::scenario::Occupancy::Lockstep);
    let lockstep = simulate(&alike).unwrap();
    assert_eq!(listed.occupancy, "listed");
    assert_eq!(listed.memory, lockstep.memory);
    assert_eq!(listed.throughput, lockstep.throughput);
    for (a, b) in [
        (listed.tiers.t0, lockstep.tiers.t0),
        (listed.tiers.t1, lockstep.tiers.t1),
    ] {
        assert!(
            (a.tokens_mean - b.tokens_mean).abs() < 1e-9
                && (a.tokens_end - b.tokens_end).abs() < 1e-9
        );
    }
    assert_eq!(listed.moves.retiers, lockstep.moves.retiers);
    assert!((listed.moves.demoted_total - lockstep.moves.demoted_total).abs() < 1e-9);
}

#[test]
fn requests_of_different_lengths_by_hand() {
    // Requests of (10, 5), (10, 3), (10, 5), (10, 3) tokens. Five steps; after three, two requests are left. Tokens held:
    // 4 x 13 = 52 at step 3, 2 x 15 = 30 at the end. Output: 16 tokens.
    let file = written("10,5\n10,3\n");
    let s = scenario(
        file.path(),
        "model llama-3.1-8b weights int8 batch 4 hardware h100-sxm policy full",
    );
    let out = simulate(&s).unwrap();
    assert_eq!(out.engine.steps, 5);
    assert_eq!(out.memory.kv_full_bytes, 52 * 131_072);
    assert_eq!((out.prompt_tokens, out.output_tokens), (10, 5));
    assert_eq!(s.all_tokens(), 2 * 15 + 2 * 13);
    let t = &out.throughput;
    let decode = t.makespan_s.unwrap() - t.prefill_s.unwrap();
    assert!((t.output_tokens_per_s.unwrap() * decode - 16.0).abs() < 1e-6);
    assert!((out.tiers.t0.tokens_end - 14.0).abs() < 1e-9);
    assert!(
        out.notes
            .iter()
            .any(|n| n.contains("outputs of 3 to 5, mean 4 tokens")),
        "{:?}",
        out.notes
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_fitted_budget_fits(
        lengths in prop::collection::vec((1u32..400, 1u32..700), 1..6),
        batch in 1u32..9,
        t1 in prop::sample::select(vec!["stream", "staged", "direct", "host-attention", "selective:top-k=50"]),
        room in 0.16f64..0.4,
    ) {
        let lines: Vec<String> = lengths.iter().map(|(p, o)| format!("{p},{o}")).collect();
        let text = lines.join("\n");
        let file = written(&text);
        let s = scenario(file.path(), &format!(
            "model smollm2-135m weights bf16 hardware rtx-5080 batch {batch} t1 {t1} memory-fraction {room} policy four-tier:hbm=fit,window=8,interval=16"
        ));
        let out = simulate(&s).unwrap();
        let spills = out.tiers.t1.tokens_end > 0.0;
        // It fits unless even the least the policy allows does not.
        prop_assert!(out.fits || spills, "{:?}", out.memory);
    }

    /// Outputs of many more re-tiers than there are moments looked at (256): the last interval of a request, cut short,
    /// holds less in HBM than the one before it.
    #[test]
    fn a_fitted_budget_fits_long_answers(
        lengths in prop::collection::vec((1u32..100, 1500u32..4000), 1..4),
        batch in 1u32..6,
        t1 in prop::sample::select(vec!["stream", "staged", "host-attention"]),
        share in 0.3f64..0.8,
    ) {
        let lines: Vec<String> = lengths.iter().map(|(p, o)| format!("{p},{o}")).collect();
        let file = written(&lines.join("\n"));
        let base = "model smollm2-135m weights bf16 hardware rtx-5080 policy four-tier:hbm=fit,window=8,interval=4";
        let mut s = scenario(file.path(), &format!("{base} batch {batch} t1 {t1}"));
        // Room for a share of what all would take: the rest moves, and the least that must stay is far below.
        let all = simulate(&s).unwrap().memory;
        let kv = all.kv_full_bytes as f64 * share;
        let fixed = all.weights_bytes + all.activation_bytes + all.reserve_bytes;
        let room = fixed as f64 + kv;
        s.deployment.memory_fraction = room / s.deployment.hardware.gpu.memory.get();
        let out = simulate(&s).unwrap();
        prop_assert!(out.tiers.t1.tokens_end > 0.0);
        prop_assert!(out.fits, "short by {} of {:?}", out.shortfall_bytes, out.memory);
    }
}

/// Found by use: 5 and 12 MiB over, since of 47 or 118 steps between two looks only the last interval counted.
#[test]
fn a_fitted_budget_fits_where_looks_are_far_apart() {
    for (output, interval) in [(11_995, 16), (30_001, 64)] {
        let file = written(&format!("100,{output}\n101,{output}\n"));
        let s = scenario(
            file.path(),
            &format!("batch 32 hardware h200-sxm policy four-tier:hbm=fit,interval={interval}"),
        );
        let out = simulate(&s).unwrap();
        assert!(out.fits, "{output}: short by {}", out.shortfall_bytes);
        // Nor is room left for a token more each.
        let spare = out.memory.hbm_capacity_bytes - out.memory.hbm_peak_bytes;
        assert!(spare < 64 * 32 * 327_680, "{spare}");
    }
}

/// Weights make as much room as the pages of a recording moved to other prompts take: at most a page begun a request.
#[test]
fn a_fitted_share_of_weights_fits_whole_pages() {
    let file = written("1261,700\n1823,15595\n423,3515\n1445,8503\n2551,6041\n");
    let mut settings = Settings::defaults(Verb::Plan);
    set(
        &mut settings,
        &[
            ("occupancy", file.path().to_str().unwrap()),
            ("hardware", "h100-sxm"),
            ("batch", "8"),
            ("compact", "none"),
            ("intervals", "none"),
        ],
    );
    let answer = plan(&resolve::question(&settings).unwrap()).unwrap();
    let ways = &answer.rows[0].alternatives;
    let streamed = ways.iter().find(|a| a.name == "weights-in-ddr").unwrap();
    assert!(streamed.starts, "{:?}", streamed.remark);
    // A way that lacks host memory says so: 40 x 8,000 tokens of 128 KiB are 39 GiB, of which 32 GiB may be pinned.
    let file = written("100,8000\n");
    set(
        &mut settings,
        &[
            ("occupancy", file.path().to_str().unwrap()),
            ("hardware", "rtx-4090"),
            ("model", "llama-3.1-8b"),
            ("weights", "bf16"),
            ("batch", "40"),
        ],
    );
    let answer = plan(&resolve::question(&settings).unwrap()).unwrap();
    let ways = &answer.rows[0].alternatives;
    let spill = ways.iter().find(|a| a.name == "stream").unwrap();
    let remark = spill.remark.as_deref().unwrap();
    assert!(remark.ends_with("GiB of host memory"), "{remark}");
}

#[test]
fn plan_takes_a_file_and_has_no_steady_state() {
    let file = written("200,3000\n100,500\n");
    let mut settings = Settings::defaults(Verb::Plan);
    set(
        &mut settings,
        &[
            ("occupancy", file.path().to_str().unwrap()),
            ("hardware", "h100-sxm"),
            ("batch", "24"),
            ("trace", "none"),
        ],
    );
    let answer = plan(&resolve::question(&settings).unwrap()).unwrap();
    let row = &answer.rows[0];
    assert_eq!(row.needed_tokens, 12 * 3200 + 12 * 600);
    assert!(row.alternatives.iter().all(|a| a.staggered.is_none()));
    let way = |name: &str| row.alternatives.iter().find(|a| a.name == name).unwrap();
    assert!(way("engine").starts && way("stream").starts);
    for name in ["engine", "smaller-batch", "stream", "host-attention"] {
        assert!(
            way(name).outcome.throughput.output_tokens_per_s.unwrap() > 0.0,
            "{name}"
        );
    }
    let page = kvplan::report::table::plan(&answer, kvplan::report::Style { color: false });
    assert!(page.contains("each as long as"), "{page}");
    // No form says that requests are of one length.
    let markdown = kvplan::report::md::plan(&answer);
    let own = format!(
        "each request at its own length, from {}",
        file.path().display()
    );
    let source = {
        let text = kvplan::report::json::pretty(&answer).unwrap();
        let saved = Saved::Plan(Box::new(answer.clone()));
        Source::of("plan.json".into(), &text, saved)
    };
    let document = document::document(&[source]);
    for (text, says) in [
        (page, true),
        (markdown.replace('\\', ""), true),
        (kvplan::report::html::render(&document).unwrap(), true),
        (kvplan::report::md::document(&document), false), // without captions
    ] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains(&own), says, "{text}");
        assert!(!text.contains("the same length"), "{text}");
    }
    assert!(
        !answer
            .question
            .iter()
            .any(|s| s.name == "prompt" || s.name == "output")
    );
}

fn kvplan(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(args)
        .output()
        .unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let lengths = folder.path().join("lengths.csv");
    std::fs::write(&lengths, "200,300\n100,100\n").unwrap();
    let (file, result) = (lengths.to_str().unwrap(), folder.path().join("r.json"));
    let result = result.to_str().unwrap();
    let ask = ["simulate", "--occupancy", file, "--format", "json"];
    let (code, _, err) = kvplan(&[&ask[..], &["-o", result]].concat());
    assert_eq!(code, Some(0), "{err}");
    let (_, again, err) = kvplan(&["rerun", result]);
    assert_eq!(again, std::fs::read_to_string(result).unwrap(), "{err}");
    let (code, _, err) = kvplan(&[&ask[..], &["--prompt", "5"]].concat());
    assert!(
        code == Some(2) && err.contains("--prompt") && err.contains("help:"),
        "{err}"
    );
    let (code, _, err) = kvplan(&[&ask[..], &["-o", file]].concat());
    assert!(code == Some(2) && err.contains("lengths"), "{err}");
    let (code, _, err) = kvplan(&["simulate", "--occupancy", "stagered"]);
    assert!(
        code == Some(2) && err.contains("staggered") && err.contains("prompt,output"),
        "{err}"
    );
    std::fs::write(&lengths, "200,300\n100\n").unwrap();
    let (code, _, err) = kvplan(&ask);
    assert!(code == Some(3) && err.contains("line 2"), "{err}");
    // From a scenario file, relative to its folder.
    std::fs::write(&lengths, "200,300\n").unwrap();
    let scenario = folder.path().join("s.toml");
    std::fs::write(&scenario, "occupancy = \"lengths.csv\"\nbatch = 2\n").unwrap();
    let (code, _, err) = kvplan(&["simulate", scenario.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}");
}
