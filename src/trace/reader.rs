//! Reading a trace, chunk by chunk.
//!
//! [`TraceReader::open`] reads the header and finds out how many whole rows the file holds: from the end record of a
//! finished file, else by walking the chunk records up to the cut. Rows are then read one chunk at a time and handed out
//! as slices of a reused buffer: memory is one chunk, whatever the length of the trace. Checked on every read: record
//! and payload checksums, and that every weight is finite and not negative. Row sums are checked where data enters
//! (import) and by `verify`, not in every replay.
//!
//! A cut file is not an error: it is shorter ([`TraceReader::is_partial`]). A damaged byte is one.

use crate::error::{Error, Result};
use crate::trace::Rows;
use crate::trace::half;
use crate::trace::header::Header;
use crate::trace::layout::{Layout, RECORD, Record, u32_at};
use crate::trace::preamble::read_header;
use crate::trace::section::{KEPT, LAYERS, TOKENS};
use crate::trace::source::Source;
use crate::trace::synth::Memo;
use crate::trace::vectors::Vectors;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An open trace. Cheap to clone; clones share the file.
#[derive(Clone, Debug)]
pub struct TraceReader {
    pub(crate) source: Source,
    /// As the user named it, for messages.
    pub(crate) label: String,
    name: String,
    pub(crate) header: Arc<Header>,
    pub(crate) layout: Layout,
    pub(crate) rows: u32,
    pub(crate) partial: bool,
    memo: Arc<Memo>,
}

