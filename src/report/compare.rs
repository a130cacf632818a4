//! A plan's ledger beside an engine's, as a page and as CSV.

use crate::compare::{Comparison, Part};
use crate::error::{Error, Result};
use crate::units::text::group;

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

const GIB: f64 = (1u64 << 30) as f64;

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
    let broken = |e: &dyn std::fmt::Display| Error::internal(format!("csv: {e}"));
    let mut out = csv::Writer::from_writer(Vec::new());
    let head = ["figure", "unit", "engine", "predicted", "difference"];
    out.write_record(head).map_err(|e| broken(&e))?;
    for Part {
        part,
        engine_bytes,
        predicted_bytes,
        difference_bytes,
    } in &c.parts
    {
        let cells = [engine_bytes, predicted_bytes, difference_bytes].map(|b| cell(*b));
        let [engine, predicted, difference] = cells;
        let line = [part.clone(), "bytes".into(), engine, predicted, difference];
        out.write_record(line).map_err(|e| broken(&e))?;
    }
    let t = &c.pool_tokens;
    let line = [
        "KV pool".into(),
        "tokens".into(),
        cell(t.engine),
        t.predicted.to_string(),
        cell(t.difference),
    ];
    out.write_record(line).map_err(|e| broken(&e))?;
    let bytes = out.into_inner().map_err(|e| broken(&e))?;
    String::from_utf8(bytes).map_err(|e| broken(&e))
}

fn cell<N: std::fmt::Display>(value: Option<N>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}
