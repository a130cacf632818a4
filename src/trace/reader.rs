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
use crate::trace::header::{Header, MAX_TOKENS};
use crate::trace::layout::{
    Layout, MAGIC, MAX_HEADER, MAX_PAYLOAD, PREAMBLE, RECORD, Record, Tag, VERSION, u32_at,
};
use crate::trace::section::{LAYERS, TOKENS};
use crate::trace::source::Source;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An open trace. Cheap to clone; clones share the file.
#[derive(Clone, Debug)]
pub struct TraceReader {
    source: Source,
    /// As the user named it, for messages.
    label: String,
    name: String,
    header: Arc<Header>,
    layout: Layout,
    rows: u32,
    partial: bool,
}

/// One section's rows of one chunk.
pub(crate) struct Chunk<'a> {
    pub(crate) rows: Range<u32>,
    /// Offset in the file of the first byte of `bytes`.
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
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

    /// Size of the file [bytes].
    pub fn file_bytes(&self) -> u64 {
        self.source.len()
    }

    /// The number of rows of a finished file, by its last 32 bytes; nothing if they are not a fitting end record.
    fn finished(&self) -> Result<Option<u32>> {
        let Some(at) = self.source.len().checked_sub(RECORD) else {
            return Ok(None);
        };
        let done = self.record(at)?.filter(|r| r.tag == Tag::Done);
        Ok(done
            .map(|r| r.rows)
            .filter(|&rows| rows <= MAX_TOKENS && self.group(rows).is_ok_and(|end| end == at)))
    }

    /// Counts whole rows from the front: (rows, partial).
    fn walk(&self) -> Result<(u32, bool)> {
        let (mut rows, mut last) = (0, false);
        loop {
            let at = self.group(rows)?;
            if at
                .checked_add(RECORD)
                .is_none_or(|end| end > self.source.len())
            {
                return Ok((rows, true));
            }
            let record = self.record(at)?.ok_or_else(|| self.damaged(at))?;
            match record.tag {
                Tag::Done if record.rows == rows => return self.end(at, rows),
                Tag::Chunk if !last && self.starts_group(&record, rows) => {
                    let end = rows + record.rows;
                    if end > MAX_TOKENS || self.group(end)? > self.source.len() {
                        return Ok((rows, true));
                    }
                    last = record.rows < self.header.chunk_rows;
                    rows = end;
                }
                _ => return Err(self.out_of_place(at)),
            }
        }
    }

    fn starts_group(&self, record: &Record, rows: u32) -> bool {
        record.section == 0
            && record.first_row == rows
            && (1..=self.header.chunk_rows).contains(&record.rows)
    }

    fn end(&self, at: u64, rows: u32) -> Result<(u32, bool)> {
        match self.source.len() - at - RECORD {
            0 => Ok((rows, false)),
            more => Err(Error::data(format!(
                "{}: {more} bytes follow the end of the trace at byte {}",
                self.label,
                at + RECORD
            ))
            .help("the file was appended to; cut it there")),
        }
    }

    fn check_rows(&self) -> Result<()> {
        let problem = match self.header.planned_rows {
            Some(planned) if !self.partial && planned != self.rows => {
                format!(
                    "planned_rows is {planned}, the finished file has {}",
                    self.rows
                )
            }
            _ => match self.header.forced.last() {
                Some(&t) if !self.partial && t >= self.rows => {
                    format!("forced names row {t} of {}", self.rows)
                }
                _ => return Ok(()),
            },
        };
        Err(Error::data(format!(
            "{}: the header contradicts the rows: {problem}",
            self.label
        )))
    }

    fn group(&self, first: u32) -> Result<u64> {
        self.layout
            .group(first, self.header.chunk_rows)
            .map_err(|e| named(&self.label, e))
    }

    /// The record at an offset within the file; nothing if its checksum is wrong.
    fn record(&self, at: u64) -> Result<Option<Record>> {
        let mut buffer = Vec::new();
        let bytes = self.bytes(at, RECORD, &mut buffer)?;
        Ok(bytes.try_into().ok().and_then(Record::decode))
    }

    fn bytes<'a>(&'a self, at: u64, length: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| self.damaged(at))?;
        self.source
            .read(at, length, buffer)
            .map_err(|e| unreadable(&self.label, at, &e))
    }

    /// Index of a section, or that the trace does not have it.
    fn section(&self, kind: &str) -> Result<usize> {
        self.header.section(kind).ok_or_else(|| {
            Error::data(format!("{} has no section `{kind}`", self.label))
                .help("record or import it with that section")
        })
    }

    /// Calls `f` for each chunk of a section that overlaps `rows`, checksums verified.
    pub(crate) fn for_each_chunk(
        &self,
        section: usize,
        rows: Range<u32>,
        f: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let per_chunk = self.header.chunk_rows;
        let end = rows.end.min(self.rows);
        let mut first = rows.start / per_chunk * per_chunk;
        let mut buffer = Vec::new();
        while first < end {
            let n = per_chunk.min(self.rows - first);
            f(self.chunk(section, first, n, &mut buffer)?)?;
            first += n;
        }
        Ok(())
    }

    fn chunk<'a>(
        &'a self,
        section: usize,
        first: u32,
        n: u32,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Chunk<'a>> {
        let at = self
            .layout
            .chunk(section, first, n, self.header.chunk_rows)
            .map_err(|e| named(&self.label, e))?;
        let length = self.layout.payload(section, first, n)?;
        let expected = (Tag::Chunk, section, first, n);
        let bytes = self.payload(at, length, expected, buffer)?;
        Ok(Chunk {
            rows: first..first + n,
            at: at + RECORD,
            bytes,
        })
    }

    /// Reads a record and its payload in one go and checks both.
    fn payload<'a>(
        &'a self,
        at: u64,
        length: u64,
        (tag, section, first_row, rows): (Tag, usize, u32, u32),
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        if length > MAX_PAYLOAD {
            return Err(Error::data(format!(
                "{}: the chunk at byte {at} has {length} bytes, the limit is {MAX_PAYLOAD}",
                self.label
            ))
            .help("write it with a smaller chunk_rows"));
        }
        let all = self.bytes(at, RECORD + length, buffer)?;
        let (head, payload) = all.split_at(RECORD as usize);
        let record = head.try_into().ok().and_then(Record::decode);
        let record = record.ok_or_else(|| self.damaged(at))?;
        let place = (
            record.tag,
            record.section as usize,
            record.first_row,
            record.rows,
        );
        if place != (tag, section, first_row, rows) || record.payload != length {
            return Err(self.out_of_place(at));
        }
        if crc32fast::hash(payload) != record.payload_crc {
            return Err(Error::data(format!(
                "{}: rows {first_row}..{} of section `{}` are damaged: bytes {}..{} do not match their checksum",
                self.label,
                first_row + rows,
                self.header.sections[section].kind,
                at + RECORD,
                at + RECORD + length
            ))
            .help("copy the file again, or record it again"));
        }
        Ok(payload)
    }

    /// The block a section stores once (empty if it has none).
    ///
    /// # Errors
    /// Data if the block is cut off or damaged.
    pub fn once(&self, kind: &str) -> Result<Vec<u8>> {
        let section = self.section(kind)?;
        let length = self.header.sections[section].bytes_once;
        if length == 0 {
            return Ok(Vec::new());
        }
        let at = self.layout.once(section)?;
        if at
            .checked_add(RECORD + length)
            .is_none_or(|end| end > self.source.len())
        {
            return Err(Error::data(format!(
                "{}: section `{kind}` is cut off at byte {}",
                self.label,
                self.source.len()
            )));
        }
        let mut buffer = Vec::new();
        let bytes = self.payload(at, length, (Tag::Once, section, 0, 0), &mut buffer)?;
        Ok(bytes.to_vec())
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

    fn damaged(&self, at: u64) -> Error {
        Error::data(format!(
            "{}: the record at byte {at} is damaged (its checksum does not match)",
            self.label
        ))
        .help("copy the file again, or record it again")
    }

    fn out_of_place(&self, at: u64) -> Error {
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

    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        self.for_each_in(0..limit, f)
    }
}

