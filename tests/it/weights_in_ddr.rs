//! Weights in host memory: what they cost the link, what room they make, and that they are one way among the others.

use std::sync::Arc;

use kvplan::deploy::HostWeights;
use kvplan::engine::{Burst, Stepper};
use kvplan::memory::Held;
use kvplan::metrics::Outcome;
use kvplan::plan::simulate;
use kvplan::scenario::Scenario;
use kvplan::units::Ps;
use proptest::prelude::*;

use crate::binary::kvplan;
use crate::engine_support::{World, scenario};

fn with_share(s: &Scenario, share: f64) -> Scenario {
    let mut s = s.clone();
    s.deployment.host_weights = Some(HostWeights::Share(share));
    s
}

fn tpot(out: &Outcome) -> f64 {
    out.throughput.tpot_mean_s.unwrap()
}

/// Llama-3.1-8B in bf16 on an H100: 32 layers of 218,103,808 weights, with two norms of 4,096 each 436,224,000 B, in all
/// 13,959,168,000 B, and the last norm of 8,192 B. At 55 GB/s and 3.5 us a copy a layer takes 7.9314 + 0.0035 ms on the
/// link, far longer than it computes: 32 x 7.9349 = 253.92 ms a step, whatever the batch is.
#[test]
fn a_step_by_hand() {
    for batch in [1, 32] {
        let s = scenario(&format!(
            "model llama-3.1-8b weights bf16 hardware h100-sxm policy full prompt 64 output 50 batch {batch}"
        ));
        let out = simulate(&with_share(&s, 1.0)).unwrap();
        // The first step begins with an idle link, and its last layers wait for nothing more: some thousandths.
        assert!((tpot(&out) / 0.25392 - 1.0).abs() < 0.005, "{}", tpot(&out));
        assert_eq!(out.bound_by, "link");
        let m = &out.memory;
        assert!(
            (m.weights_host_bytes as f64 - 13_959_168_000.0).abs() < 1e5,
            "{m:?}"
        );
        assert_eq!(
            m.ddr_peak_bytes, m.weights_host_bytes,
            "nothing else lies there"
        );
        // 50 steps bring them 50 times.
        let brought = out.traffic.h2d_bytes as f64 / m.weights_host_bytes as f64;
        assert!((brought - 50.0).abs() < 1e-6, "{brought}");
        // Embedding and head stay, 2 x 128,256 x 4,096 x 2 B, and two layers of buffers.
        let kept = 2.0 * 1_050_673_152.0 + 2.0 * 436_224_000.0;
        assert!((m.weights_bytes as f64 / kept - 1.0).abs() < 1e-4, "{m:?}");
    }
}

/// In series nothing hides: the step with all weights in HBM, the copies, and one more writing of the streamed bytes.
#[test]
fn in_series_the_copies_come_on_top() {
    let s = scenario(
        "model llama-3.1-8b weights bf16 hardware h100-sxm policy full prompt 64 output 50 batch 4 overlap serial",
    );
    let (none, half) = (
        simulate(&s).unwrap(),
        simulate(&with_share(&s, 0.5)).unwrap(),
    );
    // 32 x (218,112,000 B / 55 GB/s + 3.5 us) = 127.0 ms; written at 0.87 to 0.9 of 3.35 TB/s: 7.0 GB in 2.3 to 2.4 ms.
    let more = tpot(&half) - tpot(&none);
    assert!((0.1290..0.1298).contains(&more), "{more}");
}

