//! Passes for policies that have a placement a layer or a KV head.
//!
//! Layers: recorded rows of each layer, averaged over its heads. KV heads: rows computed from recorded keys and queries,
//! the softmax over *all* positions averaged over the query heads of the group, rounded to whole 2^-24 as recorded rows
//! are (their sums are then exact). The mass of a lane is that of its own full row on its own placement, so the timeline's
//! mass is the mean over lanes and adds up to the mean of the lanes' row sums.
//!
//! Memory: one row for layers; for KV heads all keys and queries (recorded in binary16, held in binary32).

use super::pass::check_sum;
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::policy::{Card, Keys, Lanes, Policy};
use crate::simd::Kernels;
use crate::timeline::Timeline;
use crate::trace::{Rows, Vectors};

/// Refuses a policy that needs what the trace does not carry.
pub(super) fn check(rows: &dyn Rows, card: &Card) -> Result<()> {
    let enough = match (card.needs.prompt_queries, card.lanes) {
        (Some(n), _) => rows
            .prompt_queries()
            .is_some_and(|w| w >= n.min(rows.prompt())),
        (None, Lanes::KvHead) => false,
        (None, _) => !card.needs.layers || rows.layers() > 0,
    };
    if enough {
        return Ok(());
    }
    let record = "record or import a trace that has them";
    Err(Error::usage(format!(
        "policy `{}` needs {}, which the trace does not carry",
        card.name,
        card.needs.words()
    ))
    .help(match card.stand_in {
        Some(name) => format!("ask for the approximation `{name}`, or {record}"),
        None => record.into(),
    }))
}

/// One placement a layer, rows as recorded.
pub(super) fn layers(
    rows: &dyn Rows,
    limit: u32,
    policies: Vec<&mut dyn Policy>,
) -> Result<Vec<Timeline>> {
    let mut sequences = begin(rows, rows.layers() as usize, policies);
    let mut buffer = vec![0f32; rows.prompt() as usize + limit as usize];
    rows.each_layers(limit, &mut |step, bits| {
        let length = (rows.prompt() + step + 1) as usize;
        if bits.len() != length * rows.layers() as usize {
            return Err(Error::data(format!(
                "row {step} has {} weights in {} layers, expected {length} in each",
                bits.len(),
                rows.layers()
            )));
        }
        for sequence in &mut sequences {
            sequence.begin(step);
        }
        for (lane, bits) in bits.chunks_exact(length).enumerate() {
            let total = Kernels::best().widen(bits, &mut buffer);
            check_sum(rows, total, bits, &|| format!("row {step}, layer {lane}"))?;
            for sequence in &mut sequences {
                sequence.lanes[lane].add_mass(0, &buffer[..length]);
                sequence.row(lane, &buffer[..length], total, None);
            }
        }
        sequences.iter_mut().try_for_each(|s| s.end(step, &[]))
    })?;
    Ok(sequences.into_iter().map(|s| s.finish(limit)).collect())
}

/// One placement a KV head, rows computed from keys and queries.
pub(super) fn heads(
    rows: &dyn Rows,
    limit: u32,
    policies: Vec<&mut dyn Policy>,
) -> Result<Vec<Timeline>> {
    let vectors = rows.vectors(limit)?.ok_or_else(|| {
        Error::internal("keys and queries were announced and are not in the trace")
    })?;
    let mut sequences = begin(rows, vectors.lanes(), policies);
    let everything: Vec<u32> = (0..rows.prompt() + limit).collect();
    for step in 0..limit {
        let length = rows.prompt() + step + 1;
        for sequence in &mut sequences {
            sequence.begin(step);
        }
        for lane in 0..vectors.lanes() {
            let keys = keys_of(&vectors, lane, length);
            let row = whole_row(&keys, &everything[..length as usize]);
            let total = row.iter().map(|w| f64::from(*w)).sum();
            for sequence in &mut sequences {
                sequence.lanes[lane].add_mass(0, &row);
                sequence.row(lane, &row, total, Some(keys));
            }
        }
        sequences.iter_mut().try_for_each(|s| s.end(step, &[]))?;
    }
    Ok(sequences.into_iter().map(|s| s.finish(limit)).collect())
}

fn begin<'p>(
    rows: &dyn Rows,
    lanes: usize,
    policies: Vec<&'p mut dyn Policy>,
) -> Vec<Sequence<&'p mut dyn Policy>> {
    policies
        .into_iter()
        .map(|p| Sequence::new(p, rows.prompt(), rows.column_sums(), lanes, None))
        .collect()
}

/// Keys and queries of a lane when the sequence is `length` long.
fn keys_of(vectors: &Vectors, lane: usize, length: u32) -> Keys<'_> {
    Keys {
        head_dim: vectors.head_dim,
        group: vectors.group,
        keys: vectors.keys(lane, length),
        first_query: vectors.first_query,
        queries: vectors.queries(lane, length),
    }
}

/// Attention of the latest query over all positions, mean over the group, in whole 2^-24.
fn whole_row(keys: &Keys<'_>, positions: &[u32]) -> Vec<f32> {
    let unit = f64::from(1 << 24);
    let sum = keys.attention(keys.length() - 1, positions);
    #[allow(clippy::cast_possible_truncation)]
    // whole multiples of 2^-24 up to 1 are binary32 numbers
    let round = |w: f64| ((w / keys.group as f64 * unit).round() / unit) as f32;
    sum.into_iter().map(round).collect()
}
