//! Attention weights as binary16: exact integer sums, checks on the bits, rounding from wider floats.
//!
//! Every finite non-negative binary16 is a whole number of 2^-24 (its smallest subnormal), so a row's sum is exact in
//! a `u64` of those units and the row-sum check has no rounding of its own. The rival, summing in floats, would need a
//! tolerance for the sum on top of the tolerance for the data. Validity is one comparison on the bits: a weight is
//! finite and not negative exactly when `bits < 0x7C00`.
//!
//! Nothing here is an inner loop of the replay; conversion to `f32` for scoring lives in `simd`.

use crate::error::{Error, Result};

/// First bit pattern that is not a finite non-negative number (it is +infinity; NaNs and all negatives lie above).
pub const NOT_A_WEIGHT: u16 = 0x7C00;

/// Units of 2^-24 in one.
pub const ONE: u64 = 1 << 24;

/// A finite non-negative binary16 in units of 2^-24, exactly.
pub const fn units(bits: u16) -> u64 {
    let (exponent, fraction) = ((bits >> 10) & 31, (bits & 0x3FF) as u64);
    match exponent {
        0 => fraction,
        e => (1024 + fraction) << (e - 1),
    }
}

/// Sum of a row in units of 2^-24, exactly (a row of 2^31 weights of at most 65504 stays below 2^63).
pub fn sum(row: &[u16]) -> u64 {
    row.iter().map(|&w| units(w)).sum()
}

/// Whether every weight is finite and not negative (negative zero counts as negative).
pub fn all_weights(row: &[u16]) -> bool {
    row.iter().fold(0, |high, &w| w.max(high)) < NOT_A_WEIGHT
}

/// How far a row of `n` weights rounded to binary16 may miss 1: 2^-11 + n * 2^-25.
pub fn tolerance(n: usize) -> f64 {
    (f64::from(1 << 14) + n as f64) / f64::from(1 << 25)
}

/// Whether a row's exact sum is 1 within [`tolerance`]; both sides are integers of 2^-25.
pub fn sums_to_one(row: &[u16]) -> bool {
    (2 * sum(row)).abs_diff(2 * ONE) <= (1 << 14) + row.len() as u64
}

/// Rounds to the nearest binary16, ties to even. NaN gives 0x7E00, beyond 65504 infinity; negatives keep their sign.
#[allow(clippy::cast_possible_truncation)] // every product below is a whole number under 2^11 + 1
pub fn from_f64(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7E00;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let value = value.abs();
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(-14);
    if exponent > 15 {
        return sign | NOT_A_WEIGHT;
    }
    // The spacing of binary16 in this binade is 2^(exponent - 10); dividing by it is exact.
    let steps = (value * f64::from(10 - exponent).exp2()).round_ties_even() as u16;
    let biased = (exponent + 14) as u16;
    // At exponent -14 `biased` is 0 and normals carry their leading bit into the exponent field by themselves.
    sign | ((biased << 10) + steps)
}

/// The first weight of a row that is not finite or is negative, in words.
pub fn fault(row: &[u16]) -> Option<(usize, &'static str)> {
    let at = row.iter().position(|&w| w >= NOT_A_WEIGHT)?;
    let what = match row[at] {
        w if w & 0x7FFF > NOT_A_WEIGHT => "is NaN",
        w if w & 0x8000 != 0 => "is negative",
        _ => "is infinite",
    };
    Some((at, what))
}

/// Refuses a row with a weight that is NaN, infinite or negative.
///
/// `place` names the row and its first byte, and is only asked for on failure.
///
/// # Errors
/// Data: the place and the position within the row.
pub fn check_weights(row: &[u16], place: &dyn Fn() -> String) -> Result<()> {
    if all_weights(row) {
        return Ok(());
    }
    let (at, what) = fault(row).unwrap_or((0, "is not a weight"));
    Err(Error::data(format!("{}: the weight of position {at} {what}", place()))
        .help("attention weights are finite and at least 0: the recorder overflowed or wrote another type"))
}

