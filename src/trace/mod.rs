//! Recorded attention: the .kvt format, its reader and writer, import and export.
//!
//! A trace is one sequence: prompt of P tokens, then decode rows; row `t` holds the attention weights (mean over layers
//! and heads) of step `t` on positions `0..=P+t` as binary16, own position last. `traces/FORMAT.md` is normative.
//!
//! Rows travel as binary16 bits (`&[u16]`) and are widened where they are used: half the memory traffic of `f32`, and
//! what was recorded is what is read, to the bit. A row is never renormalised. A trace is read in chunks ([`reader`]),
//! never mapped and never whole, so memory does not grow with length.
//!
//! Ignored here: what rows mean for tiers (`score`, `policy`), and single heads (a recording of every head is 9 to 64
//! times the size; [`section`] leaves room for what policies need of them). Nothing depends on time or order of calls.

pub mod beside;
mod chunk;
mod embedded;
pub mod export;
pub mod half;
pub mod header;
pub mod import;
mod layout;
mod preamble;
pub mod progress;
pub mod reader;
mod scan;
pub mod section;
pub mod set;
mod source;
pub mod stats;
pub mod synth;
mod vectors;
pub mod verify;
pub mod writer;

pub use embedded::{default_trace, embedded, find};
pub use header::{Header, Sampler};
pub use reader::TraceReader;
pub use section::Section;
pub use vectors::Vectors;
pub use writer::TraceWriter;

use crate::error::Result;

/// Anything that yields recorded rows in order: a .kvt file, the embedded default, rows made by a test.
pub trait Rows {
    /// Prompt tokens P.
    fn prompt(&self) -> u32;
    /// Recorded decode rows.
    fn rows(&self) -> u32;
    /// Attention each prompt position received during prefill, where recorded.
    fn column_sums(&self) -> Option<&[f32]>;
    /// Where the law of these rows is remembered, if anywhere.
    fn memo(&self) -> Option<&synth::Memo> {
        None
    }
    /// First row that was drawn and not recorded, if there is one.
    fn synthetic_from(&self) -> Option<u32> {
        None
    }
    /// Calls `f(t, weights)` for rows `0..limit` in order; `weights` are the binary16 bits of row `t`, P+t+1 of them.
    ///
    /// The slice is lent from a buffer that is reused: no allocation per row.
    ///
    /// # Errors
    /// Damage found on the way, or whatever `f` returns.
    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()>;

    /// Name of the recording whose rows are promised to sum to 1, so that one that does not is damage; none for others.
    fn recorded_as(&self) -> Option<&str> {
        None
    }

    /// Layers with rows of their own; 0 without.
    fn layers(&self) -> u32 {
        0
    }

    /// As [`Rows::for_each`] for per-layer rows: L rows of P+t+1 weights one after another, layer 0 first.
    ///
    /// # Errors
    /// As [`Rows::for_each`].
    fn each_layers(
        &self,
        _limit: u32,
        _f: &mut dyn FnMut(u32, &[u16]) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }

    /// Latest prompt positions whose queries are recorded, if keys and queries are.
    fn prompt_queries(&self) -> Option<u32> {
        None
    }

    /// Keys and queries of the prompt and the rows `0..limit`, where recorded.
    ///
    /// # Errors
    /// Damage; usage if they do not fit into memory.
    fn vectors(&self, _limit: u32) -> Result<Option<Vectors>> {
        Ok(None)
    }
}
