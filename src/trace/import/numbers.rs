//! A stream of little-endian floats of three widths, read as binary16 (or of truth values, a byte each).
//!
//! Input is taken in pieces of 64 KiB, so that a file which announces more than it holds (or inflates to more than it
//! should) costs no memory before it is found out.

use crate::error::{Error, Result};
use crate::trace::half;
use std::io::{ErrorKind, Read};

/// Width of a source's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Whole numbers of 0 to 255 (truth values), not rounded.
    U8,
    F16,
    F32,
    F64,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Appends the binary16 of each number in `bytes`.
    fn append(self, bytes: &[u8], out: &mut Vec<u16>) {
        let pieces = bytes.chunks_exact(self.bytes());
        match self {
            Self::U8 => out.extend(bytes.iter().map(|b| u16::from(*b))),
            Self::F16 => out.extend(pieces.map(|b| u16::from_le_bytes([b[0], b[1]]))),
            Self::F32 => out.extend(pieces.map(|b| {
                let b = [b[0], b[1], b[2], b[3]];
                half::from_f64(f64::from(f32::from_le_bytes(b)))
            })),
            Self::F64 => out.extend(pieces.map(|b| {
                let b = [b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]];
                half::from_f64(f64::from_le_bytes(b))
            })),
        }
    }
}

/// Numbers still to come from one array.
pub(crate) struct Numbers<'a> {
    reader: Box<dyn Read + 'a>,
    width: Width,
    /// File, and array within it.
    pub(crate) label: String,
    /// Offset of the next number, in the file or in the unpacked array (bytes).
    pub(crate) at: u64,
    buffer: Vec<u8>,
}

const PIECE: usize = 64 << 10;

impl<'a> Numbers<'a> {
    pub(crate) fn new(reader: impl Read + 'a, width: Width, label: String, at: u64) -> Self {
        Self {
            reader: Box::new(reader),
            width,
            label,
            at,
            buffer: vec![0; PIECE],
        }
    }

    /// Appends the next `n` numbers.
    pub(crate) fn take(&mut self, n: usize, out: &mut Vec<u16>) -> Result<()> {
        let mut left = n;
        while left > 0 {
            let now = left.min(PIECE / self.width.bytes());
            let piece = &mut self.buffer[..now * self.width.bytes()];
            self.reader
                .read_exact(piece)
                .map_err(|e| failed(&self.label, self.at, &e))?;
            self.width.append(piece, out);
            self.at += piece.len() as u64;
            left -= now;
        }
        Ok(())
    }

    /// Refuses anything after the last number; reading to the end is also what checks a packed array's checksum.
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.reader.read(&mut self.buffer[..1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::data(format!(
                "{}: data goes on after the last row, at byte {}",
                self.label, self.at
            ))
            .help("the shape or the prompt length is not that of these rows")),
            Err(e) => Err(failed(&self.label, self.at, &e)),
        }
    }
}

fn failed(label: &str, at: u64, e: &std::io::Error) -> Error {
    if e.kind() == ErrorKind::UnexpectedEof {
        return Error::data(format!("{label} is cut off: data ends after byte {at}"))
            .help("the file is shorter than its shape says: copy or write it again");
    }
    Error::data(format!("{label}: cannot read on at byte {at}: {e}"))
}
