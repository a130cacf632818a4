//! A grid of cells, each with a form for people and a value for machines.
//!
//! Tables and CSV and JSON of one list come from the same cells, so that they cannot disagree; units stand in the keys of
//! the machine forms and in the cells of the table. No terminal width enters: the same question prints the same bytes.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::report::table::{WIDTH, wrap};
use crate::units::text::printable;

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// One JSON array of objects.
    Json,
    /// RFC 4180.
    Csv,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    shown: String,
    value: Value,
}

impl Cell {
    /// The same text for both.
    pub fn text(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self {
            value: Value::from(shown.clone()),
            shown,
        }
    }

    /// A number with its form for people.
    pub fn number(value: f64, shown: impl Into<String>) -> Self {
        Self {
            shown: shown.into(),
            value: number(value),
        }
    }

    /// Nothing known.
    pub fn none() -> Self {
        Self {
            shown: "-".into(),
            value: Value::Null,
        }
    }
}

/// A JSON number, whole where it is.
#[allow(clippy::cast_possible_truncation)] // below 2^53, checked
pub fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

/// A column: key for machines, head for people (empty: for machines only), whether it is a number.
#[derive(Clone, Copy, Debug)]
pub struct Column(pub &'static str, pub &'static str, pub bool);

/// Columns and rows.
#[derive(Clone, Debug)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    noted: bool,
}

impl Grid {
    /// An empty grid.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
            noted: false,
        }
    }

    /// Adds a row, one cell a column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The grid in a form, ending in a newline.
    ///
    /// # Errors
    /// Internal: a value that cannot be written (none can occur).
    pub fn render(&self, form: Form) -> Result<String> {
        match form {
            Form::Table => Ok(self.table()),
            Form::Csv => self.csv(),
            Form::Json => pretty(&self.json()),
        }
    }

    /// The same, with the last column's text under each row of the table instead of beside it.
    #[must_use]
    pub fn noted(mut self) -> Self {
        self.noted = true;
        self
    }

    /// As a table without lines, at most [`WIDTH`] columns wide.
    pub fn table(&self) -> String {
        let beside = self.columns.len() - usize::from(self.noted);
        let shown: Vec<usize> = (0..beside)
            .filter(|c| !self.columns[*c].1.is_empty())
            .collect();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(WIDTH + 2).unwrap_or(u16::MAX));
        table.set_header(shown.iter().map(|c| self.columns[*c].1));
        for row in &self.rows {
            table.add_row(shown.iter().map(|c| printable(&row[*c].shown)));
        }
        for (column, c) in table.column_iter_mut().zip(&shown) {
            column.set_padding((0, 2));
            // Numbers and names stay in one piece; prose wraps.
            if self.columns[*c].2 || *c == 0 || self.noted {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if self.columns[*c].2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut lines: Vec<String> = table.lines().map(|l| l.trim_end().to_string()).collect();
        if self.noted {
            lines = self.with_notes(lines);
        }
        lines.join("\n") + "\n"
    }

    /// Puts each row's last cell under its line; rows of a noted grid are one line each.
    fn with_notes(&self, lines: Vec<String>) -> Vec<String> {
        let mut lines = lines.into_iter();
        let mut out: Vec<String> = lines.next().into_iter().collect();
        for (line, row) in lines.zip(&self.rows) {
            out.push(line);
            let note = row.last().map_or("", |c| c.shown.as_str());
            out.extend(wrap(note, WIDTH, "    ", "    "));
        }
        out
    }

    /// As an array of objects.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let pairs = self
                .columns
                .iter()
                .zip(row)
                .map(|(c, cell)| (c.0.to_string(), cell.value.clone()));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }

    fn csv(&self) -> Result<String> {
        let failed = |e: &dyn std::fmt::Display| Error::internal(format!("csv: {e}"));
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer
            .write_record(self.columns.iter().map(|c| c.0))
            .map_err(|e| failed(&e))?;
        for row in &self.rows {
            let fields = row.iter().map(|c| match &c.value {
                Value::String(s) => s.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            });
            writer.write_record(fields).map_err(|e| failed(&e))?;
        }
        let bytes = writer.into_inner().map_err(|e| failed(&e))?;
        String::from_utf8(bytes).map_err(|e| failed(&e))
    }
}

/// JSON for people and machines, ending in a newline.
///
/// # Errors
/// Internal: cannot occur for values made here.
pub fn pretty(value: &impl serde::Serialize) -> Result<String> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Error::internal(format!("json: {e}")))?;
    Ok(text + "\n")
}
