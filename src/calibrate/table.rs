//! Measured times between which one interpolates where no line holds.
//!
//! Linear in the logarithms of size and time, so that a table is exact for any power law and never negative; with several
//! sizes first along the last, then between the curves along the one before, and so on. Beyond its ends a table goes on
//! as it ended, by at most a power of 0 to 2 of the size; one of factors stays level. Rival: a spline, which swings where measurements jump (copies of
//! small pieces jump sixfold at 28 KiB).

/// Times by sizes, as logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Sizes of each time, as many each.
    sizes: Vec<Vec<f64>>,
    times: Vec<f64>,
    /// Highest power of the size by which it goes on beyond its ends.
    steepest: f64,
}

/// Highest power of the size by which times go on.
const STEEPEST: f64 = 2.0;

impl Table {
    /// Of positive sizes and times; none of none.
    pub fn new(rows: impl IntoIterator<Item = (Vec<f64>, f64)>) -> Option<Self> {
        let mut rows: Vec<(Vec<f64>, f64)> = rows.into_iter().collect();
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        let width = rows.first()?.0.len();
        let sound =
            |(s, t): &(Vec<f64>, f64)| s.len() == width && s.iter().all(positive) && positive(t);
        if !rows.iter().all(sound) {
            return None;
        }
        rows.sort_by(|a, b| {
            let by_size = a.0.iter().zip(&b.0).map(|(x, y)| x.total_cmp(y));
            by_size.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        let logs = |s: &[f64]| s.iter().map(|x| libm::log(*x)).collect();
        Some(Self {
            sizes: rows.iter().map(|(s, _)| logs(s)).collect(),
            times: rows.iter().map(|(_, t)| libm::log(*t)).collect(),
            steepest: STEEPEST,
        })
    }

    /// The same, level beyond its ends: for factors on a law.
    #[must_use]
    pub fn level(self) -> Self {
        Self {
            steepest: 0.0,
            ..self
        }
    }

    /// The time at some sizes; none if they are not as many, or not positive.
    pub fn at(&self, sizes: &[f64]) -> Option<f64> {
        let logs: Vec<f64> = sizes.iter().map(|x| libm::log(*x)).collect();
        let fits = logs.len() == self.sizes[0].len() && logs.iter().all(|x| x.is_finite());
        fits.then(|| libm::exp(self.within(0..self.times.len(), 0, &logs)))
    }

    /// Among some rows that agree in the sizes before `axis`.
    fn within(&self, rows: std::ops::Range<usize>, axis: usize, at: &[f64]) -> f64 {
        if axis == at.len() {
            return self.times[rows.start];
        }
        let mut curve: Vec<(f64, f64)> = Vec::new();
        let mut from = rows.start;
        while from < rows.end {
            let size = self.sizes[from][axis];
            let same = |r: &usize| self.sizes[*r][axis].total_cmp(&size).is_eq();
            let to = from + (from..rows.end).take_while(same).count();
            curve.push((size, self.within(from..to, axis + 1, at)));
            from = to;
        }
        along(&curve, at[axis], self.steepest)
    }
}

/// Along a curve of ascending sizes.
fn along(curve: &[(f64, f64)], at: f64, steepest: f64) -> f64 {
    let Some(last) = curve.len().checked_sub(1).filter(|l| *l > 0) else {
        return curve.first().map_or(0.0, |c| c.1);
    };
    let above = curve.iter().position(|c| c.0 >= at).unwrap_or(last);
    let (a, b) = (curve[above.max(1) - 1], curve[above.max(1)]);
    let slope = (b.1 - a.1) / (b.0 - a.0);
    if at < a.0 {
        a.1 + slope.clamp(0.0, steepest) * (at - a.0)
    } else if at > b.0 {
        b.1 + slope.clamp(0.0, steepest) * (at - b.0)
    } else {
        a.1 + slope * (at - a.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn near(got: Option<f64>, want: f64) {
        let got = got.unwrap();
        assert!((got / want - 1.0).abs() < 1e-12, "{got}, wanted {want}");
    }

    /// t = n^1.5 at 1, 4 and 100: exact between and beyond.
    #[test]
    fn a_power_law_is_met_exactly() {
        let rows = [100.0, 1.0, 4.0].map(|n: f64| (vec![n], n * n.sqrt()));
        let table = Table::new(rows).unwrap();
        near(table.at(&[1.0]), 1.0);
        near(table.at(&[9.0]), 27.0);
        near(table.at(&[400.0]), 8000.0);
    }

    /// Curves 10 x (at a = 1) and 40 x (at a = 4), so 10 a x; the second has other sizes than the first.
    #[test]
    fn two_sizes_go_curve_by_curve() {
        let rows = [
            (vec![1.0, 1.0], 10.0),
            (vec![1.0, 8.0], 80.0),
            (vec![4.0, 2.0], 80.0),
            (vec![4.0, 16.0], 640.0),
        ];
        let table = Table::new(rows).unwrap();
        near(table.at(&[2.0, 4.0]), 80.0);
        near(table.at(&[4.0, 3.0]), 120.0);
        assert_eq!(table.at(&[2.0]), None);
        assert_eq!(table.at(&[2.0, 0.0]), None);
    }

    /// A time that falls with size goes on level, one that explodes by the square.
    #[test]
    fn beyond_its_ends_a_table_is_tame() {
        let falling = Table::new([(vec![1.0], 8.0), (vec![2.0], 4.0)]).unwrap();
        near(falling.at(&[64.0]), 4.0);
        let steep = Table::new([(vec![1.0], 1.0), (vec![2.0], 16.0)]).unwrap();
        near(steep.at(&[4.0]), 64.0);
        let factors = Table::new([(vec![1.0], 1.0), (vec![2.0], 16.0)]).unwrap();
        near(factors.level().at(&[4.0]), 16.0);
        let one = Table::new([(vec![7.0], 3.0)]).unwrap();
        near(one.at(&[1e9]), 3.0);
        assert_eq!(Table::new([]), None);
        assert_eq!(Table::new([(vec![0.0], 1.0)]), None);
    }
}
