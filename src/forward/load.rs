//! From a checkpoint to a model: every weight found, checked by name and shape, then read.
//!
//! All checks come before the first byte of a weight is read, so a model that cannot run is refused in milliseconds.

use std::path::Path;

use super::checkpoint::Checkpoint;
use super::matrix::{Matrix, row_bytes};
use super::names::Role;
use super::rope::Rotation;
use super::shape::{Scaling, Shape};
use crate::error::{Error, Result};
use crate::simd::dense::{Dense, Format};

/// Weights of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    pub(super) q: Matrix,
    pub(super) k: Matrix,
    pub(super) v: Matrix,
    /// Of queries, keys and values.
    pub(super) biases: Option<[Vec<f32>; 3]>,
    pub(super) o: Matrix,
    pub(super) forward_norm: Vec<f32>,
    pub(super) gate: Matrix,
    pub(super) up: Matrix,
    pub(super) down: Matrix,
}

/// A model in memory, ready to run.
#[derive(Debug)]
pub struct Model {
    pub(super) shape: Shape,
    pub(super) dense: Dense,
    pub(super) rotation: Rotation,
    pub(super) embedding: Matrix,
    pub(super) output_norm: Vec<f32>,
    /// Nothing where the embedding is used.
    pub(super) output: Option<Matrix>,
    pub(super) layers: Vec<Layer>,
}

impl Model {
    /// Reads all weights, after every one of them was found and has its shape.
    ///
    /// # Errors
    /// Data: a tensor is missing, of another shape or in a format that cannot be computed with; a file is cut off.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self> {
        let from = Loader(checkpoint);
        from.check()?;
        let mut shape = checkpoint.shape.clone();
        if checkpoint.find(Role::RopeDivisors, 0).is_some() {
            shape.rope.scaling = Scaling::Divisors(from.vector(Role::RopeDivisors, 0)?);
            shape = shape.check(&checkpoint.label)?;
        }
        let output = from.has_output().then(|| from.matrix(Role::Output, 0));
        Ok(Self {
            rotation: Rotation::new(&shape.rope, shape.head_dim),
            dense: *Dense::best(),
            embedding: from.matrix(Role::Embedding, 0)?,
            output_norm: from.vector(Role::OutputNorm, 0)?,
            output: output.transpose()?,
            layers: (0..shape.layers)
                .map(|l| from.layer(l))
                .collect::<Result<_>>()?,
            shape,
        })
    }

    /// Opens and loads.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`Model::load`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::load(&Checkpoint::open(path)?)
    }

    /// The numbers that decide every shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The same model on another path of the inner loops, for holding paths against each other.
    #[must_use]
    pub fn on(mut self, dense: Dense) -> Self {
        self.dense = dense;
        self
    }
}

/// A weight that must be there.
struct Wanted {
    role: Role,
    layer: usize,
    /// Elements a dimension, the slowest first.
    dims: Vec<usize>,
}

/// Reads weights by role.
struct Loader<'a>(&'a Checkpoint);

