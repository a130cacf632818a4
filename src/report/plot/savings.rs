//! HBM saved by model, batch and context: a panel a batch, a group of bars a model, a bar a context.
//!
//! Panels have scales of their own: savings grow with the batch, and one scale would hide the small ones. Destroyed tokens
//! are hatched: HBM that they free is bought with what they knew.

use super::chrome::{self, Fill, Linear};
use super::color::{BLUE, INK, QUIET, VERMILION};
use super::face::Face;
use super::place::Rect;
use super::scene::{Scene, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::plan::figures::savings::{BATCHES, CONTEXTS, MODELS, Saved, Savings};
use crate::units::GIB;

const SIZE: (u32, u32) = (760, 520);

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
    let entries = [
        ("moved to the host", Fill::Plain(BLUE)),
        ("destroyed", Fill::Hatched(VERMILION)),
    ];
    chrome::key(
        &mut scene,
        &face,
        &entries,
        inner.left,
        inner.top,
        inner.right,
    );
    let (names, gap) = (112.0, 18.0);
    let width = (inner.right - inner.left - names - 2.0 * gap) / BATCHES.len() as f64;
    let mut left = inner.left + names;
    for (i, (panel, batch)) in s.panels.iter().zip(BATCHES).enumerate() {
        let edge = Rect {
            left,
            top: inner.top + 48.0,
            right: left + width,
            bottom: inner.bottom - 38.0,
        };
        draw_panel(&mut scene, panel, batch, edge, i == 0);
        left += width + gap;
    }
    Ok(scene)
}

fn draw_panel(scene: &mut Scene, panel: &[Saved], batch: u32, edge: Rect, named: bool) {
    let top = panel
        .iter()
        .map(|s| (s.moved.max(0) + s.destroyed.max(0)) as f64 / GIB)
        .fold(0.0, f64::max);
    let axis = Linear {
        range: (0.0, 1.05 * top.max(1e-3)),
        at: (edge.left, edge.right),
    };
    chrome::across(scene, &axis, edge, 3.0, chrome::tick);
    let middle = f64::midpoint(edge.left, edge.right);
    let title = format!("batch {batch}");
    scene.write(title, (middle, edge.top - 8.0), Side::Middle, 13.0, INK);
    let at = (middle, edge.bottom + 32.0);
    scene.write("GiB saved", at, Side::Middle, chrome::EM, INK);
    let group = (edge.bottom - edge.top) / MODELS.len() as f64;
    let bar = (group - 8.0) / CONTEXTS.len() as f64;
    for (i, saved) in panel.iter().enumerate() {
        let (model, context) = (i / CONTEXTS.len(), i % CONTEXTS.len());
        let y = edge.top + group * model as f64 + 4.0 + bar * context as f64;
        bars(scene, *saved, &axis, (y + 1.0, y + bar - 1.0));
        if named {
            let base = y + bar / 2.0 + 4.0;
            let text = format!("{}K", CONTEXTS[context] / 1024);
            scene.write(text, (edge.left - 6.0, base), Side::Right, 11.0, QUIET);
            if context == CONTEXTS.len() / 2 {
                let at = (edge.left - 104.0, base);
                scene.write(MODELS[model].0, at, Side::Left, 13.0, INK);
            }
        }
    }
}

fn bars(scene: &mut Scene, saved: Saved, axis: &Linear, (top, bottom): (f64, f64)) {
    let gib = |bytes: i64| bytes.max(0) as f64 / GIB;
    let (moved, all) = (gib(saved.moved), gib(saved.moved) + gib(saved.destroyed));
    let part = |from: f64, to: f64| Rect {
        left: axis.place(from),
        top,
        right: axis.place(to),
        bottom,
    };
    Fill::Plain(BLUE).draw(scene, part(0.0, moved));
    Fill::Hatched(VERMILION).draw(scene, part(moved, all));
}
