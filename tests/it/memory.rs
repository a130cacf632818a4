//! The ledger against published facts and hand arithmetic.

use std::sync::Arc;

use kvplan::engine::audit::Audit;
use kvplan::engine::{Job, Unwatched};
use kvplan::memory::Held;
use kvplan::plan::simulate;
use kvplan::timeline::{Interval, Timeline};
use kvplan::units::Bytes;
use proptest::prelude::*;

use crate::engine_support::{World, job, scenario};

/// Tokens of KV that an H100 holds beside a model in bf16 under vLLM, one sequence.
fn pool_tokens(model: &str) -> f64 {
    let w =
        World::of(&scenario(&format!("model {model} hardware h100-sxm weights bf16")).deployment);
    w.ledger.pool() / w.ledger.kv_token
}

#[test]
fn kv_tokens_of_an_h100_as_vllm_reports_them() {
    // 79.19 GiB x 0.95 = 75.23 GiB. Llama-3.1-8B: weights 8.030 G x 2 B = 14.96 GiB, KV 2 x 32 x 8 x 128 x 2 B = 128 KiB
    // a token; vLLM 0.19 reports 476,016 tokens = 58.11 GiB, which leaves 2.16 GiB for all else; here 0.25 GiB outside torch
    // and the warm-up's logits, 1,024 x 128,256 x 15.5 B = 1.90 GiB.
    let llama = pool_tokens("llama-3.1-8b");
    assert!((llama / 476_016.0 - 1.0).abs() < 0.001, "{llama}");
    // Qwen2.5-7B: 7.616 G x 2 B = 14.19 GiB, 56 KiB a token, 1,096,000 tokens = 58.53 GiB; 1,024 x 152,064 x 15.5 B = 2.25 GiB.
    let qwen = pool_tokens("qwen2.5-7b");
    assert!((qwen / 1_096_000.0 - 1.0).abs() < 0.001, "{qwen}");
    // FP8 KV holds exactly twice as many.
    let of = |kv: &str| {
        let words = format!("model llama-3.1-8b hardware h100-sxm weights bf16 kv {kv}");
        World::of(&scenario(&words).deployment).ledger.kv_token
    };
    assert!((of("fp16") / of("fp8") - 2.0).abs() < 1e-12);
}

/// The activations of a 14B under vLLM 0.17 and later: 2.23 GiB (llm-d-planner report). 1,024 x 151,936 x 15.5 B = 2.246.
#[test]
fn activations_of_a_14b_as_vllm_reports_them() {
    let words = "model qwen3-14b hardware h100-sxm weights bf16";
    let activation = World::of(&scenario(words).deployment).ledger.activation;
    assert!((gib(activation.as_f64()) - 2.23).abs() < 0.05);
}

fn gib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 30)
}

/// One rule an engine, Llama-3.1-70B in FP8 on one H100 of 79.19 GiB at a fraction of 0.9. Weights: 68.45 G of layers in a
/// byte, 2 x 1.0507 G of embedding and head in two: 72.68 GB = 67.69 GiB.
/// * TensorRT-LLM: 0.8 GiB and activations of 8,192 x 2 (8,192 + 2 x 28,672) B = 1.0 GiB; 0.9 x (79.19 - 69.49) = 8.73 GiB
///   of KV. In FP8 that is 163,840 B a token: 57,200 tokens, what its published 912 tok/s at 128/2048 need (27 requests).
/// * vLLM: 0.9 x 79.19 = 71.27; less weights, 0.25 and 1,024 x 128,256 x 15.5 B = 1.90 GiB: 1.44 GiB of KV.
/// * `SGLang`: 71.27 - 67.69 = 3.58 GiB, its activations are in the other tenth.
#[test]
fn a_fraction_is_of_different_things() {
    let pool = |runtime: &str| {
        let words = format!(
            "model llama-3.1-70b hardware h100-sxm weights fp8 kv fp8 memory-fraction 0.9 runtime {runtime}"
        );
        gib(World::of(&scenario(&words).deployment).ledger.pool())
    };
    for (runtime, by_hand) in [("tensorrt-llm", 8.73), ("vllm", 1.44), ("sglang", 3.58)] {
        let ours = pool(runtime);
        assert!((ours - by_hand).abs() < 0.03, "{runtime}: {ours}");
    }
}

