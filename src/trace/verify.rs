//! Reading a trace from end to end and checking all that can be checked without the model.
//!
//! Checksums of every record, weights, sums of mean and per-layer rows, layers averaging to the mean row, once blocks.
//! A replay checks only what it reads; this is the check to run once on a file that came from elsewhere.

use crate::error::Result;
use crate::trace::half;
use crate::trace::reader::TraceReader;
use crate::trace::section::{LAYERS, ROWS};

/// What was found sound.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Verified {
    /// Rows read.
    pub rows: u32,
    /// Chunks read, all sections together.
    pub chunks: u64,
    /// Largest distance of a mean row's sum from 1.
    pub worst_sum_error: f64,
    /// The row it is in.
    pub worst_row: u32,
    /// The file ends before its recorder finished it.
    pub partial: bool,
}

/// Checks everything.
///
/// # Errors
/// Data: the first fault, with file, row and byte.
pub fn verify(reader: &TraceReader) -> Result<Verified> {
    let mut found = Verified {
        rows: reader.rows(),
        chunks: 0,
        worst_sum_error: 0.0,
        worst_row: 0,
        partial: reader.is_partial(),
    };
    means(reader, &mut found)?;
    if reader.header().section(LAYERS).is_some() {
        layers(reader)?;
    }
    for (i, section) in reader.header().sections.iter().enumerate() {
        found.chunks += u64::from(reader.rows().div_ceil(reader.header().chunk_rows));
        if section.bytes_once > 0 && reader.rows() > 0 {
            reader.once(&section.kind)?;
        }
        // The two kinds above have been read; of all others the checksums are checked.
        if ![ROWS, LAYERS].contains(&section.kind.as_str()) {
            reader.for_each_chunk(i, 0..reader.rows(), &mut |_| Ok(()))?;
        }
    }
    Ok(found)
}

fn means(reader: &TraceReader, found: &mut Verified) -> Result<()> {
    reader.for_each_in(0..reader.rows(), &mut |t, row| {
        half::check_sum(row, &|| reader.row_place(ROWS, t))?;
        let error = half::sum(row).abs_diff(half::ONE) as f64 / half::ONE as f64;
        if error > found.worst_sum_error {
            (found.worst_sum_error, found.worst_row) = (error, t);
        }
        Ok(())
    })
}

/// Per-layer rows sum to 1 and average to the mean row; means are read a chunk ahead of them.
fn layers(reader: &TraceReader) -> Result<()> {
    let per_chunk = reader.header().chunk_rows;
    for first in (0..reader.rows()).step_by(per_chunk as usize) {
        let rows = first..reader.rows().min(first + per_chunk);
        let mut means = Vec::new();
        reader.for_each_in(rows.clone(), &mut |_, row| {
            means.push(row.to_vec());
            Ok(())
        })?;
        reader.for_each_layers(rows, &mut |t, all| {
            let mean = &means[(t - first) as usize];
            for (layer, row) in all.chunks_exact(mean.len()).enumerate() {
                let place = || format!("{}, layer {layer}", reader.row_place(LAYERS, t));
                half::check_sum(row, &place)?;
            }
            half::check_mean(mean, all, &|| reader.row_place(LAYERS, t))
        })?;
    }
    Ok(())
}
