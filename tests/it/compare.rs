//! A plan beside an engine's log: the lines of several releases, the difference by hand, what is refused.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use kvplan::compare::log::{self, Software, Start};
use kvplan::compare::{Comparison, compare};
use kvplan::error::Cause;
use kvplan::plan::Plan;
use kvplan::report::{Style, compare as page, md, table};
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Settings, Verb, resolve};
use proptest::prelude::*;

const GIB: f64 = (1u64 << 30) as f64;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/logs")
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

fn start(text: &str) -> Start {
    log::read("x.log", text.as_bytes()).unwrap().0
}

/// Llama-3.1-8B in bf16 on one H100 at 0.95 under vLLM, with an L40S beside it.
fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let mut settings = Settings::defaults(Verb::Plan);
        let flags = [
            ("model", "llama-3.1-8b"),
            ("weights", "bf16"),
            ("batch", "1"),
            ("output", "64"),
            ("trace", "none"),
        ];
        for (name, value) in flags {
            settings.set(name, &[value.into()], Origin::Flag).unwrap();
        }
        let cards = ["h100-sxm".to_string(), "l40s".to_string()];
        settings.set("hardware", &cards, Origin::Flag).unwrap();
        kvplan::plan::plan(&resolve::question(&settings).unwrap()).unwrap()
    })
}

fn near(a: Option<f64>, gib: f64) {
    let a = a.unwrap() / GIB;
    assert!((a - gib).abs() < 1e-9, "{a} against {gib}");
}

#[test]
fn a_log_of_vllm_0_19() {
    let s = start(&text("vllm-0.19.log"));
    assert_eq!(s.software(), Some(Software::Vllm));
    assert_eq!(s.version.as_deref(), Some("0.19.0"));
    assert_eq!((s.gpus, s.fraction), (Some(1), Some(0.95)));
    near(s.weights, 14.99);
    near(s.pool, 58.11);
    near(s.graphs, 0.62);
    assert_eq!(s.pool_tokens(), Some(476_016));
    assert_eq!((s.total, s.budget, s.activation), (None, None, None));
}

#[test]
fn a_log_of_vllm_0_8() {
    let s = start(&text("vllm-0.8.log"));
    assert_eq!(s.version.as_deref(), Some("0.8.4"));
    near(s.total, 79.19);
    near(s.budget, 71.27);
    // Its "GB" is 2^30 bytes; the first line that has the weights counts.
    near(s.weights, 14.9889);
    near(s.outside, 0.16);
    near(s.activation, 1.19);
    near(s.pool, 54.93);
    // 28,124 blocks of 16.
    assert_eq!(s.pool_tokens(), Some(449_984));
    assert_eq!(s.fraction, Some(0.9));
}

#[test]
fn a_log_of_tensorrt_llm() {
    let s = start(&text("tensorrt-llm-0.17.log"));
    assert_eq!(s.software(), Some(Software::TensorRtLlm));
    assert_eq!(s.version.as_deref(), Some("0.17.0"));
    near(s.weights, 15_370.0 / 1024.0);
    near(s.total, 79.19);
    near(s.free, 62.40);
    near(s.pool, 56.16);
    assert_eq!(s.pool_tokens(), Some(460_032));
}

#[test]
fn the_last_start_counts_and_of_workers_the_smallest_pool() {
    let one =
        "INFO Available KV cache memory: 10.00 GiB\nWARN Available KV cache memory: 9.50 GiB\n";
    near(start(one).pool, 9.5);
    let again = format!(
        "{one}INFO vLLM API server version 0.18.0\nINFO non-default args: {{'gpu_memory_utilization': 0.8}}\nINFO Initializing a V1 LLM engine with config: x\nINFO Available KV cache memory: 20.00 GiB\n"
    );
    let s = start(&again);
    near(s.pool, 20.0);
    assert_eq!(
        (s.version.as_deref(), s.fraction),
        (Some("0.18.0"), Some(0.8))
    );
    // A restart that has not come so far leaves the one before.
    let cut = format!("{one}INFO vLLM API server version 0.18.0\n");
    near(start(&cut).pool, 9.5);
    // Progress bars end in carriage returns; colours stand before the words.
    let bars =
        "loading 1 %\rloading 2 %\r\u{1b}[32mINFO\u{1b}[0m # GPU blocks: 1000, # CPU blocks: 0\n";
    assert_eq!(start(bars).pool_tokens(), Some(16_000));
    let wide = "--block-size 32\n# GPU blocks: 1000, # CPU blocks: 0\n";
    assert_eq!(start(wide).pool_tokens(), Some(32_000));
}

