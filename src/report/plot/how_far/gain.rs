//! Where tiering pays: between the best T1 mode and the engine as it is, wherever the former is the faster.
//!
//! Where the engine cannot hold one request the area goes down to the axis. Each piece is one polygon: adjoining ones
//! would show seams.

use crate::plan::curve::Curve;

use super::super::color::{INK, QUIET, SKY};
use super::super::face::Face;
use super::super::frame::Frame;
use super::super::place::{Obstacles, Rect};
use super::super::scene::{Point, Scene, Shape, Side};
use super::EM;

/// The best mode and the floor at one place across.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    x: f64,
    best: f64,
    floor: f64,
}

impl Column {
    /// Height in which tiering pays; negative where it does not \[units\].
    fn gain(&self) -> f64 {
        self.floor - self.best
    }

    fn between(a: &Self, b: &Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + share * (b - a);
        Self {
            x: mix(a.x, b.x),
            best: mix(a.best, b.best),
            floor: mix(a.floor, b.floor),
        }
    }

    /// Where two columns of opposite sign have no gain.
    fn crossing(a: &Self, b: &Self) -> Self {
        Self::between(a, b, a.gain() / (a.gain() - b.gain()))
    }
}

/// The columns of a curve; none where no T1 mode runs. Two at the place at which the engine ends.
fn columns(c: &Curve, f: &Frame) -> Vec<Option<Column>> {
    let mut out = Vec::new();
    for (i, tokens) in c.tokens.iter().enumerate() {
        let best = [c.stream[i], c.staged[i], c.host[i]]
            .into_iter()
            .flatten()
            .reduce(f64::max);
        let Some(best) = best else {
            out.push(None);
            continue;
        };
        let (x, best) = f.at(*tokens, best);
        let floor = c.engine[i].map(|rate| f.y(rate));
        let column = |floor| Some(Column { x, best, floor });
        out.push(column(floor.unwrap_or(f.edge.bottom)));
        let ends = c.engine.get(i + 1).is_some_and(Option::is_none);
        if floor.is_some() && ends {
            out.push(column(f.edge.bottom));
        }
    }
    out
}

/// Runs of columns in which tiering pays, cut where the curves cross.
pub(super) fn pieces(c: &Curve, f: &Frame) -> Vec<Vec<Column>> {
    let columns = columns(c, f);
    let mut out: Vec<Vec<Column>> = vec![Vec::new()];
    for pair in columns.windows(2) {
        let (Some(a), Some(b)) = (pair[0], pair[1]) else {
            out.push(Vec::new());
            continue;
        };
        let ends: Vec<Column> = match (a.gain() > 0.0, b.gain() > 0.0) {
            (true, true) => vec![a, b],
            (true, false) => vec![a, Column::crossing(&a, &b)],
            (false, true) => vec![Column::crossing(&a, &b), b],
            (false, false) => vec![],
        };
        let piece = out.last_mut().expect("begins with one piece");
        piece.extend(ends);
        piece.dedup();
        if b.gain() <= 0.0 {
            out.push(Vec::new());
        }
    }
    out.retain(|p| p.len() > 1);
    out
}

/// Shades them.
pub(super) fn shade(scene: &mut Scene, pieces: &[Vec<Column>]) {
    for piece in pieces {
        let above = piece.iter().map(|c| (c.x, c.best));
        let below = piece.iter().rev().map(|c| (c.x, c.floor));
        scene.area(above.chain(below).collect(), SKY, 0.32);
    }
}

fn size(piece: &[Column]) -> f64 {
    piece
        .windows(2)
        .map(|w| (w[1].x - w[0].x) * (w[0].gain() + w[1].gain()) / 2.0)
        .sum()
}

