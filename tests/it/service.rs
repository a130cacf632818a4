//! Each law of time by a worked example.

use kvplan::hardware::kernels::{Off, SingleRow, Spread};
use kvplan::hardware::value::Z95;
use kvplan::hardware::{Count, Duration, Gpu, Hardware, Share, Source, Value};
use kvplan::model::WeightFormat;
use kvplan::model::layer::{Matrix, MatrixKind};
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

/// An H100 whose laws are round numbers.
fn round() -> Gpu {
    let duration = |v: f64| Value::<Duration>::new(v, v, v, Source::Assumed, "test");
    let share = |v: f64| Value::<Share>::new(v, v, v, Source::Assumed, "test");
    let count = |v: f64| Value::<Count>::new(v, v, v, Source::Assumed, "test");
    let mut gpu = h100().gpu;
    let k = &mut gpu.kernels;
    k.attention.fixed = duration(10e-6);
    k.attention.split = duration(1e-6);
    k.attention.pair = duration(0.02e-6);
    k.attention.share = share(0.9);
    k.attention.l2 = count(2.0);
    k.attention_8bit = k.attention.clone();
    k.attention_8bit.share = share(0.8);
    k.linear.fixed = duration(3e-6);
    k.linear.share = share(0.8);
    k.linear.gemm = share(0.7);
    k.linear.sharpness = count(2.0);
    k.linear.l2 = count(1.6);
    k.linear_8bit = k.linear.clone();
    k.linear_8bit.single = Some(SingleRow {
        fixed: duration(20e-6),
        share: share(0.5),
    });
    k.prefill.fixed = duration(9e-6);
    k.prefill.share = share(0.5);
    k.prefill.fill = count(128.0);
    k.prefill.operands = count(0.4);
    gpu
}

#[test]
fn decode_attention_by_hand() {
    // 4 sequences of 16,256 tokens, 8 KV heads of 128, 16 bit: 266.3 MB. Floor 10 us + 1 us x log2(1 + 16,256 / 128) = 7
    // + 32 pairs x 0.02 = 0.64: 17.64 us; 266.3 MB at 0.9 x 3,350 = 3,015 GB/s are 88.34 us: 105.98 us.
    let gpu = round();
    let k = &gpu.kernels;
    let work = attention::Work {
        bytes: 4.0 * 16_256.0 * 4096.0,
        eight_bit: false,
        context: 16_256.0,
        pairs: 32.0,
        warm: false,
    };
    near(
        attention::decode(&gpu, &k.attention, 1.0, work, 1.0),
        105.98e-6,
    );
    // Three kernels pay three floors; at 0.5 of the usual efficiency bytes take twice as long.
    near(
        attention::decode(&gpu, &k.attention, 0.5, work, 3.0),
        (3.0 * 17.64 + 2.0 * 88.34) * 1e-6,
    );
    // FP8: half the bytes at 0.8 x 3,350 = 2,680 GB/s: 133.2 MB in 49.69 us.
    let fp8 = attention::Work {
        bytes: work.bytes / 2.0,
        eight_bit: true,
        ..work
    };
    near(
        attention::decode(&gpu, &k.attention_8bit, 1.0, fp8, 1.0),
        67.33e-6,
    );
}

#[test]
fn a_cache_in_l2_is_read_from_there_only_by_a_benchmark() {
    // 1 sequence of 8,064 tokens: 33.03 MB of 52.43 MB. Floor 10 + 6 + 0.16 us. Cold: 33.03 MB at 3,015 GB/s = 10.96 us; in L2
    // at 2 x 3,350 = 6,700 GB/s = 4.93 us.
    let gpu = round();
    let cold = attention::Work {
        bytes: 8064.0 * 4096.0,
        eight_bit: false,
        context: 8064.0,
        pairs: 8.0,
        warm: false,
    };
    let law = &gpu.kernels.attention;
    near(attention::decode(&gpu, law, 1.0, cold, 1.0), 27.12e-6);
    let warm = attention::Work { warm: true, ..cold };
    near(attention::decode(&gpu, law, 1.0, warm, 1.0), 21.09e-6);
    // Beyond L2 there is no difference.
    let twice = |w: attention::Work| attention::Work {
        bytes: 2.0 * w.bytes,
        ..w
    };
    let times = [cold, warm].map(|w| attention::decode(&gpu, law, 1.0, twice(w), 1.0));
    assert_eq!(times[0].to_bits(), times[1].to_bits());
}

