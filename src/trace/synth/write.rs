//! Writes drawn rows as a trace.
//!
//! A continuation carries the recorded rows over to the bit and appends drawn ones; its header says from which step on
//! (`synthetic_from`), with which seed, and from what. Optional sections stay behind: nobody knows the next token.

use super::{Drawer, Law, Shape};
use crate::error::{Error, Result};
use crate::trace::{Header, Section, TraceReader, TraceWriter, beside};
use serde_json::{Value, json};
use std::path::Path;

/// Longest trace written (tokens): the format's own limit is higher, but its file would have 256 TiB.
const LONGEST: u32 = 1 << 18;

/// Writes `rows` rows of a shape after a prompt of `prompt` tokens.
///
/// # Errors
/// Usage: lengths or shares that cannot be, or a path that cannot be written.
pub fn fresh(shape: &Shape, prompt: u32, rows: u32, seed: u64, out: &Path) -> Result<()> {
    check_length(prompt, rows)?;
    let law = shape.law(prompt, seed)?;
    let mut header = Header::new("synthetic", prompt).with_chunks_for(rows);
    header.averaging = "drawn from a law, not recorded".into();
    note(&mut header, 0, seed, &json!(shape));
    write(header, rows, out, |writer| {
        draw(&law, seed, 0, rows, writer)
    })
}

/// Writes a recorded trace and goes on to `steps` rows in all; returns how many were recorded.
///
/// # Errors
/// Usage: no more steps than recorded, a trace too short to fit, a path that cannot be written. Data: damaged rows.
pub fn continued(reader: &TraceReader, steps: u32, seed: u64, out: &Path) -> Result<u32> {
    let recorded = reader.rows();
    if steps <= recorded {
        return Err(Error::usage(format!(
            "{} has {recorded} rows already, {steps} are asked for",
            reader.label()
        ))
        .help("--steps counts all rows of the new trace, recorded ones included"));
    }
    check_length(reader.prompt(), steps)?;
    let law = Law::fit(reader, recorded)?;
    let mut header = reader.header().clone();
    header.sections = vec![Section::rows()];
    header = header.with_chunks_for(steps);
    let from = crate::trace::Rows::synthetic_from(reader).unwrap_or(recorded);
    note(&mut header, from, seed, &json!(reader.name()));
    write(header, steps, out, |writer| {
        reader.for_each_in(0..recorded, &mut |_, row| writer.push_row(row))?;
        draw(&law, seed, recorded, steps, writer)
    })?;
    Ok(recorded)
}

fn check_length(prompt: u32, rows: u32) -> Result<()> {
    if rows == 0 {
        return Err(Error::usage("a trace of 0 rows says nothing").help("ask for at least 1 row"));
    }
    if prompt.saturating_add(rows) > LONGEST {
        return Err(Error::usage(format!(
            "prompt {prompt} and {rows} rows are together over the limit of {LONGEST} tokens for synthetic traces"
        ))
        .help("a row weighs 2 bytes a token: 131,072 rows are 17 GB"));
    }
    Ok(())
}

fn note(header: &mut Header, from: u32, seed: u64, like: &Value) {
    header.extra.insert("synthetic_from".into(), json!(from));
    header
        .extra
        .insert("synthetic".into(), json!({ "seed": seed, "like": like }));
}

fn write(
    mut header: Header,
    rows: u32,
    out: &Path,
    fill: impl FnOnce(&mut TraceWriter) -> Result<()>,
) -> Result<()> {
    header.planned_rows = Some(rows);
    let mut writer = TraceWriter::remade(out, header)?;
    let result = fill(&mut writer).and_then(|()| writer.finish());
    if result.is_err() {
        beside::discard(out);
    }
    result
}

fn draw(law: &Law, seed: u64, from: u32, to: u32, writer: &mut TraceWriter) -> Result<()> {
    let mut drawer = Drawer::new(law, seed, from);
    let mut row = Vec::new();
    for _ in from..to {
        drawer.next_row(&mut row);
        writer.push_row(&row)?;
    }
    Ok(())
}