/// On a card under 70 GiB vLLM warms up with 256 sequences: a chunk's rows are then more, 8,192 x 1.5 x 2 (4,096 + 2 x 14,336)
/// B = 0.75 GiB against 256 x 128,256 x 15.5 B = 0.47 GiB.
#[test]
fn a_small_card_warms_up_with_less() {
    let activation = |hardware: &str| {
        let words = format!("model llama-3.1-8b hardware {hardware} weights bf16");
        gib(World::of(&scenario(&words).deployment)
            .ledger
            .activation
            .as_f64())
    };
    assert!((activation("l40s") - 0.75).abs() < 0.01);
    assert!((activation("a100-sxm-80gb") - 0.75).abs() < 0.01);
    assert!((activation("h100-sxm") - 1.90).abs() < 0.01);
}

proptest! {
    /// Under every rule: what may be used is within the memory, a larger fraction never holds less, and fixed parts and pool
    /// make up what may be used.
    #[test]
    fn rules_of_the_pool_stay_within_the_memory(
        runtime in prop::sample::select(vec!["vllm", "tensorrt-llm", "sglang", "llama.cpp"]),
        hardware in prop::sample::select(vec!["h100-sxm", "l40s", "rtx-5080"]),
        model in prop::sample::select(vec!["llama-3.1-8b", "llama-3.1-70b"]),
        shares in (1..=1000u32, 1..=1000u32),
    ) {
        let ledger = |share: u32| {
            let share = f64::from(share) / 1000.0;
            let words = format!(
                "model {model} hardware {hardware} weights fp8 kv fp8 memory-fraction {share} runtime {runtime}"
            );
            World::of(&scenario(&words).deployment).ledger
        };
        let (less, more) = (ledger(shares.0.min(shares.1)), ledger(shares.0.max(shares.1)));
        let usable = kvplan::catalog::hardware(hardware).unwrap().gpu.memory.get();
        prop_assert!(more.capacity.as_f64() <= usable + 1.0);
        prop_assert!(less.pool() <= more.pool());
        let fixed = more.weights + more.activation + more.reserve;
        prop_assert!((more.pool() - (more.capacity.as_f64() - fixed.as_f64())).abs() < 1.0);
        // A pool of its own rule is never more than all that is free.
        prop_assert!(more.pool() <= (usable - fixed.as_f64()).max(0.0) + 1.0);
    }
}

#[test]
fn staging_by_hand() {
    // Llama-3.1-8B, fp16 KV: 4,096 B a token and layer, 131,072 B a token. 1,000 T1 tokens.
    let staging = |t1: &str, t: f64, t2: f64| {
        World::of(&scenario(&format!("model llama-3.1-8b t1 {t1}")).deployment)
            .ledger
            .staging(t, t2)
    };
    // Two layers of them.
    assert!((staging("stream", 1000.0, 0.0) - 2.0 * 4096.0 * 1000.0).abs() < 1.0);
    // A buffer of all of it; a buffer of 50 MB and two layers of the other 81.072 / 131.072.
    assert!((staging("staged", 1000.0, 0.0) - 131_072_000.0).abs() < 1.0);
    let part = 50e6 + 8_192_000.0 * 81_072_000.0 / 131_072_000.0;
    assert!((staging("staged:50MB", 1000.0, 0.0) - part).abs() < 1.0);
    assert!(staging("host-attention", 1000.0, 0.0).abs() < 1e-9);
    // T2 in int8 with a 2-byte scale a vector of 128: 2 x 8 x 130 = 2,080 B, and 4,096 B dequantised beside it.
    assert!((staging("stream", 0.0, 1000.0) - 2.0 * (2080.0 + 4096.0) * 1000.0).abs() < 1.0);
}

