//! What every figure has around its data: title, settings, caption, a key, linear axes.

use plotters::style::RGBColor;

use crate::plan::figures::Words;
use crate::units::text::group;

use super::color::{GRID, INK, QUIET};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};

/// Size of axis labels \[units\].
pub const EM: f64 = 12.5;

/// Size of the caption \[units\].
pub const SMALL: f64 = 11.5;

/// A figure of this size with its title and settings, and its caption at the foot; returns where data may go, too.
pub fn begin(words: &Words, size: (u32, u32), face: &Face) -> (Scene, Rect) {
    let (width, height) = (f64::from(size.0), f64::from(size.1));
    let mut scene = Scene {
        size,
        title: words.title.clone(),
        ..Scene::default()
    };
    let fitting = |text: &str, em: f64| em * ((width - 32.0) / face.width(text, em)).min(1.0);
    let em = fitting(&words.title, 17.0);
    scene.write(&words.title, (16.0, 27.0), Side::Left, em, INK);
    let under = face.wrap(&words.subtitle, EM, width - 32.0);
    let lower = 16.0 * (under.len().max(1) - 1) as f64;
    for (i, line) in under.into_iter().enumerate() {
        let em = fitting(&line, EM);
        scene.write(line, (16.0, 47.0 + 16.0 * i as f64), Side::Left, em, QUIET);
    }
    let lines = face.wrap(&words.caption, SMALL, width - 32.0);
    let foot = height - 10.0 - 1.35 * SMALL * lines.len() as f64;
    for (i, line) in lines.into_iter().enumerate() {
        let y = foot + 1.35 * SMALL * (i as f64 + 1.0) - 3.0;
        scene.write(line, (16.0, y), Side::Left, SMALL, QUIET);
    }
    let inner = Rect {
        left: 16.0,
        top: 60.0 + lower,
        right: width - 16.0,
        bottom: foot - 12.0,
    };
    (scene, inner)
}

/// A linear axis between two places on the canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Values at the ends.
    pub range: (f64, f64),
    /// Their places \[units\].
    pub at: (f64, f64),
}

impl Linear {
    /// The place of a value \[units\].
    pub fn place(&self, value: f64) -> f64 {
        let span = self.range.1 - self.range.0;
        let share = if span > 0.0 {
            (value - self.range.0) / span
        } else {
            0.0
        };
        self.at.0 + share * (self.at.1 - self.at.0)
    }

    /// Round values within the range, about `wanted` of them.
    pub fn ticks(&self, wanted: f64) -> Vec<f64> {
        let span = self.range.1 - self.range.0;
        if span <= 0.0 || !span.is_finite() {
            return vec![self.range.0];
        }
        let rough = span / wanted;
        let power = libm::pow(10.0, libm::log10(rough).floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|s| *s >= rough)
            .unwrap_or(10.0 * power);
        let first = (self.range.0 / step - 1e-9).ceil();
        let last = (self.range.1 / step + 1e-9).floor();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a handful of ticks
        let n = (last - first).max(0.0) as u32;
        (0..=n).map(|i| (first + f64::from(i)) * step).collect()
    }
}

/// A tick's value, as short as its neighbours allow.
pub fn tick(value: f64) -> String {
    if value.abs() >= 1000.0 {
        group(&format!("{value:.0}"))
    } else {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').into()
    }
}

/// Vertical grid lines with labels under them.
pub fn across(
    scene: &mut Scene,
    axis: &Linear,
    edge: Rect,
    wanted: f64,
    show: impl Fn(f64) -> String,
) {
    for v in axis.ticks(wanted) {
        let x = axis.place(v);
        scene.line(vec![(x, edge.top), (x, edge.bottom)], GRID, 1.0);
        scene.write(show(v), (x, edge.bottom + 1.3 * EM), Side::Middle, EM, INK);
    }
}

/// Horizontal grid lines with labels at their left.
pub fn upwards(
    scene: &mut Scene,
    axis: &Linear,
    edge: Rect,
    wanted: f64,
    show: impl Fn(f64) -> String,
) {
    for v in axis.ticks(wanted) {
        let y = axis.place(v);
        scene.line(vec![(edge.left, y), (edge.right, y)], GRID, 1.0);
        scene.write(
            show(v),
            (edge.left - 6.0, y + 0.36 * EM),
            Side::Right,
            EM,
            INK,
        );
    }
}

/// Swatches with names at the top of a place, broken where a line is full; returns the height used.
pub fn key(scene: &mut Scene, face: &Face, entries: &[(&str, Fill)], within: Rect) -> f64 {
    let (mut x, mut y) = (within.left, within.top);
    for (name, fill) in entries {
        let width = 18.0 + face.width(name, EM) + 16.0;
        if x + width > within.right && x > within.left {
            (x, y) = (within.left, y + 1.5 * EM);
        }
        let swatch = Rect {
            left: x,
            top: y,
            right: x + 13.0,
            bottom: y + 11.0,
        };
        fill.draw(scene, swatch);
        scene.write(*name, (x + 18.0, y + 10.0), Side::Left, EM, INK);
        x += width;
    }
    y + 1.5 * EM - within.top
}

/// How a bar is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// One colour.
    Plain(RGBColor),
    /// Diagonal lines over a pale ground.
    Hatched(RGBColor),
}

impl Fill {
    /// Fills a rectangle.
    pub fn draw(self, scene: &mut Scene, r: Rect) {
        if r.right - r.left <= 0.0 {
            return;
        }
        let corners = vec![
            (r.left, r.top),
            (r.right, r.top),
            (r.right, r.bottom),
            (r.left, r.bottom),
        ];
        match self {
            Self::Plain(color) => scene.area(corners, color, 1.0),
            Self::Hatched(color) => {
                scene.area(corners, color, 0.18);
                hatch(scene, r, color);
            }
        }
    }
}

/// Diagonals at 45 degrees, 5 units apart, cut at the rectangle.
fn hatch(scene: &mut Scene, r: Rect, color: RGBColor) {
    let height = r.bottom - r.top;
    let mut start = r.left - height;
    while start < r.right {
        let (from, to) = (start.max(r.left), (start + height).min(r.right));
        if to > from {
            let y = |x: f64| r.bottom - (x - start);
            scene.line(vec![(from, y(from)), (to, y(to))], color, 1.0);
        }
        start += 5.0;
    }
}
