//! Terminal pages of at most 100 columns, complete without colour.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::sweep::answer::Answer;

use super::page::{Block, Grid, Mood, Page};
use super::{Style, outcome as outcome_page, plan as plan_page, sweep as sweep_page};
use crate::units::text::printable;

/// Columns of a page.
pub const WIDTH: usize = 100;

/// An outcome for a terminal.
pub fn outcome(outcome: &Outcome, style: Style) -> String {
    render(&outcome_page::page(outcome), style)
}

/// An answer for a terminal.
pub fn plan(plan: &Plan, style: Style) -> String {
    render(&plan_page::page(plan), style)
}

/// A sweep for a terminal.
pub fn sweep(answer: &Answer, style: Style) -> String {
    render(&sweep_page::page(answer), style)
}

/// Any page for a terminal.
pub fn render(page: &Page, style: Style) -> String {
    let mut out = String::new();
    for (i, block) in page.blocks.iter().enumerate() {
        let after_title = i > 0 && matches!(page.blocks[i - 1], Block::Title(_));
        if i > 0 && !after_title {
            out.push('\n');
        }
        let text = render_block(block, style);
        for line in text.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

fn render_block(block: &Block, style: Style) -> String {
    match block {
        Block::Title(text) => {
            let lines = wrap(&heading(text), WIDTH, "", "");
            let dressed: Vec<String> = lines.iter().map(|l| dress(l, "1", style)).collect();
            dressed.join("\n")
        }
        Block::Text(text) => wrap(text, WIDTH, "  ", "  ").join("\n"),
        Block::Verdict(text, mood) => {
            let code = match mood {
                Mood::Good => "1;32",
                Mood::Bad => "1;31",
                Mood::Plain => "1",
            };
            let lines = wrap(text, WIDTH, "  ", "  ");
            lines
                .iter()
                .map(|l| dress(l, code, style))
                .collect::<Vec<_>>()
                .join("\n")
        }
        Block::Facts(facts) => render_facts(facts),
        Block::Grid(grid) => render_grid(grid),
        Block::List(items) => {
            let lines: Vec<String> = items
                .iter()
                .flat_map(|i| wrap(i, WIDTH, "  - ", "    "))
                .collect();
            lines.join("\n")
        }
        Block::Command(line) => command(line),
    }
}

/// Capitals up to the bracket that names units; keys stay as they are.
fn heading(text: &str) -> String {
    match text.split_once(" (") {
        Some((title, rest)) => format!("{} ({rest}", title.to_uppercase()),
        None if text.contains(['.', '_']) => text.into(),
        None => text.to_uppercase(),
    }
}

fn dress(text: &str, code: &str, style: Style) -> String {
    if style.color {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.into()
    }
}

fn render_facts(facts: &[(String, String)]) -> String {
    let width = facts
        .iter()
        .map(|(n, _)| n.chars().count())
        .max()
        .unwrap_or(0);
    let rest = " ".repeat(width + 4);
    let lines = facts.iter().flat_map(|(name, value)| {
        let first = format!("  {name:width$}  ");
        wrap(value, WIDTH, &first, &rest)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn render_grid(grid: &Grid) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(WIDTH - 1).unwrap_or(99));
    table.set_header(grid.head.clone());
    for row in &grid.rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (i, (column, width)) in table.column_iter_mut().zip(widths(grid)).enumerate() {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 2)));
        if !grid.text.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|l| format!(" {l}")).collect();
    lines.join("\n")
}

/// The least width of each column: its longest word, so that none is broken; where that is too much for a page, long words
/// of texts are broken after all. The first column has room for its longest cell.
fn widths(grid: &Grid) -> Vec<u16> {
    let columns = grid.head.len();
    let words: Vec<usize> = (0..columns).map(|c| longest(grid, c, true)).collect();
    let first = longest(grid, 0, false);
    // A figure and its unit stay together: `0.100 %`.
    let figure = |c: usize, word: usize| word.max(longest(grid, c, false).min(8));
    let capped = |cap: usize| -> Vec<usize> {
        let of = |(c, w): (usize, &usize)| match c {
            _ if !grid.text.contains(&c) => figure(c, *w),
            0 => first.min(cap).max((*w).min(cap)),
            _ => (*w).min(cap),
        };
        words.iter().enumerate().map(of).collect()
    };
    let fits = |cap: &usize| capped(*cap).iter().map(|w| w + 2).sum::<usize>() < WIDTH;
    let cap = (10..=40).rev().find(fits).unwrap_or(10);
    let narrow = |w: usize| u16::try_from(w).unwrap_or(u16::MAX);
    capped(cap).into_iter().map(narrow).collect()
}

/// Columns of the longest word of a column, or of its longest line.
fn longest(grid: &Grid, column: usize, word: bool) -> usize {
    let rows = grid.rows.iter().filter_map(|r| r.get(column));
    let lines = std::iter::once(&grid.head[column]).chain(rows);
    let lines = lines.flat_map(|cell| cell.lines());
    let length = |line: &str| {
        if word {
            line.split_whitespace().map(|w| w.chars().count()).max()
        } else {
            Some(line.chars().count())
        }
    };
    lines.filter_map(length).max().unwrap_or(0)
}

/// A command line over several lines that a shell still reads as one.
fn command(line: &str) -> String {
    let mut lines = wrap(line, WIDTH - 2, "    ", "      ");
    let last = lines.len().saturating_sub(1);
    for line in &mut lines[..last] {
        line.push_str(" \\");
    }
    lines.join("\n")
}

/// Words into lines of at most `width` columns; a word longer than a line keeps its own.
pub fn wrap(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let text = &printable(text);
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let mut empty = true;
    for word in text.split_whitespace() {
        let needed = line.chars().count() + word.chars().count() + usize::from(!empty);
        if needed > width && !empty {
            lines.push(std::mem::replace(&mut line, rest.to_string()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}
