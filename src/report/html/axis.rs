//! Scales of inline figures: a place for every value that a result may hold, however odd, and round ticks.

use maud::{Markup, html};

use super::super::plot::chrome::Linear;
use super::super::plot::frame::decimal_ticks;

pub(super) use super::super::plot::chrome::tick;

/// A scale from 0, long enough for all of these values, from place `at.0` to `at.1`.
pub(super) fn from_zero(values: impl IntoIterator<Item = f64>, at: (f64, f64)) -> Linear {
    let most = values.into_iter().map(sane).fold(0.0, f64::max);
    Linear {
        range: (0.0, if most > 0.0 { most } else { 1.0 }),
        at,
    }
}

/// A scale around these values, with a margin.
pub(super) fn around(values: impl IntoIterator<Item = f64>, at: (f64, f64)) -> Linear {
    let ends = values
        .into_iter()
        .map(sane)
        .fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| {
            (l.min(v), h.max(v))
        });
    let (low, high) = if ends.1 > 0.0 { ends } else { (0.0, 1.0) };
    let margin = (0.06 * (high - low)).max(0.01 * high);
    Linear {
        range: ((low - margin).max(0.0), high + margin),
        at,
    }
}

/// Ticks under bars, the last with the unit.
pub(super) fn under(axis: &Linear, unit: &str) -> Markup {
    let ticks = axis.ticks(4.0);
    let last = ticks.len().saturating_sub(1);
    let share = |v: f64| (v - axis.range.0) / (axis.range.1 - axis.range.0);
    html! {
        div.axis aria-hidden="true" {
            @for (i, v) in ticks.iter().enumerate() {
                span .end[share(*v) > 0.9] style={ "left:" (place(100.0 * share(*v))) "%" } {
                    (tick(*v)) @if i == last { " " (unit) }
                }
            }
        }
    }
}

/// A logarithmic scale.
pub(super) struct Log {
    /// log10 of the values at the ends.
    range: (f64, f64),
    /// Their places.
    at: (f64, f64),
}

impl Log {
    /// A scale for all of these values that are over 0, a factor of two long at least.
    pub(super) fn over(values: impl IntoIterator<Item = f64>, at: (f64, f64)) -> Self {
        let sound = values.into_iter().map(sane).filter(|v| *v > 1e-300);
        let ends = sound.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| {
            (low.min(v), high.max(v))
        });
        let (low, high) = if ends.1 > 0.0 { ends } else { (1.0, 1.0) };
        let low = low.min(high / 2.0);
        Self {
            range: (libm::log10(low / 1.25), libm::log10(1.2 * high)),
            at,
        }
    }

    /// The place of a value; what is under the scale lies at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share =
            (libm::log10(sane(value).max(1e-300)) - self.range.0) / (self.range.1 - self.range.0);
        self.at.0 + share.clamp(0.0, 1.0) * (self.at.1 - self.at.0)
    }

    /// Round values within the range.
    pub(super) fn ticks(&self) -> Vec<f64> {
        decimal_ticks(self.range)
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
