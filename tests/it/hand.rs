//! The default question by hand: the arithmetic in comments, the answer within 15 %.
//!
//! DeepSeek-R1-Distill-Llama-70B, fp8 weights, fp16 KV, batch 8, prompt 1,024, output 15,360: 8 x 16,384 = 131,072
//! tokens of KV. Figures assumed by hand: memory fraction 0.95, links 55/55/337/55 GB/s, host DDR 230 (GH200 400) GB/s.
//!
//! Weights: 80 layers x (q, o 8192x8192; k, v 8192x1024; gate, up, down 8192x28672) = 80 x 855.6 M = 68.45 GB in fp8;
//! embedding and head 2 x 128,256 x 8,192 x 2 B = 4.20 GB; in all 72.65 GB. KV: 2 x 80 x 8 x 128 x 2 B = 327,680 B a
//! token. Reserve and activations: 2.3 GB.
//!
//! H100 (79.19 GiB): 85.03 x 0.95 - 72.65 - 2.3 = 5.8 GB = 17.7k tokens, 2.2k a request.
//! H200 (150.75 GB): 143.2 - 74.95 = 68.3 GB = 208k tokens: fits. Mean context 1,024 + 7,680 = 8,704: KV read a step
//!   22.8 GB at 0.87 x 4,800 = 5.5 ms; weights 70.5 GB at 0.75 x 4,800 = 19.6 ms; 80 layers x (11 us attention + 4 x 3 us
//!   matrices + 9 us norms) = 2.6 ms; CPU 1 ms: 29 ms, 8 / 29 ms = 271 tokens/s.
//! H100 streaming: T1 grows from 0 at step 1,200 to 37 GB; mean 17.1 GB / 55 GB/s = 0.31 s: 25 tokens/s.
//! H100, weights streamed instead: 42.9 GB of KV with room for 5.8, so 37.1 GB of weights go, and 2 of 80 layers as buffers
//!   more: 38.1 GB / 55 GB/s = 0.69 s in every step, 11.5 tokens/s; KV in host memory grows to that only at the end.
//!   GH200: room for 22.6 GB, 20.8 GB / 337 GB/s = 62 ms, 129 tokens/s. RTX PRO 6000: 20.8 / 55 = 0.38 s, 21 tokens/s.
//! H100 host attention: 17.2 GB / 230 GB/s = 75 ms + 35 ms: 74 tokens/s.

use kvplan::plan::answer::{Alternative, Plan, Row};
use kvplan::scenario::{Settings, Verb, resolve};

fn default_plan() -> Plan {
    let question = resolve::question(&Settings::defaults(Verb::Plan)).unwrap();
    kvplan::plan::plan(&question).unwrap()
}

fn way<'a>(row: &'a Row, name: &str) -> &'a Alternative {
    row.alternatives.iter().find(|a| a.name == name).unwrap()
}

#[track_caller]
fn near(what: &str, got: f64, by_hand: f64) {
    assert!(
        (got / by_hand - 1.0).abs() <= 0.15,
        "{what}: {got:.1}, by hand {by_hand}"
    );
}

#[track_caller]
fn rate(row: &Row, name: &str, by_hand: f64) {
    let got = way(row, name)
        .outcome
        .throughput
        .output_tokens_per_s
        .unwrap_or(0.0);
    near(&format!("{} {name}", row.hardware), got, by_hand);
}

#[test]
fn default_question_against_a_calculation_by_hand() {
    let plan = default_plan();
    let row = |id: &str| plan.rows.iter().find(|r| r.hardware == id).unwrap();
    let h100 = row("h100-sxm");
    near("h100 pool", h100.pool_tokens as f64, 17_700.0);
    assert_eq!(h100.needed_tokens, 131_072);
    rate(h100, "engine", 46.0);
    rate(h100, "stream", 25.0);
    rate(h100, "weights-in-ddr", 11.5);
    rate(h100, "host-attention", 74.0);
    rate(h100, "fp8-kv", 92.0);
    assert!(way(h100, "fp8-kv").outcome.preemptions > 0);
    rate(h100, "smaller-batch", 30.0);
    assert_eq!(way(h100, "smaller-batch").outcome.batch, 1);
    assert!(!way(h100, "all-in-hbm").outcome.fits);

    let h200 = row("h200-sxm");
    assert!(way(h200, "all-in-hbm").outcome.fits && !h200.verdict.pays);
    rate(h200, "all-in-hbm", 271.0);
    rate(h200, "fp8-kv", 296.0);
    rate(h200, "weights-in-ddr", 271.0);

    let gh200 = row("gh200");
    near("gh200 pool", gh200.pool_tokens as f64, 69_000.0);
    rate(gh200, "engine", 163.0);
    rate(gh200, "stream", 214.0);
    rate(gh200, "weights-in-ddr", 129.0);
    rate(gh200, "host-attention", 183.0);
    rate(gh200, "fp8-kv", 253.0);
    assert_eq!(way(gh200, "fp8-kv").outcome.preemptions, 0);
    rate(gh200, "smaller-batch", 128.0);
    assert_eq!(way(gh200, "smaller-batch").outcome.batch, 4);

    let pro = row("rtx-pro-6000");
    rate(pro, "engine", 88.0);
    rate(pro, "stream", 62.0);
    rate(pro, "weights-in-ddr", 21.0);
    rate(pro, "host-attention", 103.0);
    rate(pro, "fp8-kv", 139.0);
    rate(pro, "smaller-batch", 70.0);
    assert_eq!(way(pro, "smaller-batch").outcome.batch, 4);
}

#[test]
fn verdicts_differ_by_card_and_one_flips_with_ddr_bandwidth() {
    let plan = default_plan();
    let pays: Vec<bool> = plan.rows.iter().map(|r| r.verdict.pays).collect();
    assert_eq!(pays, [true, false, true, true]);
    assert!(
        plan.verdict
            .flips_if
            .iter()
            .any(|f| f.contains("rtx-pro-6000: host-attention") && f.contains("DDR")),
        "{:?}",
        plan.verdict.flips_if
    );
}
