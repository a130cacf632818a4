//! The wall, and the strip beyond it in which T1 streams for free.
//!
//! Both are named in the headroom over the curves, one under the other, so that they cannot collide however narrow the
//! strip is.

use crate::plan::curve::Curve;
use crate::units::text::group;

use super::super::color::{INK, YELLOW};
use super::super::face::Face;
use super::super::frame::Frame;
use super::super::place::Obstacles;
use super::super::scene::{Scene, Side, Words};
use super::{EM, WIDTH};

/// Where the wall stands, if it is in the range.
pub(super) fn wall(c: &Curve, f: &Frame) -> Option<f64> {
    let inside = c.wall >= c.tokens[0] && c.tokens.last().is_some_and(|t| c.wall < *t);
    inside.then(|| f.x(f64::from(c.wall)))
}

/// Left and right edge of the part of the strip in the range.
fn strip_edges(c: &Curve, f: &Frame) -> Option<(f64, f64)> {
    let edge = |tokens: u32| f.x(f64::from(tokens)).clamp(f.edge.left, f.edge.right);
    let (from, to) = (edge(c.wall), edge(c.free_until));
    (to > from).then_some((from, to))
}

/// Fills the strip.
pub(super) fn strip(scene: &mut Scene, c: &Curve, f: &Frame) {
    if let Some((from, to)) = strip_edges(c, f) {
        let (top, bottom) = (f.edge.top, f.edge.bottom);
        let corners = vec![(from, top), (to, top), (to, bottom), (from, bottom)];
        scene.area(corners, YELLOW, 0.28);
    }
}

/// Draws the wall and names both.
pub(super) fn label(scene: &mut Scene, c: &Curve, f: &Frame, face: &Face, taken: &mut Obstacles) {
    let Some(x) = wall(c, f) else {
        let text = if c.wall < c.tokens[0] {
            format!(
                "HBM is full at {} tokens already",
                group(&c.wall.to_string())
            )
        } else {
            "everything fits in HBM: no wall in this range".into()
        };
        let at = (f.edge.left + 8.0, f.edge.top + 17.0);
        write(scene, text, at, Side::Left, face, taken);
        if c.wall < c.tokens[0] && !c.tiers() {
            let text = "no T1 mode fits: the prompt stays in HBM".into();
            write(scene, text, (at.0, at.1 + 18.0), Side::Left, face, taken);
        }
        return;
    };
    scene.line(vec![(x, f.edge.top), (x, f.edge.bottom)], INK, 1.6);
    let text = format!("HBM full: {} tokens", group(&c.wall.to_string()));
    beside(scene, text, (x, f.edge.top + 17.0), face, taken);
    let Some((from, to)) = strip_edges(c, f) else {
        return;
    };
    let text = format!(
        "T1 streams for free to {}",
        group(&c.free_until.to_string())
    );
    beside(scene, text, (x, f.edge.top + 35.0), face, taken);
    arrow(scene, from, to, f.edge.top + 44.0);
}

/// Right of a place, or left of it where the canvas ends.
fn beside(scene: &mut Scene, text: String, at: (f64, f64), face: &Face, taken: &mut Obstacles) {
    if at.0 + 6.0 + face.width(&text, EM) < WIDTH - 8.0 {
        write(scene, text, (at.0 + 6.0, at.1), Side::Left, face, taken);
    } else {
        write(scene, text, (at.0 - 6.0, at.1), Side::Right, face, taken);
    }
}

fn write(
    scene: &mut Scene,
    text: String,
    at: (f64, f64),
    side: Side,
    face: &Face,
    taken: &mut Obstacles,
) {
    let words = Words {
        text,
        at,
        side,
        em: EM,
        color: INK,
    };
    taken.boxes.push(words.bounds(face));
    scene.words.push(words);
}

/// A double arrow as wide as the strip, where there is room for its heads.
fn arrow(scene: &mut Scene, from: f64, to: f64, y: f64) {
    let (from, to) = (from + 2.0, to - 2.0);
    if to - from < 14.0 {
        return;
    }
    scene.line(vec![(from + 4.0, y), (to - 4.0, y)], INK, 1.0);
    for (tip, back) in [(from, from + 6.0), (to, to - 6.0)] {
        scene.area(vec![(tip, y), (back, y - 3.0), (back, y + 3.0)], INK, 1.0);
    }
}
