//! A report before it has a format: verdicts, then sections of sentences, tables with exact values, and figures.
//!
//! `report` takes saved results of several kinds and lays them side by side. This module decides what stands where and in
//! which order; `html` and `md` write it, so that the two never say different things. A figure is data: which bar is how
//! long, which point stands where, and the table behind it; scales and colours belong to the format. Nothing is computed
//! here: a figure that is not in a result is not shown. Rival design: a template per kind of result; it drifts, and two
//! cards in two files could not be set side by side. Deterministic: no clock, no folder names, no locale.

pub mod data;
mod entry;
pub mod figure;
mod memory;
mod outcomes;
mod parts;
mod plans;
mod questions;
mod rests;
mod rows;
mod solves;
pub mod source;
mod speed;
mod steps;
mod sure;
mod sweeps;
mod tiers;
mod today;
mod ways;

use super::page::{Block, Mood};
use data::Data;
use figure::Figure;
pub use parts::document;

/// A whole report.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What was asked, in one line.
    pub title: String,
    /// Version of kvplan that lays it out.
    pub version: String,
    /// The answers, one a result.
    pub verdicts: Vec<Verdict>,
    /// What belongs together: one, or one for each question.
    pub parts: Vec<Part>,
    /// How to make it again.
    pub again: Section,
}

/// The answer of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which result, where there are several.
    pub of: Option<String>,
    /// The sentence.
    pub text: String,
    /// How sure it is, in sentences; none where nothing was drawn.
    pub sure: Vec<String>,
    /// What it says.
    pub mood: Mood,
}

/// Results of one question.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Names it, where there are several.
    pub name: Option<String>,
    /// Its sections.
    pub sections: Vec<Section>,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Name within the page, for links.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What stands in it.
    pub pieces: Vec<Piece>,
}

/// What stands in a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Sentences, facts, lists, commands.
    Block(Block),
    /// A table with exact values.
    Data(Data),
    /// A figure.
    Figure(Box<Figure>),
    /// A table that is shown when asked for.
    Folded(Data),
}

impl Section {
    /// An empty section.
    pub fn new(id: &str, title: &str) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            pieces: Vec::new(),
        }
    }

    /// Adds sentences, if there are any.
    pub fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.pieces.push(Piece::Block(Block::Text(text)));
        }
    }

    /// Adds a list, if it has items.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.pieces.push(Piece::Block(Block::List(items)));
        }
    }

    /// Adds a table, if it has rows.
    pub fn data(&mut self, data: Data) {
        if !data.rows.is_empty() {
            self.pieces.push(Piece::Data(data));
        }
    }

    /// Adds a table that is shown when asked for, if it has rows.
    pub fn folded(&mut self, data: Data) {
        if !data.rows.is_empty() {
            self.pieces.push(Piece::Folded(data));
        }
    }

    /// Adds a figure, if it has data.
    pub fn figure(&mut self, figure: Figure) {
        if !figure.data.rows.is_empty() {
            self.pieces.push(Piece::Figure(Box::new(figure)));
        }
    }
}
