//! Small statistics of the fit.

/// Least squares of y over x.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    pub(super) fn mean_x(&self) -> f64 {
        self.x / self.n.max(1.0)
    }

    pub(super) fn mean_y(&self) -> f64 {
        self.y / self.n.max(1.0)
    }

    /// Slope; none of fewer than three points or without spread in x.
    pub(super) fn slope(&self) -> Option<f64> {
        let spread = self.n * self.xx - self.x * self.x;
        (self.n >= 3.0 && spread > 1e-9).then(|| (self.n * self.xy - self.x * self.y) / spread)
    }
}

/// Mean; 0 of none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    crate::stats::mean(values)
}

/// Variance around the mean.
pub(super) fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let m = mean(values.clone());
    mean(values.map(|x| (x - m) * (x - m)))
}

/// Median; 0 of none; reorders.
pub(super) fn median(values: &mut [f64]) -> f64 {
    crate::stats::percentile(values, 0.5).unwrap_or(0.0)
}