impl TraceReader {
    /// Opens a .kvt file.
    ///
    /// # Errors
    /// Usage if the path cannot be opened; data if the header or a record is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path
            .file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into());
        Self::new(path.display().to_string(), name, Source::open(path)?)
    }

    /// Reads a trace that is part of the program.
    ///
    /// # Errors
    /// Data, as [`TraceReader::open`].
    pub fn from_bytes(name: &str, bytes: &'static [u8]) -> Result<Self> {
        Self::new(format!("{name}.kvt"), name.into(), Source::Static(bytes))
    }

    /// Reads a trace held in memory.
    ///
    /// # Errors
    /// Data, as [`TraceReader::open`].
    pub fn from_shared(name: &str, bytes: Arc<[u8]>) -> Result<Self> {
        Self::new(format!("{name}.kvt"), name.into(), Source::Shared(bytes))
    }

    fn new(label: String, name: String, source: Source) -> Result<Self> {
        let (header, json_length) = read_header(&source, &label)?;
        let layout = Layout::new(&header, json_length);
        let mut reader = Self {
            source,
            label,
            name,
            header: Arc::new(header),
            layout,
            rows: 0,
            partial: true,
            memo: Arc::default(),
        };
        (reader.rows, reader.partial) = match reader.finished()? {
            Some(rows) => (rows, false),
            None => reader.walk()?,
        };
        reader.check_rows()?;
        Ok(reader)
    }

    /// What the trace says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Recorded decode rows that can be read.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Prompt tokens P.
    pub fn prompt(&self) -> u32 {
        self.header.prompt_length
    }

    /// Whether the file ends before its recorder finished it.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// File name without its ending, or the embedded trace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file as messages name it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.source.len()
    }

    pub(crate) fn group(&self, first: u32) -> Result<u64> {
        self.layout
            .group(first, self.header.chunk_rows)
            .map_err(|e| named(&self.label, e))
    }

    /// The record at an offset within the file; nothing if its checksum is wrong.
    pub(crate) fn record(&self, at: u64) -> Result<Option<Record>> {
        let mut buffer = Vec::new();
        let bytes = self.bytes(at, RECORD, &mut buffer)?;
        Ok(bytes.try_into().ok().and_then(Record::decode))
    }

    pub(crate) fn bytes<'a>(
        &'a self,
        at: u64,
        length: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| self.damaged(at))?;
        self.source
            .read(at, length, buffer)
            .map_err(|e| unreadable(&self.label, at, &e))
    }

    /// Index of a section, or that the trace does not have it.
    pub(crate) fn section(&self, kind: &str) -> Result<usize> {
        self.header.section(kind).ok_or_else(|| {
            Error::data(format!("{} has no section `{kind}`", self.label))
                .help("record or import it with that section")
        })
    }

    /// Calls `f(t, weights)` for the mean rows `rows` in order; weights are binary16 bits, P+t+1 of them.
    ///
    /// # Errors
    /// Data: a damaged chunk, or a weight that is NaN, infinite or negative; whatever `f` returns.
    pub fn for_each_in(
        &self,
        rows: Range<u32>,
        f: &mut dyn FnMut(u32, &[u16]) -> Result<()>,
    ) -> Result<()> {
        self.for_each_half(0, rows, f)
    }

    /// Calls `f(t, weights)` for per-layer rows: L rows of P+t+1 weights one after another, layer 0 first.
    ///
    /// # Errors
    /// As [`TraceReader::for_each_in`]; data if the trace has no per-layer rows.
    pub fn for_each_layers(
        &self,
        rows: Range<u32>,
        f: &mut dyn FnMut(u32, &[u16]) -> Result<()>,
    ) -> Result<()> {
        self.for_each_half(self.section(LAYERS)?, rows, f)
    }

    fn for_each_half(
        &self,
        section: usize,
        rows: Range<u32>,
        f: &mut dyn FnMut(u32, &[u16]) -> Result<()>,
    ) -> Result<()> {
        let lanes = self.header.sections[section].lanes as usize;
        let prompt = self.prompt() as usize;
        let mut weights: Vec<u16> = Vec::new();
        self.for_each_chunk(section, rows.clone(), &mut |chunk| {
            weights.clear();
            weights.extend(
                chunk
                    .bytes
                    .chunks_exact(2)
                    .map(|b| u16::from_le_bytes([b[0], b[1]])),
            );
            let sound = half::all_weights(&weights);
            let mut start = 0;
            for t in chunk.rows.clone() {
                let row = &weights[start..start + lanes * (prompt + t as usize + 1)];
                if !sound {
                    let at = chunk.at + 2 * start as u64;
                    half::check_weights(row, &|| self.place(section, t, at))?;
                }
                if rows.contains(&t) {
                    f(t, row)?;
                }
                start += row.len();
            }
            Ok(())
        })
    }

    /// Generated token ids and natural log-probabilities, where recorded.
    ///
    /// # Errors
    /// Data: a damaged chunk.
    pub fn tokens(&self) -> Result<Option<Vec<(u32, f32)>>> {
        let Some(section) = self.header.section(TOKENS) else {
            return Ok(None);
        };
        let mut out = Vec::new();
        self.for_each_chunk(section, 0..self.rows, &mut |chunk| {
            let pair = |b: &[u8]| (u32_at(b, 0), f32::from_bits(u32_at(b, 4)));
            out.extend(chunk.bytes.chunks_exact(8).map(pair));
            Ok(())
        })?;
        Ok(Some(out))
    }

    /// Calls `f(t, bits)` with the positions each KV head's cache held when step t ran: for every lane, layer-major,
    /// ceil((P+t+1) / 8) bytes; position p is bit p mod 8 of byte p div 8.
    ///
    /// # Errors
    /// Data: a damaged chunk, no such section; whatever `f` returns.
    pub fn for_each_kept(
        &self,
        rows: Range<u32>,
        f: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let section = self.section(KEPT)?;
        self.for_each_chunk(section, rows.clone(), &mut |chunk| {
            let mut start = 0;
            for t in chunk.rows.clone() {
                let bytes = self.header.sections[section].row_bytes(self.prompt(), t);
                let row = &chunk.bytes[start..start + bytes.unwrap_or(0)];
                start += row.len();
                if rows.contains(&t) {
                    f(t, row)?;
                }
            }
            Ok(())
        })
    }

    /// `file: row t (byte n)`, as messages name a row.
    pub(crate) fn place(&self, section: usize, t: u32, at: u64) -> String {
        let kind = match section {
            0 => String::new(),
            s => format!("section `{}`, ", self.header.sections[s].kind),
        };
        format!("{}: {kind}row {t} (byte {at})", self.label)
    }

    /// `file: row t (byte n)` by kind and row alone.
    pub(crate) fn row_place(&self, kind: &str, t: u32) -> String {
        let section = self.header.section(kind).unwrap_or(0);
        let first = t / self.header.chunk_rows * self.header.chunk_rows;
        let n = self.header.chunk_rows.min(self.rows - first);
        let chunk = self.layout.chunk(section, first, n, self.header.chunk_rows);
        let within = self.layout.payload(section, first, t - first);
        let at = chunk.unwrap_or(0) + RECORD + within.unwrap_or(0);
        self.place(section, t, at)
    }

    pub(crate) fn damaged(&self, at: u64) -> Error {
        Error::data(format!(
            "{}: the record at byte {at} is damaged (its checksum does not match)",
            self.label
        ))
        .help("copy the file again, or record it again")
    }

    pub(crate) fn out_of_place(&self, at: u64) -> Error {
        Error::data(format!(
            "{}: the record at byte {at} is not the one that belongs there",
            self.label
        ))
        .help("parts of the file are missing or swapped: copy it again")
    }
}

impl Rows for TraceReader {
    fn prompt(&self) -> u32 {
        self.header.prompt_length
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn column_sums(&self) -> Option<&[f32]> {
        self.header.prompt_column_sums.as_deref()
    }

    fn memo(&self) -> Option<&Memo> {
        Some(&self.memo)
    }

    fn synthetic_from(&self) -> Option<u32> {
        let from = self.header.extra.get("synthetic_from")?.as_u64()?;
        u32::try_from(from).ok().filter(|t| *t < self.rows)
    }

    fn recorded_as(&self) -> Option<&str> {
        Some(&self.label)
    }

    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        self.for_each_in(0..limit, f)
    }

    fn layers(&self) -> u32 {
        self.header
            .section(LAYERS)
            .map_or(0, |i| self.header.sections[i].lanes)
    }

    fn each_layers(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        self.for_each_layers(0..limit, f)
    }

    fn prompt_queries(&self) -> Option<u32> {
        self.query_window()
    }

    fn vectors(&self, limit: u32) -> Result<Option<Vectors>> {
        Vectors::read(self, limit)
    }
}

pub(crate) fn unreadable(label: &str, at: u64, e: &std::io::Error) -> Error {
    Error::data(format!("{label}: cannot read byte {at}: {e}"))
}

pub(crate) fn named(label: &str, mut e: Error) -> Error {
    e.message = format!("{label}: {}", e.message);
    e
}
