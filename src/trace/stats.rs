//! Where the attention mass of a trace lies: first positions, rest of the prompt, recent tokens, the middle.
//!
//! Four groups that share out every row: *sinks*, the first 4 positions of the sequence; *prompt*, its other positions;
//! *recent*, the last W generated tokens, own position included; *middle*, the generated tokens before those. Each row
//! counts by its share of its own sum, and rows count alike. Exact integer sums; W in tokens.

use crate::error::Result;
use crate::trace::Rows;
use crate::trace::half;

/// Positions counted as sinks.
pub const SINKS: usize = 4;

/// Mean share of the mass, over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MassShares {
    /// First 4 positions of the sequence.
    pub sinks: f64,
    /// Rest of the prompt.
    pub prompt: f64,
    /// Last W generated tokens.
    pub recent: f64,
    /// Generated tokens before those.
    pub middle: f64,
}

/// Mean shares over rows `from..`, with `window` recent tokens; nothing if there is no such row.
///
/// # Errors
/// Damage found on the way.
pub fn mass_shares(trace: &dyn Rows, window: u32, from: u32) -> Result<Option<MassShares>> {
    let prompt = trace.prompt() as usize;
    let mut total = [0.0; 4];
    let mut count = 0u32;
    trace.for_each(trace.rows(), &mut |t, row| {
        if t < from {
            return Ok(());
        }
        let sinks = SINKS.min(prompt);
        let recent = row.len().saturating_sub(window as usize).max(prompt);
        let groups = [
            &row[..sinks],
            &row[sinks..prompt],
            &row[recent..],
            &row[prompt..recent],
        ];
        let all = half::sum(row) as f64;
        if all > 0.0 {
            for (sum, group) in total.iter_mut().zip(groups) {
                *sum += half::sum(group) as f64 / all;
            }
        }
        count += 1;
        Ok(())
    })?;
    let [sinks, prompt, recent, middle] = total.map(|s| s / f64::from(count));
    Ok((count > 0).then_some(MassShares {
        sinks,
        prompt,
        recent,
        middle,
    }))
}
