//! How what a token draws once it is old goes with what it drew when young.
//!
//! `ln old = a + slope * ln young` between tokens, least squares. It says what tokens that are still in the window will
//! draw when they leave it, and what narrows when young factors do: drawn apart from their young factors, too many tokens
//! with low scores would climb. Outliers (heavy hitters too young to be told, bursts of one span) are drawn in to a factor
//! of e of the median first, since a line through a few of them is too steep for all others.

use super::law::Donor;
use super::trim::{Line, median};

/// Furthest from the median that a log counts for.
const FURTHEST: f64 = 1.0;

/// The line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    pub(super) slope: f64,
    /// Typical weight at age 128 of a young factor of 1.
    level: f64,
}

impl Lasting {
    /// Between these tokens.
    pub(super) fn fit(donors: &[Donor]) -> Self {
        let middle = median(&mut donors.iter().map(|d| d.old.ln()).collect::<Vec<_>>());
        let mut line = Line::default();
        for d in donors {
            let old = d.old.ln().clamp(middle - FURTHEST, middle + FURTHEST);
            line.add(d.young.ln(), old);
        }
        let slope = line.slope().unwrap_or(0.0).clamp(0.0, 2.0);
        Self {
            slope,
            level: (line.mean_y() - slope * line.mean_x()).exp(),
        }
    }

    /// Typical weight at age 128 of a young factor: without bursts, which would raise the mean.
    pub(super) fn old(&self, young: f64) -> f64 {
        self.level * young.powf(self.slope)
    }
}

#[cfg(test)]
mod tests {
    use super::{Donor, Lasting};

    /// old = 0.002 * sqrt(young): slope 0.5. A tenth of them drawing a hundredfold count as e-fold: ln of the level grows by
    /// about 0.1, where their mean would grow by ln 10.9.
    #[test]
    fn outliers_hardly_bend_the_line() {
        let tokens = |outlier: f64| -> Vec<Donor> {
            let one = |i: u32| {
                let young = 0.5 + f64::from(i / 10) / 40.0;
                let old = 0.002 * young.sqrt() * if i.is_multiple_of(10) { outlier } else { 1.0 };
                Donor {
                    young,
                    old,
                    born: i,
                }
            };
            (0..400).map(one).collect()
        };
        let (plain, burst) = (Lasting::fit(&tokens(1.0)), Lasting::fit(&tokens(100.0)));
        assert!((plain.slope - 0.5).abs() < 1e-9 && (plain.old(1.0) / 0.002 - 1.0).abs() < 1e-9);
        assert!((burst.slope - 0.5).abs() < 0.1, "{}", burst.slope);
        let raised = (burst.old(0.8) / plain.old(0.8)).ln();
        assert!((raised - 0.1).abs() < 0.05, "{raised}");
    }
}
