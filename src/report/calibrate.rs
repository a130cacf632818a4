//! A calibration as a page and as CSV.

use crate::calibrate::Answer;
use crate::error::Result;
use crate::hardware::calibration::{FittedParameter, Holdout};
use crate::units::text::{show_rate, show_seconds, significant};

use super::csv;
use super::page::{Grid, Page};

/// The page: parameters, the hold-out, remarks.
pub fn page(answer: &Answer) -> Page {
    let c = &answer.calibration;
    let mut page = Page::default();
    page.title("Measured and fitted");
    page.text("Interval: p5 to p95 over resampled repetitions. Misses: worst |predicted / measured - 1| of the law over its points.");
    let mut grid = Grid::new(["PARAMETER", "VALUE", "INTERVAL", "POINTS", "MISSES"]).texts(&[0, 2]);
    for p in &c.parameters {
        grid.row([
            spaced(&p.name),
            show(p, p.value),
            format!("{} to {}", show(p, p.low), show(p, p.high)),
            p.points.to_string(),
            percent(p.worst_residual),
        ]);
    }
    page.grid(grid);
    if !c.holdouts.is_empty() {
        page.title("Predicted and not fitted");
        page.grid(holdouts(&c.holdouts));
    }
    if !c.notes.is_empty() {
        page.title("Notes");
        page.list(c.notes.clone());
    }
    page
}

fn holdouts(all: &[Holdout]) -> Grid {
    let mut grid = Grid::new(["WHAT", "SHAPE", "PREDICTED", "MEASURED", "ERROR"]).texts(&[0, 1]);
    for h in all {
        grid.row([
            spaced(&h.mode),
            spaced(&h.shape),
            show_seconds(h.predicted_us * 1e-6),
            show_seconds(h.measured_us * 1e-6),
            format!("{:+.1} %", 100.0 * h.error),
        ]);
    }
    grid
}

/// A name whose parts wrap.
fn spaced(name: &str) -> String {
    name.replace('.', " ")
}

/// A figure of a parameter.
fn show(p: &FittedParameter, value: f64) -> String {
    match p.unit.as_str() {
        "s" => show_seconds(value),
        "bytes_per_s" => show_rate(value),
        "flop_per_s" => format!("{} GFLOP/s", significant(value / 1e9)),
        _ => significant(value),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A line a parameter.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(answer: &Answer) -> Result<String> {
    let head = [
        "name",
        "unit",
        "value",
        "low",
        "high",
        "points",
        "samples",
        "worst_residual",
    ];
    let parameter = |p: &FittedParameter| {
        vec![
            p.name.clone(),
            p.unit.clone(),
            p.value.to_string(),
            p.low.to_string(),
            p.high.to_string(),
            p.points.to_string(),
            p.samples.to_string(),
            p.worst_residual.to_string(),
        ]
    };
    csv::write(&head, answer.calibration.parameters.iter().map(parameter))
}
