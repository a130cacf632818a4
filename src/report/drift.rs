//! What drifted between two profiles, as a page and as CSV.

use crate::compare::profiles::{Changed, Drift, Way};
use crate::error::Result;
use crate::units::text::{show_rate, show_seconds, significant};

use super::csv;
use super::page::{Block, Grid, Mood, Page};

/// The page: the verdict, values that differ, the plan before and after.
pub fn page(d: &Drift) -> Page {
    let mut page = Page::default();
    page.title("Drift between profiles");
    page.push(verdict(d));
    page.text(format!("{} values are the same in both.", d.same));
    let mut grid = Grid::new(["VALUE", "OLD", "NEW", "DRIFT", "INTERVALS"]).texts(&[0, 4]);
    for v in &d.values {
        grid.row([
            key(v),
            show(v, v.old[0]),
            show(v, v.new[0]),
            v.drift.map_or_else(|| "-".into(), signed),
            if v.within_intervals { "meet" } else { "apart" }.into(),
        ]);
    }
    page.grid(grid);
    for (keys, which) in d.only.iter().zip(["old", "new"]) {
        if !keys.is_empty() {
            page.title(format!("Only in the {which} profile"));
            page.list(keys.clone());
        }
    }
    page.title(format!(
        "The question `{}`, before and after (output tokens/s)",
        d.question
    ));
    let mut grid = Grid::new(["WAY", "OLD", "NEW", "CHANGE"]).texts(&[0]);
    for w in &d.plan {
        grid.row(way(w));
    }
    page.grid(grid);
    page
}

/// A key; the parts of a parameter's name wrap.
fn key(v: &Changed) -> String {
    match v.key.strip_prefix("calibration.") {
        Some(name) => name.replace('.', " "),
        None => v.key.clone(),
    }
}

fn verdict(d: &Drift) -> Block {
    let tolerance = 100.0 * d.tolerance;
    let beyond = d.values.iter().filter(|v| v.beyond).count();
    let (text, mood) = if beyond == 0 {
        (
            format!("No value drifted by more than {tolerance:.0} %."),
            Mood::Good,
        )
    } else {
        let worst = d.values.iter().filter(|v| v.beyond);
        let size = |v: &&Changed| v.drift.map_or(f64::INFINITY, f64::abs);
        let worst = worst.max_by(|a, b| size(a).total_cmp(&size(b)));
        let named = worst.map_or("", |v| v.key.as_str());
        (
            format!("{beyond} values drifted by more than {tolerance:.0} %, most of all {named}."),
            Mood::Bad,
        )
    };
    Block::Verdict(text, mood)
}

fn way(w: &Way) -> [String; 4] {
    let rate = |r: Option<f64>| r.map_or_else(|| "-".into(), significant);
    [
        w.name.clone(),
        rate(w.old_tokens_per_s),
        rate(w.new_tokens_per_s),
        w.change.map_or_else(|| "-".into(), signed),
    ]
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

fn show(v: &Changed, value: f64) -> String {
    match v.unit.as_str() {
        "s" => show_seconds(value),
        "bytes_per_s" => show_rate(value),
        "bytes" => format!("{} GiB", significant(value / crate::units::GIB)),
        "flop_per_s" => format!("{} GFLOP/s", significant(value / 1e9)),
        _ => significant(value),
    }
}

/// A line a value that differs.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(d: &Drift) -> Result<String> {
    let head = [
        "key",
        "unit",
        "old",
        "old_low",
        "old_high",
        "new",
        "new_low",
        "new_high",
        "drift",
        "within_intervals",
        "beyond",
    ];
    let line = |v: &Changed| {
        let mut cells = vec![v.key.clone(), v.unit.clone()];
        cells.extend(v.old.iter().chain(&v.new).map(f64::to_string));
        cells.push(v.drift.map_or_else(String::new, |d| d.to_string()));
        cells.extend([v.within_intervals, v.beyond].map(|b| b.to_string()));
        cells
    };
    csv::write(&head, d.values.iter().map(line))
}
