//! Reading the start of a file: is it a trace, of this version, and what does its header say.
//!
//! Checked in the order that gives the best message: magic (another kind of file), checksum (damage), version, length,
//! then the JSON. Nothing is allocated before the length has been found to fit both the limit and the file.

use crate::error::{Error, Result};
use crate::trace::header::Header;
use crate::trace::layout::{MAGIC, MAX_HEADER, PREAMBLE, VERSION, u32_at};
use crate::trace::reader::{named, unreadable};
use crate::trace::source::Source;

/// Reads and checks preamble and header; also the length of the JSON.
pub(crate) fn read_header(source: &Source, label: &str) -> Result<(Header, u32)> {
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
    if (buffer.len() as u64) < PREAMBLE {
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
