//! Published over ours, claim by claim, on a logarithmic axis: on the line they agree, right of it too much was claimed.
//!
//! Only claims that are one number in one unit are drawn; the table holds the others. The hollow dot is the published
//! figure; the line runs from agreement to it.

use plotters::style::RGBColor;

use super::color::{GREEN, GRID, INK, QUIET, VERMILION};
use super::face::Face;
use super::scene::{Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::reproduce::{Claim, Reproduction, Status};

/// Width of the figure \[units\].
const WIDTH: f64 = 640.0;

/// Height of a row \[units\].
const ROW: f64 = 34.0;

/// Where the axis begins and ends \[units\].
const AXIS: (f64, f64) = (330.0, 616.0);

/// Ratios at the ends of the axis.
const RANGE: (f64, f64) = (0.8, 10.0);

const CAPTION: &str = "Published over ours, logarithmic; only claims that are one number in one unit. Green: reproduced; orange: corrected. Ours: KV heads as the model has them, ledger with protected tokens and staging, counters replayed from lengths. Arithmetic of each row: kvplan reproduce.";

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(r: &Reproduction, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(r)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(r: &Reproduction) -> Result<Scene> {
    let face = Face::embedded()?;
    let rows: Vec<(&Claim, f64)> = r
        .claims
        .iter()
        .filter_map(|c| Some((c, c.published_over_ours?)))
        .collect();
    let top = 84.0;
    let bottom = top + ROW * rows.len() as f64;
    let caption = face.wrap(CAPTION, 11.5, WIDTH - 32.0);
    let height = bottom + 48.0 + 16.0 * caption.len() as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few hundred units
    let size = (WIDTH as u32, height.ceil() as u32);
    let mut scene = Scene {
        size,
        title: "Published figures over ours".into(),
        ..Scene::default()
    };
    scene.write(
        "Published figures over ours",
        (16.0, 27.0),
        Side::Left,
        17.0,
        INK,
    );
    scene.write(
        "Not All Thoughts Need HBM, arXiv 2605.09490",
        (16.0, 47.0),
        Side::Left,
        12.5,
        QUIET,
    );
    axis(&mut scene, top, bottom);
    for (i, (claim, ratio)) in rows.iter().enumerate() {
        row(
            &mut scene,
            &face,
            claim,
            *ratio,
            top + ROW * (i as f64 + 0.5),
        );
    }
    for (i, line) in caption.into_iter().enumerate() {
        let y = bottom + 46.0 + 16.0 * i as f64;
        scene.write(line, (16.0, y), Side::Left, 11.5, QUIET);
    }
    Ok(scene)
}

/// A ratio across \[units\].
fn across(ratio: f64) -> f64 {
    let log = |v: f64| libm::log(v / RANGE.0) / libm::log(RANGE.1 / RANGE.0);
    AXIS.0 + log(ratio.clamp(RANGE.0, RANGE.1)) * (AXIS.1 - AXIS.0)
}

fn axis(scene: &mut Scene, top: f64, bottom: f64) {
    for tick in [1.0, 2.0, 3.0, 5.0, 8.0] {
        let x = across(tick);
        let (color, width) = if tick > 1.0 {
            (GRID, 1.0)
        } else {
            (QUIET, 1.5)
        };
        scene.line(vec![(x, top - 4.0), (x, bottom)], color, width);
        let text = if tick > 1.0 {
            format!("{tick:.0} x")
        } else {
            "equal".into()
        };
        scene.write(text, (x, top - 10.0), Side::Middle, 12.0, INK);
    }
}

fn row(scene: &mut Scene, face: &Face, claim: &Claim, ratio: f64, y: f64) {
    let color = match claim.status {
        Status::Reproduced => GREEN,
        _ => VERMILION,
    };
    let room = AXIS.0 - 40.0;
    let fitting = |text: &str, em: f64| em * (room / face.width(text, em)).min(1.0);
    let name = claim.claim.as_str();
    scene.write(name, (16.0, y - 1.0), Side::Left, fitting(name, 12.5), INK);
    let figures = format!(
        "published {}; ours {}",
        claim.published,
        claim.ours.as_deref().unwrap_or("-")
    );
    let em = fitting(&figures, 11.5);
    scene.write(figures, (16.0, y + 13.0), Side::Left, em, QUIET);
    let x = across(ratio);
    scene.line(vec![(across(1.0), y), (x, y)], color, 2.0);
    ring(scene, (x, y), color);
}

/// A hollow dot.
fn ring(scene: &mut Scene, at: (f64, f64), color: RGBColor) {
    for (radius, color) in [(5.5, color), (3.5, RGBColor(255, 255, 255))] {
        scene.shapes.push(Shape::Dot { at, radius, color });
    }
}
