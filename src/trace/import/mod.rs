//! From other people's files to .kvt: `NumPy` arrays and archives, safetensors, raw pairs, and .kvt itself.
//!
//! Each source says what rows there are and from where; one loop reads, checks and writes them a row at
//! a time, so an import needs memory for one chunk. Rows are checked here for good (weights finite and not negative,
//! sums 1 within what binary16 can miss, layers averaging to the mean row) and never corrected: a recording that does
//! not sum to 1 is not attention, and renormalising it would hide what happened to it.
//!
//! What is not known (model, sampler) stays unknown in the header. Importing a .kvt copies it, section by section,
//! unknown kinds included: that turns a partial trace into a finished one.

mod copy;
mod npy;
mod npz;
mod numbers;
pub(crate) mod raw;
mod rows;
mod tensors;
mod vectors;

use crate::error::{Error, Result};
use crate::trace::beside;
use crate::trace::half;
use crate::trace::header::Header;
use crate::trace::import::numbers::Numbers;
pub use crate::trace::import::rows::Extent;
use crate::trace::import::rows::RowStream;
use crate::trace::import::vectors::{Arrays, Stream};
use crate::trace::source::open_regular;
use crate::trace::writer::TraceWriter;
use std::io::BufReader;
use std::path::Path;

/// What the caller knows that the file does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Prompt tokens.
    pub prompt: Option<u32>,
    /// Name of the model.
    pub model: Option<String>,
}

/// What is known of the prompt.
#[derive(Clone, Debug, Default)]
struct Prompt {
    length: Option<u32>,
    ids: Option<Vec<u32>>,
}

/// Short arrays of an archive, each with its shape.
struct Named {
    prompt: Option<(Vec<u64>, Vec<f64>)>,
    column_sums: Option<(Vec<u64>, Vec<f64>)>,
}

/// Imports `from` into `out`, by the ending of `from`, and returns what was written.
///
/// # Errors
/// Usage if a path cannot be used or its ending is not known; data if what it holds cannot be attention rows.
pub fn import(from: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let ending = from.extension().map(|e| e.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("npy") => import_npy(from, options, out),
        Some("npz") => npz::import(from, options, out),
        Some("safetensors") => tensors::import(from, options, out),
        Some("json") => raw::import(from, options, out),
        Some("kvt" | "part") => copy::copy(from, options, out),
        _ => Err(Error::usage(format!("{} is none of the files that can be imported", from.display()))
            .help("take a .npy, .npz, .safetensors or .kvt file, or the .json of a raw pair (X.json with X.rows.f16)")),
    }
}

