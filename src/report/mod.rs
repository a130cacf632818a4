//! Results for people and programs: tables, CSV, markdown, JSON, plots; computes nothing.
//!
//! A result becomes a neutral [`page::Page`] once (`outcome`, `plan`), which `table` lays out for a terminal and `md`
//! for a document, so that the two never say different things. Several results become a [`document::Document`], which
//! `html` and `md` write. `json` and `csv` carry base units with the unit in the
//! key; people read GiB, GB/s and 3-4 digits. Nothing here may derive a figure: what is not in the result struct is not
//! shown. Rival design: a template per format; it drifts. Deterministic: no clock, no terminal width, no locale.

pub mod calibrate;
pub mod cells;
pub mod compare;
pub mod csv;
pub mod document;
pub mod drift;
pub mod eval;
pub mod explain;
pub mod fit;
pub mod formulas;
pub mod html;
pub mod json;
pub mod md;
pub mod outcome;
pub mod page;
pub mod plan;
mod plan_rows;
pub mod plot;
pub mod reproduce;
mod serving;
pub mod solve;
pub mod sure;
pub mod sweep;
pub mod table;
pub mod validate;

/// How a terminal page is dressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether escape codes for bold and colour are used; the page is complete without them.
    pub color: bool,
}
