//! A `NumPy` archive: arrays `rows`, and optionally `prompt`, `layers`, `column_sums`, `keys`, `queries` and `kept`.
//!
//! Arrays are unpacked as they are read and never held whole, so an archive that inflates without end runs into the first
//! row that does not sum to 1. The archive is opened once an array, because rows and layers are read side by side.

use crate::error::{Error, Result};
use crate::trace::import::npy::Npy;
use crate::trace::import::numbers::Numbers;
use crate::trace::import::rows::{self, Extent, RowStream};
use crate::trace::import::vectors::Arrays;
use crate::trace::import::{Job, Named, Options, prompt_from};
use crate::trace::source::open_regular;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

type Archive = zip::ZipArchive<BufReader<File>>;

/// Most elements of an array that is read whole (`prompt`, `column_sums`).
const MAX_SMALL: u64 = 1 << 24;

pub(crate) fn import(path: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let mut archives = [open(path)?, open(path)?, open(path)?];
    let [for_small, for_rows, for_layers] = &mut archives;
    let mut beside = [open(path)?, open(path)?, open(path)?];
    let [for_keys, for_queries, for_kept] = &mut beside;
    let named = Named {
        prompt: small(for_small, path, "prompt")?,
        column_sums: small(for_small, path, "column_sums")?,
    };
    let given = prompt_from(&path.display().to_string(), &named, options)?;
    let (npy, numbers) = array(for_rows, path, "rows")?.ok_or_else(|| {
        Error::data(format!("{} has no array `rows`", path.display()))
            .help("numpy.savez(file, rows=..., prompt=...)")
    })?;
    let extent = rows::extent(&numbers.label, &npy.shape, given.length)?;
    let means = RowStream::means(numbers, &npy.shape, extent);
    let layers = match array(for_layers, path, "layers")? {
        Some((npy, numbers)) => Some(RowStream::layers(numbers, &npy.shape, extent)?),
        None => None,
    };
    let vectors = Arrays {
        keys: array(for_keys, path, "keys")?.map(with_shape),
        queries: array(for_queries, path, "queries")?.map(with_shape),
        kept: array(for_kept, path, "kept")?.map(with_shape),
    };
    Job::new(
        options.header(path, extent, given, named.column_sums),
        extent,
        means,
        layers,
    )?
    .with_vectors(vectors)?
    .write(out)
}

fn open(path: &Path) -> Result<Archive> {
    let (file, _) = open_regular(path)?;
    zip::ZipArchive::new(BufReader::new(file)).map_err(|e| packed(&path.display().to_string(), &e))
}

fn packed(label: &str, e: &zip::result::ZipError) -> Error {
    Error::data(format!("{label} is not a readable .npz archive: {e}"))
        .help("write it with numpy.savez or numpy.savez_compressed")
}

/// The header of an array and its reader, if the archive has it.
fn array<'a>(
    archive: &'a mut Archive,
    path: &Path,
    name: &str,
) -> Result<Option<(Npy, Numbers<'a>)>> {
    let label = format!("{}, array `{name}`", path.display());
    let Some((npy, entry)) = entry(archive, name, &label)? else {
        return Ok(None);
    };
    let width = match name {
        "kept" => npy.truth(&label)?,
        _ => npy.width(&label)?,
    };
    let at = npy.data;
    Ok(Some((
        npy,
        Numbers::new(BufReader::new(entry), width, label, at),
    )))
}

fn with_shape((npy, numbers): (Npy, Numbers<'_>)) -> (Numbers<'_>, Vec<u64>) {
    (numbers, npy.shape)
}

fn entry<'a>(
    archive: &'a mut Archive,
    name: &str,
    label: &str,
) -> Result<Option<(Npy, impl Read + use<'a>)>> {
    let Some(index) = archive.index_for_name(&format!("{name}.npy")) else {
        return Ok(None);
    };
    let mut entry = archive.by_index(index).map_err(|e| packed(label, &e))?;
    let npy = Npy::read(&mut entry, label)?;
    Ok(Some((npy, entry)))
}

/// A short array read whole, as f64.
fn small(archive: &mut Archive, path: &Path, name: &str) -> Result<Option<(Vec<u64>, Vec<f64>)>> {
    let label = format!("{}, array `{name}`", path.display());
    let Some((npy, mut reader)) = entry(archive, name, &label)? else {
        return Ok(None);
    };
    let count = npy.count(&label)?;
    if count > MAX_SMALL {
        return Err(Error::data(format!(
            "{label} has {count} elements; at most {MAX_SMALL} are taken"
        )));
    }
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(element(&mut reader, &npy.descr, &label)?);
    }
    Ok(Some((npy.shape, values)))
}

fn element(reader: &mut impl Read, descr: &str, label: &str) -> Result<f64> {
    let mut b = [0; 8];
    let width = match descr {
        "<i4" | "<u4" | "<f4" => 4,
        "<i8" | "<u8" | "<f8" => 8,
        other => {
            return Err(Error::data(format!(
                "{label} has elements of type `{other}`"
            )));
        }
    };
    reader
        .read_exact(&mut b[..width])
        .map_err(|e| Error::data(format!("{label} cannot be read: {e}")))?;
    let four = [b[0], b[1], b[2], b[3]];
    Ok(match descr {
        "<i4" => f64::from(i32::from_le_bytes(four)),
        "<u4" => f64::from(u32::from_le_bytes(four)),
        "<f4" => f64::from(f32::from_le_bytes(four)),
        "<i8" => i64::from_le_bytes(b) as f64,
        "<u8" => u64::from_le_bytes(b) as f64,
        _ => f64::from_le_bytes(b),
    })
}