fn import_npy(path: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let label = path.display().to_string();
    let (file, length) = open_regular(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let npy = npy::Npy::read(&mut reader, &label)?;
    let width = npy.width(&label)?;
    let bytes = npy.count(&label)?.checked_mul(width.bytes() as u64);
    if bytes.and_then(|b| b.checked_add(npy.data)) != Some(length) {
        return Err(Error::data(format!(
            "{label} has {} bytes of data, its shape {:?} of `{}` makes {}",
            length.saturating_sub(npy.data),
            npy.shape,
            npy.descr,
            bytes.map_or("more than 2^64".into(), |b| b.to_string())
        ))
        .help("the file is cut off or was appended to"));
    }
    let extent = rows::extent(&label, &npy.shape, options.prompt)?;
    let numbers = Numbers::new(reader, width, label, npy.data);
    let means = RowStream::means(numbers, &npy.shape, extent);
    let given = Prompt::default();
    Job::new(
        options.header(path, extent, given, None),
        extent,
        means,
        None,
    )?
    .write(out)
}

impl Options {
    /// Refuses a prompt length other than the one in the file.
    fn agree(&self, label: &str, said: u32) -> Result<()> {
        match self.prompt {
            Some(given) if given != said => Err(Error::data(format!(
                "{label} says that the prompt has {said} tokens, --prompt says {given}"
            ))
            .help("leave --prompt out")),
            _ => Ok(()),
        }
    }

    /// A header of what is known; the rest stays unknown.
    fn header(
        &self,
        path: &Path,
        extent: Extent,
        prompt: Prompt,
        column_sums: Option<(Vec<u64>, Vec<f64>)>,
    ) -> Header {
        let mut header = Header::new(self.model.clone().unwrap_or_default(), extent.prompt);
        header.prompt_ids = prompt.ids;
        #[allow(clippy::cast_possible_truncation)] // sums of attention, recorded in f32
        let narrow = |(_, sums): (_, Vec<f64>)| sums.iter().map(|s| *s as f32).collect();
        header.prompt_column_sums = column_sums.map(narrow);
        if let Some(name) = path.file_name() {
            let name = name.to_string_lossy().into_owned();
            header.extra.insert("imported_from".into(), name.into());
        }
        header
    }
}

/// The prompt by flag or by an array `prompt`: a scalar is its length, a vector its token ids.
fn prompt_from(label: &str, named: &Named, options: &Options) -> Result<Prompt> {
    let Some((shape, values)) = &named.prompt else {
        return Ok(Prompt {
            length: options.prompt,
            ids: None,
        });
    };
    let whole = |v: &f64| v.fract().abs() < f64::EPSILON && (0.0..4_294_967_296.0).contains(v);
    if !values.iter().all(whole) {
        return Err(Error::data(format!(
            "{label}: array `prompt` is not made of whole numbers from 0 to 2^32"
        )));
    }
    #[allow(clippy::cast_possible_truncation)] // checked just above
    let ids: Vec<u32> = values.iter().map(|v| *v as u32).collect();
    let (length, ids) = match (shape.as_slice(), ids.first()) {
        ([], Some(&length)) => (length, None),
        _ => (u32::try_from(ids.len()).unwrap_or(u32::MAX), Some(ids)),
    };
    match options.prompt {
        Some(given) if given != length => Err(Error::data(format!(
            "{label}: array `prompt` gives {length} tokens, --prompt gives {given}"
        ))
        .help("a scalar `prompt` is the length, a vector holds the token ids")),
        _ => Ok(Prompt {
            length: Some(length),
            ids,
        }),
    }
}

/// One import: checked rows from somewhere, into one file.
struct Job<'a> {
    header: Header,
    extent: Extent,
    means: RowStream<'a>,
    layers: Option<RowStream<'a>>,
    tokens: Option<Vec<(u32, f32)>>,
    vectors: Vec<Stream<'a>>,
}

impl<'a> Job<'a> {
    fn new(
        mut header: Header,
        extent: Extent,
        means: RowStream<'a>,
        layers: Option<(RowStream<'a>, u32)>,
    ) -> Result<Self> {
        header.planned_rows = Some(extent.rows);
        let layers = match layers {
            Some((stream, count)) => {
                header = header.with_layers(count);
                Some(stream)
            }
            None => None,
        };
        header = header.with_chunks_for(extent.rows);
        header.validate()?;
        Ok(Self {
            header,
            extent,
            means,
            layers,
            tokens: None,
            vectors: Vec::new(),
        })
    }

    /// Adds keys, queries and kept sets.
    fn with_vectors(mut self, arrays: Arrays<'a>) -> Result<Self> {
        self.vectors = arrays.declare(&mut self.header, self.extent)?;
        self.header = self.header.with_chunks_for(self.extent.rows);
        self.header.validate()?;
        Ok(self)
    }

    /// Reads, checks and writes every row; an unfinished file is removed on failure.
    fn write(mut self, out: &Path) -> Result<Extent> {
        let writer = TraceWriter::remade(out, self.header.clone())?;
        let result = self.copy(writer);
        if result.is_err() {
            beside::discard(out);
        }
        result.map(|()| self.extent)
    }

    fn copy(&mut self, mut writer: TraceWriter) -> Result<()> {
        let (mut mean, mut per_layer) = (Vec::new(), Vec::new());
        for stream in &mut self.vectors {
            stream.once(&mut writer)?;
        }
        for t in 0..self.extent.rows {
            self.means.next(t, &mut mean)?;
            writer.push_row(&mean)?;
            if let Some((id, logp)) = self.tokens.as_ref().map(|all| all[t as usize]) {
                writer.push_token(id, logp)?;
            }
            if let Some(stream) = &mut self.layers {
                stream.next(t, &mut per_layer)?;
                half::check_mean(&mean, &per_layer, &|| {
                    format!("{}: row {t}", stream.numbers.label)
                })?;
                writer.push_layers(&per_layer)?;
            }
            for stream in &mut self.vectors {
                stream.row(t, &mut writer)?;
            }
        }
        self.means.numbers.end()?;
        if let Some(stream) = &mut self.layers {
            stream.numbers.end()?;
        }
        for stream in &mut self.vectors {
            stream.end()?;
        }
        writer.finish()
    }
}
