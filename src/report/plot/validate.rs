//! Predicted over measured, a panel a figure of a file, both axes logarithmic: on the line they agree.
//!
//! The axes of a panel are alike and span its own rows, so that a distance from the line means the same ratio anywhere
//! in it; the thin lines are 20 % off. A panel of many rows shows every k-th, so that a figure stays small.

use super::color::{BLUE, GRID, INK, QUIET, VERMILION};
use super::face::Face;
use super::scene::{Scene, Shape, Side};
use super::{Image, canvas};
use crate::error::Result;
use crate::units::text::significant;
use crate::validate::answer::{FileMetric, Row, Run};

/// Panels side by side.
const COLUMNS: usize = 3;
/// A panel with its words \[units\].
const CELL: (f64, f64) = (300.0, 310.0);
/// Edge of the square that holds the data \[units\].
const EDGE: f64 = 220.0;
/// Most dots in a panel.
const DOTS: usize = 400;

const CAPTION: &str = "Across: measured. Up: predicted from the configuration alone. Thin lines: 20 % off. Orange: outside the 90 % interval.";

/// Draws it.
///
/// # Errors
/// Internal only.
pub fn draw(run: &Run, image: Image) -> Result<Vec<u8>> {
    canvas::draw(&scene(run)?, image)
}

/// Lays it out.
///
/// # Errors
/// Internal, if the embedded font cannot be read.
pub fn scene(run: &Run) -> Result<Scene> {
    let face = Face::embedded()?;
    let shown: Vec<&FileMetric> = run
        .answer
        .files
        .iter()
        .filter(|f| f.predicted > 0)
        .collect();
    let down = shown.len().div_ceil(COLUMNS).max(1);
    let top = 60.0;
    let size = (COLUMNS as f64 * CELL.0, top + down as f64 * CELL.1 + 10.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few thousand units
    let mut scene = Scene {
        size: (size.0 as u32, size.1 as u32),
        title: "Predicted against measured".into(),
        ..Scene::default()
    };
    scene.write(
        "Predicted against measured",
        (16.0, 27.0),
        Side::Left,
        17.0,
        INK,
    );
    scene.write(CAPTION, (16.0, 46.0), Side::Left, 11.5, QUIET);
    for (i, file) in shown.iter().enumerate() {
        let corner = (
            (i % COLUMNS) as f64 * CELL.0,
            top + (i / COLUMNS) as f64 * CELL.1,
        );
        let rows = run
            .rows
            .iter()
            .filter(|r| r.file == file.file && r.metric == file.metric);
        panel(&mut scene, &face, corner, file, &rows.collect::<Vec<_>>());
    }
    Ok(scene)
}

/// A panel's square and its range.
struct Axes {
    left: f64,
    bottom: f64,
    /// Natural logarithms of its ends.
    range: (f64, f64),
}

impl Axes {
    fn along(&self, value: f64) -> f64 {
        (libm::log(value).clamp(self.range.0, self.range.1) - self.range.0)
            / (self.range.1 - self.range.0)
            * EDGE
    }

    fn at(&self, measured: f64, predicted: f64) -> (f64, f64) {
        (
            self.left + self.along(measured),
            self.bottom - self.along(predicted),
        )
    }
}

fn panel(scene: &mut Scene, face: &Face, corner: (f64, f64), file: &FileMetric, rows: &[&Row]) {
    let dots: Vec<(f64, f64, bool)> = rows
        .iter()
        .filter_map(|r| Some((r.measured, r.predicted?.value, r.inside()?)))
        .collect();
    let ends = dots.iter().flat_map(|d| [libm::log(d.0), libm::log(d.1)]);
    let range = ends.fold((f64::MAX, f64::MIN), |r, v| (r.0.min(v), r.1.max(v)));
    let range = (range.0 - 0.1, range.1 + 0.1);
    let axes = Axes {
        left: corner.0 + 60.0,
        bottom: corner.1 + 48.0 + EDGE,
        range,
    };
    let fitting = |text: &str, em: f64| em * ((CELL.0 - 24.0) / face.width(text, em)).min(1.0);
    let name = format!("{}: {}", file.file, file.metric);
    scene.write(
        name.clone(),
        (corner.0 + 16.0, corner.1 + 20.0),
        Side::Left,
        fitting(&name, 12.5),
        INK,
    );
    let share = |s: Option<f64>| format!("{:.1} %", 100.0 * s.unwrap_or(0.0));
    let sums = format!(
        "{} rows, median error {}, p90 {}",
        file.predicted,
        share(file.median_abs_rel_error),
        share(file.p90_abs_rel_error)
    );
    scene.write(
        sums.clone(),
        (corner.0 + 16.0, corner.1 + 37.0),
        Side::Left,
        fitting(&sums, 11.5),
        QUIET,
    );
    frame(scene, &axes);
    for (measured, predicted, inside) in dots.iter().step_by(dots.len().div_ceil(DOTS).max(1)) {
        scene.shapes.push(Shape::Dot {
            at: axes.at(*measured, *predicted),
            radius: 1.8,
            color: if *inside { BLUE } else { VERMILION },
        });
    }
}

fn frame(scene: &mut Scene, axes: &Axes) {
    let (low, high) = (libm::exp(axes.range.0), libm::exp(axes.range.1));
    for tick in ticks(low, high) {
        let (x, y) = axes.at(tick, tick);
        scene.line(vec![(x, axes.bottom - EDGE), (x, axes.bottom)], GRID, 1.0);
        scene.line(vec![(axes.left, y), (axes.left + EDGE, y)], GRID, 1.0);
        scene.write(
            significant(tick),
            (x, axes.bottom + 15.0),
            Side::Middle,
            10.5,
            INK,
        );
        scene.write(
            significant(tick),
            (axes.left - 5.0, y + 4.0),
            Side::Right,
            10.5,
            INK,
        );
    }
    scene.line(vec![axes.at(low, low), axes.at(high, high)], QUIET, 1.5);
    for off in [1.2, 0.8] {
        let (from, to) = (f64::max(low, low / off), f64::min(high, high / off));
        scene.line(
            vec![axes.at(from, from * off), axes.at(to, to * off)],
            QUIET,
            0.7,
        );
    }
    let corner = vec![
        (axes.left, axes.bottom - EDGE),
        (axes.left, axes.bottom),
        (axes.left + EDGE, axes.bottom),
    ];
    scene.line(corner, QUIET, 1.0);
}

/// Powers of ten in a range, thinned to five; with 2 and 5 where there are fewer than two.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let of = |set: &[f64]| -> Vec<f64> {
        (-15..16)
            .flat_map(|p| set.iter().map(move |m| m * libm::pow(10.0, f64::from(p))))
            .filter(|v| *v >= low && *v <= high)
            .collect()
    };
    let whole = of(&[1.0]);
    let all = if whole.len() < 2 {
        of(&[1.0, 2.0, 5.0])
    } else {
        whole
    };
    let every = all.len().div_ceil(5).max(1);
    all.into_iter().step_by(every).collect()
}