impl Loader<'_> {
    fn has_output(&self) -> bool {
        match self.0.tied {
            Some(tied) => !tied,
            None => self.0.find(Role::Output, 0).is_some(),
        }
    }

    fn has_biases(&self) -> bool {
        self.0.biases || self.0.find(Role::QueryBias, 0).is_some()
    }

    /// Everything the model needs, in the order in which it is missed.
    fn wanted(&self) -> Vec<Wanted> {
        let s = &self.0.shape;
        let once = |role, dims: &[usize]| Wanted {
            role,
            layer: 0,
            dims: dims.to_vec(),
        };
        let mut all = vec![
            once(Role::Embedding, &[s.vocab, s.hidden]),
            once(Role::OutputNorm, &[s.hidden]),
        ];
        if self.has_output() {
            all.push(once(Role::Output, &[s.vocab, s.hidden]));
        }
        if self.0.find(Role::RopeDivisors, 0).is_some() {
            all.push(once(Role::RopeDivisors, &[s.head_dim / 2]));
        }
        let roles = roles(s, self.has_biases());
        for layer in 0..s.layers {
            all.extend(roles.iter().map(|(role, dims)| Wanted {
                role: *role,
                layer,
                dims: dims.clone(),
            }));
        }
        all
    }

    fn check(&self) -> Result<()> {
        self.wanted().iter().try_for_each(|w| self.check_one(w))
    }

    fn check_one(&self, wanted: &Wanted) -> Result<()> {
        let label = &self.0.label;
        let name = self.0.names.of(wanted.role, wanted.layer);
        let stored = self
            .0
            .tensors
            .get(&name)
            .ok_or_else(|| missing(label, &name))?;
        let wrong = |why: String| Error::data(format!("{label}: tensor `{name}` {why}"));
        let dims: Vec<u64> = wanted.dims.iter().map(|d| *d as u64).collect();
        if stored.dims != dims {
            return Err(wrong(format!(
                "is {}, the model's shape gives {}",
                times(&stored.dims),
                times(&dims)
            )));
        }
        let format = stored.format.clone().map_err(|other| {
            wrong(format!(
                "is of format {other}, which cannot be computed with"
            ))
            .help(format!(
                "supported: {}",
                Format::ALL.map(Format::name).join(", ")
            ))
        })?;
        let (k, rows) = wanted
            .dims
            .split_last()
            .map_or((0, 1), |(k, r)| (*k, r.iter().product()));
        let row = if wanted.dims.len() == 2 {
            row_bytes(format, k)
        } else {
            vector_bytes(format, k)
        };
        let bytes = row.and_then(|r| r.checked_mul(rows));
        if bytes.map(|b| b as u64) == Some(stored.bytes) {
            Ok(())
        } else {
            Err(wrong(format!(
                "has rows of {k} numbers, which {} cannot hold",
                format.name()
            )))
        }
    }

    fn bytes(&self, role: Role, layer: usize) -> Result<(Format, Vec<usize>, Vec<u8>)> {
        let name = self.0.names.of(role, layer);
        let stored = self
            .0
            .tensors
            .get(&name)
            .ok_or_else(|| missing(&self.0.label, &name))?;
        let bytes = stored.read(&name)?;
        let format = stored.format.clone().map_err(Error::data)?;
        let dims = stored
            .dims
            .iter()
            .map(|d| usize::try_from(*d).unwrap_or(usize::MAX));
        Ok((format, dims.collect(), bytes))
    }

    fn matrix(&self, role: Role, layer: usize) -> Result<Matrix> {
        let (format, dims, bytes) = self.bytes(role, layer)?;
        let (rows, k) = (dims.first().copied(), dims.get(1).copied());
        Matrix::new(format, rows.unwrap_or(0), k.unwrap_or(0), bytes)
            .ok_or_else(|| Error::internal("a matrix was checked and does not fit its shape"))
    }

    fn vector(&self, role: Role, layer: usize) -> Result<Vec<f32>> {
        let (format, dims, bytes) = self.bytes(role, layer)?;
        // Blocks of 16 halves are widened whole, so there is room for a last one.
        let numbers = dims.first().copied().unwrap_or(0);
        let mut out = vec![0.0; numbers.next_multiple_of(16)];
        Dense::scalar().widen(format, &padded(bytes, format), &mut out);
        out.truncate(numbers);
        Ok(out)
    }

    fn layer(&self, l: usize) -> Result<Layer> {
        let bias = |role| self.vector(role, l);
        let biases = if self.has_biases() {
            Some([
                bias(Role::QueryBias)?,
                bias(Role::KeyBias)?,
                bias(Role::ValueBias)?,
            ])
        } else {
            None
        };
        Ok(Layer {
            attention_norm: self.vector(Role::AttentionNorm, l)?,
            q: self.matrix(Role::Query, l)?,
            k: self.matrix(Role::Key, l)?,
            v: self.matrix(Role::Value, l)?,
            biases,
            o: self.matrix(Role::AttentionOutput, l)?,
            forward_norm: self.vector(Role::ForwardNorm, l)?,
            gate: self.matrix(Role::Gate, l)?,
            up: self.matrix(Role::Up, l)?,
            down: self.matrix(Role::Down, l)?,
        })
    }
}

/// Weights of one layer with their shapes.
fn roles(s: &Shape, biases: bool) -> Vec<(Role, Vec<usize>)> {
    let mut all = vec![
        (Role::AttentionNorm, vec![s.hidden]),
        (Role::Query, vec![s.q_width(), s.hidden]),
        (Role::Key, vec![s.kv_width(), s.hidden]),
        (Role::Value, vec![s.kv_width(), s.hidden]),
        (Role::AttentionOutput, vec![s.hidden, s.q_width()]),
        (Role::ForwardNorm, vec![s.hidden]),
        (Role::Gate, vec![s.ff, s.hidden]),
        (Role::Up, vec![s.ff, s.hidden]),
        (Role::Down, vec![s.hidden, s.ff]),
    ];
    if biases {
        all.push((Role::QueryBias, vec![s.q_width()]));
        all.push((Role::KeyBias, vec![s.kv_width()]));
        all.push((Role::ValueBias, vec![s.kv_width()]));
    }
    all
}

/// Bytes of so many numbers; vectors are of unpacked formats, or whole blocks.
fn vector_bytes(format: Format, numbers: usize) -> Option<usize> {
    let (block, bytes) = format.block();
    numbers
        .is_multiple_of(block)
        .then(|| numbers / block * bytes)
}

/// Bytes filled up to whole groups of 16 numbers.
fn padded(mut bytes: Vec<u8>, format: Format) -> Vec<u8> {
    if format.block().0 == 1 {
        bytes.resize(bytes.len().next_multiple_of(16 * format.block().1), 0);
    }
    bytes
}

/// A tensor that is not there.
pub(super) fn missing(label: &str, name: &str) -> Error {
    Error::data(format!("{label}: tensor `{name}` is missing"))
        .help("the file is of another architecture than it says, or is one part of several")
}

/// Dimensions as people write them: `49152 x 576`.
fn times(dims: &[u64]) -> String {
    let words: Vec<String> = dims.iter().map(u64::to_string).collect();
    words.join(" x ")
}
