//! The curves: how each looks, lines, markers, and crosses where one ends early.
//!
//! Told apart three ways: colour, marker (circle, triangle, diamond) or dash, and the name at its end.

use plotters::style::RGBColor;

use crate::plan::curve::{Curve, Series};

use super::super::color::{BLUE, GREEN, GREY, PURPLE, VERMILION};
use super::super::frame::Frame;
use super::super::scene::{Point, Scene, Shape};

/// What stands on a curve's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Circle,
    Triangle,
    Diamond,
}

/// How a curve looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) name: &'static str,
    pub(super) color: RGBColor,
    pub(super) mark: Mark,
    dashed: bool,
    /// What its end means, if it ends before the range does.
    pub(super) end: &'static str,
}

pub(super) const IN_HBM: Look = Look {
    name: "all in HBM",
    color: BLUE,
    mark: Mark::None,
    dashed: false,
    end: "",
};
pub(super) const ENGINE: Look = Look {
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
    pub(super) look: Look,
    /// Its corners \[units\].
    pub(super) points: Vec<Point>,
    /// Rate at its end [1/s].
    pub(super) last: f64,
    /// Whether it reaches the end of the range.
    pub(super) whole: bool,
}

/// Series and looks of a curve, the engine from the wall on.
pub(super) fn all(c: &Curve) -> Vec<(Look, Series)> {
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
pub(super) fn cross(scene: &mut Scene, (x, y): Point, color: RGBColor) {
    let r = 5.0;
    scene.line(vec![(x - r, y - r), (x + r, y + r)], color, 2.4);
    scene.line(vec![(x - r, y + r), (x + r, y - r)], color, 2.4);
}
