//! Raw measurements as one long CSV: a head of `# key = value` lines, then a row a time.
//!
//! ```text
//! # format = kvplan/raw/1
//! # host = build-7
//! # rows = 2
//! measurement,mode,use,part,direction,bytes,pieces,threads,batch,context,fetched,kv_heads,group,head_dim,layers,depth,sample,us
//! copy,pinned,fit,,h2d,4096,,,,,,,,,,,0,9.25
//! tier_loop,stream,hold,exposed,,,,,8,32768,16384,8,4,128,32,2,0,412.5
//! ```
//! Every time is there, so that a fit can be made again by other rules; a column that does not apply is empty. Rows of a
//! point stand together, numbered from 0; the head says how many rows there are, so that a cut file is refused. Numbers are
//! written so that they read back to the bit. The reader takes line by line whatever the file's size, and refuses with line
//! and column what it does not know: a typing error that passed would be a wrong profile.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead;

use super::probe::{Direction, Field, Measurement, Part, Point, Reading};
use crate::error::{Error, Result};

/// Format id, the first line of a file.
pub const FORMAT: &str = "kvplan/raw/1";

/// Columns before those of the sizes.
const FRONT: [&str; 5] = ["measurement", "mode", "use", "part", "direction"];

/// Columns after them.
const BACK: [&str; 2] = ["sample", "us"];

/// Longest line \[bytes\].
const LONGEST: usize = 2000;

/// Most rows of a file.
const MOST_ROWS: u64 = 4_000_000;

/// Most parts of points.
const MOST_SERIES: usize = 5_000;

/// Most lines of a head.
const MOST_KEYS: usize = 400;

/// Longest time of a row \[us\]: over a week is no measurement.
const MOST_US: f64 = 1e12;

/// What was measured on and under which conditions, by key. Keys that kvplan itself reads: `host`, `gpu`, `gpu_id` (of the
/// catalog), `date`, `mode`, `seed`.
pub type Head = BTreeMap<String, String>;

/// Whether a text can stand as a key of a head.
fn is_key(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(letter)
}

/// A value for a head: one line, no control characters, not too long.
pub fn tidy(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).take(300).collect();
    text.trim().to_string()
}

/// Whether a text can stand as a mode.
fn is_mode(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.len() <= 32 && text.bytes().all(letter)
}

/// All times of a part of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The point.
    pub point: Point,
    /// The part.
    pub part: Part,
    /// Times in the order taken \[us\].
    pub us: Vec<f64>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw {
    /// Conditions.
    pub head: Head,
    series: Vec<Series>,
    places: BTreeMap<(Point, Part), usize>,
}

impl Raw {
    /// Adds a time; its number is how many the part of the point had before.
    pub fn push(&mut self, point: Point, part: Part, us: f64) {
        let next = self.series.len();
        let at = *self.places.entry((point.clone(), part)).or_insert(next);
        if at == next {
            self.series.push(Series {
                point,
                part,
                us: Vec::new(),
            });
        }
        self.series[at].us.push(us);
    }

    /// Series in the order of their first time.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// A value of the head; empty where it has none.
    pub fn of(&self, key: &str) -> &str {
        self.head.get(key).map_or("", String::as_str)
    }

    /// Points in the order of their first time.
    pub fn points(&self) -> Vec<Point> {
        let mut seen = std::collections::BTreeSet::new();
        let new = |s: &&Series| seen.insert(s.point.clone());
        self.series
            .iter()
            .filter(new)
            .map(|s| s.point.clone())
            .collect()
    }

    /// The times of one sample of a point, part by part.
    pub fn sample(&self, point: &Point, number: usize) -> impl Iterator<Item = Reading> {
        Part::ALL.iter().filter_map(move |part| {
            let at = self.places.get(&(point.clone(), *part))?;
            let us = *self.series[*at].us.get(number)?;
            Some(Reading { part: *part, us })
        })
    }