proptest! {
    /// X bytes over the link cost the same, whatever they are of: where the link bounds the step, and up to the pieces.
    #[test]
    fn weights_and_kv_cost_the_link_the_same(share in 0.3f64..1.0, batch in 1u32..64) {
        let d = scenario("model llama-3.1-8b weights bf16 hardware h100-sxm").deployment;
        let plain = World::of(&d);
        let mut weights = d.clone();
        weights.host_weights = Some(HostWeights::Share(share));
        let streamed = World::of(&weights);
        let bytes = streamed.prepared.host_weights();
        let token = plain.ledger.kv_token;
        let n = f64::from(batch);
        let period = |world: &World, t1: f64| {
            let held = Held {
                sequences: n,
                tiers: [n * 100.0, t1, 0.0],
                windowed: vec![0.0],
                ..Held::default()
            };
            let mut stepper = Stepper::new(&world.prepared);
            let mut at = Ps::ZERO;
            let mut last = (0.0, 0.0);
            for _ in 0..4 {
                let step = stepper.step(at, batch, &held, &Burst::default(), 0.0);
                last = ((step.end - at).secs(), step.h2d_bytes);
                at = step.end;
            }
            last
        };
        let (as_weights, brought) = period(&streamed, 0.0);
        let (as_kv, carried) = period(&plain, bytes / token);
        prop_assert!((brought / bytes - 1.0).abs() < 1e-9 && (carried / bytes - 1.0).abs() < 1e-9);
        // KV comes in two pieces a sequence and layer, of some tens of nanoseconds to 2.3 us each: at most 2 %.
        prop_assert!((as_weights / as_kv - 1.0).abs() < 0.02, "{} {}", as_weights, as_kv);
    }

    /// More of them is never faster, none at all is the plain deployment to the bit.
    #[test]
    fn more_is_never_faster(batch in 1u32..9, a in 0.0f64..1.0, b in 0.0f64..1.0, overlap in any::<bool>()) {
        let overlap = if overlap { "layer" } else { "serial" };
        let s = scenario(&format!(
            "model qwen3-8b weights fp8 hardware l40s prompt 100 output 40 batch {batch} overlap {overlap} policy four-tier:hbm=0.3,window=8"
        ));
        let at = |share: f64| simulate(&with_share(&s, share)).unwrap();
        let (low, high) = (at(a.min(b)), at(a.max(b)));
        prop_assert!(tpot(&low) <= tpot(&high) * (1.0 + 1e-12));
        prop_assert!(low.memory.weights_host_bytes <= high.memory.weights_host_bytes);
        let mut none = at(0.0);
        let plain = simulate(&s).unwrap();
        none.scenario = plain.scenario.clone();
        prop_assert_eq!(none, plain);
    }

    /// `fit` is the least share with which it fits: all of it keeps within the card, a ten-thousandth less does not.
    #[test]
    fn fit_is_the_least_that_fits(batch in 1u32..40, card in 0usize..3, staggered in any::<bool>()) {
        let card = ["rtx-5090", "h100-sxm", "gh200"][card];
        let occupancy = if staggered { "staggered" } else { "lockstep" };
        let s = scenario(&format!(
            "model deepseek-r1-distill-qwen-32b weights fp8 hardware {card} batch {batch} output 4000 occupancy {occupancy} weights-in-ddr fit"
        ));
        prop_assert_eq!(s.policy.as_str(), "full");
        let out = simulate(&s).unwrap();
        let m = &out.memory;
        let parts = m.weights_bytes + m.kv_t0_bytes + m.staging_bytes + m.activation_bytes + m.reserve_bytes;
        prop_assert_eq!(parts, m.hbm_peak_bytes);
        let layers = s.deployment.model.weights_bytes(&s.deployment.weights).layers as f64;
        let share = m.weights_host_bytes as f64 / layers;
        let all = share > 0.99995;
        prop_assert!(out.fits || all, "{share}");
        if share > 0.0 && !all && !staggered {
            let less = simulate(&with_share(&s, share - 1.01e-4)).unwrap();
            prop_assert!(!less.fits, "{share} of the layers");
        }
        if share <= 0.0 {
            prop_assert!(simulate(&with_share(&s, 0.0)).unwrap().fits);
        }
    }
}

/// Requests at phases of their own are half as long on average: less has to go, and the policy says nothing of a trace.
#[test]
fn staggered_requests_leave_more_weights_where_they_are() {
    let words = "hardware h100-sxm weights-in-ddr fit";
    let bytes = |s: &Scenario| {
        let out = simulate(s).unwrap();
        assert!(
            out.fits && !out.notes.iter().any(|n| n.contains("set by the trace")),
            "{:?}",
            out.notes
        );
        out.memory.weights_host_bytes as f64
    };
    let lockstep = bytes(&scenario(words));
    let staggered = bytes(&scenario(&format!("{words} occupancy staggered")));
    // Of 131,072 tokens at the end (42.9 GB) requests at phases of their own, drawn by the seed, have 85,480 at their most:
    // 28.0 GB, of which 5.8 have room: 22.2 of 37.1 GB have to be made, 0.60 of what lockstep takes, with a bound on top.
    let ratio = staggered / lockstep;
    assert!((0.59..0.64).contains(&ratio), "{staggered} of {lockstep}");
}

/// Both kinds of bytes share the link: a step that streams T1 and weights takes as long as their copies together.
#[test]
fn weights_share_the_link_with_kv() {
    let words = "model llama-3.1-8b weights bf16 hardware h100-sxm batch 16 prompt 500 output 600 policy four-tier:hbm=0,window=8";
    let s = scenario(words);
    let (kv, both) = (
        simulate(&s).unwrap(),
        simulate(&with_share(&s, 0.5)).unwrap(),
    );
    let full = simulate(&with_share(
        &scenario(&words.replace("four-tier:hbm=0,window=8", "full")),
        0.5,
    ))
    .unwrap();
    let bytes = |o: &Outcome| o.traffic.h2d_bytes as f64;
    assert!((bytes(&both) / (bytes(&kv) + bytes(&full)) - 1.0).abs() < 1e-6);
    let ddr = both.memory.ddr_peak_bytes - kv.memory.ddr_peak_bytes;
    assert_eq!(ddr, full.memory.weights_host_bytes);
    assert!(tpot(&both) > tpot(&full), "{} {}", tpot(&both), tpot(&full));
}

