//! Predicted against measured as a page, and its rows as CSV.

use crate::error::{Error, Result};
use crate::hardware::expected::Expected;
use crate::validate::answer::{FileMetric, Row, Validation};
use crate::validate::coverage::Coverage;

use super::csv;
use super::page::{Grid, Page};

/// The page: a row a figure of a file, then the GPUs that are worst, then what was left out.
pub fn page(v: &Validation) -> Page {
    let mut page = Page::default();
    page.title("Predicted against measured");
    page.text("Error: |predicted / measured - 1|. Bias: mean of predicted / measured - 1. Inside: share of rows within the 90 % interval.");
    let mut grid = Grid::new([
        "FILE, METRIC",
        "ROWS",
        "PREDICTED",
        "MEDIAN",
        "P90",
        "BIAS",
        "HALF WIDTH",
        "INSIDE",
    ])
    .texts(&[0]);
    for f in &v.files {
        grid.row([
            format!("{}, {}", f.file, f.metric),
            f.rows.to_string(),
            f.predicted.to_string(),
            percent(f.median_abs_rel_error),
            percent(f.p90_abs_rel_error),
            percent(f.bias),
            percent(f.interval_half_width_median),
            percent(f.inside_interval_share),
        ]);
    }
    page.grid(grid);
    if let Some(c) = &v.coverage {
        coverage(&mut page, c);
    }
    gpus(&mut page, v);
    let left_out: Vec<String> = v.files.iter().flat_map(reasons).collect();
    if !left_out.is_empty() {
        page.title("Not predicted");
        page.list(left_out);
    }
    page
}

/// The errors that `plan` quotes, as TOML.
///
/// # Errors
/// Internal: the text cannot be made.
pub fn expected(errors: &Expected) -> Result<String> {
    let text = toml::to_string(errors).map_err(|e| Error::internal(format!("TOML: {e}")))?;
    Ok(format!(
        "# Written by `kvplan validate --expected`; do not edit.\n{text}"
    ))
}

/// Whether the intervals of servers hold what they claim.
fn coverage(page: &mut Page, c: &Coverage) {
    page.title("Do intervals of whole servers hold what they claim?");
    let ends = [-1.0, 1.0].map(|side| percent(Some(c.stated_share + side * c.tolerance_share)));
    page.text(format!(
        "{} of {} figures of servers lie in their {:.0} % interval: {} ({} to {} by chance if rows err apart; {}). Mean over {} \
         classes of card, software and model: {}. Median half width: {}.",
        c.inside,
        c.rows,
        100.0 * c.stated_share,
        percent(Some(c.inside_share)),
        ends[0],
        ends[1],
        if c.holds { "it holds" } else { "too few" },
        c.classes,
        percent(Some(c.class_inside_share)),
        percent(Some(c.half_width_median)),
    ));
    let mut grid = Grid::new(["FIGURE", "ROWS", "INSIDE", "SHARE", "HALF WIDTH"]);
    for m in &c.by_metric {
        grid.row([
            m.metric.clone(),
            m.rows.to_string(),
            m.inside.to_string(),
            percent(Some(m.inside as f64 / m.rows.max(1) as f64)),
            percent(Some(m.half_width_median)),
        ]);
    }
    page.grid(grid);
}

fn gpus(page: &mut Page, v: &Validation) {
    for f in v
        .files
        .iter()
        .filter(|f| f.predicted > 0 && f.by_gpu.len() > 1)
    {
        page.title(format!("By GPU: {}, {}", f.file, f.metric));
        let mut grid = Grid::new(["GPU", "ROWS", "PREDICTED", "MEDIAN", "P90", "INSIDE"]);
        for g in &f.by_gpu {
            grid.row([
                g.gpu.clone(),
                g.rows.to_string(),
                g.predicted.to_string(),
                percent(g.median_abs_rel_error),
                percent(g.p90_abs_rel_error),
                percent(g.inside_interval_share),
            ]);
        }
        page.grid(grid);
    }
}

fn reasons(f: &FileMetric) -> Vec<String> {
    f.skipped
        .iter()
        .map(|s| format!("{}, {}: {} rows: {}", f.file, f.metric, s.rows, s.reason))
        .collect()
}

/// A share in percent, to a tenth.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.1} %", 100.0 * s))
}

/// A table of sums, one row a figure of a file.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(v: &Validation) -> Result<String> {
    let head = [
        "file",
        "metric",
        "rows",
        "predicted",
        "median_abs_rel_error",
        "p90_abs_rel_error",
        "bias",
        "interval_half_width_median",
        "inside_interval_share",
    ];
    let line = |f: &FileMetric| {
        vec![
            f.file.clone(),
            f.metric.clone(),
            f.rows.to_string(),
            f.predicted.to_string(),
            number(f.median_abs_rel_error),
            number(f.p90_abs_rel_error),
            number(f.bias),
            number(f.interval_half_width_median),
            number(f.inside_interval_share),
        ]
    };
    csv::write(&head, v.files.iter().map(line))
}

/// Every row: measured, predicted with its interval, error, or why it was left out.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn rows(rows: &[Row]) -> Result<String> {
    let head = [
        "file",
        "line",
        "metric",
        "gpu",
        "framework",
        "model",
        "measured",
        "predicted",
        "low",
        "high",
        "rel_error",
        "skipped",
    ];
    let line = |r: &Row| {
        vec![
            r.file.clone(),
            r.line.to_string(),
            r.metric.to_string(),
            r.gpu.clone(),
            r.framework.clone(),
            r.model.clone(),
            r.measured.to_string(),
            number(r.predicted.map(|p| p.value)),
            number(r.predicted.map(|p| p.low)),
            number(r.predicted.map(|p| p.high)),
            number(r.error()),
            r.skipped.clone().unwrap_or_default(),
        ]
    };
    csv::write(&head, rows.iter().map(line))
}

/// A number, blank where there is none.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}