    /// Adds what another probe measured; its head goes under this one.
    pub fn join(&mut self, other: Self) {
        for s in other.series {
            for us in s.us {
                self.push(s.point.clone(), s.part, us);
            }
        }
        for (key, value) in other.head {
            self.head.entry(key).or_insert(value);
        }
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut out = format!("# format = {FORMAT}\n");
        for (key, value) in self.head.iter().filter(|(k, _)| is_key(k)) {
            let _ = writeln!(out, "# {key} = {}", tidy(value));
        }
        let rows: usize = self.series.iter().map(|s| s.us.len()).sum();
        let _ = writeln!(out, "# rows = {rows}\n{}", columns().join(","));
        for s in &self.series {
            let p = &s.point;
            let way = p.direction.map_or("", Direction::word);
            let usage = if p.hold { "hold" } else { "fit" };
            let word = p.measurement.word();
            let mut front = format!("{word},{},{usage},{},{way}", p.mode, s.part.word());
            for field in Field::ALL {
                let size = p.get(*field).map_or(String::new(), |n| n.to_string());
                let _ = write!(front, ",{size}");
            }
            for (number, us) in s.us.iter().enumerate() {
                let _ = writeln!(out, "{front},{number},{us}");
            }
        }
        out
    }
}

/// Names of the columns.
fn columns() -> Vec<&'static str> {
    let sizes = Field::ALL.iter().map(|f| f.word());
    FRONT.into_iter().chain(sizes).chain(BACK).collect()
}

/// Whether a text begins as a raw file does.
pub fn is_raw(start: &[u8]) -> bool {
    start.starts_with(b"# format = kvplan/raw/")
}

/// Reads a file named `name`.
///
/// # Errors
/// Data, with line and column: what is no raw file, or is cut. Usage: it cannot be read.
pub fn read(name: &str, input: impl BufRead) -> Result<Raw> {
    let mut reader = Reader {
        name,
        line: 0,
        raw: Raw::default(),
        rows: 0,
    };
    reader.read(input)?;
    Ok(reader.raw)
}

struct Reader<'a> {
    name: &'a str,
    line: u64,
    raw: Raw,
    rows: u64,
}

