//! Recorded attention: the .kvt format, its reader and writer, import and export.
//!
//! A trace is one sequence: prompt of P tokens, then decode rows; row `t` holds the attention weights (mean over layers
//! and heads) of step `t` on positions `0..=P+t` as binary16, own position last. `traces/FORMAT.md` is normative.

use crate::error::Result;

/// Anything that yields recorded rows in order: a .kvt file, the embedded default, rows made by a test.
pub trait Rows {
    /// Prompt tokens P.
    fn prompt(&self) -> u32;
    /// Recorded decode rows.
    fn rows(&self) -> u32;
    /// Attention each prompt position received during prefill, where recorded.
    fn column_sums(&self) -> Option<&[f32]>;
    /// Calls `f(t, weights)` for rows `0..limit` in order; `weights` are the binary16 bits of row `t`, P+t+1 of them.
    ///
    /// # Errors
    /// Damage found on the way, or whatever `f` returns.
    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()>;
}
