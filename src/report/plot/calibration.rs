//! A calibration: each fitted value with its interval and how far its law misses, then what was predicted and not fitted.
//!
//! All of it on one axis in percent of the value, so that a wide interval, a law that does not fit and a prediction that
//! fails are seen against each other. What passes the axis ends in an arrow.

use plotters::style::RGBColor;

use super::chrome::{self, Fill, Linear, SMALL};
use super::color::{BLUE, INK, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Point, Scene, Shape, Side};
use super::{Image, canvas};
use crate::calibrate::Answer;
use crate::error::Result;
use crate::plan::figures::Words;

const WIDTH: u32 = 640;

/// Most room for names \[units\].
const NAMES: f64 = 310.0;

/// Height of a row \[units\].
const ROW: f64 = 19.0;

/// Longest axis to either side; errors beyond it are errors enough.
const MOST: f64 = 0.5;

/// A line of the figure.
struct Line {
    name: String,
    /// Interval about the value, as shares.
    range: Option<(f64, f64)>,
    /// How far the law or the prediction is off, as a share.
    off: f64,
    color: RGBColor,
}

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(a: &Answer, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(a)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(a: &Answer) -> Result<Scene> {
    let face = Face::embedded()?;
    let lines = lines(a);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few thousand units
    let height = (236.0 + ROW * lines.len() as f64) as u32;
    let (mut scene, inner) = chrome::begin(&words(a), (WIDTH, height), &face);
    let entries = [
        ("law, worst point", Fill::Plain(BLUE)),
        ("predicted, not fitted", Fill::Plain(VERMILION)),
    ];
    let high = chrome::key(&mut scene, &face, &entries, inner);
    let widest = lines.iter().map(|l| face.width(&l.name, SMALL));
    let widest = widest.fold(0.0, f64::max);
    let edge = Rect {
        left: inner.left + widest.min(NAMES) + 12.0,
        top: inner.top + high + 8.0,
        right: inner.right - 58.0,
        bottom: inner.bottom - 38.0,
    };
    let far = lines.iter().flat_map(|l| {
        let ends = l
            .range
            .map_or([0.0; 2], |(low, high)| [low.abs(), high.abs()]);
        [ends[0], ends[1], l.off.abs()]
    });
    let far = far.filter(|v| v.is_finite()).fold(0.05, f64::max).min(MOST);
    let axis = Linear {
        range: (-1.08 * far, 1.08 * far),
        at: (edge.left, edge.right),
    };
    chrome::across(&mut scene, &axis, edge, 4.0, |v| {
        format!("{} %", chrome::tick(100.0 * v))
    });
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 33.0);
    scene.write("off by, of the value", at, Side::Middle, chrome::EM, INK);
    let room = (edge.bottom - edge.top) / lines.len().max(1) as f64;
    for (i, line) in lines.iter().enumerate() {
        let y = edge.top + room * (i as f64 + 0.5);
        row(&mut scene, &face, line, &axis, (inner.left, edge, y));
    }
    Ok(scene)
}

fn lines(a: &Answer) -> Vec<Line> {
    let c = &a.calibration;
    let share = |end: f64, value: f64| end / value.abs().max(f64::MIN_POSITIVE) - 1.0;
    let fitted = c.parameters.iter().map(|p| Line {
        name: p.name.replace('.', " "),
        range: Some((share(p.low, p.value), share(p.high, p.value))),
        off: p.worst_residual,
        color: BLUE,
    });
    let predicted = c.holdouts.iter().map(|h| Line {
        name: format!("{} {}", h.mode, h.shape).replace('.', " "),
        range: None,
        off: h.error,
        color: VERMILION,
    });
    fitted.chain(predicted).collect()
}

/// A name, an interval, a dot, the figure.
fn row(scene: &mut Scene, face: &Face, l: &Line, axis: &Linear, (left, edge, y): (f64, Rect, f64)) {
    let room = edge.left - left - 10.0;
    let em = SMALL * (room / face.width(&l.name, SMALL)).min(1.0);
    scene.write(&l.name, (left, y + 4.0), Side::Left, em, INK);
    let place = |v: f64| axis.place(v.clamp(axis.range.0, axis.range.1));
    if let Some((low, high)) = l.range.filter(|r| r.0.is_finite() && r.1.is_finite()) {
        let (from, to) = (place(low), place(high));
        scene.line(vec![(from, y), (to, y)], QUIET, 1.4);
        for x in [from, to] {
            scene.line(vec![(x, y - 3.5), (x, y + 3.5)], QUIET, 1.4);
        }
    }
    if l.off.is_finite() {
        dot(
            scene,
            (place(l.off), y),
            l.off.abs() > axis.range.1,
            l.color,
        );
    }
    let text = format!("{:+.1} %", 100.0 * l.off);
    scene.write(text, (edge.right + 8.0, y + 4.0), Side::Left, SMALL, INK);
}

/// A dot, or an arrow where it lies further out.
fn dot(scene: &mut Scene, at: Point, beyond: bool, color: RGBColor) {
    if beyond {
        let (x, y) = at;
        scene.area(
            vec![(x, y - 5.0), (x + 4.0, y), (x, y + 5.0), (x - 4.0, y)],
            color,
            1.0,
        );
    } else {
        scene.shapes.push(Shape::Dot {
            at,
            radius: 4.0,
            color,
        });
    }
}

fn words(a: &Answer) -> Words {
    Words {
        title: format!("Calibration of {}", a.hardware),
        subtitle: format!("profile {}, kvplan {}", a.profile, a.kvplan_version),
        caption: "Bars: p5 to p95 of a fitted value over resampled repetitions, about the value. Blue: the worst point of its law, \
                  |predicted / measured - 1|. Orange: predicted / measured - 1 of what the laws were not fitted on. Diamonds lie \
                  further out than the axis."
            .into(),
    }
}
