//! Where the bytes of a trace come from: a file read by position, or bytes in memory.
//!
//! Reads are `pread`s into a buffer of one chunk, shared by threads without a lock. The rival, a mapped file, is faster
//! by a copy but turns a file that is cut while being read into a SIGBUS instead of an error, and counts the whole file
//! as resident. Bytes in memory are borrowed and never copied.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes by position.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(Arc<File>, u64),
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
}

impl Source {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, length) = open_regular(path)?;
        Ok(Self::File(Arc::new(file), length))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Static(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
        }
    }

    /// The bytes `at..at + length`; `buffer` is used only for files. The caller has checked the range against `len`.
    pub(crate) fn read<'a>(
        &'a self,
        at: u64,
        length: usize,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        super::progress::add(length);
        match self {
            Self::File(file, _) => {
                buffer.resize(length, 0);
                read_exact_at(file, buffer, at)?;
                Ok(buffer)
            }
            Self::Static(bytes) => range(bytes, at, length),
            Self::Shared(bytes) => range(bytes, at, length),
        }
    }
}

/// Opens a regular file and its length; anything else is a path that cannot be used.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64)> {
    let cannot =
        |e: &dyn std::fmt::Display| Error::usage(format!("cannot open {}: {e}", path.display()));
    let file = File::open(path).map_err(|e| cannot(&e).help("check the path"))?;
    let meta = file.metadata().map_err(|e| cannot(&e))?;
    if meta.is_file() {
        Ok((file, meta.len()))
    } else {
        Err(cannot(&"it is not a regular file")
            .help("traces are read by position: save a pipe to a file first"))
    }
}

fn range(bytes: &[u8], at: u64, length: usize) -> io::Result<&[u8]> {
    usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..at.checked_add(length)?))
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, buffer, at)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[n..];
        at += n as u64;
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    use io::{Read, Seek};
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().map_err(|_| io::ErrorKind::Other)?;
    let mut file = file;
    file.seek(io::SeekFrom::Start(at))?;
    file.read_exact(buffer)
}