/// Reads and checks preamble and header; also the length of the JSON.
fn read_header(source: &Source, label: &str) -> Result<(Header, u32)> {
    let mut buffer = Vec::new();
    let length = json_length(source, label, &mut buffer)?;
    let json_crc = u32_at(&buffer, 16);
    let mut buffer = Vec::new();
    let json = source
        .read(PREAMBLE, length as usize, &mut buffer)
        .map_err(|e| unreadable(label, PREAMBLE, &e))?;
    if crc32fast::hash(json) != json_crc {
        return Err(Error::data(format!(
            "{label}: the header is damaged: bytes {PREAMBLE}..{} do not match their checksum",
            PREAMBLE + u64::from(length)
        )));
    }
    let text = std::str::from_utf8(json).map_err(|e| {
        let at = PREAMBLE + e.valid_up_to() as u64;
        Error::data(format!("{label}: the header is not UTF-8 at byte {at}"))
    })?;
    let header: Header = serde_json::from_str(text)
        .map_err(|e| Error::data(format!("{label}: the header cannot be read: {e}")))?;
    header.validate().map_err(|e| named(label, e))?;
    Ok((header, length))
}

/// Checks the preamble, left in `buffer`, and returns the length of the JSON.
fn json_length(source: &Source, label: &str, buffer: &mut Vec<u8>) -> Result<u32> {
    let length = source.len();
    let bytes = source
        .read(0, length.min(PREAMBLE) as usize, buffer)
        .map_err(|e| unreadable(label, 0, &e))?
        .to_vec();
    *buffer = bytes;
    let head = buffer.len().min(MAGIC.len());
    if buffer.is_empty() {
        return Err(Error::data(format!("{label} is empty")));
    }
    if buffer[..head] != MAGIC[..head] {
        return Err(Error::data(format!(
            "{label} is not a .kvt trace: it starts with other bytes"
        ))
        .help("`kvplan trace import` turns .npy, .npz, .safetensors and raw pairs into .kvt"));
    }
    if buffer.len() < PREAMBLE as usize {
        return Err(cut(label, length));
    }
    let version = u32_at(buffer, 8);
    if crc32fast::hash(&buffer[..20]) != u32_at(buffer, 20) {
        return Err(Error::data(format!(
            "{label}: the first {PREAMBLE} bytes are damaged"
        )));
    }
    if version != VERSION {
        return Err(Error::data(format!(
            "{label} is .kvt version {version}; this program reads version {VERSION}"
        ))
        .help("update kvplan, or import the recording again"));
    }
    let json = u32_at(buffer, 12);
    if json > MAX_HEADER {
        return Err(Error::data(format!(
            "{label}: a header of {json} bytes is announced at byte 12, the limit is {MAX_HEADER}"
        )));
    }
    if PREAMBLE + u64::from(json) > length {
        return Err(cut(label, length));
    }
    Ok(json)
}

fn cut(label: &str, length: u64) -> Error {
    Error::data(format!(
        "{label} is cut off inside its header, at byte {length}"
    ))
    .help("no row can be read: copy the file again")
}

fn unreadable(label: &str, at: u64, e: &std::io::Error) -> Error {
    Error::data(format!("{label}: cannot read byte {at}: {e}"))
}

fn named(label: &str, mut e: Error) -> Error {
    e.message = format!("{label}: {}", e.message);
    e
}
