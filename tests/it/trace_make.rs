//! Small traces and foreign files, made by plain code for the trace tests.

use kvplan::trace::{Header, TraceWriter, half};
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

/// Weights of a row of `n` that sum to 1, spread without pattern.
pub(crate) fn attention(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let raw: Vec<f64> = (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            1.0 + (state % 1000) as f64
        })
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|w| w / sum).collect()
}

/// [`attention`] as binary16.
pub(crate) fn row(n: usize, seed: u64) -> Vec<u16> {
    attention(n, seed).into_iter().map(half::from_f64).collect()
}

/// Row `t` after a prompt of `prompt`.
pub(crate) fn row_at(prompt: u32, t: u32) -> Vec<u16> {
    row((prompt + t + 1) as usize, u64::from(t) + 1)
}

/// Writes a finished trace of mean rows.
pub(crate) fn write(path: &Path, header: Header, rows: u32) {
    let prompt = header.prompt_length;
    let mut writer = TraceWriter::create(path, header).unwrap();
    for t in 0..rows {
        writer.push_row(&row_at(prompt, t)).unwrap();
    }
    writer.finish().unwrap();
}

/// A trace of 10 rows after 3 tokens in chunks of 4 (so 4 + 4 + 2), as bytes.
pub(crate) fn small() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small.kvt");
    let mut header = Header::new("toy", 3);
    header.chunk_rows = 4;
    header.prompt_ids = Some(vec![7, 8, 9]);
    write(&path, header, 10);
    fs::read(path).unwrap()
}

/// Writes bytes to a file of this name in a folder.
pub(crate) fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A .npy file: type, shape as Python writes it, data.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(data);
    out
}

/// A deflated archive of these files.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Rows `0..rows` one after another, binary16 little-endian.
pub(crate) fn flat(prompt: u32, rows: u32) -> Vec<u8> {
    let all = (0..rows).flat_map(|t| row_at(prompt, t));
    all.flat_map(u16::to_le_bytes).collect()
}

/// Rows padded with `pad` to `columns`, binary32 little-endian.
pub(crate) fn padded(prompt: u32, rows: u32, columns: u32, pad: f32) -> Vec<u8> {
    let mut out = Vec::new();
    for t in 0..rows {
        let own = (prompt + t + 1) as usize;
        let mut line = vec![pad; columns as usize];
        for (slot, weight) in line.iter_mut().zip(attention(own, u64::from(t) + 1)) {
            #[allow(clippy::cast_possible_truncation)]
            let narrow = weight as f32;
            *slot = narrow;
        }
        out.extend(line.iter().flat_map(|w| w.to_le_bytes()));
    }
    out
}
