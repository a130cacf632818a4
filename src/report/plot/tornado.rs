//! What moves a speed: a bar a cause, from its p5 to its p95, about the best estimate.

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, INK, QUIET, SKY, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::tornado::{Bar, Tornado};
use crate::report::sure::cause;
use crate::units::text::significant;

const WIDTH: u32 = 560;

/// Height of a bar with its gap \[units\].
const LINE: f64 = 24.0;

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(t: &Tornado, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(t)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(t: &Tornado) -> Result<Scene> {
    let face = Face::embedded()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some hundred units
    let height = (240.0 + LINE * t.bars.len().max(1) as f64) as u32;
    let (mut scene, inner) = chrome::begin(&t.words, (WIDTH, height), &face);
    let entries = [
        ("at its p5", Fill::Hatched(VERMILION)),
        ("at its p95", Fill::Plain(BLUE)),
    ];
    let used = chrome::key(&mut scene, &face, &entries, inner);
    let names: Vec<String> = t.bars.iter().map(|b| cause(&b.cause)).collect();
    let widest = names
        .iter()
        .map(|n| face.width(n, 12.5))
        .fold(0.0, f64::max);
    let edge = Rect {
        left: inner.left + widest + 76.0,
        top: inner.top + used + 22.0,
        right: inner.right - 52.0,
        bottom: inner.bottom - 36.0,
    };
    let axis = Linear {
        range: range(t),
        at: (edge.left, edge.right),
    };
    band(&mut scene, t, &axis, edge);
    chrome::across(&mut scene, &axis, edge, 5.0, chrome::tick);
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 32.0);
    scene.write("output tokens/s", at, Side::Middle, chrome::EM, INK);
    let room = (edge.bottom - edge.top) / t.bars.len().max(1) as f64;
    for (i, (b, name)) in t.bars.iter().zip(names).enumerate() {
        let middle = edge.top + room * (i as f64 + 0.5);
        scene.write(name, (inner.left, middle + 4.0), Side::Left, 12.5, INK);
        bar(&mut scene, b, t.value, &axis, middle);
    }
    let x = axis.place(t.value);
    scene.line(vec![(x, edge.top), (x, edge.bottom)], INK, 1.5);
    let best = format!("best estimate {}", significant(t.value));
    scene.write(best, (x, edge.top - 6.0), Side::Middle, 11.5, INK);
    Ok(scene)
}

/// What the axis spans: all bars and all causes together, and a little more.
fn range(t: &Tornado) -> (f64, f64) {
    let ends = t
        .bars
        .iter()
        .flat_map(|b| b.ends)
        .chain(t.all)
        .chain([t.value]);
    let (low, high) = ends.fold((t.value, t.value), |(l, h), x| (l.min(x), h.max(x)));
    let more = (0.06 * (high - low)).max(1e-9 * t.value.abs()).max(1e-12);
    ((low - more).max(0.0), high + more)
}

/// p5 to p95 of all causes together.
fn band(scene: &mut Scene, t: &Tornado, axis: &Linear, edge: Rect) {
    let (left, right) = (axis.place(t.all[0]), axis.place(t.all[1]));
    let corners = vec![
        (left, edge.top),
        (right, edge.top),
        (right, edge.bottom),
        (left, edge.bottom),
    ];
    scene.area(corners, SKY, 0.16);
}

fn bar(scene: &mut Scene, b: &Bar, value: f64, axis: &Linear, middle: f64) {
    let fills = [Fill::Hatched(VERMILION), Fill::Plain(BLUE)];
    for (end, fill) in b.ends.into_iter().zip(fills) {
        let (x, y) = (axis.place(value), axis.place(end));
        let part = Rect {
            left: x.min(y),
            top: middle - 8.0,
            right: x.max(y),
            bottom: middle + 8.0,
        };
        fill.draw(scene, part);
    }
    let left = axis.place(b.ends[0].min(b.ends[1]).min(value));
    let right = axis.place(b.ends[0].max(b.ends[1]).max(value));
    let (low, high) = (b.ends[0].min(b.ends[1]), b.ends[0].max(b.ends[1]));
    scene.write(
        significant(low),
        (left - 5.0, middle + 4.0),
        Side::Right,
        11.0,
        QUIET,
    );
    scene.write(
        significant(high),
        (right + 5.0, middle + 4.0),
        Side::Left,
        11.0,
        QUIET,
    );
}