#[test]
fn staging_never_takes_more_layers_than_tier() {
    // gpt-oss-20b: 24 layers, of which 12 have a window and stay in HBM; a depth of 24 stages the other 12.
    let held = |depth: u32| {
        World::of(&scenario(&format!("model gpt-oss-20b weights bf16 depth {depth}")).deployment)
            .ledger
            .staging(1000.0, 0.0)
    };
    let w = World::of(&scenario("model gpt-oss-20b weights bf16").deployment);
    assert!((held(24) - 1000.0 * w.ledger.kv_token).abs() < 1.0);
    assert!((held(6) - 500.0 * w.ledger.kv_token).abs() < 1.0);
}

#[test]
fn a_spare_page_a_sequence_where_compaction_works() {
    let held = Held {
        sequences: 3.0,
        tiers: [100.0, 50.0, 0.0],
        windowed: vec![0.0],
        ..Held::default()
    };
    let t0 = |compact: &str, spilled| {
        World::of(&scenario(&format!("model llama-3.1-8b compact {compact}")).deployment)
            .ledger
            .instant(&held, spilled)
            .kv_t0
    };
    // 100 tokens, and 3 pages of 16.
    assert!((t0("retier", true) - 148.0 * 131_072.0).abs() < 1.0);
    assert!((t0("retier", false) - 100.0 * 131_072.0).abs() < 1.0);
    assert!((t0("none", true) - 100.0 * 131_072.0).abs() < 1.0);
}

#[test]
fn kv_heads_replicate_past_their_number() {
    // Llama-3.1-8B has 8 KV heads: 8 GPUs hold one each, 16 hold each head twice. Query heads: 32.
    let token = |gpus: u32| {
        World::of(
            &scenario(&format!("model llama-3.1-8b hardware h100-sxm gpus {gpus}")).deployment,
        )
        .ledger
        .kv_token
    };
    for gpus in [1, 2, 8] {
        assert!((token(gpus) - 131_072.0).abs() < 1e-6, "{gpus}");
    }
    assert!((token(16) - 2.0 * 131_072.0).abs() < 1e-6);
    assert!((token(32) - 4.0 * 131_072.0).abs() < 1e-6);
}

#[test]
fn windows_bound_what_a_sequence_holds() {
    // Half of the layers see 4,096 (gemma-2) or 128 (gpt-oss) tokens: at 32,768 tokens they hold 1/8 or 1/256.
    for (model, share) in [
        ("gemma-2-27b", 0.5 + 0.5 / 8.0),
        ("gpt-oss-20b", 0.5 + 0.5 / 256.0),
    ] {
        let s = scenario(&format!("model {model} weights bf16"));
        let unwindowed = s.deployment.model.kv_bytes_per_token(s.deployment.kv) * 32_768.0;
        let held = World::of(&s.deployment).ledger.sequence_bytes(32_768.0);
        assert!(
            (held / unwindowed - share).abs() < 1e-9,
            "{model}: {}",
            held / unwindowed
        );
    }
}

