//! Writing a trace while it is being recorded.
//!
//! Rows are gathered until a chunk is full, then all sections' chunks of those rows go out in one write: after a kill
//! `FILE.PID.part` (`FILE.kvplan-PID.part` where rows are made again, not recorded; `beside`) holds everything up to the last
//! full chunk and opens as a partial trace. [`TraceWriter::finish`] adds the end record, flushes to the disk and renames.
//! Dropping a writer leaves the partial file. Memory is one chunk group.
//!
//! Weights are checked (finite, not negative) as they come; sums are the importer's business, because a recorder that
//! drops positions on purpose writes rows that do not sum to 1.

use crate::error::{Error, Result};
use crate::trace::beside::{self, Half};
use crate::trace::half;
use crate::trace::header::{Header, MAX_TOKENS};
use crate::trace::layout::{MAX_PAYLOAD, Record, Tag, preamble};
use crate::trace::section::{KEPT, LAYERS, TOKENS};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A trace being written.
#[derive(Debug)]
pub struct TraceWriter {
    file: File,
    path: PathBuf,
    half: Half,
    header: Header,
    /// Next section that still owes its once block.
    once: usize,
    /// First row of the chunk being gathered.
    first: u32,
    sections: Vec<Pending>,
}

/// Rows of one section gathered for the next chunk.
#[derive(Debug, Default)]
struct Pending {
    rows: u32,
    bytes: Vec<u8>,
}

impl TraceWriter {
    /// Creates `FILE.PID.part` and writes the header.
    ///
    /// # Errors
    /// Usage if the path cannot be written; data if the header contradicts itself.
    pub fn create(path: &Path, header: Header) -> Result<Self> {
        Self::begin(path, header, Half::Kept)
    }

    /// The same for rows that can be made again: creates `FILE.kvplan-PID.part`.
    pub(crate) fn remade(path: &Path, header: Header) -> Result<Self> {
        Self::begin(path, header, Half::Stale)
    }

    fn begin(path: &Path, header: Header, half: Half) -> Result<Self> {
        header.validate()?;
        let json = serde_json::to_vec(&header)
            .map_err(|e| Error::internal(format!("the trace header cannot be written: {e}")))?;
        let start = preamble(&json)?;
        let mut writer = Self {
            file: beside::create(path, half)?,
            path: path.into(),
            half,
            once: 0,
            first: 0,
            sections: header.sections.iter().map(|_| Pending::default()).collect(),
            header,
        };
        writer.write(&[&start[..], &json].concat())?;
        writer.skip_empty_once();
        Ok(writer)
    }

