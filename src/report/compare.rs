//! A plan's ledger beside an engine's, as a page and as CSV.

use crate::compare::{Comparison, Part};
use crate::error::Result;
use crate::units::GIB;
use crate::units::text::group;

use super::csv;
use super::page::{Grid, Page};

/// The page: the parts, what the difference of the pool consists of, remarks.
pub fn page(c: &Comparison) -> Page {
    let mut page = Page::default();
    page.title("The plan beside the engine");
    let version = c.engine_version.as_deref().unwrap_or("release unknown");
    page.text(format!(
        "{} ({version}) against runtime {}: {} on {} x {}. Sizes of one GPU; difference is predicted less engine.",
        c.engine, c.runtime, c.model, c.gpus, c.hardware
    ));
    let mut grid = Grid::new(["", "ENGINE", "PREDICTED", "DIFFERENCE"]).texts(&[0]);
    for p in &c.parts {
        grid.row([
            format!("{} (GiB)", p.part),
            gib(p.engine_bytes),
            gib(p.predicted_bytes),
            signed(p.difference_bytes),
        ]);
    }
    let t = &c.pool_tokens;
    let share = t
        .difference_share
        .map_or(String::new(), |s| format!(" ({:+.1} %)", 100.0 * s));
    grid.row([
        "KV pool (tokens, all GPUs)".into(),
        t.engine
            .map_or_else(|| "-".into(), |n| group(&n.to_string())),
        group(&t.predicted.to_string()),
        t.difference
            .map_or_else(|| "-".into(), |d| format!("{d:+}{share}")),
    ]);
    page.grid(grid);
    if !c.reasons.is_empty() {
        page.title("What the difference of the pool consists of");
        let mut grid = Grid::new(["REASON", "GIB"]).texts(&[0]);
        for r in &c.reasons {
            grid.row([r.reason.clone(), signed(Some(r.pool_bytes))]);
        }
        page.grid(grid);
    }
    if !c.notes.is_empty() {
        page.title("Notes");
        page.list(c.notes.clone());
    }
    page
}

fn gib(bytes: Option<i64>) -> String {
    bytes.map_or_else(|| "-".into(), |b| format!("{:.2}", b as f64 / GIB))
}

fn signed(bytes: Option<i64>) -> String {
    bytes.map_or_else(|| "-".into(), |b| format!("{:+.2}", b as f64 / GIB))
}

/// A table of the parts and of the pool's tokens.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(c: &Comparison) -> Result<String> {
    let head = ["figure", "unit", "engine", "predicted", "difference"];
    let part = |p: &Part| {
        let cells = [p.engine_bytes, p.predicted_bytes, p.difference_bytes].map(cell);
        [vec![p.part.clone(), "bytes".into()], cells.into()].concat()
    };
    let t = &c.pool_tokens;
    let pool = vec![
        "KV pool".into(),
        "tokens".into(),
        cell(t.engine),
        t.predicted.to_string(),
        cell(t.difference),
    ];
    csv::write(&head, c.parts.iter().map(part).chain([pool]))
}

fn cell<N: std::fmt::Display>(value: Option<N>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}
