//! Quantiles of the normal law: a rational start (Abramowitz and Stegun 26.2.23, off by 5e-4) and two steps of Newton's on the
//! distribution function, which is `erfc`'s, so that nothing rests on the digits of a longer table.

/// Ends beyond which nothing is drawn, in standard deviations: one draw in 30,000.
const MOST: f64 = 4.0;

/// The `z` below which a share of a normal law lies; at most 4 from the middle.
pub(super) fn quantile(share: f64) -> f64 {
    if share > 0.5 {
        return -lower(1.0 - share);
    }
    lower(share)
}

/// The same for a share of at most a half.
fn lower(share: f64) -> f64 {
    if share <= below(-MOST) {
        return -MOST;
    }
    let t = (-2.0 * libm::log(share)).sqrt();
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = top / under - t;
    for _ in 0..2 {
        let density = libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
        z -= (below(z) - share) / density;
    }
    z
}

/// Share of a normal law below `z`.
fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::quantile;
    use crate::hardware::value::Z95;

    /// From a table of the normal law: 0.5 at 0, 0.95 at 1.644854, 0.975 at 1.959964, 0.999 at 3.090232.
    #[test]
    fn quantiles_of_a_table() {
        for (share, z) in [
            (0.5, 0.0),
            (0.95, Z95),
            (0.05, -Z95),
            (0.975, 1.959_964),
            (0.001, -3.090_232),
        ] {
            assert!((quantile(share) - z).abs() < 1e-6, "{share}");
        }
        assert!((quantile(0.0) + 4.0).abs() < 1e-9 && (quantile(1.0) - 4.0).abs() < 1e-9);
    }
}
