//! A table whose cells hold what is shown and what it is exactly.
//!
//! People read `75.2` under GiB; the hover, the sort and the CSV have `80778134290` under `hbm_capacity_bytes`. Both come
//! from one constructor of [`Cell`], so that they cannot differ.

use crate::error::Result;

use super::super::cells::{self, NONE};
use super::super::csv;
use super::super::page::Grid;

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Name within the page, and of the CSV file.
    pub name: String,
    /// What it holds.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, as wide as the columns.
    pub rows: Vec<Vec<Cell>>,
    /// Columns to choose rows by; none: the table is not searched.
    pub filters: Vec<usize>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Head for people, with the unit of what is shown.
    pub head: String,
    /// Head of the CSV, with the unit of the exact value.
    pub key: String,
    /// Whether it holds figures.
    pub figures: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// For people.
    pub shown: String,
    /// Exactly, in base units; empty if there is nothing.
    pub exact: String,
    /// Place in an order of figures; none for text.
    pub order: Option<f64>,
}

impl Data {
    /// An empty table.
    pub fn new(name: &str, caption: &str) -> Self {
        Self {
            name: name.into(),
            caption: caption.into(),
            ..Self::default()
        }
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(self, head: &str, key: &str) -> Self {
        self.column(head, key, false)
    }

    /// Adds a column of figures.
    #[must_use]
    pub fn figure(self, head: &str, key: &str) -> Self {
        self.column(head, key, true)
    }

    /// Lets readers search, and choose by these columns.
    #[must_use]
    pub fn filtered(mut self, columns: &[usize]) -> Self {
        self.filters = columns.to_vec();
        self
    }

    fn column(mut self, head: &str, key: &str, figures: bool) -> Self {
        self.columns.push(Column {
            head: head.into(),
            key: key.into(),
            figures,
        });
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Takes out a column that holds nothing in any row.
    #[must_use]
    pub fn without_empty(self, key: &str) -> Self {
        self.without(key, |c| c.exact.is_empty())
    }

    /// Takes out a column that holds 0 or nothing in any row.
    #[must_use]
    pub fn without_zeros(self, key: &str) -> Self {
        self.without(key, |c| c.order.is_none_or(|o| o.abs() <= 0.0))
    }

    fn without(mut self, key: &str, test: impl Fn(&Cell) -> bool) -> Self {
        let Some(at) = self.columns.iter().position(|c| c.key == key) else {
            return self;
        };
        if self.rows.iter().all(|r| test(&r[at])) {
            self.columns.remove(at);
            self.filters.retain(|f| *f != at);
            for filter in self.filters.iter_mut().filter(|f| **f > at) {
                *filter -= 1;
            }
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        self
    }

    /// The exact values.
    ///
    /// # Errors
    /// A bug in the writer (exit 70).
    pub fn csv(&self) -> Result<String> {
        let head: Vec<&str> = self.columns.iter().map(|c| c.key.as_str()).collect();
        let exact = |row: &Vec<Cell>| row.iter().map(|c| c.exact.clone()).collect();
        csv::write(&head, self.rows.iter().map(exact))
    }

    /// The shown values.
    pub fn grid(&self) -> Grid {
        let texts = self.columns.iter().enumerate().filter(|(_, c)| !c.figures);
        let texts: Vec<usize> = texts.map(|(i, _)| i).collect();
        let mut grid = Grid::new(self.columns.iter().map(|c| c.head.clone())).texts(&texts);
        for row in &self.rows {
            grid.row(row.iter().map(|c| c.shown.clone()));
        }
        grid
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        let shown = text.into();
        Self {
            exact: shown.clone(),
            shown,
            order: None,
        }
    }

    /// Words in place of a figure, which is none.
    pub fn instead(text: &str) -> Self {
        Self {
            shown: text.into(),
            ..Self::default()
        }
    }

    /// Nothing: a dash, never 0.
    pub fn none() -> Self {
        Self::instead(NONE)
    }

    /// `yes` or `no`.
    pub fn yes(yes: bool) -> Self {
        Self::text(if yes { "yes" } else { "no" })
    }

    /// A count.
    pub fn count(n: u64) -> Self {
        Self::whole(cells::count(n), n)
    }

    /// Bytes, shown in GiB.
    pub fn gib(bytes: u64) -> Self {
        Self::whole(cells::gib(bytes), bytes)
    }

    /// Bytes that may be missing or less than none, shown in GiB.
    pub fn signed_gib(bytes: Option<i64>) -> Self {
        bytes.map_or_else(Self::none, |b| Self {
            shown: cells::signed_gib(b),
            exact: b.to_string(),
            order: Some(b as f64),
        })
    }

    fn whole(shown: String, n: u64) -> Self {
        Self {
            shown,
            exact: n.to_string(),
            order: Some(n as f64),
        }
    }

    /// A figure, shown in three digits.
    pub fn figure(value: Option<f64>) -> Self {
        Self::real(cells::figure(value), value)
    }

    /// A duration, shown with its unit.
    pub fn time(seconds: Option<f64>) -> Self {
        Self::real(cells::time(seconds), seconds)
    }

    /// A duration, shown in milliseconds.
    pub fn ms(seconds: Option<f64>) -> Self {
        Self::real(cells::figure(seconds.map(|s| 1e3 * s)), seconds)
    }

    /// A bandwidth, shown with its unit.
    pub fn rate(bytes_per_s: Option<f64>) -> Self {
        Self::real(cells::rate(bytes_per_s), bytes_per_s)
    }

    /// A share, shown in percent.
    pub fn share(share: Option<f64>) -> Self {
        Self::real(cells::maybe_percent(share), share)
    }

    /// A value in a base unit, shown in that of people.
    pub fn value(value: f64, unit: &str) -> Self {
        Self::real(cells::value(value, unit), Some(value))
    }

    fn real(shown: String, value: Option<f64>) -> Self {
        Self {
            shown,
            exact: value.map_or_else(String::new, |v| v.to_string()),
            order: value,
        }
    }

    /// The same, shown otherwise.
    #[must_use]
    pub fn shown(mut self, shown: impl Into<String>) -> Self {
        self.shown = shown.into();
        self
    }
}
