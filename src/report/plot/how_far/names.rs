//! The names of the curves.
//!
//! Curves that reach the right edge are named beside it, with the rate they end at, pushed apart where they would touch.
//! Others are named near their end, clear of whatever is drawn there.

use plotters::style::RGBColor;

use crate::plan::curve::{Curve, Series};
use crate::units::text::significant;

use super::super::color::GREY;
use super::super::face::Face;
use super::super::frame::Frame;
use super::super::place::{Obstacles, Rect};
use super::super::scene::{Point, Scene, Side, Words};
use super::series::{Drawn, ENGINE, IN_HBM, Look, Mark, all, cross};
use super::{EM, WIDTH};

fn named(look: &Look, rate: f64) -> String {
    format!("{}  {}", look.name, significant(rate))
}

/// Width of the widest name at the right edge, or of a T1 mode that ends near it \[units\].
pub(super) fn widest(c: &Curve, face: &Face) -> f64 {
    let width = |(look, s): &(Look, Series)| match s.last().copied().flatten() {
        Some(rate) => face.width(&named(look, rate), EM),
        None if look.mark != Mark::None && s.iter().any(Option::is_some) => {
            face.width(look.name, EM)
        }
        None => 0.0,
    };
    all(c).iter().map(width).fold(0.0, f64::max)
}

/// Names them.
pub(super) fn write(
    scene: &mut Scene,
    drawn: &[Drawn],
    f: &Frame,
    face: &Face,
    taken: &mut Obstacles,
) {
    let mut ends: Vec<&Drawn> = drawn.iter().filter(|d| d.whole).collect();
    ends.sort_by(|a, b| end(a).1.total_cmp(&end(b).1));
    for (d, y) in ends.iter().zip(apart(&ends, f)) {
        let words = Words {
            text: named(&d.look, d.last),
            at: (f.edge.right + 9.0, y + 0.36 * EM),
            side: Side::Left,
            em: EM,
            color: d.look.color,
        };
        taken.boxes.push(words.bounds(face));
        scene.words.push(words);
    }
    for d in drawn.iter().filter(|d| !d.whole) {
        inside(scene, d, f, face, taken);
    }
    if !drawn.iter().any(|d| d.look.name == ENGINE.name) {
        never_starts(scene, drawn, f, face, taken);
    }
}

fn end(d: &Drawn) -> Point {
    d.points.last().copied().unwrap_or((0.0, 0.0))
}

/// Heights of names at the right edge: at their ends, a line apart, within the frame.
fn apart(ends: &[&Drawn], f: &Frame) -> Vec<f64> {
    let gap = 1.3 * EM;
    let mut above = f64::NEG_INFINITY;
    let mut out: Vec<f64> = Vec::new();
    for d in ends {
        above = end(d).1.max(above + gap);
        out.push(above);
    }
    let mut below = f.edge.bottom - 0.3 * EM;
    for y in out.iter_mut().rev() {
        *y = y.min(below);
        below = *y - gap;
    }
    out
}

/// Names a curve that ends inside the frame: near the cross at its end, or along it if all in HBM.
fn inside(scene: &mut Scene, d: &Drawn, f: &Frame, face: &Face, taken: &mut Obstacles) {
    let text = if d.look.end.is_empty() {
        d.look.name.to_string()
    } else {
        format!("{}: {}", d.look.name, d.look.end)
    };
    let places = if d.look.name == IN_HBM.name {
        d.points.clone()
    } else {
        taken.boxes.push(Rect::around(end(d), 12.0, 12.0));
        vec![end(d)]
    };
    put(scene, &text, d.look.color, &places, f, face, taken);
}

/// Says that the engine does not start anywhere in the range.
fn never_starts(scene: &mut Scene, drawn: &[Drawn], f: &Frame, face: &Face, taken: &mut Obstacles) {
    if !drawn.iter().any(|d| d.look.mark != Mark::None) {
        return; // everything fits: the engine runs as everything in HBM does
    }
    let at = (f.edge.left + 10.0, f.edge.bottom - 12.0);
    cross(scene, at, GREY);
    let text = format!("{}: {}", ENGINE.name, ENGINE.end);
    put(scene, &text, GREY, &[at], f, face, taken);
}

/// Writes a text near the first of `places` at which it collides with nothing.
fn put(
    scene: &mut Scene,
    text: &str,
    color: RGBColor,
    places: &[Point],
    f: &Frame,
    face: &Face,
    taken: &mut Obstacles,
) {
    let (width, height) = (face.width(text, EM), 1.04 * EM);
    let bounds = Rect {
        left: f.edge.left + 7.0,
        right: WIDTH - 8.0,
        ..f.edge
    };
    let candidates: Vec<Rect> = places
        .iter()
        .flat_map(|at| around(*at, width, height))
        .map(|centre| Rect::around(centre, width, height).moved_into(&bounds))
        .collect();
    let Some(chosen) = taken.best(&candidates, &bounds, |_, _| 0) else {
        return;
    };
    let r = candidates[chosen];
    let at = (r.left, r.bottom - 0.24 * EM);
    scene.write(text, at, Side::Left, EM, color);
    taken.boxes.push(r);
}

/// Centres of boxes around a place: over it, right, under it, left; near ones first.
fn around((x, y): Point, width: f64, height: f64) -> Vec<Point> {
    let (side, over) = (0.5 * width + 10.0, 0.5 * height + 8.0);
    [1.0, 1.8, 2.6, 3.6]
        .into_iter()
        .flat_map(|far| {
            let over = far * over;
            [
                (x, y - over),
                (x + side, y - over),
                (x + side, y + (far - 1.0) * height),
                (x, y + over),
                (x - side, y + over),
                (x + side, y + over),
                (x - side, y - over),
                (x - side, y + (far - 1.0) * height),
            ]
        })
        .collect()
}
