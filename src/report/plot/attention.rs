//! Attention over positions and steps, coloured by tier: pale where little is attended to, deep where much is.
//!
//! Neighbouring bins of one shade are drawn as one, so that a figure stays small.

use plotters::style::RGBColor;

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, GREEN, INK, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::attention::{ACROSS, Attention, Bin, DOWN};

const SIZE: (u32, u32) = (560, 560);

/// Tiers with their colours.
const TIERS: [(&str, RGBColor); 4] = [
    ("T0: HBM", BLUE),
    ("T1: host", GREEN),
    ("T2: 8 bit", RGBColor(150, 110, 0)),
    ("T3: destroyed", VERMILION),
];

/// Weights a token at which a deeper shade begins, and the shades.
const SHADES: [(f64, f64); 5] = [
    (0.0, 0.13),
    (1e-5, 0.28),
    (1e-4, 0.48),
    (1e-3, 0.72),
    (1e-2, 1.0),
];

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(a: &Attention, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(a)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(a: &Attention) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&a.words, SIZE, &face);
    let used = |tier: usize| a.bins.iter().flatten().flatten().any(|b| b.tier == tier);
    let entries: Vec<(&str, Fill)> = TIERS
        .iter()
        .enumerate()
        .filter(|(i, _)| used(*i))
        .map(|(_, (name, color))| (*name, Fill::Plain(*color)))
        .collect();
    let high = chrome::key(&mut scene, &face, &entries, inner);
    let edge = Rect {
        left: inner.left + 48.0,
        top: inner.top + high + 26.0,
        right: inner.right - 8.0,
        bottom: inner.bottom - 40.0,
    };
    axes(&mut scene, a, edge, inner);
    for (y, row) in a.bins.iter().enumerate() {
        line(&mut scene, row, y, edge);
    }
    let prompt = edge.left
        + (edge.right - edge.left) * f64::from(a.prompt) / f64::from(a.prompt + a.rows).max(1.0);
    scene.shapes.push(Shape::Line {
        points: vec![(prompt, edge.top), (prompt, edge.bottom)],
        color: INK,
        width: 1.0,
        dash: Some((4.0, 3.0)),
    });
    shades(&mut scene, edge);
    Ok(scene)
}

fn axes(scene: &mut Scene, a: &Attention, edge: Rect, inner: Rect) {
    let x = Linear {
        range: (0.0, f64::from(a.prompt + a.rows)),
        at: (edge.left, edge.right),
    };
    let y = Linear {
        range: (0.0, f64::from(a.rows)),
        at: (edge.top, edge.bottom),
    };
    chrome::across(scene, &x, edge, 5.0, chrome::tick);
    chrome::upwards(scene, &y, edge, 5.0, chrome::tick);
    let at = (f64::midpoint(edge.left, edge.right), edge.bottom + 34.0);
    scene.write("position attended to", at, Side::Middle, chrome::EM, INK);
    let at = (inner.left, edge.top - 10.0);
    scene.write("decode step (down)", at, Side::Left, chrome::EM, INK);
}

/// The bins of a row, those of one shade in one piece.
fn line(scene: &mut Scene, row: &[Option<Bin>], y: usize, edge: Rect) {
    let look = |b: &Option<Bin>| b.map(|b| (b.tier, shade(b.weight)));
    let width = (edge.right - edge.left) / ACROSS as f64;
    let height = (edge.bottom - edge.top) / DOWN as f64;
    let mut from = 0;
    for x in 1..=row.len() {
        if x < row.len() && look(&row[x]) == look(&row[from]) {
            continue;
        }
        if let Some((tier, shade)) = look(&row[from]) {
            let (left, right) = (
                edge.left + width * from as f64,
                edge.left + width * x as f64,
            );
            let (top, bottom) = (
                edge.top + height * y as f64,
                edge.top + height * (y + 1) as f64,
            );
            let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
            scene.area(corners, pale(TIERS[tier].1, SHADES[shade].1), 1.0);
        }
        from = x;
    }
}

/// A colour on white: opaque, so that neighbours leave no seam.
fn pale(color: RGBColor, share: f64) -> RGBColor {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between two bytes
    let mix = |ink: u8| (255.0 + share * (f64::from(ink) - 255.0)).round() as u8;
    RGBColor(mix(color.0), mix(color.1), mix(color.2))
}

/// The place of a weight's shade.
fn shade(weight: f64) -> usize {
    SHADES
        .iter()
        .rposition(|(least, _)| weight >= *least)
        .unwrap_or(0)
}

/// What a shade stands for, in the corner over the diagonal.
fn shades(scene: &mut Scene, edge: Rect) {
    let names = ["< 1e-5", "1e-5", "1e-4", "0.001", "> 0.01"];
    let top = edge.top + 24.0;
    let right = edge.right - 8.0;
    scene.write(
        "attention a token",
        (right, top),
        Side::Right,
        chrome::SMALL,
        QUIET,
    );
    for (i, (name, (_, opacity))) in names.into_iter().zip(SHADES).enumerate() {
        let y = top + 8.0 + 16.0 * i as f64;
        let (left, bottom) = (right - 14.0, y + 12.0);
        scene.area(
            vec![(left, y), (right, y), (right, bottom), (left, bottom)],
            BLUE,
            opacity,
        );
        scene.write(
            name,
            (left - 6.0, y + 10.0),
            Side::Right,
            chrome::SMALL,
            QUIET,
        );
    }
}