#[test]
fn linear_layers_by_hand() {
    // 4,096 x 16,384 in 16 bit: 134.2 MB at 0.8 x 3,350 = 2,680 GB/s = 50.08 us. 64 rows: activations 64 x 2 x 20,480 = 2.62 MB at
    // 2 x 3,350 GB/s = 0.39 us; 8.59 GFLOP at 0.7 x 989 TFLOP/s = 12.41 us. 3 + sqrt(50.47^2 + 12.41^2) = 54.97 us.
    let gpu = round();
    let matrix = |rows: f64, format: &WeightFormat, warm: bool| {
        let split = linear::Split {
            gpus: 1.0,
            kernels: 1.0,
            warm,
            routing: linear::Routing::Random,
        };
        let matrix = Matrix {
            name: "row",
            out: 16_384,
            inp: 4096,
            copies: 1,
            active: 1,
            bias: false,
            wide_rows: 0,
            kind: MatrixKind::Ffn,
        };
        linear::matrix(&gpu, format, &matrix, split, rows)
    };
    near(matrix(64.0, &WeightFormat::Bf16, false), 54.97e-6);
    // Six copies do not fit L2, so that a benchmark is as cold as a model.
    let warm = matrix(64.0, &WeightFormat::Bf16, true);
    assert_eq!(
        warm.to_bits(),
        matrix(64.0, &WeightFormat::Bf16, false).to_bits()
    );
    // One row in 8 bit has a kernel of its own: 20 us + 67.11 MB at 0.5 x 3,350 GB/s = 40.07 us; two rows have not:
    // 3 us + 25.04 us + a little.
    near(matrix(1.0, &WeightFormat::Fp8, false), 60.07e-6);
    assert!((28.0e-6..28.2e-6).contains(&matrix(2.0, &WeightFormat::Fp8, false)));
}

#[test]
fn a_small_matrix_of_a_benchmark_lies_in_l2() {
    // 2,048 x 2,048 in 16 bit: 8.39 MB, six of which (50.3 MB) fit the 52.4 MB: at 1.6 x 3,350 = 5,360 GB/s 1.565 us instead of
    // 3.130; one row's activations are 8 KB.
    let gpu = round();
    let at = |warm| {
        let work = linear::Work {
            weights: 2.0 * 2048.0 * 2048.0,
            activations: 0.0,
            flops: 0.0,
            rows: 1.0,
            warm,
        };
        linear::kernel(&gpu, &gpu.kernels.linear, 1.0, 1e15, work)
    };
    near(at(false).1, 6.130e-6);
    near(at(true).1, 4.565e-6);
    near(at(true).0, 3e-6);
}

#[test]
fn prefill_attention_by_hand() {
    // 2,048 tokens, 32 heads of 128, 8 KV heads: 2,098,176 pairs x 4 x 4,096 = 34.38 GFLOP at 0.5 x 989 TFLOP/s = 69.52 us; 512
    // blocks: x 1.25 = 86.90 us. Operands 2 x 2,048 x 128 x 80 = 41.94 MB at 0.4 x 3,350 GB/s = 31.30 us. 9 + sqrt(86.90^2 +
    // 31.30^2) = 101.37 us.
    let work = prefill::Work {
        pairs: prefill::causal_pairs(0.0, 2048.0),
        queries: 2048.0,
        heads: 32.0,
        width: 4096.0,
        operands: 2.0 * 2048.0 * 128.0 * 80.0,
    };
    near(prefill::attention(&round(), 1.0, work), 101.37e-6);
}

