//! Where everything lies in a .kvt file: preamble, header, once blocks, chunk groups, end record.
//!
//! All offsets are closed form in (header, first row), so a reader needs no index, and a file cut anywhere tells how far
//! it goes by its length. Each fixed structure carries its own crc32, so that no byte of a file is unguarded. All
//! integers are little-endian. `traces/FORMAT.md` is the normative text; this file is its arithmetic.

use crate::error::{Error, Result};
use crate::trace::header::Header;

/// First eight bytes: a byte over 127, the name, and line ends that a text-mode copy would break.
pub(crate) const MAGIC: [u8; 8] = *b"\x89KVT\r\n\x1a\n";
/// The version this code writes, and the only one it reads.
pub(crate) const VERSION: u32 = 1;
/// Bytes before the JSON header.
pub(crate) const PREAMBLE: u64 = 24;
/// Bytes of a record header.
pub(crate) const RECORD: u64 = 32;
/// Longest JSON header admitted (bytes).
pub(crate) const MAX_HEADER: u32 = 64 << 20;
/// Longest payload of one record that is read into memory (bytes).
pub(crate) const MAX_PAYLOAD: u64 = 1 << 30;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// A section's block that is stored once.
    Once,
    /// Some rows of one section.
    Chunk,
    /// The end of a finished file.
    Done,
}

impl Tag {
    const ALL: [(Self, [u8; 4]); 3] = [
        (Self::Once, *b"ONCE"),
        (Self::Chunk, *b"CHNK"),
        (Self::Done, *b"DONE"),
    ];
}

/// The 32 bytes before each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) tag: Tag,
    pub(crate) section: u32,
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) payload: u64,
    pub(crate) payload_crc: u32,
}

impl Record {
    pub(crate) fn encode(&self) -> [u8; 32] {
        let mut out = [0; 32];
        let tag = Tag::ALL.iter().find(|(t, _)| *t == self.tag);
        out[0..4].copy_from_slice(&tag.expect("ALL lists every tag").1);
        out[4..8].copy_from_slice(&self.section.to_le_bytes());
        out[8..12].copy_from_slice(&self.first_row.to_le_bytes());
        out[12..16].copy_from_slice(&self.rows.to_le_bytes());
        out[16..24].copy_from_slice(&self.payload.to_le_bytes());
        out[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&out[..28]);
        out[28..32].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Nothing if the checksum or the tag is wrong.
    pub(crate) fn decode(bytes: &[u8; 32]) -> Option<Self> {
        if crc32fast::hash(&bytes[..28]) != u32_at(bytes, 28) {
            return None;
        }
        let (tag, _) = Tag::ALL.iter().find(|(_, b)| bytes[..4] == *b)?;
        Some(Self {
            tag: *tag,
            section: u32_at(bytes, 4),
            first_row: u32_at(bytes, 8),
            rows: u32_at(bytes, 12),
            payload: u64::from(u32_at(bytes, 16)) | u64::from(u32_at(bytes, 20)) << 32,
            payload_crc: u32_at(bytes, 24),
        })
    }

    /// The record that ends a finished file.
    pub(crate) fn done(rows: u32) -> Self {
        Self {
            tag: Tag::Done,
            section: 0,
            first_row: 0,
            rows,
            payload: 0,
            payload_crc: 0,
        }
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 24 bytes before the JSON header.
pub(crate) fn preamble(json: &[u8]) -> Result<[u8; 24]> {
    let length = u32::try_from(json.len())
        .ok()
        .filter(|n| *n <= MAX_HEADER)
        .ok_or_else(|| {
            Error::data(format!(
                "the trace header would be {} bytes, the limit is {MAX_HEADER}",
                json.len()
            ))
        })?;
    let mut out = [0; 24];
    out[0..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&length.to_le_bytes());
    out[16..20].copy_from_slice(&crc32fast::hash(json).to_le_bytes());
    let crc = crc32fast::hash(&out[..20]);
    out[20..24].copy_from_slice(&crc.to_le_bytes());
    Ok(out)
}

/// Offsets of one file: everything follows from the header and the length of its JSON.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prompt: u32,
    sections: Vec<crate::trace::section::Section>,
    /// First byte after the once blocks.
    base: u128,
}

impl Layout {
    pub(crate) fn new(header: &Header, json_length: u32) -> Self {
        let once: u128 = header
            .sections
            .iter()
            .filter(|s| s.bytes_once > 0)
            .map(|s| u128::from(RECORD) + u128::from(s.bytes_once))
            .sum();
        Self {
            prompt: header.prompt_length,
            sections: header.sections.clone(),
            base: u128::from(PREAMBLE) + u128::from(json_length) + once,
        }
    }

    /// Offset of the once block of a section (its record), if it has one.
    pub(crate) fn once(&self, section: usize) -> Result<u64> {
        let after: u128 = self.sections[section..]
            .iter()
            .filter(|s| s.bytes_once > 0)
            .map(|s| u128::from(RECORD) + u128::from(s.bytes_once))
            .sum();
        fits(self.base - after)
    }

    /// Payload bytes of rows `first..first + n` of a section.
    pub(crate) fn payload(&self, section: usize, first: u32, n: u32) -> Result<u64> {
        let s = &self.sections[section];
        let end = first.checked_add(n).ok_or_else(too_large)?;
        fits(s.bytes_before(self.prompt, end) - s.bytes_before(self.prompt, first))
    }

    /// Offset of the chunk group that starts at row `first`, with chunks of `chunk_rows` before it.
    pub(crate) fn group(&self, first: u32, chunk_rows: u32) -> Result<u64> {
        let groups = u128::from(first.div_ceil(chunk_rows));
        let records = groups * self.sections.len() as u128 * u128::from(RECORD);
        let rows: u128 = self
            .sections
            .iter()
            .map(|s| s.bytes_before(self.prompt, first))
            .sum();
        fits(self.base + records + rows)
    }

    /// Offset of a section's record within the group of rows `first..first + n`.
    pub(crate) fn chunk(&self, section: usize, first: u32, n: u32, chunk_rows: u32) -> Result<u64> {
        let mut at = self.group(first, chunk_rows)?;
        for before in 0..section {
            let bytes = RECORD + self.payload(before, first, n)?;
            at = at.checked_add(bytes).ok_or_else(too_large)?;
        }
        Ok(at)
    }
}

fn fits(offset: u128) -> Result<u64> {
    u64::try_from(offset).map_err(|_| too_large())
}

fn too_large() -> Error {
    Error::data("the header describes rows of more than 2^64 bytes")
}