/// The log of 0.8 at 0.90: the plan at 0.95 has 0.05 x 79.19 = 3.96 GiB more to use, weights of 14.957 GiB are 0.032 less,
/// activations of 1.896 GiB are 0.706 more, 0.25 GiB outside torch 0.09 more: the pool is 3.96 + 0.032 - 0.706 - 0.09 = 3.196
/// GiB larger.
#[test]
fn the_difference_of_the_pool_by_its_reasons() {
    let s = start(&text("vllm-0.8.log"));
    let c = compare(plan(), &s, Some("h100-sxm")).unwrap();
    let reason = |name: &str| {
        let found = c.reasons.iter().find(|r| r.reason == name);
        found.map_or(0.0, |r| r.pool_bytes as f64 / GIB)
    };
    let by_hand = [
        ("memory fraction", 3.96),
        ("weights", 0.032),
        ("activations", -0.706),
        ("outside torch", -0.09),
    ];
    for (name, gib) in by_hand {
        assert!(
            (reason(name) - gib).abs() < 0.01,
            "{name}: {}",
            reason(name)
        );
    }
    let pool = c.parts.iter().find(|p| p.part == "KV pool").unwrap();
    let difference = pool.difference_bytes.unwrap();
    assert!((difference as f64 / GIB - 3.196).abs() < 0.02, "{pool:?}");
    let told: i64 = c.reasons.iter().map(|r| r.pool_bytes).sum();
    // Reasons under 1 MiB are left out, six at most.
    assert!((told - difference).abs() < 6 << 20);
    assert!(c.notes.iter().any(|n| n.contains("--memory-fraction 0.90")));
}

/// What vLLM 0.19 prints of Llama-3.1-8B at 0.95 is met: tokens within 0.1 %, and nothing else to be said.
#[test]
fn the_fact_of_an_h100() {
    let s = start(&text("vllm-0.19.log"));
    let c = compare(plan(), &s, Some("h100-sxm")).unwrap();
    assert!(c.pool_tokens.difference_share.unwrap().abs() < 1e-3);
    assert!(c.notes.is_empty(), "{:?}", c.notes);
}

