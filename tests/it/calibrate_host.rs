//! The host's loops: all paths by bits, and the right ones; the probe on this machine.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kvplan::calibrate::Calibrated;
use kvplan::calibrate::facts::Facts;
use kvplan::calibrate::host::HostProbe;
use kvplan::calibrate::host_attention::{Shape, attend};
use kvplan::calibrate::probe::{Measurement, Pace, Probe, measure};
use kvplan::catalog;
use kvplan::simd::Kernels;
use kvplan::simd::dense::{Attend, Dense, Running, TILE};
use proptest::prelude::*;

use crate::replay_support::half;

/// Binary16 numbers in -1..1 by a rule, and their values.
fn halves(n: usize, seed: u32) -> (Vec<u8>, Vec<f64>) {
    let bits = |i: u32| {
        let hash = (i ^ seed).wrapping_mul(2_654_435_761) >> 9;
        let exponent = 0x3800 - u16::try_from(hash >> 16 & 3).unwrap() * 0x400;
        u16::try_from(hash & 0x83ff).unwrap() | exponent
    };
    let all: Vec<u16> = (0..u32::try_from(n).unwrap()).map(bits).collect();
    let bytes = all.iter().flat_map(|b| b.to_le_bytes()).collect();
    (bytes, all.iter().map(|b| half(*b)).collect())
}

fn queries(n: usize, seed: u32) -> Vec<f32> {
    let hash = |i: u32| (i ^ seed).wrapping_mul(2_246_822_519) >> 8;
    (0..u32::try_from(n).unwrap())
        .map(|i| hash(i) as f32 / (1u32 << 22) as f32 - 2.0)
        .collect()
}

/// Plain attention in binary64.
fn plain(query: &[f32], keys: &[f64], values: &[f64]) -> Vec<f64> {
    let width = query.len();
    let dot = |k: &[f64]| {
        k.iter()
            .zip(query)
            .map(|(k, q)| k * f64::from(*q))
            .sum::<f64>()
    };
    let products: Vec<f64> = keys.chunks(width).map(dot).collect();
    let high = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = products.iter().map(|p| (p - high).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut out = vec![0.0; width];
    for (w, v) in weights.iter().zip(values.chunks(width)) {
        out.iter_mut().zip(v).for_each(|(o, v)| *o += w / total * v);
    }
    out
}

/// Outputs and states of a group after `pieces` calls.
fn run(d: &Dense, q: &[f32], kv: [&[u8]; 2], width: usize, at: usize) -> (Vec<u32>, Vec<f32>) {
    let group = q.len() / width;
    let (mut out, mut runs) = (vec![0.0; q.len()], vec![Running::NEW; group]);
    for part in [0..at, at..kv[0].len()] {
        let over = Attend {
            queries: q,
            keys: &kv[0][part.clone()],
            values: &kv[1][part],
            width,
        };
        d.attend(over, &mut out, &mut runs);
    }
    let bits = out
        .iter()
        .chain(runs.iter().map(|r| &r.high))
        .map(|x| x.to_bits())
        .collect();
    for (out, run) in out.chunks_mut(width).zip(&runs) {
        for o in out {
            *o /= run.total();
        }
    }
    (bits, out)
}

proptest! {
    #[test]
    fn attention_agrees_to_the_bit_and_with_a_plain_loop(
        group in 1usize..13, blocks in 1usize..10, tokens in 1usize..400, seed: u32,
    ) {
        let width = 16 * blocks;
        let (keys, k) = halves(tokens * width, seed);
        let (values, v) = halves(tokens * width, !seed);
        let scale = 1.0 / (width as f32).sqrt();
        let q: Vec<f32> = queries(group * width, seed).iter().map(|q| q * scale).collect();
        let (expected, outputs) = run(&Dense::scalar(), &q, [&keys, &values], width, 0);
        for path in Dense::available() {
            let whole = run(&path, &q, [&keys, &values], width, 0).0;
            prop_assert_eq!(&whole, &expected, "{}", path.name);
            // Calls of whole tiles give the bits of one call.
            let tiles = tokens / TILE / 2 * TILE * width * 2;
            let parts = run(&path, &q, [&keys, &values], width, tiles).0;
            prop_assert_eq!(&parts, &expected, "{} in parts", path.name);
        }
        for (q, out) in q.chunks(width).zip(outputs.chunks(width)) {
            for (got, want) in out.iter().zip(plain(q, &k, &v)) {
                prop_assert!((f64::from(*got) - want).abs() < 2e-6, "{got} {want}");
            }
        }
    }

    /// Split over threads and merged, it is the plain loop over each head.
    #[test]
    fn heads_and_parts_are_put_together_again(
        batch in 1usize..3, context in 1usize..2600, kv_heads in 1usize..4, group in 1usize..6, threads in 1usize..4, seed: u32,
    ) {
        let shape = Shape { batch, context, kv_heads, group, head_dim: 32 };
        let (kv, numbers) = halves(shape.bytes() / 2, seed);
        let q = queries(shape.width(), seed);
        let mut out = vec![f32::NAN; shape.width()];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| attend(Dense::best(), shape, &kv, &q, &mut out));
        let per_head = shape.head_bytes() / 2;
        let heads = q.chunks(32 * group).zip(out.chunks(32 * group)).zip(numbers.chunks(per_head));
        for ((q, out), numbers) in heads {
            let (k, v) = numbers.split_at(per_head / 2);
            for (q, out) in q.chunks(32).zip(out.chunks(32)) {
                let scaled: Vec<f32> = q.iter().map(|q| q / 32f32.sqrt()).collect();
                for (got, want) in out.iter().zip(plain(&scaled, k, v)) {
                    prop_assert!((f64::from(*got) - want).abs() < 5e-6, "{got} {want}");
                }
            }
        }
    }

    #[test]
    fn bytes_pack_the_same_everywhere_and_unpack_within_half_a_step(blocks in 1usize..12, seed: u32) {
        let (row, numbers) = halves(16 * blocks, seed);
        let pack = |d: &Dense| {
            let mut codes = vec![0; 16 * blocks];
            let scale = d.pack(&row, &mut codes);
            let mut wide = vec![0.0; 16 * blocks];
            d.unpack(&codes, scale, &mut wide);
            (codes, scale.map(f32::to_bits), wide)
        };
        let expected = pack(&Dense::scalar());
        for path in Dense::available() {
            prop_assert_eq!(pack(&path), expected.clone(), "{}", path.name);
        }
        let step = f64::from(f32::from_bits(expected.1[1]));
        for (got, want) in expected.2.iter().zip(numbers) {
            prop_assert!((f64::from(*got) - want).abs() <= 0.5001 * step + 1e-6, "{got} {want}");
        }
    }

    #[test]
    fn the_plain_pass_sums_words_the_same_everywhere(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let words = bytes.chunks_exact(512).flat_map(|block| block.chunks_exact(8));
        let word = |w: &[u8]| u64::from_le_bytes(w.try_into().unwrap());
        let want = words.fold(0u64, |sum, w| sum.wrapping_add(word(w)));
        for path in Kernels::available() {
            prop_assert_eq!(path.total(&bytes), want, "{}", path.name);
        }
    }
}