/// Refuses a row whose sum misses 1 by more than [`tolerance`].
///
/// # Errors
/// Data: the place, the sum and the tolerance.
pub fn check_sum(row: &[u16], place: &dyn Fn() -> String) -> Result<()> {
    if sums_to_one(row) {
        return Ok(());
    }
    let (total, allowed) = (sum(row) as f64 / ONE as f64, tolerance(row.len()));
    Err(Error::data(format!(
        "{}: {} weights sum to {total:.6}, which misses 1 by more than {allowed:.6}",
        place(),
        row.len()
    ))
    .help("rows are softmax outputs averaged over heads, own position included; they are never renormalised here"))
}

/// Refuses per-layer rows that do not average to the mean row.
///
/// Both sides were rounded to binary16 (relative 2^-11, at least half a unit), so they may differ by 2^-10 of the weight
/// and one unit; the bound below is that, a little wider.
///
/// # Errors
/// Data: the place and the first position that differs.
pub fn check_mean(mean: &[u16], layers: &[u16], place: &dyn Fn() -> String) -> Result<()> {
    let count = (layers.len() / mean.len().max(1)) as u64;
    let mut total = vec![0; mean.len()];
    for layer in layers.chunks_exact(mean.len().max(1)) {
        total
            .iter_mut()
            .zip(layer)
            .for_each(|(sum, &w)| *sum += units(w));
    }
    let differs = |(sum, &w): (&u64, &u16)| {
        let expected = count * units(w);
        sum.abs_diff(expected) > expected / 1000 + 2 * count
    };
    match total.iter().zip(mean).position(differs) {
        None => Ok(()),
        Some(at) => Err(Error::data(format!(
            "{}: position {at} is {:.6} in the mean row and {:.6} as the mean of {count} layers",
            place(),
            units(mean[at]) as f64 / ONE as f64,
            total[at] as f64 / (ONE * count) as f64,
        ))
        .help(
            "layers and mean rows are not of the same recording, or layers are in another order",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of binary16, through f64 powers, for all bit patterns of weights.
    fn value(bits: u16) -> f64 {
        let (e, m) = (i32::from(bits >> 10), f64::from(bits & 0x3FF));
        if e == 0 {
            m * 2f64.powi(-24)
        } else {
            (1.0 + m / 1024.0) * 2f64.powi(e - 15)
        }
    }

    #[test]
    fn units_are_the_definition_and_rounding_returns_every_pattern() {
        for bits in 0..NOT_A_WEIGHT {
            let v = value(bits);
            assert_eq!(
                (units(bits) as f64).to_bits(),
                (v * 2f64.powi(24)).to_bits()
            );
            assert_eq!(from_f64(v), bits);
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_between_every_pair() {
        for bits in 0..NOT_A_WEIGHT - 1 {
            let middle = f64::midpoint(value(bits), value(bits + 1));
            let even = bits + (bits & 1);
            assert_eq!(from_f64(middle), even, "tie above {bits:#x}");
            assert_eq!(from_f64(middle.next_down()), bits);
            assert_eq!(from_f64(middle.next_up()), bits + 1);
        }
        // 65520 is the tie between 65504 and 2^16.
        assert_eq!(from_f64(65519.9), 0x7BFF);
        assert_eq!(from_f64(65520.0), NOT_A_WEIGHT);
        assert_eq!(from_f64(1e300), NOT_A_WEIGHT);
        assert_eq!(from_f64(f64::INFINITY), NOT_A_WEIGHT);
        assert_eq!(from_f64(f64::NAN), 0x7E00);
        assert_eq!(from_f64(-0.0), 0x8000);
        assert_eq!(from_f64(-1.0), 0xBC00);
        assert_eq!(from_f64(f64::MIN_POSITIVE), 0);
    }

    #[test]
    fn the_sum_check_is_tight_by_one_unit() {
        // 0x3800 is 0.5; 0x3801 is 0.5 + 2^-11, that is 2^13 = 8192 units of 2^-24 more. Three weights are allowed
        // 2^14 + 3 = 16387 units of 2^-25: 2 * (8192 + 1) = 16386 passes, 2 * (8192 + 2) = 16388 does not.
        assert!(sums_to_one(&[0x3800, 0x3801, 1]));
        assert!(!sums_to_one(&[0x3800, 0x3801, 2]));
        // Below: 0x3BFF is 1 - 2^-11, 8192 units short, 16384 <= 2^14 + 1; with nothing near 1 it fails.
        assert!(sums_to_one(&[0x3BFF]));
        assert!(!sums_to_one(&[0x3BFE]));
        assert!(!sums_to_one(&[]));
    }
}