#[test]
fn the_card_is_the_one_named_or_the_one_with_that_memory() {
    let (plan, of) = (plan(), |name: &str| start(&text(name)));
    // 79.19 GiB: the H100, not the L40S.
    let c = compare(plan, &of("vllm-0.8.log"), None).unwrap();
    assert_eq!(c.hardware, "h100-sxm");
    // The later log does not say.
    let e = compare(plan, &of("vllm-0.19.log"), None).unwrap_err();
    assert_eq!(e.cause, Cause::Usage);
    assert!(e.message.contains("1 x h100-sxm, 1 x l40s"), "{e}");
    // A card that is not there is said to be missing, whether or not the log alone would tell which row is meant.
    for log in ["vllm-0.19.log", "vllm-0.8.log"] {
        let e = compare(plan, &of(log), Some("b200")).unwrap_err();
        assert_eq!(e.cause, Cause::Usage);
        let said = "--hardware b200: the plan has no such card, it has h100-sxm, l40s";
        assert_eq!(e.message, said);
        assert!(e.help.unwrap().contains("kvplan plan --hardware b200"));
    }
    let e = compare(plan, &of("vllm-0.8.log"), Some("h100-sxn")).unwrap_err();
    assert_eq!(e.help.as_deref(), Some("did you mean `h100-sxm`?"));
    let two = start("tensor_parallel_size=2\nAvailable KV cache memory: 9.5 GiB\n");
    let e = compare(plan, &two, Some("h100-sxm")).unwrap_err();
    assert!(e.message.contains("the log is of 2 GPUs"), "{e}");
    let e = compare(plan, &of("tensorrt-llm-0.17.log"), Some("h100-sxm")).unwrap_err();
    assert!(e.message.contains("the log is of TensorRT-LLM"), "{e}");
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| {
        let e = log::read("x.log", bytes).unwrap_err();
        assert_eq!(e.cause, Cause::Data);
        assert!(e.help.is_some());
        e.message
    };
    assert!(refused(b"").contains("it is empty"));
    assert!(refused(b"\x7fELF\0\0\n").starts_with("x.log:1: not a log"));
    assert!(refused(b"hello\nthere\n").contains("none of its 2 lines is known"));
    let whole = text("vllm-0.19.log");
    let cut = whole.find("Available").unwrap();
    assert!(refused(&whole.as_bytes()[..cut]).contains("ends after 14.99 GiB of weights"));
    // A number that is cut off is none.
    for line in [
        "Available KV cache memory: 58.1",
        "GPU KV cache size: 476,0",
        "GPU KV cache size: 476,016 tok",
        "# GPU blocks: 281",
        "GPU KV cache size: 99999999999999999999 tokens",
        "Available KV cache memory: 1e9 GiB",
        "Available KV cache memory: 99999999 GiB",
        "Allocated 56.16 GiB for max tokens in paged KV cache (4600",
    ] {
        refused(line.as_bytes());
    }
    // A line without end is looked at up to a limit, not kept.
    let mut long = vec![b'x'; 3 << 20];
    long.extend_from_slice(b"Available KV cache memory: 58.11 GiB\n");
    refused(&long);
    // What is not UTF-8 is passed over.
    let mut odd = vec![0xff, 0xfe, b'\n'];
    odd.extend_from_slice(whole.as_bytes());
    assert_eq!(log::read("x.log", &odd[..]).unwrap().0, start(&whole));
}

#[test]
fn more_than_the_limit_is_not_read_and_said() {
    let mut log = text("vllm-0.19.log");
    let line = "INFO 1.2.3.4 - \"POST /v1/completions HTTP/1.1\" 200 OK\n";
    let most = usize::try_from(log::MOST).unwrap();
    log.push_str(&line.repeat(most / line.len() + 1));
    let (s, longer) = log::read("x.log", log.as_bytes()).unwrap();
    assert!(longer);
    assert_eq!(s.pool_tokens(), Some(476_016));
    assert!(!log::read("x.log", line.repeat(9).as_bytes()).is_ok_and(|r| r.1));
}

#[test]
fn a_pool_that_is_gone_and_another_format_are_remarked() {
    let none =
        start("Model loading took 75.1 GiB and 9 seconds\nAvailable KV cache memory: -0.41 GiB\n");
    let c = compare(plan(), &none, Some("h100-sxm")).unwrap();
    assert!(c.notes.iter().any(|n| n.contains("no memory left for KV")));
    // FP8 KV: twice the tokens in the same bytes, 58.11 x 2^30 / 952,032 = 65,539 B.
    let fp8 = start("Available KV cache memory: 58.11 GiB\nGPU KV cache size: 952,032 tokens\n");
    let c = compare(plan(), &fp8, Some("h100-sxm")).unwrap();
    assert!(
        c.notes
            .iter()
            .any(|n| n.contains("a token takes 65539 bytes")),
        "{:?}",
        c.notes
    );
}

