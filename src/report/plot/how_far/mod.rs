//! How far and how fast: tokens per request against output tokens per second on one card.
//!
//! Shown: the wall where HBM is full; the strip beyond it in which T1 streams for free; each T1 mode from the wall on;
//! the engine as it is (preempt and recompute) as a dashed floor; and, shaded, where a T1 mode beats that floor. Before
//! the wall all of them are the run with everything in HBM, so one curve is drawn. A series that ends early has a cross
//! at its end. `staged` is left out where it stays near `stream` (the caption says so): two curves on one another only
//! look like a mistake. A flat curve looks flat: the y axis spans at least a factor of two.

mod gain;
mod names;
mod series;
mod zones;

use crate::error::Result;
use crate::plan::curve::Curve;

use super::color::{INK, QUIET};
use super::face::Face;
use super::frame::Frame;
use super::place::{Obstacles, Rect};
use super::scene::{Scene, Side};
use super::{Image, canvas};
use series::Drawn;

/// Width and height of the figure \[units\].
pub const SIZE: (u32, u32) = (540, 440);
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 440.0;

/// Size of labels \[units\].
const EM: f64 = 13.5;

/// Size of the caption \[units\].
const SMALL: f64 = 11.5;

/// Room over the highest point for the two lines on the zones \[units\].
const HEADROOM: f64 = 70.0;

/// Draws the curve into bytes.
///
/// # Errors
/// Internal only.
pub fn draw(curve: &Curve, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(curve)?, image)
}

/// Lays the figure out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(c: &Curve) -> Result<Scene> {
    let face = Face::embedded()?;
    let mut scene = Scene {
        size: SIZE,
        title: c.title.clone(),
        ..Scene::default()
    };
    let bottom = HEIGHT - caption(&mut scene, c, &face) - 52.0;
    title(&mut scene, c, &face);
    let frame = frame(c, &face, bottom);
    let drawn = series::of(c, &frame);
    let mut taken = obstacles(c, &frame, &drawn);
    zones::strip(&mut scene, c, &frame);
    frame.draw(&mut scene);
    across(&mut scene, &frame);
    let pieces = gain::pieces(c, &frame);
    gain::shade(&mut scene, &pieces);
    zones::label(&mut scene, c, &frame, &face, &mut taken);
    series::draw(&mut scene, &drawn);
    names::write(&mut scene, &drawn, &frame, &face, &mut taken);
    gain::name(&mut scene, &pieces, &frame, &face, &mut taken);
    Ok(scene)
}

/// Title, settings under it, and what the axes carry.
fn title(scene: &mut Scene, c: &Curve, face: &Face) {
    let room = WIDTH - 32.0;
    let fitting = |text: &str, em: f64| em * (room / face.width(text, em)).min(1.0);
    let em = fitting(&c.title, 17.0);
    scene.write(&c.title, (16.0, 27.0), Side::Left, em, INK);
    let em = fitting(&c.subtitle, 12.5);
    scene.write(&c.subtitle, (16.0, 47.0), Side::Left, em, QUIET);
    let text = "output tokens/s of all requests (log scale)";
    scene.write(text, (16.0, 72.0), Side::Left, 12.5, INK);
}

/// What the x axis carries.
fn across(scene: &mut Scene, f: &Frame) {
    let text = "tokens per request: prompt and output (log scale)";
    let at = (
        f64::midpoint(f.edge.left, f.edge.right),
        f.edge.bottom + 39.0,
    );
    scene.write(text, at, Side::Middle, 12.5, INK);
}

/// What the figure rests on, at its foot; returns its height.
fn caption(scene: &mut Scene, c: &Curve, face: &Face) -> f64 {
    let lines = face.wrap(&c.caption, SMALL, WIDTH - 32.0);
    let height = 1.35 * SMALL * lines.len() as f64;
    for (i, line) in lines.into_iter().enumerate() {
        let y = HEIGHT - 10.0 - height + 1.35 * SMALL * (i as f64 + 1.0);
        scene.write(line, (16.0, y), Side::Left, SMALL, QUIET);
    }
    height + 10.0
}

/// The axes: the data below the headroom, room for names at the right.
fn frame(c: &Curve, face: &Face, bottom: f64) -> Frame {
    let top = 82.0;
    let right = WIDTH - 24.0 - names::widest(c, face);
    let (low, high) = c
        .rates()
        .fold((f64::INFINITY, f64::MIN_POSITIVE), |(l, h), v| {
            (l.min(v), h.max(v))
        });
    // at least a factor of two, so that a flat curve looks flat
    let (low, high) = (libm::log10((low / 1.25).min(high / 2.2)), libm::log10(high));
    let free = 1.0 - HEADROOM / (bottom - top);
    let last = c.tokens.last().unwrap_or(&c.tokens[0]);
    Frame {
        edge: Rect {
            left: 62.0,
            top,
            right,
            bottom,
        },
        x: (
            libm::log2(f64::from(c.tokens[0])),
            libm::log2(f64::from(*last)),
        ),
        y: (low, low + (high - low) / free),
    }
}

/// Curves, wall and axis title: labels keep clear of them.
fn obstacles(c: &Curve, f: &Frame, drawn: &[Drawn]) -> Obstacles {
    let mut paths: Vec<_> = drawn.iter().map(|d| d.points.clone()).collect();
    if let Some(x) = zones::wall(c, f) {
        paths.push(vec![(x, f.edge.top), (x, f.edge.bottom)]);
    }
    Obstacles {
        paths,
        boxes: Vec::new(),
    }
}
