//! All paths of the inner loops give the same bits, and the right ones.

use kvplan::simd::Kernels;
use proptest::prelude::*;

use crate::replay_support::half;

/// Finite binary16 numbers, subnormals as likely as not.
fn halves(max: usize) -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(
        prop_oneof![0u16..0x0400, 0u16..0x3c01, 0x8000u16..0x8400],
        0..max,
    )
}

fn widened(bits: &[u16]) -> Vec<f32> {
    let mut out = vec![0.0; bits.len()];
    Kernels::scalar().widen(bits, &mut out);
    out
}

fn bits_of(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn every_binary16_number_widens_to_its_value_on_every_path() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let scalar = widened(&all);
    for (bits, wide) in all.iter().zip(&scalar) {
        if bits & 0x7c00 == 0x7c00 {
            assert_eq!(wide.is_nan(), bits & 0x3ff != 0, "{bits:#06x}");
            assert_eq!(wide.is_infinite(), bits & 0x7fff == 0x7c00, "{bits:#06x}");
        } else {
            assert_eq!(
                f64::from(*wide).to_bits(),
                half(*bits).to_bits(),
                "{bits:#06x}"
            );
        }
    }
    for path in Kernels::available() {
        let mut out = vec![0f32; all.len()];
        path.widen(&all, &mut out);
        for (bits, (a, b)) in all.iter().zip(out.iter().zip(&scalar)) {
            assert_eq!(a.to_bits(), b.to_bits(), "{} {bits:#06x}", path.name);
        }
    }
}

#[test]
fn paths_that_this_cpu_lacks_are_named() {
    let names: Vec<&str> = Kernels::available().iter().map(|k| k.name).collect();
    if let Some(lacking) = lacking(&names) {
        skip!("bit equality of {lacking}: this CPU lacks it");
    }
}

/// Paths that are not among those available, of which the first is always the scalar one.
pub(crate) fn lacking(names: &[&str]) -> Option<String> {
    assert_eq!(names[0], "scalar");
    let mut all = vec!["avx2", "avx512"];
    all.retain(|path| !names.contains(path));
    (!all.is_empty()).then(|| all.join(" and "))
}

proptest! {
    #[test]
    fn sums_and_scores_agree_to_the_bit(
        bits in halves(700),
        mask in prop::collection::vec(prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()], 0..12),
        keep in 0.5f64..0.999,
        start in prop::collection::vec(0f64..10.0, 700),
    ) {
        let scalar = Kernels::scalar();
        let row = widened(&bits);
        let mut base = [start[..row.len()].to_vec(), start[..row.len()].to_vec()];
        scalar.accumulate(&mut base[0], &row);
        scalar.decay(&mut base[1], &row, keep);
        for path in Kernels::available() {
            let mut out = vec![0f32; bits.len()];
            prop_assert_eq!(path.widen(&bits, &mut out).to_bits(), scalar.widen(&bits, &mut vec![0.0; bits.len()]).to_bits());
            prop_assert_eq!(path.sum(&bits).to_bits(), scalar.sum(&bits).to_bits());
            prop_assert_eq!(path.masked_sum(&row, &mask).to_bits(), scalar.masked_sum(&row, &mask).to_bits());
            let mut scores = [start[..row.len()].to_vec(), start[..row.len()].to_vec()];
            path.accumulate(&mut scores[0], &row);
            path.decay(&mut scores[1], &row, keep);
            prop_assert_eq!(bits_of(&scores[0]), bits_of(&base[0]));
            prop_assert_eq!(bits_of(&scores[1]), bits_of(&base[1]));
        }
    }

    /// Weights of an attention row are multiples of 2^-24 and add up exactly, whatever the order.
    #[test]
    fn masked_sums_of_attention_rows_are_exact(bits in prop::collection::vec(0u16..0x1800, 0..300), mask in prop::collection::vec(any::<u64>(), 5)) {
        let plain = |on: &dyn Fn(usize) -> bool| bits.iter().enumerate().filter(|(i, _)| on(*i)).map(|(_, b)| half(*b)).fold(0.0, |a, b| a + b);
        let row = widened(&bits);
        let kernels = Kernels::best();
        let picked = |i: usize| mask[i / 64] >> (i % 64) & 1 == 1;
        prop_assert_eq!(kernels.masked_sum(&row, &mask).to_bits(), plain(&picked).to_bits());
        prop_assert_eq!(kernels.sum(&bits).to_bits(), plain(&|_| true).to_bits());
    }
}
