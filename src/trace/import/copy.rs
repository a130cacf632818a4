//! Copying a .kvt into a fresh one: a partial trace becomes a finished one, sections are carried whatever their kind.

use super::{Extent, Options};
use crate::error::Result;
use crate::trace::beside;
use crate::trace::reader::TraceReader;
use crate::trace::verify;
use crate::trace::writer::TraceWriter;
use std::path::Path;

/// Copies every whole row, after checking all of them.
pub(super) fn copy(from: &Path, options: &Options, out: &Path) -> Result<Extent> {
    let reader = TraceReader::open(from)?;
    verify::verify(&reader)?;
    options.agree(reader.label(), reader.prompt())?;
    let mut header = reader.header().clone();
    if let Some(model) = &options.model {
        header.model.clone_from(model);
    }
    header.planned_rows = Some(reader.rows());
    header.forced.retain(|t| *t < reader.rows());
    let writer = TraceWriter::remade(out, header)?;
    let result = fill(&reader, writer);
    if result.is_err() {
        beside::discard(out);
    }
    result.map(|()| Extent {
        prompt: reader.prompt(),
        rows: reader.rows(),
    })
}

fn fill(reader: &TraceReader, mut writer: TraceWriter) -> Result<()> {
    let sections = &reader.header().sections;
    for section in sections.iter().filter(|s| s.bytes_once > 0) {
        writer.put_once(&section.kind, &reader.once(&section.kind)?)?;
    }
    let per_chunk = reader.header().chunk_rows;
    for first in (0..reader.rows()).step_by(per_chunk as usize) {
        let rows = first..reader.rows().min(first + per_chunk);
        let mut group = Vec::new();
        for section in 0..sections.len() {
            reader.for_each_chunk(section, rows.clone(), &mut |chunk| {
                group.push(chunk.bytes.to_vec());
                Ok(())
            })?;
        }
        let mut at = vec![0; sections.len()];
        for t in rows {
            for (section, law) in sections.iter().enumerate() {
                let bytes = law.row_bytes(reader.prompt(), t).unwrap_or(0);
                let row = at[section]..at[section] + bytes;
                at[section] += bytes;
                writer.push_bytes(section, &group[section][row])?;
            }
        }
    }
    writer.finish()
}
