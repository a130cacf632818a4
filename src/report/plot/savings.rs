//! HBM saved by model, batch and context as a map: a panel a batch, a row a model, a column a context.
//!
//! One scale of shades for all panels, logarithmic, so that a shade means the same number of bytes anywhere. What is moved and
//! what is destroyed are numbers of their own: HBM that destroying frees is bought with what the tokens knew.

use plotters::style::RGBColor;

use super::chrome::{self, SMALL};
use super::color::{BLUE, INK, QUIET};
use super::face::Face;
use super::scene::{Point, Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::savings::{BATCHES, CONTEXTS, MODELS, Saved, Savings};
use crate::units::GIB;

const SIZE: (u32, u32) = (600, 430);

/// Room for the models' names \[units\].
const NAMES: f64 = 66.0;

/// Shades of the least and the most that is saved.
const SHADES: (f64, f64) = (0.06, 1.0);

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(s: &Savings, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(s)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(s: &Savings) -> Result<Scene> {
    let face = Face::embedded()?;
    let (mut scene, inner) = chrome::begin(&s.words, SIZE, &face);
    let gap = 10.0;
    let panels = BATCHES.len() as f64;
    let width = (inner.right - inner.left - NAMES - gap * (panels - 1.0)) / panels;
    let (top, bottom) = (inner.top + 42.0, inner.bottom);
    let size = (
        width / CONTEXTS.len() as f64,
        (bottom - top) / MODELS.len() as f64,
    );
    let gib = s
        .panels
        .iter()
        .flatten()
        .map(|c| c.moved as f64 / GIB)
        .filter(|v| *v > 0.0);
    let ends = gib.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    for (i, (name, _)) in MODELS.iter().enumerate() {
        let y = top + size.1 * (i as f64 + 0.5) + 4.5;
        scene.write(*name, (inner.left, y), Side::Left, chrome::EM, INK);
    }
    for (i, (panel, batch)) in s.panels.iter().zip(BATCHES).enumerate() {
        let left = inner.left + NAMES + i as f64 * (width + gap);
        let title = format!("batch {batch}");
        scene.write(
            title,
            (left + width / 2.0, top - 26.0),
            Side::Middle,
            chrome::EM,
            INK,
        );
        for (k, context) in CONTEXTS.iter().enumerate() {
            let at = (left + size.0 * (k as f64 + 0.5), top - 8.0);
            scene.write(
                format!("{}K", context / 1024),
                at,
                Side::Middle,
                SMALL,
                QUIET,
            );
        }
        for (k, saved) in panel.iter().enumerate() {
            let (row, column) = (k / CONTEXTS.len(), k % CONTEXTS.len());
            let corner = (left + size.0 * column as f64, top + size.1 * row as f64);
            cell(&mut scene, *saved, corner, size, ends);
        }
    }
    Ok(scene)
}

/// A cell: GiB moved, and under it GiB destroyed.
fn cell(scene: &mut Scene, s: Saved, (left, top): Point, (width, height): Point, ends: Point) {
    let (right, bottom) = (left + width - 2.0, top + height - 2.0);
    let (moved, gone) = (s.moved as f64 / GIB, s.destroyed as f64 / GIB);
    let span = libm::log(ends.1 / ends.0).max(1e-9);
    let share = if moved > 0.0 {
        (libm::log(moved / ends.0) / span).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let depth = SHADES.0 + share * (SHADES.1 - SHADES.0);
    scene.area(
        vec![(left, top), (right, top), (right, bottom), (left, bottom)],
        BLUE,
        depth,
    );
    let dark = depth > 0.72;
    let (ink, lost) = if dark {
        (RGBColor(255, 255, 255), RGBColor(255, 226, 200))
    } else {
        (INK, RGBColor(118, 40, 0))
    };
    let middle = f64::midpoint(left, right);
    let y = f64::midpoint(top, bottom);
    let above = if s.destroyed > 0 { 1.0 } else { -4.5 };
    scene.write(
        short(moved),
        (middle, y - above),
        Side::Middle,
        chrome::EM,
        ink,
    );
    if s.destroyed > 0 {
        scene.write(
            format!("+{}", short(gone)),
            (middle, y + 12.5),
            Side::Middle,
            11.0,
            lost,
        );
    }
}

/// GiB in as few letters as tell it: `0.07`, `3.4`, `36`.
fn short(gib: f64) -> String {
    match gib.abs() {
        v if v < 0.995 => format!("{gib:.2}"),
        v if v < 9.95 => format!("{gib:.1}"),
        _ => format!("{gib:.0}"),
    }
}