#[test]
fn the_answer_in_every_form() {
    let c = compare(plan(), &start(&text("vllm-0.8.log")), None).unwrap();
    let shown = table::render(&page::page(&c), Style { color: false });
    for part in [
        "memory fraction",
        "KV pool (tokens",
        "449,984",
        "outside torch",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(md::render(&page::page(&c)).contains("| KV pool"));
    let lines = page::csv(&c).unwrap();
    assert_eq!(
        lines.lines().next(),
        Some("figure,unit,engine,predicted,difference")
    );
    assert_eq!(
        lines.lines().last().unwrap().split(',').nth(2),
        Some("449984")
    );
    let back: Comparison = serde_json::from_str(&serde_json::to_string(&c).unwrap()).unwrap();
    assert_eq!(back, c);
}

/// Exit code, stdout and stderr of `kvplan compare PLAN --engine-log LOG ...` with a text on stdin.
fn cli(args: &[&str], stdin: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kvplan"))
        .args(["-q", "compare"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut pipe, stdin.as_bytes()).ok(); // it may not read it
    drop(pipe);
    let out = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn the_command_line_and_its_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (plan_file, outcome) = (at("plan.json"), "tests/it/fixtures/outcome.json");
    fs::write(&plan_file, serde_json::to_string(plan()).unwrap()).unwrap();
    let log_file = folder().join("vllm-0.8.log");
    let log_file = log_file.to_str().unwrap();
    let (code, table, _) = cli(&[&plan_file, "--engine-log", log_file], "");
    assert_eq!(code, Some(0));
    assert!(table.contains("449,984"));
    // The same from stdin, in JSON, names its schema.
    let json = [&plan_file, "--engine-log", "-", "--format", "json"];
    let (code, json, _) = cli(&json, &text("vllm-0.8.log"));
    assert_eq!(code, Some(0));
    let json: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(json.schema, "kvplan/compare/1");
    let empty = at("empty.log");
    fs::write(&empty, "").unwrap();
    let missing = at("missing.log");
    let refused = [
        (plan_file.as_str(), empty.as_str(), 3, "it is empty"),
        (&plan_file, &missing, 2, "cannot be read"),
        (
            &plan_file,
            dir.path().to_str().unwrap(),
            2,
            "is a directory",
        ),
        (
            outcome,
            log_file,
            3,
            "not a plan: its schema is `kvplan/outcome/1`",
        ),
        (log_file, log_file, 3, "not a result of kvplan"),
        (&missing, log_file, 2, "missing.log"),
    ];
    for (plan, log, code, words) in refused {
        let (ours, out, said) = cli(&[plan, "--engine-log", log], "");
        assert_eq!(ours, Some(code), "{said}");
        assert!(out.is_empty() && said.contains(words), "{said}");
    }
    let over = [&plan_file, "--engine-log", log_file, "-o", &plan_file];
    let (code, _, said) = cli(&over, "");
    assert_eq!(code, Some(2));
    assert!(said.contains("would replace a file"), "{said}");
}

proptest! {
    /// Whatever stands before and after the words, and however lines end, a pool is read as it was written.
    #[test]
    fn a_pool_is_read_as_written(
        hundredths in -500i64..20_000,
        tokens in 1u64..100_000_000,
        before in "[a-zA-Z0-9 =\\[\\].]{0,40}",
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let size = hundredths as f64 / 100.0;
        let mut log = String::new();
        write!(log, "{before} Available KV cache memory: {size:.2} GiB{end}").unwrap();
        write!(log, "{before} GPU KV cache size: {tokens} tokens{end}").unwrap();
        let s = start(&log);
        prop_assert!((s.pool.unwrap() / GIB - size).abs() < 1e-9);
        prop_assert_eq!(s.pool_tokens(), Some(tokens));
    }

    /// Reasons sum to the difference whatever the engine says of itself.
    #[test]
    fn reasons_sum_to_the_difference(
        parts in prop::array::uniform4(1u32..3000),
        fraction in 50u32..=100,
    ) {
        let [weights, activation, outside, total] = parts.map(|h| f64::from(h) / 100.0);
        let fraction = f64::from(fraction) / 100.0;
        let total = total + 50.0;
        let budget = total * fraction;
        let pool = budget - weights - activation - outside;
        let log = format!(
            "total_gpu_memory ({total:.4}GiB) x gpu_memory_utilization ({fraction:.2}) = {budget:.4}GiB\nmodel weights take {weights:.4}GiB; non_torch_memory takes {outside:.4}GiB; PyTorch activation peak memory takes {activation:.4}GiB; the rest of the memory reserved for KV Cache is {pool:.4}GiB.\n"
        );
        let c = compare(plan(), &start(&log), Some("h100-sxm")).unwrap();
        let told: i64 = c.reasons.iter().map(|r| r.pool_bytes).sum();
        let pool = c.parts.iter().find(|p| p.part == "KV pool").unwrap();
        prop_assert!((told - pool.difference_bytes.unwrap()).abs() < 6 << 20);
    }
}
