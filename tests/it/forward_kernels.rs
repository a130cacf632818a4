//! The inner loops of the forward pass: all paths give the same bits, and the right ones.

use kvplan::simd::dense::{Dense, Format};
use proptest::prelude::*;

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Numbers by a rule, in -2..2.
fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761) >> 8;
    (0..u32::try_from(n).unwrap())
        .map(|i| hash(i) as f32 / (1u32 << 22) as f32 - 2.0)
        .collect()
}

#[test]
fn paths_that_this_cpu_lacks_are_named() {
    let names: Vec<&str> = Dense::available().iter().map(|d| d.name).collect();
    if let Some(lacking) = crate::replay_simd::lacking(&names) {
        skip!("bit equality of {lacking}: this CPU lacks it");
    }
}

proptest! {
    #[test]
    fn products_sums_and_curves_agree_to_the_bit(
        rows in 1usize..10, items in 1usize..8, blocks in 1usize..6, length in 1usize..70, seed: u32,
    ) {
        let k = 16 * blocks;
        let (w, x) = (numbers(rows * k, seed), numbers(items * k, !seed));
        let (scores, up) = (numbers(length, seed / 3), numbers(length, seed / 7));
        let run = |d: &Dense| {
            let mut products = vec![0.0; rows * items];
            d.products(&w, &x, k, &mut products);
            let (mut soft, mut gate) = (scores.clone(), scores.clone());
            d.softmax(&mut soft);
            d.gate(&mut gate, &up);
            let mut sum = vec![0.0; k];
            d.weighted_sum(&scores[..length.min(rows)], &w[..length.min(rows) * k], &mut sum);
            [products, soft, gate, sum].map(|v| bits(&v))
        };
        let expected = run(&Dense::scalar());
        for path in Dense::available() {
            prop_assert_eq!(run(&path), expected.clone(), "{}", path.name);
        }
    }

    /// An item's products are the same beside any others, and close to a plain sum.
    #[test]
    fn a_product_does_not_depend_on_its_neighbours(
        rows in 1usize..9, items in 2usize..9, blocks in 1usize..6, seed: u32,
    ) {
        let k = 16 * blocks;
        let (w, x) = (numbers(rows * k, seed), numbers(items * k, !seed));
        for d in Dense::available() {
            let mut together = vec![0.0; rows * items];
            d.products(&w, &x, k, &mut together);
            for (c, item) in x.chunks(k).enumerate() {
                let mut alone = vec![0.0; rows];
                d.products(&w, item, k, &mut alone);
                for (r, row) in w.chunks(k).enumerate() {
                    prop_assert_eq!(alone[r].to_bits(), together[r * items + c].to_bits());
                    let plain: f64 = row.iter().zip(item).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    prop_assert!((f64::from(alone[r]) - plain).abs() < 1e-4, "{} and {plain}", alone[r]);
                }
            }
        }
    }

    #[test]
    fn softmax_and_gate_are_those_of_binary64(x in prop::collection::vec(-30f32..30.0, 1..80)) {
        let high = x.iter().copied().fold(f32::MIN, f32::max);
        let e: Vec<f64> = x.iter().map(|v| f64::from(v - high).exp()).collect();
        let z: f64 = e.iter().sum();
        for d in Dense::available() {
            let (mut soft, mut gate) = (x.clone(), x.clone());
            d.softmax(&mut soft);
            d.gate(&mut gate, &vec![2.0; x.len()]);
            for i in 0..x.len() {
                prop_assert!((f64::from(soft[i]) - e[i] / z).abs() < 1e-6 * (e[i] / z) + 1e-9);
                let g = f64::from(x[i]);
                let exact = 2.0 * g / (1.0 + (-g).exp());
                prop_assert!((f64::from(gate[i]) - exact).abs() < 1e-6 * exact.abs() + 1e-9);
            }
        }
    }

    /// Any bytes: whole blocks come out the same on every path.
    #[test]
    fn blocks_widen_to_the_same_bits(format in prop::sample::select(&Format::ALL[..]), seed: u32) {
        let (n, b) = format.block();
        let count = 512 / n;
        let hash = |i: usize| (u32::try_from(i).unwrap() ^ seed).wrapping_mul(2_654_435_761);
        let bytes: Vec<u8> = (0..count * b).map(|i| hash(i).to_le_bytes()[2]).collect();
        let widened = |d: &Dense| {
            let mut out = vec![0.0; 512];
            d.widen(format, &bytes, &mut out);
            // A NaN of the scale is one, whatever its payload.
            out.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect::<Vec<_>>()
        };
        let expected = widened(&Dense::scalar());
        for path in Dense::available() {
            prop_assert_eq!(widened(&path), expected.clone(), "{} {}", path.name, format.name());
        }
    }
}