    /// What the file says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u32 {
        self.first + self.sections[0].rows
    }

    /// Writes the block that a section stores once: in section order, before the first row.
    ///
    /// # Errors
    /// Internal if it is another section's turn or the length is wrong; usage if the file cannot be written.
    pub fn put_once(&mut self, kind: &str, bytes: &[u8]) -> Result<()> {
        let due = self.header.sections.get(self.once);
        if due.is_none_or(|s| s.kind != kind || s.bytes_once != bytes.len() as u64) {
            return Err(Error::internal(format!(
                "trace writer: {} bytes once for `{kind}` are not what is due",
                bytes.len()
            )));
        }
        let head = Record {
            tag: Tag::Once,
            section: index(self.once),
            first_row: 0,
            rows: 0,
            payload: bytes.len() as u64,
            payload_crc: crc32fast::hash(bytes),
        };
        self.write(&head.encode())?;
        self.write(bytes)?;
        self.once += 1;
        self.skip_empty_once();
        Ok(())
    }

    /// Appends the next mean row, P+t+1 binary16 weights. With further sections, their part of the row follows.
    ///
    /// # Errors
    /// Data if a weight is NaN, infinite or negative; internal on a wrong length; usage if the file cannot be written.
    pub fn push_row(&mut self, weights: &[u16]) -> Result<()> {
        self.push_half(0, weights)
    }

    /// Appends the next per-layer rows, L times P+t+1 weights, layer 0 first.
    ///
    /// # Errors
    /// As [`TraceWriter::push_row`].
    pub fn push_layers(&mut self, weights: &[u16]) -> Result<()> {
        let section = self.section(LAYERS)?;
        self.push_half(section, weights)
    }

    /// Appends the next generated token and its natural log-probability.
    ///
    /// # Errors
    /// As [`TraceWriter::push_row`].
    pub fn push_token(&mut self, id: u32, log_probability: f32) -> Result<()> {
        let section = self.section(TOKENS)?;
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&id.to_le_bytes());
        bytes[4..].copy_from_slice(&log_probability.to_le_bytes());
        self.push_bytes(section, &bytes)
    }

    /// Appends the next position's keys or queries, binary16.
    ///
    /// # Errors
    /// Data if one is not finite; otherwise as [`TraceWriter::push_row`].
    pub fn push_vectors(&mut self, kind: &str, values: &[u16]) -> Result<()> {
        let section = self.section(kind)?;
        if let Some(at) = values.iter().position(|v| v & 0x7C00 == 0x7C00) {
            return Err(Error::data(format!(
                "{}: section `{kind}`, row {}: number {at} is not finite",
                self.path.display(),
                self.first + self.sections[section].rows
            )));
        }
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.push_bytes(section, &bytes)
    }

    /// Appends which positions each KV head's cache held when the next step ran: a bit each, lanes one after another.
    ///
    /// # Errors
    /// As [`TraceWriter::push_bytes`].
    pub fn push_kept(&mut self, bits: &[u8]) -> Result<()> {
        let section = self.section(KEPT)?;
        self.push_bytes(section, bits)
    }

    /// Appends a section's next row as raw bytes (how a copy carries sections it does not know).
    ///
    /// # Errors
    /// Internal on a wrong length or a section that runs ahead; usage if the file cannot be written.
    pub fn push_bytes(&mut self, section: usize, bytes: &[u8]) -> Result<()> {
        let t = self.first + self.sections[section].rows;
        let due = self.header.sections[section].row_bytes(self.header.prompt_length, t);
        if due != Some(bytes.len()) || t >= MAX_TOKENS {
            return Err(self.wrong(section, t, bytes.len()));
        }
        self.sections[section].bytes.extend_from_slice(bytes);
        self.advance(section)
    }

    fn push_half(&mut self, section: usize, weights: &[u16]) -> Result<()> {
        let t = self.first + self.sections[section].rows;
        let due = self.header.sections[section].row_bytes(self.header.prompt_length, t);
        if due != Some(2 * weights.len()) || t >= MAX_TOKENS {
            return Err(self.wrong(section, t, 2 * weights.len()));
        }
        half::check_weights(weights, &|| format!("{}: row {t}", self.path.display()))?;
        let pending = &mut self.sections[section].bytes;
        pending.extend(weights.iter().flat_map(|w| w.to_le_bytes()));
        self.advance(section)
    }

    /// One more row of a section; a chunk goes out when every section has it in full.
    fn advance(&mut self, section: usize) -> Result<()> {
        self.sections[section].rows += 1;
        let full = self.header.chunk_rows;
        if self.sections.iter().all(|s| s.rows == full) {
            return self.flush();
        }
        let most = self.sections.iter().map(|s| s.rows).max().unwrap_or(0);
        if self.sections.iter().any(|s| s.rows + 1 < most) || most > full {
            return Err(Error::internal(
                "trace writer: sections of one row must be pushed together",
            ));
        }
        Ok(())
    }

    /// Writes the gathered rows as one chunk group.
    fn flush(&mut self) -> Result<()> {
        if self.once < self.header.sections.len() {
            return Err(Error::internal("trace writer: a once block is missing"));
        }
        let rows = self.sections[0].rows;
        if self
            .sections
            .iter()
            .any(|s| s.bytes.len() as u64 > MAX_PAYLOAD)
        {
            return Err(Error::data(format!(
                "{}: a chunk of {rows} rows is over the limit of {MAX_PAYLOAD} bytes",
                self.path.display()
            ))
            .help("write it with a smaller chunk_rows"));
        }
        let mut group = Vec::new();
        for (i, pending) in self.sections.iter_mut().enumerate() {
            let head = Record {
                tag: Tag::Chunk,
                section: index(i),
                first_row: self.first,
                rows,
                payload: pending.bytes.len() as u64,
                payload_crc: crc32fast::hash(&pending.bytes),
            };
            group.extend_from_slice(&head.encode());
            group.append(&mut pending.bytes);
            pending.rows = 0;
        }
        self.first += rows;
        self.write(&group)
    }

    /// Writes the last rows and the end record, and gives the file its name.
    ///
    /// # Errors
    /// Internal if a section lacks a row; data if `planned_rows` was missed; usage if the file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        let rows = self.rows();
        if self
            .sections
            .iter()
            .any(|s| s.rows != self.sections[0].rows)
        {
            return Err(Error::internal(
                "trace writer: a section lacks the last row",
            ));
        }
        if let Some(planned) = self.header.planned_rows.filter(|p| *p != rows) {
            return Err(Error::data(format!(
                "{}: {planned} rows were announced and {rows} came",
                self.path.display()
            )));
        }
        if self.sections[0].rows > 0 {
            self.flush()?;
        }
        self.write(&Record::done(rows).encode())?;
        beside::publish(&self.file, &self.path, self.half)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        super::progress::add(bytes.len());
        self.file
            .write_all(bytes)
            .map_err(|e| beside::cannot_write(&self.path, &e))
    }

    fn skip_empty_once(&mut self) {
        let rest = &self.header.sections[self.once..];
        self.once += rest.iter().take_while(|s| s.bytes_once == 0).count();
    }

    fn section(&self, kind: &str) -> Result<usize> {
        self.header.section(kind).ok_or_else(|| {
            Error::internal(format!("trace writer: no section `{kind}` was declared"))
        })
    }

    fn wrong(&self, section: usize, t: u32, bytes: usize) -> Error {
        Error::internal(format!(
            "trace writer: {bytes} bytes are not row {t} of section `{}`",
            self.header.sections[section].kind
        ))
    }
}

fn index(section: usize) -> u32 {
    u32::try_from(section).expect("a header of 64 MiB holds fewer than 2^32 sections")
}
