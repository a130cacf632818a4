//! Tables as HTML: exact values in each cell, a CSV to keep, filters where there is much to look through.
//!
//! On a narrow screen the stylesheet turns each row into a card whose cells carry their heads, so every cell names its own.

use maud::{Markup, html};

use crate::error::Result;

use super::super::cells::NONE;
use super::super::document::data::{Cell, Column, Data};
use super::super::page::Grid;

/// Rows that are shown; the CSV has all.
const SHOWN: usize = 2000;

/// Words of a cell that take a line of their own on a narrow screen \[characters\].
const LONG: usize = 18;

/// Values that a choice offers at most.
const CHOICES: usize = 40;

/// A table.
pub(super) fn open(data: &Data, id: &str) -> Result<Markup> {
    let link = csv(data)?;
    Ok(html! {
        div.data id=(id) {
            @if !data.filters.is_empty() { (tools(data, id)) }
            (table(data, id))
            p.keep { (link) }
        }
    })
}

/// A table that is shown when asked for.
pub(super) fn folded(data: &Data, id: &str) -> Result<Markup> {
    let inner = open(data, id)?;
    Ok(html! {
        details {
            summary { (data.caption) " (" (rows(data.rows.len())) ")" }
            (inner)
        }
    })
}

fn rows(n: usize) -> String {
    if n == 1 {
        "1 row".into()
    } else {
        format!("{n} rows")
    }
}

/// Search and choices; the script shows them.
fn tools(data: &Data, id: &str) -> Markup {
    html! {
        form.tools hidden role="search" aria-label={ "Filter: " (data.caption) } {
            label { "Search " input type="search" name="words" autocomplete="off" aria-controls={ (id) "-table" }; }
            @for column in &data.filters {
                @let values = values(data, *column);
                @if (2..=CHOICES).contains(&values.len()) {
                    label {
                        (data.columns[*column].head) " "
                        select name={ "column-" (column) } {
                            option value="" { "all" }
                            @for v in values { option value=(v) { (v) } }
                        }
                    }
                }
            }
            output aria-live="polite" {}
        }
    }
}

/// Different words of a column, in the order they come.
fn values(data: &Data, column: usize) -> Vec<&str> {
    let mut values: Vec<&str> = Vec::new();
    for row in &data.rows {
        let text = row[column].shown.as_str();
        if values.len() <= CHOICES && !values.contains(&text) {
            values.push(text);
        }
    }
    values
}

fn table(data: &Data, id: &str) -> Markup {
    html! {
        div.scroll role="group" tabindex="0" aria-labelledby={ (id) "-caption" } {
            table id={ (id) "-table" } data-sort="" data-roving="" {
                caption id={ (id) "-caption" } {
                    (data.caption)
                    @if data.rows.len() > SHOWN { "; the first " (SHOWN) " of " (rows(data.rows.len())) ", the CSV has all" }
                }
                thead { tr { @for c in &data.columns { th scope="col" .n[c.figures] { (c.head) } } } }
                tbody {
                    @for row in data.rows.iter().take(SHOWN) {
                        tr { @for (i, cell) in row.iter().enumerate() { (one(&data.columns[i], cell, i == 0)) } }
                    }
                }
            }
        }
    }
}

fn one(column: &Column, cell: &Cell, first: bool) -> Markup {
    let tip = column.figures && !cell.exact.is_empty();
    let tip = tip.then(|| format!("{}: {}", column.key, cell.exact));
    let order = cell.order.filter(|o| o.is_finite());
    let (nothing, long) = (cell.shown == NONE, cell.shown.chars().count() > LONG);
    html! {
        @if first {
            th scope="row" .n[column.figures] data-v=[order] data-tip=[tip] { (cell.shown) }
        } @else {
            td .n[column.figures] .none[nothing] .long[long] data-head=(column.head) data-v=[order] data-tip=[tip] { (cell.shown) }
        }
    }
}

/// The exact values as a file that is in the page already.
fn csv(data: &Data) -> Result<Markup> {
    let text = data.csv()?;
    Ok(html! {
        a download={ (data.name) ".csv" } href={ "data:text/csv;charset=utf-8," (encoded(&text)) } {
            "CSV" span.quiet { ", " (data.name) ", exact values" }
        }
    })
}

/// RFC 3986: everything but letters, digits and `-_.~` in percents.
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // a string takes everything
        }
    }
    out
}

/// A grid of words.
pub(super) fn plain(grid: &Grid) -> Markup {
    let figures = |i: &usize| !grid.text.contains(i);
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" {
            table {
                thead { tr { @for (i, h) in grid.head.iter().enumerate() { th scope="col" .n[figures(&i)] { (h) } } } }
                tbody {
                    @for row in &grid.rows {
                        tr { @for (i, c) in row.iter().enumerate() {
                            @if i == 0 { th scope="row" { (c) } }
                            @else { td .n[figures(&i)] data-head=(grid.head[i]) { (c) } }
                        } }
                    }
                }
            }
        }
    }
}
