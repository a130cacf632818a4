//! Intervals and tests for few problems.
//!
//! Accuracy: Wilson's score interval, which stays within 0 and 1 and is honest at 0 of n, where the normal interval has no
//! width (Wilson 1927; Brown, Cai and `DasGupta` 2001). Policies answer the same problems, so they are held against the full
//! cache by `McNemar`'s exact test on the answers that only one of the two has right: the two intervals overlapping says
//! little of a paired difference. Divergence: percentile bootstrap over problems of a ratio of sums, since tokens of one
//! text are not independent. Ignored: that several policies are tested at once.

use crate::stats::{Purpose, percentile, stream};

/// Normal quantile of a two-sided 95 % interval.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Wilson's score interval of `k` of `n` for a normal quantile `z`; none of none.
pub fn wilson(k: u32, n: u32, z: f64) -> Option<(f64, f64)> {
    if n == 0 || k > n {
        return None;
    }
    let (trials, z2) = (f64::from(n), z * z);
    let p = f64::from(k) / trials;
    let middle = p + z2 / (2.0 * trials);
    let half = z * (p * (1.0 - p) / trials + z2 / (4.0 * trials * trials)).sqrt();
    let scale = 1.0 + z2 / trials;
    let low = if k == 0 { 0.0 } else { (middle - half) / scale };
    let high = if k == n { 1.0 } else { (middle + half) / scale };
    Some((low, high))
}

/// `McNemar`'s exact two-sided p-value: `gained` answers that only the policy has right, `lost` that only the full cache
/// has. Under the null each is a fair coin: twice the lower tail, at most 1.
pub fn mcnemar(gained: u32, lost: u32) -> f64 {
    let n = gained + lost;
    // ln C(n, k) - n ln 2, by its ratio to the one before.
    let mut term = -f64::from(n) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=gained.min(lost) {
        tail += term.exp();
        term += (f64::from(n - k) / f64::from(k + 1)).ln();
    }
    (2.0 * tail).min(1.0)
}

/// 90 % interval of a ratio of sums over problems, by resampling them; none of fewer than two problems.
pub fn ratio_interval(parts: &[(f64, f64)], resamples: u32, seed: u64) -> Option<(f64, f64)> {
    use rand::RngExt;
    let n = u32::try_from(parts.len()).ok().filter(|n| *n > 1)?;
    let mut rng = stream(seed, Purpose::Bootstrap);
    let mut one = || {
        let drawn = (0..n).map(|_| parts[rng.random_range(0..n) as usize]);
        let (over, under) = drawn.fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
        if under > 0.0 { over / under } else { 0.0 }
    };
    let mut ratios: Vec<f64> = (0..resamples).map(|_| one()).collect();
    Some((
        percentile(&mut ratios, 0.05)?,
        percentile(&mut ratios, 0.95)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{Z95, mcnemar, ratio_interval, wilson};

    /// 15 of 50 with z = 1.96: z2 = 3.8416, scale 1.076832, middle 0.3 + 0.038416 = 0.338416, half
    /// 1.96 sqrt(0.0042 + 0.00038416) = 1.96 * 0.0677065 = 0.1327047; so 0.191034 to 0.437506. And 0 of 10:
    /// high = (z2/20 + 1.96 * z/20) / (1 + z2/10) = 0.38416 / 1.38416 = 0.277540.
    #[test]
    fn wilson_by_hand() {
        let (low, high) = wilson(15, 50, 1.96).unwrap();
        assert!(
            (low - 0.191_034).abs() < 1e-5 && (high - 0.437_506).abs() < 1e-5,
            "{low} {high}"
        );
        let (low, high) = wilson(0, 10, 1.96).unwrap();
        assert!(
            low == 0.0 && (high - 0.277_540).abs() < 1e-5,
            "{low} {high}"
        );
        let (low, high) = wilson(10, 10, 1.96).unwrap();
        assert!(
            (low - 0.722_460).abs() < 1e-5 && (high - 1.0).abs() < 1e-12,
            "{low} {high}"
        );
        assert_eq!(wilson(0, 0, Z95), None);
    }

    /// 1 gained, 5 lost: 2 (C(6,0) + C(6,1)) / 64 = 14/64. 0 and 8: 2/256. Equal numbers: 1.
    #[test]
    fn mcnemar_by_hand() {
        assert!((mcnemar(1, 5) - 14.0 / 64.0).abs() < 1e-12);
        assert!((mcnemar(8, 0) - 2.0 / 256.0).abs() < 1e-12);
        assert!((mcnemar(3, 3) - 1.0).abs() < 1e-12);
        assert!((mcnemar(0, 0) - 1.0).abs() < 1e-12);
        // 2 * 2^-2000 is below the least binary64: 0, not a number that is not one.
        assert!(mcnemar(0, 2000).abs() < 1e-300);
    }

    /// All problems with the same ratio: no width. Two problems of ratio 0 and 1 and equal weight: 1/4, 1/2, 1/4.
    #[test]
    fn ratios() {
        let (low, high) = ratio_interval(&[(1.0, 2.0), (2.0, 4.0)], 200, 1).unwrap();
        assert!((low - 0.5).abs() < 1e-12 && (high - 0.5).abs() < 1e-12);
        let (low, high) = ratio_interval(&[(0.0, 1.0), (1.0, 1.0)], 500, 1).unwrap();
        assert!(low.abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
        assert_eq!(ratio_interval(&[(1.0, 1.0)], 10, 1), None);
    }
}
