//! A table as text: found by the end of its name, read with limits, cells by column name.
//!
//! Tables come from anywhere, so nothing about them is trusted: size, encoding, width of a line, numbers. Every message
//! names the file, the line and the column.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::names::short;
use super::tables::{KNOWN, Kind};
use crate::error::{Error, Result};

/// Largest table \[bytes\].
const LARGEST: u64 = 64 << 20;

/// Most rows of a table.
const MOST_ROWS: usize = 1 << 20;

/// Largest number that a cell may hold.
const MOST: f64 = 1e15;

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// File name, without its folder.
    pub file: String,
    /// Its folder.
    pub folder: PathBuf,
    head: Vec<String>,
    lines: Vec<(u64, Vec<String>)>,
}

/// One line of it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    sheet: &'a Sheet,
    /// Line number in the file, 1 = the header.
    pub number: u64,
    cells: &'a [String],
}

/// Known tables in a folder, in the order of [`KNOWN`], then by name.
///
/// # Errors
/// Usage: it cannot be read or holds none.
pub fn find(folder: &Path) -> Result<Vec<(PathBuf, &'static Kind)>> {
    let shown = folder.display();
    let cannot = |e: std::io::Error| {
        Error::usage(format!("{shown}: cannot be read: {e}")).help("name a folder of tables")
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        names.push(entry.map_err(cannot)?.path());
    }
    names.sort();
    let ends = |path: &Path, kind: &Kind| {
        let name = path.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.ends_with(kind.ending)) && path.is_file()
    };
    let found: Vec<_> = KNOWN
        .iter()
        .flat_map(|kind| {
            let own = names.iter().filter(move |p| ends(p, kind));
            own.map(move |p| (p.clone(), kind))
        })
        .collect();
    if found.is_empty() {
        let known: Vec<&str> = KNOWN.iter().map(|k| k.ending).collect();
        return Err(Error::usage(format!("{shown}: no table in it is known"))
            .help(format!("names must end in one of: {}", known.join(", "))));
    }
    Ok(found)
}

/// Reads a table and checks that it has the columns of its kind.
///
/// # Errors
/// Usage: it cannot be opened. Data: too large, not UTF-8, a line of another width than the header, a column missing.
pub fn read(path: &Path, kind: &Kind) -> Result<Sheet> {
    let file = path
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let cannot =
        |e: std::io::Error| Error::usage(format!("{}: cannot be read: {e}", path.display()));
    let mut bytes = Vec::new();
    let source = fs::File::open(path).map_err(cannot)?;
    source
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::data(format!(
            "{file}: larger than {} MiB",
            LARGEST >> 20
        )));
    }
    let text = String::from_utf8(bytes).map_err(|e| not_text(&file, &e))?;
    let mut sheet = parse(&file, text.strip_prefix('\u{feff}').unwrap_or(&text))?;
    sheet.folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    for column in kind.columns {
        sheet.index(column)?;
    }
    Ok(sheet)
}

fn not_text(file: &str, error: &std::string::FromUtf8Error) -> Error {
    let good = error.utf8_error().valid_up_to();
    let before = &error.as_bytes()[..good];
    let line = before.split(|b| *b == b'\n').count();
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    Error::data(format!("{file}:{line}:{column}: not UTF-8 text"))
}

fn parse(file: &str, text: &str) -> Result<Sheet> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut lines: Vec<(u64, Vec<String>)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| Error::data(format!("{file}: {e}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells: Vec<String> = record.iter().map(|c| c.trim().to_string()).collect();
        if let Some((_, head)) = lines.first()
            && head.len() != cells.len()
        {
            let (has, wants) = (cells.len(), head.len());
            return Err(Error::data(format!(
                "{file}:{line}: {has} cells where the header has {wants}"
            ))
            .help("is the file cut off, or a comma not quoted?"));
        }
        if lines.len() > MOST_ROWS {
            return Err(Error::data(format!(
                "{file}:{line}: more than {MOST_ROWS} rows"
            )));
        }
        lines.push((line, cells));
    }
    if lines.is_empty() {
        return Err(Error::data(format!("{file}: empty, not even a header")));
    }
    let (_, head) = lines.remove(0);
    Ok(Sheet {
        file: file.to_string(),
        folder: PathBuf::new(),
        head,
        lines,
    })
}

impl Sheet {
    /// Its lines in order.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines.iter().map(|(number, cells)| Line {
            sheet: self,
            number: *number,
            cells,
        })
    }

    /// Where a column stands.
    fn index(&self, column: &str) -> Result<usize> {
        self.head.iter().position(|h| h == column).ok_or_else(|| {
            let head = short(&self.head.join(", "));
            Error::data(format!("{}:1: no column `{column}`", self.file))
                .help(format!("its columns are: {head}"))
        })
    }
}

impl<'a> Line<'a> {
    /// A cell's text.
    ///
    /// # Errors
    /// Data: no such column.
    pub fn text(self, column: &str) -> Result<&'a str> {
        Ok(&self.cells[self.sheet.index(column)?])
    }

    /// A cell's text, blank where the table has no such column.
    pub fn maybe(self, column: &str) -> &'a str {
        self.sheet.index(column).map_or("", |at| &self.cells[at])
    }

    /// An error about a cell of this line.
    pub fn fault(self, column: &str, why: &str) -> Error {
        let cell = self.text(column).map_or_else(|_| String::new(), short);
        Error::data(format!(
            "{}:{}: column `{column}`: `{cell}` {why}",
            self.sheet.file, self.number
        ))
    }

    /// A positive number.
    ///
    /// # Errors
    /// Data: it is none, or absurdly large.
    pub fn positive(self, column: &str) -> Result<f64> {
        let value = self.text(column)?.parse::<f64>().ok();
        match value {
            Some(v) if v > 0.0 && v <= MOST => Ok(v),
            Some(v) if v > MOST => Err(self.fault(column, "is too large to be true")),
            Some(v) if v <= 0.0 => Err(self.fault(column, "must be positive")),
            _ => Err(self.fault(column, "is not a number")),
        }
    }

    /// A positive number, or none where the cell is blank.
    ///
    /// # Errors
    /// As [`Line::positive`].
    pub fn optional(self, column: &str) -> Result<Option<f64>> {
        if self.text(column)?.is_empty() {
            return Ok(None);
        }
        self.positive(column).map(Some)
    }

    /// A whole number from 1 to `most`; `144.000` is one.
    ///
    /// # Errors
    /// Data: it is none.
    pub fn whole(self, column: &str, most: u32) -> Result<u32> {
        let value = self.positive(column)?;
        if value.fract() != 0.0 || value > f64::from(most) {
            let why = format!("must be a whole number from 1 to {most}");
            return Err(self.fault(column, &why));
        }
        #[allow(clippy::cast_possible_truncation)] // whole and at most `most`
        Ok(value as u32)
    }
}
