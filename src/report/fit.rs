//! Fitted laws as a page and as CSV.

use crate::error::Result;
use crate::fit::{Fit, FittedLaw, Parameter};
use crate::units::text::{show_seconds, significant};

use super::csv;
use super::page::{Grid, Page};
use super::validate::{number, percent};

/// The page: a row a law, with its parameters.
pub fn page(fit: &Fit) -> Page {
    let mut page = Page::default();
    page.title("Laws of kernels, fitted");
    page.text("Error: |predicted / measured - 1| over the rows fitted; class: the same when the card is predicted from the other cards.");
    let mut grid = Grid::new([
        "CARD",
        "LAW",
        "ROWS",
        "MEDIAN",
        "P90",
        "CLASS",
        "PARAMETERS",
    ])
    .texts(&[0, 1, 6]);
    for law in &fit.laws {
        grid.row([
            law.hardware.clone(),
            law.law.clone(),
            law.rows.to_string(),
            percent(Some(law.median_abs_rel_error)),
            percent(Some(law.p90_abs_rel_error)),
            percent(law.class_median_abs_rel_error),
            parameters(law),
        ]);
    }
    page.grid(grid);
    if !fit.left_out.is_empty() {
        page.title("Too few rows");
        page.list(fit.left_out.clone());
    }
    page
}

fn parameters(law: &FittedLaw) -> String {
    let all: Vec<String> = law.parameters.iter().map(parameter).collect();
    all.join(", ")
}

fn parameter(p: &Parameter) -> String {
    let value = if p.unit == "s" {
        show_seconds(p.value)
    } else {
        significant(p.value)
    };
    format!("{} {value}", p.name)
}

/// A line a parameter.
///
/// # Errors
/// Internal: the text cannot be made.
pub fn csv(fit: &Fit) -> Result<String> {
    let head = [
        "hardware",
        "law",
        "rows",
        "median_abs_rel_error",
        "p90_abs_rel_error",
        "class_median_abs_rel_error",
        "parameter",
        "unit",
        "value",
        "low",
        "high",
    ];
    let line = |law: &FittedLaw, p: &Parameter| {
        vec![
            law.hardware.clone(),
            law.law.clone(),
            law.rows.to_string(),
            law.median_abs_rel_error.to_string(),
            law.p90_abs_rel_error.to_string(),
            number(law.class_median_abs_rel_error),
            p.name.clone(),
            p.unit.clone(),
            p.value.to_string(),
            p.low.to_string(),
            p.high.to_string(),
        ]
    };
    let lines = fit
        .laws
        .iter()
        .flat_map(|l| l.parameters.iter().map(move |p| line(l, p)));
    csv::write(&head, lines)
}