/// Names the largest: inside it where there is room, else beside it with a line to it.
pub(super) fn name(
    scene: &mut Scene,
    pieces: &[Vec<Column>],
    f: &Frame,
    face: &Face,
    taken: &mut Obstacles,
) {
    let Some(piece) = pieces.iter().max_by(|a, b| size(a).total_cmp(&size(b))) else {
        return;
    };
    let text = "tiering pays";
    let (width, height) = (face.width(text, EM) + 4.0, 1.05 * EM);
    let inside = inside(piece, width, height);
    let heart = heart(piece, taken);
    let outside = around(heart, width, height);
    let all: Vec<Rect> = inside.iter().chain(&outside).copied().collect();
    let leader = |r: &Rect| [nearest(r, heart), heart];
    let hidden = |i: usize, r: &Rect| {
        let [from, to] = leader(r);
        if i < inside.len() {
            0
        } else {
            taken.boxes.iter().filter(|b| b.crossed(from, to)).count()
        }
    };
    let Some(chosen) = taken.best(&all, &f.edge, hidden) else {
        return;
    };
    let r = all[chosen];
    if chosen >= inside.len() {
        scene.line(leader(&r).to_vec(), QUIET, 1.0);
        scene.shapes.push(Shape::Dot {
            at: heart,
            radius: 2.0,
            color: QUIET,
        });
    }
    let at = (f64::midpoint(r.left, r.right), r.bottom - 0.24 * EM);
    scene.write(text, at, Side::Middle, EM, INK);
    taken.boxes.push(r);
}

/// The place on a box's upper or lower edge that is nearest to `to`.
fn nearest(r: &Rect, to: Point) -> Point {
    let y = if r.top > to.1 { r.top } else { r.bottom };
    (to.0.clamp(r.left, r.right), y)
}

/// The place in a piece that is farthest from all curves and from its ends.
fn heart(piece: &[Column], taken: &Obstacles) -> Point {
    let (left, right) = (piece[0].x, piece[piece.len() - 1].x);
    let clear = |p: &Point| taken.distance(*p).min(p.0 - left).min(right - p.0);
    fine(piece)
        .flat_map(|c| [0.3, 0.4, 0.5, 0.6, 0.7].map(|s| (c.x, c.best + s * c.gain())))
        .max_by(|a, b| clear(a).total_cmp(&clear(b)))
        .unwrap_or((piece[0].x, piece[0].best))
}

/// Columns a few units apart.
fn fine(piece: &[Column]) -> impl Iterator<Item = Column> + '_ {
    piece
        .windows(2)
        .flat_map(|w| (0..4_u8).map(|k| Column::between(&w[0], &w[1], f64::from(k) / 4.0)))
}

/// Boxes that lie in a piece, the tallest column first.
fn inside(piece: &[Column], width: f64, height: f64) -> Vec<Rect> {
    let mut tall: Vec<Column> = fine(piece).filter(|c| c.gain() > height + 6.0).collect();
    tall.sort_by(|a, b| b.gain().total_cmp(&a.gain()).then(a.x.total_cmp(&b.x)));
    let (left, right) = (piece[0].x, piece[piece.len() - 1].x);
    tall.iter()
        .flat_map(|c| {
            [0.5, 0.35, 0.65, 0.2, 0.8].map(|s| {
                let x = c.x.clamp(
                    left + width / 2.0,
                    (right - width / 2.0).max(left + width / 2.0),
                );
                Rect::around((x, c.best + s * c.gain()), width, height)
            })
        })
        .filter(|r| r.right <= right && holds(piece, r))
        .collect()
}

/// Whether a box lies between the best mode and the floor.
fn holds(piece: &[Column], r: &Rect) -> bool {
    piece
        .iter()
        .filter(|c| c.x > r.left && c.x < r.right)
        .all(|c| c.best < r.top && c.floor > r.bottom)
}

/// Boxes around a place, near ones first, below before above.
fn around(heart: (f64, f64), width: f64, height: f64) -> Vec<Rect> {
    let mut out = Vec::new();
    for down in [50.0, 75.0, 100.0, 130.0, -50.0, -75.0, -100.0] {
        for across in [0.0, -40.0, 40.0, -80.0, 80.0] {
            let centre = (heart.0 + across, heart.1 + down);
            out.push(Rect::around(centre, width, height));
        }
    }
    out
}
