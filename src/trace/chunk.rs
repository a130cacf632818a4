//! One chunk of one section: found by closed form, read in one go, checked, lent out.
//!
//! The record and its payload are adjacent, so a chunk is one `pread` into a buffer that the next chunk reuses. Nothing
//! of a chunk is handed out before its checksum has been found right.

use crate::error::{Error, Result};
use crate::trace::layout::{MAX_PAYLOAD, RECORD, Record, Tag};
use crate::trace::reader::{TraceReader, named};
use std::ops::Range;

/// One section's rows of one chunk.
pub(crate) struct Chunk<'a> {
    pub(crate) rows: Range<u32>,
    /// Offset in the file of the first byte of `bytes`.
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
}

impl TraceReader {
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
        let (head, payload) = all.split_at(all.len().min(32));
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
}
