//! Tier occupancy over steps, and under it the mass of what was destroyed.

use plotters::style::RGBColor;

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, GREY, INK, PURPLE, QUIET, SKY, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Point, Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::tiers::Tiers;

const SIZE: (u32, u32) = (560, 500);

/// Name and colour of each tier.
const TIERS: [(&str, RGBColor); 4] = [
    ("T0: HBM", BLUE),
    ("T1: host", SKY),
    ("T2: host, 8 bit", PURPLE),
    ("T3: destroyed", VERMILION),
];

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(t: &Tiers, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(t)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(t: &Tiers) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&t.words, SIZE, &face);
    let used: Vec<usize> = (0..4)
        .filter(|tier| t.tokens.iter().any(|k| k[*tier] > 0.0))
        .collect();
    let entries: Vec<(&str, Fill)> = used
        .iter()
        .map(|tier| (TIERS[*tier].0, fill(*tier)))
        .collect();
    chrome::key(&mut scene, &face, &entries, inner);
    let lower = if t.destroyed_mass.is_empty() {
        0.0
    } else {
        134.0
    };
    let edge = Rect {
        left: inner.left + 56.0,
        top: inner.top + 44.0,
        right: inner.right - 8.0,
        bottom: inner.bottom - 40.0 - lower,
    };
    let last = t.steps.last().copied().unwrap_or(0);
    let x = Linear {
        range: (0.0, f64::from(last.max(1))),
        at: (edge.left, edge.right),
    };
    occupancy(&mut scene, t, &x, edge, &used);
    if lower > 0.0 {
        let edge = Rect {
            top: edge.bottom + 50.0,
            bottom: edge.bottom + lower,
            ..edge
        };
        mass(&mut scene, t, &x, edge);
    }
    let at = (f64::midpoint(edge.left, edge.right), inner.bottom - 22.0);
    scene.write("decode step", at, Side::Middle, chrome::EM, INK);
    let at = (inner.left, inner.top + 36.0);
    scene.write("tokens of a request", at, Side::Left, chrome::EM, INK);
    Ok(scene)
}

fn fill(tier: usize) -> Fill {
    if tier == 3 {
        Fill::Hatched(TIERS[3].1)
    } else {
        Fill::Plain(TIERS[tier].1)
    }
}

/// Stacked areas.
fn occupancy(scene: &mut Scene, t: &Tiers, x: &Linear, edge: Rect, used: &[usize]) {
    let sums = t.tokens.iter().map(|k| k.iter().sum::<f64>());
    let y = Linear {
        range: (0.0, 1.04 * sums.fold(1.0, f64::max)),
        at: (edge.bottom, edge.top),
    };
    chrome::across(scene, x, edge, 6.0, chrome::tick);
    chrome::upwards(scene, &y, edge, 5.0, chrome::tick);
    let mut below = vec![0.0; t.tokens.len()];
    for tier in used {
        let above: Vec<f64> = below
            .iter()
            .zip(&t.tokens)
            .map(|(b, k)| b + k[*tier])
            .collect();
        let place = |values: &[f64]| -> Vec<Point> {
            t.steps
                .iter()
                .zip(values)
                .map(|(s, v)| (x.place(f64::from(*s)), y.place(*v)))
                .collect()
        };
        let (upper, lower) = (place(&above), place(&below));
        let outline = upper.iter().copied().chain(lower.iter().rev().copied());
        let opacity = if *tier == 3 { 0.25 } else { 0.9 };
        scene.area(outline.collect(), TIERS[*tier].1, opacity);
        if *tier == 3 {
            hatch(scene, &upper, &lower);
        }
        below = above;
    }
    from_here(scene, t, x, edge);
}

/// Upright strokes, a light hatch between two curves.
fn hatch(scene: &mut Scene, upper: &[Point], lower: &[Point]) {
    let mut next = f64::NEG_INFINITY;
    for (a, b) in upper.iter().zip(lower) {
        if a.0 >= next && b.1 - a.1 > 0.5 {
            scene.line(vec![*a, *b], TIERS[3].1, 1.0);
            next = a.0 + 6.0;
        }
    }
}

/// Where recorded rows end.
fn from_here(scene: &mut Scene, t: &Tiers, x: &Linear, edge: Rect) {
    let Some(from) = t.synthetic_from else {
        return;
    };
    let at = x.place(f64::from(from));
    scene.shapes.push(Shape::Line {
        points: vec![(at, edge.top), (at, edge.bottom)],
        color: GREY,
        width: 1.2,
        dash: Some((5.0, 4.0)),
    });
    let text = "extrapolated from here";
    scene.write(text, (at + 5.0, edge.top + 12.0), Side::Left, 11.0, QUIET);
}

fn mass(scene: &mut Scene, t: &Tiers, x: &Linear, edge: Rect) {
    let top = t.destroyed_mass.iter().copied().fold(0.0, f64::max);
    let y = Linear {
        range: (0.0, 1.3 * top.max(1e-4)),
        at: (edge.bottom, edge.top),
    };
    chrome::across(scene, x, edge, 6.0, |_| String::new());
    chrome::upwards(scene, &y, edge, 2.0, |v| {
        format!("{} %", chrome::tick(100.0 * v))
    });
    let points = t
        .steps
        .iter()
        .zip(&t.destroyed_mass)
        .map(|(s, m)| (x.place(f64::from(*s)), y.place(*m)));
    scene.line(points.collect(), VERMILION, 1.6);
    let at = (16.0, edge.top - 6.0);
    scene.write(
        "attention on destroyed tokens",
        at,
        Side::Left,
        chrome::EM,
        INK,
    );
}