#[test]
fn multiply_adds_come_to_the_same_everywhere() {
    let want = Dense::scalar().multiply_add(100);
    for path in Dense::available().iter().filter(|d| d.name != "avx512") {
        assert_eq!(
            path.multiply_add(100).to_bits(),
            want.to_bits(),
            "{}",
            path.name
        );
    }
    // Chains tend to 1: twelve of sixteen lanes.
    assert!(
        (Dense::best().multiply_add(100_000) - 192.0).abs() < 1.0 || Dense::best().name != "avx512"
    );
}

/// Odd contexts, few heads: parts keep threads busy and never split below 512 tokens.
#[test]
fn parts_keep_threads_busy() {
    let shape = |batch, kv_heads, context| Shape {
        batch,
        context,
        kv_heads,
        group: 4,
        head_dim: 128,
    };
    assert_eq!(shape(1, 8, 8192).parts(2), 1);
    assert_eq!(shape(1, 8, 8192).parts(64), 8);
    assert_eq!(shape(1, 1, 8192).parts(3), 3);
    assert_eq!(shape(1, 1, 700).parts(64), 1);
    assert_eq!(shape(1, 2, 0).parts(64), 1);
}

/// One round of everything on this machine: every point has a time, and they make a profile.
#[test]
fn this_machine_is_measured_and_fitted() {
    if Facts::here().available.is_some_and(|a| a < 4 << 30) {
        skip!("measuring this machine: less than 4 GiB of memory are free");
    }
    let pace = Pace {
        warm_up: 0,
        repetitions: 1,
        budget: Duration::from_secs(60),
    };
    let mut probe = HostProbe::new(pace, true).unwrap();
    let points = probe.points();
    let raw = measure(&mut probe, 1, &AtomicU64::new(0)).unwrap();
    assert_eq!(raw.points(), points);
    assert_eq!(raw.of("host"), "host");
    for measurement in [
        Measurement::DdrRead,
        Measurement::Select,
        Measurement::HostAttention,
    ] {
        assert!(
            points
                .iter()
                .any(|p| p.measurement == measurement && p.hold)
        );
    }
    let base = catalog::hardware("rtx-5080").unwrap();
    let done = Calibrated::of(&raw, base, false, &|_, _, _| None).unwrap();
    let host = &done.hardware.host;
    assert!(
        host.ddr_read.get() > 1e8 && host.attention_flops.get() > 1e7,
        "{host:?}"
    );
    assert!(host.ddr_read.reference.contains("ddr_read.threads="));
}
