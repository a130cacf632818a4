//! Each law of time by a worked example.

use kvplan::hardware::Hardware;
use kvplan::service::{attention, linear, prefill, transfer};
use proptest::prelude::*;

use crate::engine_support::{World, scenario};

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 1e-3, "{got}, by hand {want}");
}

fn h100() -> Hardware {
    (*scenario("hardware h100-sxm").deployment.hardware).clone()
}

#[test]
fn decode_attention_by_hand() {
    // H100: 11.3 us + 100 MB / (0.865 x 3,350 GB/s = 2,897.75 GB/s) = 11.3 + 34.51 us; fp8: 0.78, 38.27 us.
    let gpu = h100().gpu;
    let work = attention::Work {
        bytes: 100e6,
        eight_bit: false,
        context: 8192.0,
        pairs: 32.0,
    };
    let fp8 = attention::Work {
        eight_bit: true,
        ..work
    };
    near(attention::decode(&gpu, 1.0, work), 45.81e-6);
    near(attention::decode(&gpu, 1.0, fp8), 49.57e-6);
}

#[test]
fn decode_attention_with_splits_and_l2_by_hand() {
    // L40S, 4 sequences of 16,256 tokens, 2 KV heads of 128, 16 bit: 66.6 MB, which L2 (100.7 MB) holds. Floor 9.5 us + 1.27 us x
    // log2(1 + 127) = 8.89 + 8 x 0.0125 = 0.1: 18.49 us; 66.6 MB at 3.7 x 864 GB/s = 20.83 us.
    let gpu = scenario("hardware l40s").deployment.hardware.gpu.clone();
    let work = attention::Work {
        bytes: 4.0 * 16_256.0 * 1024.0,
        eight_bit: false,
        context: 16_256.0,
        pairs: 8.0,
    };
    near(attention::decode(&gpu, 1.0, work), 39.32e-6);
    // Twice the sequences are out of it: the same floor + 0.1 us, and 133.2 MB at 0.79 x 864 GB/s = 195.1 us.
    let twice = attention::Work {
        bytes: 2.0 * work.bytes,
        pairs: 16.0,
        ..work
    };
    near(attention::decode(&gpu, 1.0, twice), 213.7e-6);
}

#[test]
fn attention_on_the_host_by_hand() {
    // 230 GB/s and 2 TFLOP/s: 1 GB is 4.348 ms; 20 GFLOP are 10 ms.
    let host = h100().host;
    near(attention::host(&host, 1e9, 1e9), 4.348e-3);
    near(attention::host(&host, 1e9, 20e9), 10e-3);
}

#[test]
fn copies_by_hand() {
    // 3.5 us to call, 2.3 us for each of 9 further pieces, 5.5 MB at 55 GB/s = 100 us.
    let link = h100().link;
    near(
        transfer::copy(&link, 55e9, 5.5e6, 10.0),
        (3.5 + 20.7 + 100.0) * 1e-6,
    );
    assert!(
        transfer::copy(&link, 0.0, 0.0, 10.0).abs() < 1e-30,
        "nothing to copy, nothing to wait for"
    );
    assert!(transfer::copy(&link, 0.0, 1.0, 1.0).is_infinite());
}

#[test]
fn links_share_host_memory() {
    // Four links of 55 GB/s draw 220 of 230 GB/s; eight get 230 / 8 = 28.75 GB/s each.
    let h = h100();
    near(transfer::h2d_rate(&h, 4.0), 55e9);
    near(transfer::h2d_rate(&h, 8.0), 28.75e9);
    near(transfer::d2h_rate(&h, 8.0), 28.75e9);
}

#[test]
fn experts_by_hand() {
    // 128 experts, 4 a token: one token touches 4; two 4 + 4 (1 - 4/128) = 7.875; a thousand all.
    near(linear::experts_touched(128.0, 4.0, 1.0), 4.0);
    near(linear::experts_touched(128.0, 4.0, 2.0), 7.875);
    near(linear::experts_touched(128.0, 4.0, 1000.0), 128.0);
}

proptest! {
    #[test]
    fn causal_pairs_are_counted(before in 0u32..60, new in 0u32..60, window in 1u32..80) {
        let (mut all, mut near) = (0, 0);
        for query in before..before + new {
            for key in 0..=query {
                all += 1;
                near += u32::from(query - key < window);
            }
        }
        let (b, n, w) = (f64::from(before), f64::from(new), f64::from(window));
        prop_assert!((prefill::causal_pairs(b, n) - f64::from(all)).abs() < 1e-6);
        prop_assert!((prefill::causal_pairs_within(b, n, w) - f64::from(near)).abs() < 1e-6, "{} {}", prefill::causal_pairs_within(b, n, w), near);
    }
}

#[test]
fn linear_layers_are_flat_to_sixty_four_rows() {
    // 70B in fp8 on an H100: weights stream at 0.745 x 3,350 = 2,496 GB/s, products run at 0.756 x 1,978 TFLOP/s: a byte
    // (2 m FLOP) is bound by arithmetic from m = 1,495 TFLOP/s / 2,496 GB/s / 2 = 300.
    let w = World::of(&scenario("hardware h100-sxm").deployment);
    let at = |m: u32| w.prepared.batch(m).linear[0];
    assert!((at(64) / at(1) - 1.0).abs() < 1e-12);
    assert!((at(290) / at(1) - 1.0).abs() < 1e-12);
    assert!(at(400) > 1.25 * at(1));
    // 855.6 MB of weights: 342.8 us, and 4 kernels of 3.2 us.
    near(at(1), 342.8e-6 + 12.8e-6);
}

#[test]
fn the_papers_desktop() {
    // R1-Distill-Qwen-7B in int8 on an RTX 5080 under eager transformers: 45.8 ms a token were published (21.8 tokens/s).
    // By hand: weights 6.53 G x 1 B in the layers and a head of 1.09 GB at 0.9 of the usual share of 960 GB/s, some
    // 10.5 ms; 28 layers x 1.29 ms of eager launches = 36.1; gap 1.0; attention 0.4: 48.1 ms, 5 % over.
    let s = scenario(
        "model deepseek-r1-distill-qwen-7b hardware rtx-5080 runtime hf-eager-int8 weights int8 batch 1 prompt 100 output 2000 policy full",
    );
    let out = kvplan::plan::simulate(&s).unwrap();
    let tpot = out.throughput.tpot_mean_s.unwrap();
    assert!((tpot / 45.8e-3 - 1.0).abs() < 0.06, "{tpot}");
}
