//! Where the mean decode step goes: a bar a way, a colour a part.

use plotters::style::RGBColor;

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, GREEN, GREY, INK, PURPLE, QUIET, SKY, VERMILION, YELLOW};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::steps::{PARTS, Steps};
use crate::units::text::show_seconds;

const SIZE: (u32, u32) = (560, 410);

/// Fill of each of [`PARTS`]; waiting is hatched.
const FILLS: [Fill; 8] = [
    Fill::Plain(BLUE),
    Fill::Plain(SKY),
    Fill::Plain(GREY),
    Fill::Plain(PURPLE),
    Fill::Plain(RGBColor(190, 190, 196)),
    Fill::Hatched(VERMILION),
    Fill::Hatched(GREEN),
    Fill::Plain(YELLOW),
];

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(s: &Steps, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(s)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(s: &Steps) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&s.words, SIZE, &face);
    let shown: Vec<usize> = (0..PARTS.len())
        .filter(|p| s.ways.iter().any(|w| w.parts[*p] > 0.0))
        .collect();
    let entries: Vec<(&str, Fill)> = shown.iter().map(|p| (PARTS[*p].0, FILLS[*p])).collect();
    let height = chrome::key(&mut scene, &face, &entries, inner);
    let names = s
        .ways
        .iter()
        .map(|w| face.width(&w.name, 13.0))
        .fold(0.0, f64::max);
    let edge = Rect {
        left: inner.left + names + 12.0,
        top: inner.top + height + 8.0,
        right: inner.right - 104.0,
        bottom: inner.bottom - 36.0,
    };
    let most = s
        .ways
        .iter()
        .map(|w| w.parts.iter().sum::<f64>())
        .fold(0.0, f64::max);
    let axis = Linear {
        range: (0.0, most.max(1e-9)),
        at: (edge.left, edge.right),
    };
    chrome::across(&mut scene, &axis, edge, 5.0, |v| chrome::tick(1e3 * v));
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 32.0);
    scene.write("ms per step", at, Side::Middle, chrome::EM, INK);
    let room = (edge.bottom - edge.top) / s.ways.len() as f64;
    for (i, way) in s.ways.iter().enumerate() {
        let middle = edge.top + room * (i as f64 + 0.5);
        let mut from = 0.0;
        for p in &shown {
            let to = from + way.parts[*p];
            let part = Rect {
                left: axis.place(from),
                top: middle - 0.3 * room,
                right: axis.place(to),
                bottom: middle + 0.3 * room,
            };
            FILLS[*p].draw(&mut scene, part);
            from = to;
        }
        scene.write(&way.name, (inner.left, middle + 4.0), Side::Left, 13.0, INK);
        let end = (axis.place(from) + 6.0, middle + 4.0);
        let total = if way.fits {
            show_seconds(from)
        } else {
            format!("{}, no fit", show_seconds(from))
        };
        scene.write(total, end, Side::Left, 12.0, QUIET);
    }
    Ok(scene)
}
