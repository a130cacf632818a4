//! The header of a `NumPy` array file: type, shape, order.
//!
//! Only what recorders of attention write is taken: little-endian floats of 2, 4 or 8 bytes (integers for the prompt),
//! C order. Anything else is refused by name. The header is a Python dictionary literal; its three keys are looked up in
//! the text, which is shorter and stricter than parsing Python.

use crate::error::{Error, Result};
use crate::trace::import::numbers::Width;
use std::io::Read;

/// Longest header text taken (bytes).
const MAX_TEXT: u32 = 1 << 16;

/// What a .npy file announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Npy {
    /// As written: `<f2`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<u64>,
    /// Offset of the first element (bytes).
    pub(crate) data: u64,
}

impl Npy {
    /// Reads the header and leaves the reader at the first element.
    pub(crate) fn read(reader: &mut dyn Read, label: &str) -> Result<Self> {
        let head: [u8; 8] = bytes(reader, label)?;
        if head[..6] != *b"\x93NUMPY" {
            return Err(bad(label, "it does not start as one"));
        }
        let (length, before) = match head[6] {
            1 => (u32::from(u16::from_le_bytes(bytes(reader, label)?)), 10),
            2 | 3 => (u32::from_le_bytes(bytes(reader, label)?), 12),
            v => return Err(bad(label, &format!("format version {v} is unknown"))),
        };
        if length > MAX_TEXT {
            return Err(bad(
                label,
                &format!("a header of {length} bytes is announced"),
            ));
        }
        let mut text = vec![0; length as usize];
        reader
            .read_exact(&mut text)
            .map_err(|e| unread(label, &e))?;
        let text = std::str::from_utf8(&text).map_err(|_| bad(label, "its header is not text"))?;
        let missing = |key| bad(label, &format!("its header has no usable `{key}`"));
        if value(text, "fortran_order").ok_or_else(|| missing("fortran_order"))? != "False" {
            return Err(Error::data(format!("{label} is in Fortran order"))
                .help("save it with numpy.ascontiguousarray"));
        }
        Ok(Self {
            descr: value(text, "descr").ok_or_else(|| missing("descr"))?.into(),
            shape: value(text, "shape")
                .and_then(shape)
                .ok_or_else(|| missing("shape"))?,
            data: before + u64::from(length),
        })
    }

    /// The width of floats.
    pub(crate) fn width(&self, label: &str) -> Result<Width> {
        match self.descr.as_str() {
            "<f2" => Ok(Width::F16),
            "<f4" => Ok(Width::F32),
            "<f8" => Ok(Width::F64),
            other => Err(
                Error::data(format!("{label} has elements of type `{other}`"))
                    .help("weights are little-endian floats: <f2, <f4 or <f8"),
            ),
        }
    }

    /// The width of truth values.
    pub(crate) fn truth(&self, label: &str) -> Result<Width> {
        match self.descr.as_str() {
            "|b1" | "|u1" => Ok(Width::U8),
            other => Err(
                Error::data(format!("{label} has elements of type `{other}`"))
                    .help("kept sets are truth values: |b1, or |u1 of 0 and 1"),
            ),
        }
    }

    /// Number of elements.
    pub(crate) fn count(&self, label: &str) -> Result<u64> {
        let product = self.shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
        product.ok_or_else(|| bad(label, "its shape has more than 2^64 elements"))
    }
}

/// The text of a key's value in a dictionary literal, without quotes or parentheses.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let after = quoted
        .iter()
        .find_map(|q| Some(text.split_once(q.as_str())?.1))?;
    let after = after.trim_start().strip_prefix(':')?.trim_start();
    let end = match after.as_bytes().first()? {
        quote @ (b'\'' | b'"') => return after[1..].split_once(*quote as char).map(|v| v.0),
        b'(' => return after[1..].split_once(')').map(|v| v.0),
        _ => after.find([',', '}'])?,
    };
    Some(after[..end].trim())
}

/// `3, 4` or `3,` or nothing.
fn shape(text: &str) -> Option<Vec<u64>> {
    let text = text.trim().trim_end_matches(',');
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|d| d.trim().parse().ok()).collect()
}

fn bytes<const N: usize>(reader: &mut dyn Read, label: &str) -> Result<[u8; N]> {
    let mut out = [0; N];
    reader.read_exact(&mut out).map_err(|e| unread(label, &e))?;
    Ok(out)
}

fn bad(label: &str, why: &str) -> Error {
    Error::data(format!("{label} is not a readable .npy array: {why}"))
        .help("write it with numpy.save or numpy.savez")
}

fn unread(label: &str, e: &std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => bad(label, "it is cut off inside its header"),
        _ => bad(label, &e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Npy> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        file.extend(text.as_bytes());
        Npy::read(&mut file.as_slice(), "x.npy")
    }

    #[test]
    fn what_numpy_writes() {
        let npy =
            header("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 40), }   \n").unwrap();
        // 6 + 2 + 2 bytes before a text of 64.
        assert_eq!(
            (npy.descr.as_str(), npy.shape.as_slice(), npy.data),
            ("<f2", &[3, 40][..], 74)
        );
        assert_eq!(npy.width("x").unwrap(), Width::F16);
        let shape = |s| {
            header(&format!(
                "{{'descr': '<i8', 'fortran_order': False, 'shape': {s}, }}"
            ))
        };
        assert_eq!(shape("(7,)").unwrap().shape, [7]);
        assert_eq!(shape("()").unwrap().shape, [0; 0]);
        assert!(shape("(7").is_err());
        assert!(shape("(-7,)").is_err());
        assert!(shape("(99999999999999999999,)").is_err());
        assert!(
            shape("(4294967296, 4294967296)")
                .unwrap()
                .count("x")
                .is_err()
        );
    }

    #[test]
    fn what_is_refused() {
        assert!(header("{'descr': '<f2', 'fortran_order': True, 'shape': (3,), }").is_err());
        assert!(header("{'fortran_order': False, 'shape': (3,), }").is_err());
        assert!(header("").is_err());
        let big = header("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }").unwrap();
        assert!(big.width("x").unwrap_err().message.contains(">f4"));
    }
}