#[test]
fn a_law_at_the_end_of_its_spread() {
    // Two thirds of 27.12 us are floor (16.16): a mixed call (0.15 to 0.5 is mixed; 0.596 is floor).
    let mut gpu = round();
    gpu.kernels.attention.spread = Spread {
        bulk: [0.9, 1.1],
        mixed: [0.8, 1.2],
        floor: [0.7, 1.3],
    };
    let work = |bytes: f64| attention::Work {
        bytes,
        eight_bit: false,
        context: 8064.0,
        pairs: 8.0,
        warm: false,
    };
    let mut at = |bytes: f64, off: Option<(&'static str, f64)>| {
        gpu.kernels.attention.off = Off::new(off);
        attention::decode(&gpu, &gpu.kernels.attention, 1.0, work(bytes), 1.0)
    };
    for (bytes, low, high) in [(33e6, 0.7, 1.3), (100e6, 0.8, 1.2), (1e9, 0.9, 1.1)] {
        let best = at(bytes, None);
        near(at(bytes, Some((Off::EVERY, -Z95))), low * best);
        near(at(bytes, Some(("attention", Z95))), high * best);
        // Half way up by factors: the root of it.
        near(
            at(bytes, Some(("attention", Z95 / 2.0))),
            high.sqrt() * best,
        );
        near(at(bytes, Some(("qkv", Z95))), best);
    }
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
    // 3.5 us to call, 0.14 us for each of 9 further pieces of 550 kB, 5.5 MB at 55 GB/s = 100 us; pieces of 22 kB cost 2.3 us.
    let link = h100().link;
    near(
        transfer::copy(&link, 55e9, 5.5e6, 10.0),
        (3.5 + 1.26 + 100.0) * 1e-6,
    );
    near(
        transfer::copy(&link, 55e9, 0.22e6, 10.0),
        (3.5 + 20.7 + 4.0) * 1e-6,
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

#[test]
fn routing_by_hand() {
    // 8 experts, 2 a token. Dealt: 4 tokens fill all 8, 3 reach 6. Skewed by 1 with 4 tokens: 8 draws with p = 1/i / 2.7179: .368,
    // .184, .123, .092, .074, .061, .053, .046, so .975 + .803 + .649 + .538 + .458 + .397 + .351 + .314 = 4.485 are hit.
    let touched = |r: linear::Routing, tokens| r.touched(8.0, 2.0, tokens);
    near(touched(linear::Routing::Dealt, 3.0), 6.0);
    near(touched(linear::Routing::Dealt, 9.0), 8.0);
    near(touched(linear::Routing::Skewed(1.0), 4.0), 4.485);
    near(touched(linear::Routing::Skewed(1.0), 1.0), 2.0);
    // No skew is an even draw, though of draws and not of tokens that choose two different ones.
    assert!(touched(linear::Routing::Skewed(0.0), 4.0) < touched(linear::Routing::Random, 4.0));
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
fn linear_layers_are_flat_in_decode_and_grow_in_prefill() {
    // Weights in 8 bit stream at some 2.8 TB/s and multiply at some 1.3 PFLOP/s: alike at m = 1.3e15 / 2.8e12 / 2 = 230. Up to 32
    // rows little changes; at 460 the products take twice the stream.
    let w = World::of(&scenario("hardware h100-sxm").deployment);
    let at = |m: u32| w.prepared.batch(m).linear[0];
    assert!(at(32) / at(2) < 1.05, "{}", at(32) / at(2));
    assert!(at(512) > 1.8 * at(1));
    let mut last = 0.0;
    for m in 1..600 {
        assert!(at(m) >= last, "{m} rows are faster than fewer");
        last = at(m);
    }
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
