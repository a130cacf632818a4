//! The JSON header of a trace: what was recorded, from which model, and which sections follow.
//!
//! JSON and not fixed fields, because provenance grows (a new sampler, another averaging) while the rows must stay
//! readable: unknown keys are ignored, and a writer's own facts go under `extra`, which is carried along. Everything
//! that decides *where bytes lie* is checked here once ([`Header::validate`]), so that the layout code works on numbers
//! that cannot contradict each other. Numbers of rows are not in the header: a recorder does not know them when it
//! starts. Lengths are in tokens.

use crate::error::{Error, Result};
use crate::trace::section::Section;
use serde::{Deserialize, Serialize};

/// Largest prompt or number of rows the format admits, in tokens.
pub const MAX_TOKENS: u32 = 1 << 24;

/// Largest number of rows in one chunk.
pub const MAX_CHUNK_ROWS: u32 = 4096;

/// How tokens were drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampler {
    /// Softmax temperature; 0 is greedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus share kept, 0..=1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed of the sampler's stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What a trace says about itself. Absent means unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Model, as its publisher names it.
    #[serde(default)]
    pub model: String,
    /// Architecture family: `llama`, `qwen2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// SHA-256 of the weights file, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// Quantisation of the weights: `Q4_1`, `bf16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation: Option<String>,
    /// Licence of the model, as far as its file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Transformer layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<u32>,
    /// Query heads a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// KV heads a layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u32>,
    /// Entries of one key or value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<u32>,
    /// Prompt tokens P.
    pub prompt_length: u32,
    /// Token ids of the prompt, P of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_ids: Option<Vec<u32>>,
    /// Attention each prompt position received during prefill, summed over the prompt's rows, P of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_column_sums: Option<Vec<f32>>,
    /// What a row is the mean of: `mean over layers and query heads`.
    #[serde(default)]
    pub averaging: String,
    /// How tokens were drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,
    /// Decode steps whose token was forced and not drawn, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<u32>,
    /// Rows the recorder set out to write, where it knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_rows: Option<u32>,
    /// Rows of a full chunk; only the last chunk may hold fewer.
    pub chunk_rows: u32,
    /// What each chunk group holds, in order; the first is always `rows`.
    pub sections: Vec<Section>,
    /// Program and version that wrote the file.
    #[serde(default)]
    pub recorder: String,
    /// Facts the format does not name, carried along.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Header {
    /// A header with mean rows only and everything else unknown.
    pub fn new(model: impl Into<String>, prompt_length: u32) -> Self {
        Self {
            model: model.into(),
            architecture: None,
            weights_sha256: None,
            quantisation: None,
            licence: None,
            layers: None,
            heads: None,
            kv_heads: None,
            head_dim: None,
            prompt_length,
            prompt_ids: None,
            prompt_column_sums: None,
            averaging: "mean over layers and query heads".into(),
            sampler: None,
            forced: Vec::new(),
            planned_rows: None,
            chunk_rows: 32,
            sections: vec![Section::rows()],
            recorder: concat!("kvplan ", env!("CARGO_PKG_VERSION")).into(),
            extra: serde_json::Map::new(),
        }
    }

    /// Adds per-layer rows; chunks become shorter, so that one stays in tens of MB at long contexts.
    #[must_use]
    pub fn with_layers(mut self, layers: u32) -> Self {
        self.layers = Some(layers);
        self.sections.push(Section::layers(layers));
        self.chunk_rows = 8;
        self
    }

    /// Adds generated token ids and log-probabilities.
    #[must_use]
    pub fn with_tokens(mut self) -> Self {
        self.sections.push(Section::tokens());
        self
    }

    /// Shortens chunks so that none exceeds 32 MiB in a trace of this many rows.
    #[must_use]
    pub fn with_chunks_for(mut self, rows: u32) -> Self {
        let last = rows.saturating_sub(1);
        let bytes = |s: &Section| s.row_bytes(self.prompt_length, last).unwrap_or(usize::MAX);
        let widest = self.sections.iter().map(bytes).max().unwrap_or(0);
        let fitting = (32 << 20) / widest.max(1);
        self.chunk_rows = u32::try_from(fitting.clamp(1, 32)).unwrap_or(1);
        self
    }

    /// Index of a section by kind.
    pub fn section(&self, kind: &str) -> Option<usize> {
        self.sections.iter().position(|s| s.kind == kind)
    }

    /// Refuses a header whose fields contradict each other.
    ///
    /// # Errors
    /// Data, naming the field.
    pub fn validate(&self) -> Result<()> {
        if self.prompt_length > MAX_TOKENS {
            return Err(contradiction(format!(
                "prompt_length {} is over the limit of {MAX_TOKENS} tokens",
                self.prompt_length
            )));
        }
        if self.chunk_rows == 0 || self.chunk_rows > MAX_CHUNK_ROWS {
            return Err(contradiction(format!(
                "chunk_rows is {}, allowed are 1 to {MAX_CHUNK_ROWS}",
                self.chunk_rows
            )));
        }
        self.check_prompt("prompt_ids", self.prompt_ids.as_ref().map(Vec::len))?;
        let sums = self.prompt_column_sums.as_deref();
        self.check_prompt("prompt_column_sums", sums.map(<[f32]>::len))?;
        if let Some(at) = sums.and_then(|s| s.iter().position(|v| !v.is_finite() || *v < 0.0)) {
            return Err(contradiction(format!(
                "prompt_column_sums[{at}] is not a finite number of at least 0"
            )));
        }
        if !self.forced.is_sorted() {
            return Err(contradiction("forced is not in ascending order"));
        }
        self.check_sections()
    }

    fn check_prompt(&self, field: &str, length: Option<usize>) -> Result<()> {
        match length {
            Some(n) if n != self.prompt_length as usize => Err(contradiction(format!(
                "{field} has {n} entries, prompt_length is {}",
                self.prompt_length
            ))),
            _ => Ok(()),
        }
    }

    fn check_sections(&self) -> Result<()> {
        if self.sections.first() != Some(&Section::rows()) {
            return Err(contradiction("the first section is not `rows`"));
        }
        for (i, section) in self.sections.iter().enumerate() {
            if self.sections[..i].iter().any(|s| s.kind == section.kind) {
                return Err(contradiction(format!(
                    "section `{}` appears twice",
                    section.kind
                )));
            }
            section.validate(self).map_err(contradiction)?;
        }
        Ok(())
    }
}

fn contradiction(what: impl std::fmt::Display) -> Error {
    Error::data(format!("the header contradicts itself: {what}"))
}