/// Prefill brings them once a chunk: 8,192 tokens in one chunk of 8,192 or four of 2,048, link-bound.
#[test]
fn prefill_brings_them_once_a_chunk() {
    let s = scenario(
        "model llama-3.1-8b weights bf16 hardware h100-sxm policy full prompt 8192 output 2 batch 1",
    );
    let prefill = |s: &Scenario| simulate(s).unwrap().throughput.prefill_s.unwrap();
    let chunk = s.deployment.runtime.batched_tokens.get();
    let chunks = (8192.0 / chunk).ceil();
    let all = prefill(&with_share(&s, 1.0));
    assert!(all >= chunks * 0.2539 && all >= prefill(&s), "{all}");
    assert!(
        all < chunks * 0.2539 * 1.001 || all <= prefill(&s) * 1.1,
        "{all}"
    );
}

/// Under load the same laws hold: the host memory that weights take is not there for KV.
#[test]
fn under_load_they_stream_too() {
    let words = "model llama-3.1-8b weights bf16 hardware h100-sxm policy full prompt 200 output 30 batch 8 arrivals all requests 8";
    let plain = simulate(&scenario(words)).unwrap().serving.unwrap();
    let s = with_share(&scenario(words), 1.0);
    let out = simulate(&s).unwrap();
    let serving = out.serving.unwrap();
    // 29 steps after the first token, each of 253.9 ms.
    let tpot = serving.tpot.mean_s.unwrap();
    assert!((tpot / 0.2539 - 1.0).abs() < 0.01, "{tpot}");
    assert!(plain.tpot.mean_s.unwrap() < 0.03);
    let full = out.throughput.full_cache_output_tokens_per_s.unwrap();
    assert!(
        full > 20.0 * out.throughput.output_tokens_per_s.unwrap(),
        "{full}: with weights in HBM"
    );
    let mut small = s;
    let hardware = Arc::make_mut(&mut small.deployment.hardware);
    hardware.host.pinned_limit = hardware.host.pinned_limit.scaled(1e-3);
    assert!(
        !simulate(&small).unwrap().fits,
        "host memory is too small for them"
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (args, text) in [
        (
            &["simulate", "--weights-in-ddr", "1.5"][..],
            "weights-in-ddr",
        ),
        (&["simulate", "--weights-in-ddr", "-1"], "weights-in-ddr"),
        (&["simulate", "--weights-in-ddr", "some"], "fit"),
        (
            &["simulate", "--weights-in-ddr", "900GiB"],
            "is more than the",
        ),
        (
            &[
                "simulate",
                "--weights-in-ddr",
                "0.3",
                "--t1",
                "host-attention",
            ],
            "--t1 stream",
        ),
        (
            &["simulate", "--weights-in-ddr", "0.3", "--t1", "direct"],
            "--t1 stream",
        ),
        (
            &[
                "simulate",
                "--weights-in-ddr",
                "fit",
                "--policy",
                "four-tier:hbm=fit",
            ],
            "--policy full",
        ),
        (
            &[
                "simulate",
                "--weights-in-ddr",
                "fit",
                "--policy",
                "four-tier",
            ],
            "--policy full",
        ),
        (&["plan", "--weights-in-ddr", "0.3"], "by itself"),
    ] {
        let (code, out, err) = kvplan(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(text), "{args:?}: {err}");
    }
    let sizes = kvplan(&[
        "simulate",
        "--weights-in-ddr",
        "20GiB",
        "--policy",
        "four-tier:hbm=0.5",
        "--format",
        "json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&sizes.1).unwrap();
    // 20 GiB to a byte or so a layer: shares are rounded up.
    let bytes = json["memory"]["weights_host_bytes"].as_u64().unwrap();
    assert!(bytes.abs_diff(20 << 30) < 100, "{bytes}");
}

#[test]
fn a_search_makes_room_with_weights() {
    let find = |more: &[&str]| {
        let args = [
            &[
                "plan",
                "--find",
                "max-batch",
                "--hardware",
                "gh200",
                "--trace",
                "none",
                "--policy",
                "full",
                "--format",
                "json",
            ][..],
            more,
        ];
        let (code, out, err) = kvplan(&args.concat());
        assert_eq!(code, 0, "{err}");
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        json["rows"][0].clone()
    };
    let (plain, fit) = (find(&[]), find(&["--weights-in-ddr", "fit"]));
    let batch = |row: &serde_json::Value| row["answer"].as_f64().unwrap();
    assert!(batch(&fit) > batch(&plain) + 1.0, "{fit} {plain}");
    // Within a time they make less room: each byte has to cross the link.
    let quick = find(&["--weights-in-ddr", "fit", "--tpot-p99", "60ms"]);
    assert_eq!(quick["limited_by"], "tpot-p99");
    assert!(
        batch(&quick) > batch(&plain) && batch(&quick) < batch(&fit),
        "{quick}"
    );
}