/// A deployment with room for `share` of the KV that it needs.
fn squeezed(flags: &str, share: f64) -> kvplan::scenario::Scenario {
    let mut s = scenario(&format!(
        "{flags} policy four-tier:hbm=fit,window=16,interval=32"
    ));
    let w = World::of(&s.deployment);
    let fixed = (w.ledger.weights + w.ledger.activation + w.ledger.reserve).as_f64();
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    let tokens = s.tokens() as u32;
    let kv = f64::from(s.batch) * w.ledger.sequence_bytes(f64::from(tokens));
    let usable = s.deployment.hardware.gpu.memory.get() * f64::from(s.deployment.gpus);
    s.deployment.memory_fraction = (fixed + share * kv) / usable;
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn fit_fits_and_one_token_more_does_not(batch in 1u32..9, prompt in 1u32..200, output in 100u32..900, share in 0.5f64..0.95,
        t1 in prop::sample::select(vec!["stream", "host-attention"]), kv in prop::sample::select(vec!["fp16", "int8"])) {
        let s = squeezed(&format!("model llama-3.1-8b hardware h100-sxm weights bf16 batch {batch} prompt {prompt} output {output} t1 {t1} kv {kv}"), share);
        let found = simulate(&s).unwrap();
        if !found.fits {
            // Not even the least: prompt, sinks and window.
            let budget = format!("hbm={}tok", prompt + 4 + 16);
            prop_assert!(found.policy.contains(&budget), "{}", found.policy);
            return Ok(());
        }
        let at = found.policy.find("hbm=").unwrap() + 4;
        let end = at + found.policy[at..].find("tok").unwrap();
        let budget: u32 = found.policy[at..end].parse().unwrap();
        let mut more = s.clone();
        more.policy = format!("{}{}{}", &found.policy[..at], budget + 1, &found.policy[end..]);
        let more = simulate(&more).unwrap();
        prop_assert!(!more.fits, "{budget} is not the largest: {} of {}", more.memory.hbm_peak_bytes, more.memory.hbm_capacity_bytes);
        let m = &found.memory;
        prop_assert_eq!(m.hbm_peak_bytes, m.weights_bytes + m.activation_bytes + m.reserve_bytes + m.kv_t0_bytes + m.staging_bytes);
    }
}

#[test]
fn nothing_left_is_no_pool() {
    let mut s = scenario("model llama-3.1-8b hardware rtx-4090 weights bf16");
    s.deployment.vram_reserve = Bytes(1 << 50);
    let w = World::of(&s.deployment);
    assert_eq!(w.ledger.capacity, Bytes::ZERO);
    assert!(w.ledger.pool() < 0.0 && w.ledger.holds(8, 1000) == 0);
}

#[test]
fn unpacked_pages_by_hand() {
    // A prompt of 20 and 40 steps; after 16 steps 27 of the 36 tokens go to the host, the other 9 lie in all 3 pages.
    let timeline = Timeline {
        prompt: 20,
        steps: 40,
        intervals: vec![
            Interval {
                tokens: [21.0, 0.0, 0.0, 0.0],
                t0_pages: 2.0,
                ..Interval::default()
            },
            Interval {
                first_step: 16,
                tokens: [10.0, 27.0, 0.0, 0.0],
                t0_pages: 3.0,
                demoted: 27.0,
                ..Interval::default()
            },
        ],
        ..Timeline::default()
    };
    let peak = |compact: &str, runtime: &str| {
        let s = scenario(&format!(
            "model llama-3.1-8b t1 host-attention compact {compact} runtime {runtime} weights int8"
        ));
        let w = World::of(&s.deployment);
        let job = |_| Job {
            timeline: Arc::new(timeline.clone()),
            ..job("full", 20, 40)
        };
        let jobs: Vec<Job> = (0..3).map(job).collect();
        let stretched = w.run(jobs.clone(), 3, false, &mut Unwatched).unwrap().peak;
        let watched = w.run(jobs, 3, false, &mut Audit::new(&w.prepared)).unwrap();
        assert_eq!(stretched, watched.peak);
        stretched.hbm.kv_t0 / 3.0 / 131_072.0
    };
    // Packed: 36 tokens at the end of step 15 and the spare page; 33 and the page at the end.
    assert!((peak("retier", "vllm") - 52.0).abs() < 1e-9);
    // Unpacked: position 59 at step 39 lies in page 4 of 4, none of which is free.
    assert!((peak("none", "vllm") - 64.0).abs() < 1e-9);
    // A runtime that allocates token by token has no pages to wait for.
    assert!((peak("none", "ideal") - 36.0).abs() < 1e-9);
}
