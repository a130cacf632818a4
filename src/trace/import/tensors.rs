//! A safetensors file: tensors `rows`, and optionally `layers`, `keys`, `queries` and `kept`; `prompt` and `model` in its metadata.
//!
//! Only the header is parsed by the crate; tensors are read from the file as a stream, so memory does not grow with them.

use crate::error::{Error, Result};
use crate::trace::import::numbers::{Numbers, Width};
use crate::trace::import::rows::{self, Extent, RowStream};
use crate::trace::import::vectors::Arrays;
use crate::trace::import::{Job, Options, Prompt};
use crate::trace::source::open_regular;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Longest header taken (bytes).
const MAX_HEADER: u64 = 64 << 20;

pub(crate) fn import(path: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let label = path.display().to_string();
    let (meta, data) = header(path, &label)?;
    let note = |key: &str| meta.metadata().as_ref().and_then(|m| m.get(key));
    let said = match note("prompt") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Error::data(format!(
                "{label}: the prompt length `{text}` in its metadata is not a number"
            ))
        })?),
    };
    if let Some(said) = said {
        options.agree(&label, said)?;
    }
    let given = Prompt {
        length: options.prompt.or(said),
        ids: None,
    };
    let options = Options {
        model: options.model.clone().or_else(|| note("model").cloned()),
        ..options.clone()
    };
    let info = meta.info("rows").ok_or_else(|| {
        Error::data(format!("{label} has no tensor `rows`"))
            .help("save_file({\"rows\": ...}, file)")
    })?;
    let (numbers, shape) = tensor(path, &label, "rows", info, data)?;
    let extent = rows::extent(&numbers.label, &shape, given.length)?;
    let means = RowStream::means(numbers, &shape, extent);
    let layers = match meta.info("layers") {
        Some(info) => {
            let (numbers, shape) = tensor(path, &label, "layers", info, data)?;
            Some(RowStream::layers(numbers, &shape, extent)?)
        }
        None => None,
    };
    let beside = |name: &str| {
        let info = meta.info(name);
        info.map(|info| tensor(path, &label, name, info, data))
            .transpose()
    };
    let vectors = Arrays {
        keys: beside("keys")?,
        queries: beside("queries")?,
        kept: beside("kept")?,
    };
    Job::new(
        options.header(path, extent, given, None),
        extent,
        means,
        layers,
    )?
    .with_vectors(vectors)?
    .write(out)
}

/// The parsed header and the offset of the first tensor.
fn header(path: &Path, label: &str) -> Result<(Metadata, u64)> {
    let bad = |why: String| {
        Error::data(format!(
            "{label} is not a readable .safetensors file: {why}"
        ))
    };
    let (mut file, length) = open_regular(path)?;
    let mut size = [0; 8];
    file.read_exact(&mut size)
        .map_err(|_| bad("it is shorter than 8 bytes".into()))?;
    let size = u64::from_le_bytes(size);
    if size > MAX_HEADER || size + 8 > length {
        return Err(bad(format!(
            "a header of {size} bytes is announced, the file has {length}"
        )));
    }
    let mut json = Vec::new();
    let taken = (&mut file).take(size).read_to_end(&mut json);
    taken.map_err(|e| bad(e.to_string()))?;
    let meta: Metadata = serde_json::from_slice(&json).map_err(|e| bad(e.to_string()))?;
    let expected = (8 + size).checked_add(meta.data_len() as u64);
    if expected != Some(length) {
        return Err(bad(format!(
            "its tensors take {} bytes, {} follow its header",
            meta.data_len(),
            length - 8 - size
        )));
    }
    Ok((meta, 8 + size))
}

fn tensor(
    path: &Path,
    label: &str,
    name: &str,
    info: &TensorInfo,
    data: u64,
) -> Result<(Numbers<'static>, Vec<u64>)> {
    let label = format!("{label}, tensor `{name}`");
    let width = match info.dtype {
        Dtype::F16 | Dtype::F32 | Dtype::F64 if name == "kept" => {
            return Err(
                Error::data(format!("{label} has elements of type {:?}", info.dtype))
                    .help("kept sets are truth values: BOOL, or U8 of 0 and 1"),
            );
        }
        Dtype::F16 => Width::F16,
        Dtype::F32 => Width::F32,
        Dtype::F64 => Width::F64,
        Dtype::BOOL | Dtype::U8 if name == "kept" => Width::U8,
        other => {
            return Err(
                Error::data(format!("{label} has elements of type {other:?}"))
                    .help("weights are F16, F32 or F64"),
            );
        }
    };
    let (start, end) = info.data_offsets;
    let at = data + start as u64;
    let (mut file, _) = open_regular(path)?;
    file.seek(SeekFrom::Start(at))
        .map_err(|e| Error::data(format!("{label}: cannot read byte {at}: {e}")))?;
    let reader = BufReader::with_capacity(1 << 16, file).take((end - start) as u64);
    let shape = info.shape.iter().map(|d| *d as u64).collect();
    Ok((Numbers::new(reader, width, label, at), shape))
}
