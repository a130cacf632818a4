//! Scales of inline figures: a place for every value that a result may hold, however odd, and round ticks.

use super::super::plot::chrome::Linear;

pub(super) use super::super::plot::chrome::tick;

/// A scale from 0, long enough for all of these values, from place `at.0` to `at.1`.
pub(super) fn from_zero(values: impl IntoIterator<Item = f64>, at: (f64, f64)) -> Linear {
    let most = values.into_iter().map(sane).fold(0.0, f64::max);
    Linear {
        range: (0.0, if most > 0.0 { most } else { 1.0 }),
        at,
    }
}

/// A value that can be drawn: finite, not negative, and no larger than can be added up.
pub(super) fn sane(value: f64) -> f64 {
    if value.is_finite() {
        value.clamp(0.0, 1e300)
    } else {
        0.0
    }
}

/// A coordinate, to a tenth of a unit.
pub(super) fn place(value: f64) -> String {
    let tenths = (10.0 * value).round() / 10.0;
    if !tenths.is_finite() {
        return "0".into();
    }
    format!("{}", tenths.clamp(-1e6, 1e6) + 0.0)
}
