//! The layers of a step as bars over time, a row a resource.

use super::chrome::{self, Linear};
use super::color::{BLUE, GREEN, GREY, INK, PURPLE, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::layers::{Layers, TRACKS, Use};
use plotters::style::RGBColor;

const SIZE: (u32, u32) = (560, 360);

/// Colours of the resources.
const COLORS: [RGBColor; 4] = [BLUE, VERMILION, PURPLE, GREEN];

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(l: &Layers, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(l)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(l: &Layers) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&l.words, SIZE, &face);
    let edge = Rect {
        left: inner.left + 98.0,
        top: inner.top + 4.0,
        right: inner.right - 10.0,
        bottom: inner.bottom - 38.0,
    };
    let axis = Linear {
        range: (0.0, 1e3 * l.until.max(1e-9)),
        at: (edge.left, edge.right),
    };
    chrome::across(&mut scene, &axis, edge, 5.0, chrome::tick);
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 34.0);
    scene.write("ms since the step began", at, Side::Middle, chrome::EM, INK);
    let used: Vec<usize> = (0..TRACKS.len())
        .filter(|t| l.uses.iter().any(|u| u.track == *t))
        .collect();
    let room = (edge.bottom - edge.top) / used.len().max(1) as f64;
    for (i, track) in used.into_iter().enumerate() {
        let middle = edge.top + room * (i as f64 + 0.5);
        scene.write(
            TRACKS[track].1,
            (inner.left, middle + 4.0),
            Side::Left,
            chrome::EM,
            INK,
        );
        let tall = (0.62 * room).min(44.0);
        for u in l.uses.iter().filter(|u| u.track == track) {
            bar(
                &mut scene,
                &face,
                u,
                &axis,
                (middle - tall / 2.0, middle + tall / 2.0),
            );
        }
    }
    Ok(scene)
}

/// One use: its layer in it where there is room; moves and write-backs are pale.
fn bar(scene: &mut Scene, face: &Face, u: &Use, axis: &Linear, (top, bottom): (f64, f64)) {
    let (left, right) = (axis.place(1e3 * u.span.0), axis.place(1e3 * u.span.1));
    let inset = 0.5_f64.min((right - left) / 4.0);
    let corners = vec![
        (left + inset, top),
        (right - inset, top),
        (right - inset, bottom),
        (left + inset, bottom),
    ];
    let even = u.layer.is_none_or(|n| n % 2 == 0);
    let color = if u.layer.is_some() {
        COLORS[u.track]
    } else {
        GREY
    };
    let opacity = match (u.layer, even) {
        (None, _) => 0.35,
        (_, true) => 1.0,
        (_, false) => 0.62,
    };
    scene.area(corners, color, opacity);
    let Some(n) = u.layer else { return };
    let text = n.to_string();
    if face.width(&text, chrome::EM) + 3.0 < right - left {
        let at = (f64::midpoint(left, right), f64::midpoint(top, bottom) + 4.5);
        let ink = if even { RGBColor(255, 255, 255) } else { INK };
        scene.write(text, at, Side::Middle, chrome::EM, ink);
    } else if n == 0 {
        scene.write(
            text,
            (f64::midpoint(left, right), top - 3.0),
            Side::Middle,
            11.0,
            QUIET,
        );
    }
}