impl Reader<'_> {
    fn read(&mut self, mut input: impl BufRead) -> Result<()> {
        let first = self.next(&mut input)?.unwrap_or_default();
        if first != format!("# format = {FORMAT}") {
            return Err(self.bad(&format!("a raw file begins with `# format = {FORMAT}`")));
        }
        let promised = self.head(&mut input)?;
        while let Some(line) = self.next(&mut input)? {
            self.row(&line)?;
        }
        if promised != self.rows {
            let (name, rows) = (self.name, self.rows);
            let why = format!("{name}: the head promises {promised} rows, there are {rows}");
            return Err(Error::data(why).help("the file was cut or added to"));
        }
        Ok(())
    }

    /// The next line without its end; none at the end of the file.
    fn next(&mut self, input: &mut impl BufRead) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let limit = LONGEST as u64 + 2;
        let mut part = std::io::Read::take(&mut *input, limit);
        part.read_until(b'\n', &mut bytes)
            .map_err(|e| Error::usage(format!("{}: cannot be read: {e}", self.name)))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if bytes.len() > LONGEST && bytes.last() != Some(&b'\n') {
            return Err(self.bad("the line is longer than any row"));
        }
        let text = String::from_utf8(bytes).map_err(|_| self.bad("the line is not UTF-8"))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Some(text.strip_suffix('\r').unwrap_or(text).to_string()))
    }

    /// The head after its first line, up to the line of columns; how many rows it promises.
    fn head(&mut self, input: &mut impl BufRead) -> Result<u64> {
        let mut promised = None;
        while let Some(line) = self.next(input)? {
            let Some(pair) = line.strip_prefix("# ") else {
                if line != columns().join(",") {
                    return Err(self.bad("not the columns of this format, in their order"));
                }
                return promised.ok_or_else(|| self.bad("the head lacks `# rows = N`"));
            };
            let (key, value) = pair
                .split_once(" = ")
                .ok_or_else(|| self.bad("a line of the head is `# key = value`"))?;
            if !is_key(key) || value != tidy(value) {
                return Err(self
                    .bad("a key is lower-case letters, digits, `_` and `.`, a value plain text"));
            }
            if key == "rows" {
                let rows = value.parse().ok().filter(|n| *n <= MOST_ROWS);
                promised = Some(rows.ok_or_else(|| self.bad("`rows` is no number of rows"))?);
            } else if self.raw.head.len() >= MOST_KEYS {
                return Err(self.bad("the head has no end"));
            } else if self.raw.head.insert(key.into(), value.into()).is_some() {
                return Err(self.bad(&format!("`{key}` stands twice in the head")));
            }
        }
        Err(self.bad("the line of columns is missing"))
    }

    fn row(&mut self, line: &str) -> Result<()> {
        let cells: Vec<&str> = line.split(',').collect();
        let columns = columns().len();
        if cells.len() != columns {
            let why = format!("{} cells where there are {columns} columns", cells.len());
            return Err(self.bad(&why));
        }
        self.rows += 1;
        if self.rows > MOST_ROWS {
            return Err(self.bad("more rows than any run has"));
        }
        let cell = |(column, what): (usize, String)| self.cell(&cells, column, &what);
        let point = point(&cells).map_err(cell)?;
        let part = Part::of(cells[3]).ok_or_else(|| cell((3, "no part".into())))?;
        let us = cells[columns - 1].parse().ok();
        let us = us.filter(|us: &f64| us.is_finite() && *us > 0.0 && *us < MOST_US);
        let us = us.ok_or_else(|| cell((columns - 1, "no time in microseconds".into())))?;
        let at = self.raw.places.get(&(point.clone(), part));
        let number = at.map_or(0, |at| self.raw.series[*at].us.len());
        if whole(cells[columns - 2]) != Some(number as u64) {
            let what = format!("not the next sample of this point, {number}");
            return Err(cell((columns - 2, what)));
        }
        if number == 0 && self.raw.series.len() >= MOST_SERIES {
            return Err(self.bad("more points than any run has"));
        }
        self.raw.push(point, part, us);
        Ok(())
    }

    /// An error at a cell.
    fn cell(&self, cells: &[&str], column: usize, what: &str) -> Error {
        let (name, line, title) = (self.name, self.line, columns()[column]);
        let shown: String = cells[column].chars().take(40).collect();
        let column = column + 1;
        Error::data(format!(
            "{name}: line {line}, column {column} ({title}): `{shown}` is {what}"
        ))
    }

    fn bad(&self, why: &str) -> Error {
        Error::data(format!("{}: line {}: {why}", self.name, self.line))
    }
}

/// The point of a row; else the column that says none, and what it is.
fn point(cells: &[&str]) -> std::result::Result<Point, (usize, String)> {
    let no = |column: usize, what: &str| (column, what.to_string());
    let measurement = Measurement::of(cells[0]).ok_or_else(|| no(0, "no measurement"))?;
    if !is_mode(cells[1]) {
        return Err(no(1, "no mode: lower-case letters, digits and dashes"));
    }
    let mut point = Point::new(measurement, cells[1]);
    point.hold = match cells[2] {
        "fit" => false,
        "hold" => true,
        _ => return Err(no(2, "neither fit nor hold")),
    };
    if !cells[4].is_empty() {
        let way = Direction::of(cells[4]).ok_or_else(|| no(4, "no direction"))?;
        point = point.going(way);
    }
    for (column, field) in (FRONT.len()..).zip(Field::ALL) {
        if !cells[column].is_empty() {
            let size = whole(cells[column]).ok_or_else(|| no(column, "no size"))?;
            point = point.with(*field, size);
        }
    }
    Ok(point)
}

/// A whole number that a float holds.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|n| *n <= 1 << 53);
    number.filter(|_| digits)
}
