//! The curves: lines, markers, and their names at their ends.
//!
//! Told apart three ways: colour, marker (circle, triangle, diamond) or dash, and the name itself. Names of curves that
//! reach the right edge stand beside it, pushed apart; others stand near their end.

use plotters::style::RGBColor;

use crate::plan::curve::{Curve, Series};
use crate::units::text::significant;

use super::super::color::{BLUE, GREEN, GREY, PURPLE, VERMILION};
use super::super::face::Face;
use super::super::frame::Frame;
use super::super::place::{Obstacles, Rect};
use super::super::scene::{Point, Scene, Shape, Side, Words};
use super::{EM, WIDTH};

/// What stands on a curve's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    None,
    Circle,
    Triangle,
    Diamond,
}

/// How a curve looks.
#[derive(Clone, Copy, Debug)]
struct Look {
    name: &'static str,
    color: RGBColor,
    mark: Mark,
    dashed: bool,
    /// What its end means, if it ends before the range does.
    end: &'static str,
}

const IN_HBM: Look = Look {
    name: "all in HBM",
    color: BLUE,
    mark: Mark::None,
    dashed: false,
    end: "",
};
const ENGINE: Look = Look {
    name: "engine as it is",
    color: GREY,
    mark: Mark::None,
    dashed: true,
    end: "cannot hold one request",
};
const STREAM: Look = Look {
    name: "stream T1",
    color: VERMILION,
    mark: Mark::Circle,
    dashed: false,
    end: "",
};
const STAGED: Look = Look {
    name: "staged T1",
    color: PURPLE,
    mark: Mark::Diamond,
    ..STREAM
};
const HOST: Look = Look {
    name: "host attention",
    color: GREEN,
    mark: Mark::Triangle,
    ..STREAM
};

/// A curve on the canvas.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    look: Look,
    /// Its corners [units].
    pub(super) points: Vec<Point>,
    /// Rate at its end [1/s].
    last: f64,
    /// Whether it reaches the end of the range.
    whole: bool,
}

/// Series and looks of a curve, the engine from the wall on.
fn all(c: &Curve) -> Vec<(Look, Series)> {
    let from_wall = |s: &Series| -> Series {
        let past = |i: usize| c.tokens[i] >= c.wall;
        s.iter()
            .enumerate()
            .map(|(i, v)| v.filter(|_| past(i)))
            .collect()
    };
    let mut out = vec![
        (ENGINE, from_wall(&c.engine)),
        (IN_HBM, c.in_hbm.clone()),
        (STREAM, c.stream.clone()),
        (HOST, c.host.clone()),
    ];
    if c.staged_differs() {
        out.push((STAGED, c.staged.clone()));
    }
    out
}

/// The curves that exist.
pub(super) fn of(c: &Curve, f: &Frame) -> Vec<Drawn> {
    all(c)
        .into_iter()
        .filter_map(|(look, series)| {
            let points = c.tokens.iter().zip(&series);
            let points = points.filter_map(|(t, v)| Some(f.at(*t, (*v)?))).collect();
            Some(Drawn {
                look,
                points,
                last: series.iter().flatten().last().copied()?,
                whole: series.last()?.is_some(),
            })
        })
        .collect()
}

fn named(look: &Look, rate: f64) -> String {
    format!("{}  {}", look.name, significant(rate))
}

/// Width of the widest name at the right edge [units].
pub(super) fn widest(c: &Curve, face: &Face) -> f64 {
    all(c)
        .iter()
        .filter_map(|(look, s)| Some(face.width(&named(look, (*s.last()?)?), EM)))
        .fold(0.0, f64::max)
}

/// Draws them.
pub(super) fn draw(scene: &mut Scene, drawn: &[Drawn]) {
    for (i, d) in drawn.iter().enumerate() {
        scene.shapes.push(Shape::Line {
            points: d.points.clone(),
            color: d.look.color,
            width: if d.look.dashed { 2.4 } else { 2.6 },
            dash: d.look.dashed.then_some((7.0, 4.0)),
        });
        marks(scene, d, 18.0 * (i % 3) as f64);
        if let (false, Some(end)) = (d.whole, d.points.last())
            && d.look.name != IN_HBM.name
        {
            cross(scene, *end, d.look.color);
        }
    }
}

/// Markers some 54 units apart, each curve's offset against the others'.
fn marks(scene: &mut Scene, d: &Drawn, offset: f64) {
    let mut next = d.points.first().map_or(0.0, |p| p.0) + 14.0 + offset;
    for at in &d.points {
        if at.0 >= next {
            scene.shapes.extend(mark(d.look, *at));
            next = at.0 + 54.0;
        }
    }
}

fn mark(look: Look, (x, y): Point) -> Option<Shape> {
    let color = look.color;
    let area = |points| Shape::Area {
        points,
        color,
        opacity: 1.0,
    };
    let r = 4.2;
    Some(match look.mark {
        Mark::None => return None,
        Mark::Circle => Shape::Dot {
            at: (x, y),
            radius: r,
            color,
        },
        Mark::Triangle => area(vec![
            (x, y - 1.3 * r),
            (x + 1.2 * r, y + 0.8 * r),
            (x - 1.2 * r, y + 0.8 * r),
        ]),
        Mark::Diamond => area(vec![
            (x, y - 1.3 * r),
            (x + 1.3 * r, y),
            (x, y + 1.3 * r),
            (x - 1.3 * r, y),
        ]),
    })
}

/// A cross: the curve ends here.
fn cross(scene: &mut Scene, (x, y): Point, color: RGBColor) {
    let r = 5.0;
    scene.line(vec![(x - r, y - r), (x + r, y + r)], color, 2.4);
    scene.line(vec![(x - r, y + r), (x + r, y - r)], color, 2.4);
}

/// Names them.
pub(super) fn name(
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
    let candidates: Vec<Rect> = places
        .iter()
        .flat_map(|at| around(*at, width, height))
        .map(|centre| Rect::around(centre, width, height))
        .collect();
    let bounds = Rect {
        right: WIDTH - 8.0,
        ..f.edge
    };
    let Some(chosen) = taken.best(&candidates, &bounds) else {
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
