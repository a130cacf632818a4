//! A `NumPy` archive: arrays of one dimension, stored as `numpy.load` reads them.
//!
//! Version 1.0 of the array format: magic, a header padded to 64 bytes, little-endian numbers. Entries are deflated and
//! carry no time, so equal decisions give equal bytes.

use std::io::{Cursor, Write as _};

use super::Decisions;
use crate::error::{Error, Result};

/// Decisions of a policy, with what they are of as JSON text in the array `meta` (bytes).
///
/// # Errors
/// Internal only.
pub fn decisions(d: &Decisions, meta: &serde_json::Value) -> Result<Vec<u8>> {
    let text = meta.to_string();
    let whole = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let offsets: Vec<u8> = d.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
    archive(&[
        ("meta", "|u1", text.len(), text.as_bytes()),
        ("prompt", "<u4", 1, &d.prompt.to_le_bytes()),
        (
            "first_step",
            "<u4",
            d.first_step.len(),
            &whole(&d.first_step),
        ),
        ("lane", "<u4", d.lane.len(), &whole(&d.lane)),
        ("offsets", "<u8", d.offsets.len(), &offsets),
        ("positions", "<u4", d.positions.len(), &whole(&d.positions)),
        ("tiers", "|u1", d.tiers.len(), &d.tiers),
    ])
}

/// Name, type, length and bytes of each array.
fn archive(arrays: &[(&str, &str, usize, &[u8])]) -> Result<Vec<u8>> {
    let failed = |e: &dyn std::fmt::Display| Error::internal(format!("npz: {e}"));
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    for (name, kind, length, bytes) in arrays {
        zip.start_file(format!("{name}.npy"), options)
            .map_err(|e| failed(&e))?;
        zip.write_all(&header(kind, *length))
            .and_then(|()| zip.write_all(bytes))
            .map_err(|e| failed(&e))?;
    }
    Ok(zip.finish().map_err(|e| failed(&e))?.into_inner())
}

/// Magic, version, length of the header, header.
fn header(kind: &str, length: usize) -> Vec<u8> {
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({length},), }}");
    let unpadded = 10 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let size = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(size.to_le_bytes());
    out.extend(text.as_bytes());
    out
}
