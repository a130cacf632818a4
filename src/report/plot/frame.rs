//! Axes: log2 of tokens across, log10 of a rate upwards, with ticks at round numbers.
//!
//! Ticks are as dense as the range needs: whole powers over a wide range, finer steps over a narrow one, so that no axis
//! has fewer than three numbers on it.

use crate::units::text::{group, significant};

use super::color::{GRID, INK, QUIET};
use super::place::Rect;
use super::scene::{Point, Scene, Side};

/// Size of tick labels \[units\].
pub const EM: f64 = 13.0;

/// Where the data go, and their ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Edges on the canvas.
    pub edge: Rect,
    /// log2 of tokens at the left and right edge.
    pub x: (f64, f64),
    /// log10 of the rate at the bottom and top edge.
    pub y: (f64, f64),
}

impl Frame {
    /// Across \[units\].
    pub fn x(&self, tokens: f64) -> f64 {
        let share = (libm::log2(tokens.max(1.0)) - self.x.0) / (self.x.1 - self.x.0);
        self.edge.left + share * (self.edge.right - self.edge.left)
    }

    /// Downwards \[units\].
    pub fn y(&self, rate: f64) -> f64 {
        let share = (libm::log10(rate.max(f64::MIN_POSITIVE)) - self.y.0) / (self.y.1 - self.y.0);
        self.edge.bottom - share * (self.edge.bottom - self.edge.top)
    }

    /// A point of the data.
    pub fn at(&self, tokens: u32, rate: f64) -> Point {
        (self.x(f64::from(tokens)), self.y(rate))
    }

    /// Grid, axes, ticks.
    pub fn draw(&self, scene: &mut Scene) {
        let e = self.edge;
        for v in ticks(self.x, 2.0, BINARY) {
            let x = self.x(v);
            scene.line(vec![(x, e.top), (x, e.bottom)], GRID, 1.0);
            let at = (x, e.bottom + 1.5 * EM);
            scene.write(tokens(v), at, Side::Middle, EM, INK);
        }
        for v in ticks(self.y, 10.0, DECIMAL) {
            let y = self.y(v);
            scene.line(vec![(e.left, y), (e.right, y)], GRID, 1.0);
            let at = (e.left - 7.0, y + 0.36 * EM);
            scene.write(rate(v), at, Side::Right, EM, INK);
        }
        let corner = vec![(e.left, e.top), (e.left, e.bottom), (e.right, e.bottom)];
        scene.line(corner, QUIET, 1.0);
    }
}

/// Multiples of a power of two that get a tick, coarse to fine.
const BINARY: &[&[f64]] = &[
    &[1.0],
    &[1.0, 1.5],
    &[1.0, 1.25, 1.5, 1.75],
    &[1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875],
];

/// The same for powers of ten.
const DECIMAL: &[&[f64]] = &[
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
];

/// Ticks in a range of log10.
pub(in crate::report) fn decimal_ticks(range: (f64, f64)) -> Vec<f64> {
    ticks(range, 10.0, DECIMAL)
}

/// Ticks in a logarithmic range: the coarsest set with at least three, else the finest.
fn ticks(range: (f64, f64), base: f64, sets: &[&[f64]]) -> Vec<f64> {
    let eps = 1e-9;
    let within = |v: &f64| {
        let l = libm::log(*v) / libm::log(base);
        l >= range.0 - eps && l <= range.1 + eps
    };
    let of = |set: &[f64]| -> Vec<f64> {
        (-4..30)
            .flat_map(|p| set.iter().map(move |m| m * libm::pow(base, f64::from(p))))
            .filter(within)
            .collect()
    };
    sets.iter()
        .map(|s| of(s))
        .find(|t| t.len() >= 3)
        .unwrap_or_else(|| of(sets.last().unwrap_or(&sets[0])))
}

/// Tokens in Ki, as short as they are exact.
fn tokens(v: f64) -> String {
    if v < 1024.0 {
        return format!("{v:.0}");
    }
    let text = format!("{:.4}", v / 1024.0);
    format!("{}Ki", text.trim_end_matches('0').trim_end_matches('.'))
}

fn rate(v: f64) -> String {
    if v >= 10.0 {
        group(&format!("{v:.0}"))
    } else if v >= 1.0 {
        format!("{v:.1}").trim_end_matches(".0").into()
    } else {
        significant(v)
    }
}
