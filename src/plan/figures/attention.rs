//! What a recording attended to, and in which tier each of those tokens lay.
//!
//! Rows and positions are put into bins: a bin holds the mean weight of its entries, and the tier in which most of its tokens
//! lay in its middle row. The placement is that of the replay, decision by decision; policies with several lanes are shown by
//! their first. Only recorded rows are shown.

use super::Words;
use crate::error::{Error, Result};
use crate::plan::recordings::Recordings;
use crate::replay::Decisions;
use crate::scenario::Scenario;
use crate::simd::Kernels;
use crate::units::text::group;

/// Bins across (positions).
pub const ACROSS: usize = 72;

/// Bins downwards (rows).
pub const DOWN: usize = 54;

/// A bin that has entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Mean weight of an entry.
    pub weight: f64,
    /// Tier of most of its tokens, 0 to 3.
    pub tier: usize,
}

/// The map.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Its words.
    pub words: Words,
    /// Prompt tokens.
    pub prompt: u32,
    /// Rows shown.
    pub rows: u32,
    /// Bins, row by row; none over the diagonal.
    pub bins: Vec<Vec<Option<Bin>>>,
}

/// The map of the scenario's policy on its first recording.
///
/// # Errors
/// Usage, without a recording; as a replay.
pub fn attention(base: &Scenario) -> Result<Attention> {
    let readers = Recordings::open(&base.trace)?;
    let Some(reader) = readers.readers().first() else {
        return Err(Error::usage("a map of attention needs a recording")
            .help("leave --trace out, or name one of `kvplan list traces`"));
    };
    let (decisions, _) = crate::plan::decisions(base)?;
    let (prompt, rows) = (decisions.prompt, decisions.rows);
    let mut sums = Sums::new(prompt, rows);
    reader.for_each_in(0..rows, &mut |t, weights| {
        sums.add(t, weights);
        Ok(())
    })?;
    let tiers = (0..DOWN).map(|y| tiers(&decisions, middle(y, rows)));
    let bins = tiers
        .enumerate()
        .map(|(y, tiers)| sums.row(y, &tiers))
        .collect();
    Ok(Attention {
        words: Words {
            title: "What is attended to, and where it lies".into(),
            subtitle: format!(
                "{} ({} prompt tokens, {} steps of {})",
                reader.name(),
                group(&prompt.to_string()),
                group(&rows.to_string()),
                reader.header().model
            ),
            caption: format!(
                "{}. Darker: more attention a token, mean over layers, heads and the bin, by powers of ten. Colour: the tier of most \
                 tokens of a bin. Dashed: the end of the prompt. n = 1 recording, of a small model; the weights are those of its full cache.",
                base.policy
            ),
        },
        prompt,
        rows,
        bins,
    })
}

/// The row in the middle of a bin.
fn middle(y: usize, rows: u32) -> u32 {
    let rows = u64::from(rows);
    let at = rows * (2 * y as u64 + 1) / (2 * DOWN as u64);
    u32::try_from(at.min(rows.saturating_sub(1))).unwrap_or(0)
}

/// The bin of one of `of` places.
fn bin(at: u64, of: u64, bins: usize) -> usize {
    usize::try_from(at * bins as u64 / of.max(1)).map_or(bins - 1, |b| b.min(bins - 1))
}

/// Weights summed by bin.
struct Sums {
    prompt: u32,
    rows: u32,
    sum: Vec<[(f64, u64); ACROSS]>,
    row: Vec<f32>,
}

impl Sums {
    fn new(prompt: u32, rows: u32) -> Self {
        Self {
            prompt,
            rows,
            sum: vec![[(0.0, 0); ACROSS]; DOWN],
            row: Vec::new(),
        }
    }

    fn positions(&self) -> u64 {
        u64::from(self.prompt) + u64::from(self.rows)
    }

    fn add(&mut self, t: u32, weights: &[u16]) {
        self.row.resize(weights.len(), 0.0);
        Kernels::scalar().widen(weights, &mut self.row);
        let y = bin(u64::from(t), u64::from(self.rows), DOWN);
        let all = self.positions();
        for (p, w) in self.row.iter().enumerate() {
            let (sum, n) = &mut self.sum[y][bin(p as u64, all, ACROSS)];
            *sum += f64::from(*w);
            *n += 1;
        }
    }

    /// The bins of a row; `tiers` holds the tier of every position of its middle row.
    fn row(&self, y: usize, tiers: &[usize]) -> Vec<Option<Bin>> {
        let mut votes = [[0u32; 4]; ACROSS];
        for (p, tier) in tiers.iter().enumerate() {
            votes[bin(p as u64, self.positions(), ACROSS)][*tier] += 1;
        }
        let one = |(x, (sum, n)): (usize, &(f64, u64))| {
            // Ties go to the tier nearer to the GPU.
            let tier = (0..4).rev().max_by_key(|t| votes[x][*t])?;
            (*n > 0).then(|| Bin {
                weight: sum / *n as f64,
                tier,
            })
        };
        self.sum[y].iter().enumerate().map(one).collect()
    }
}

/// The tier of every position that row `t` attends to: as the latest decision before it says, T0 for what came since,
/// destroyed for what it no longer lists.
fn tiers(d: &Decisions, t: u32) -> Vec<usize> {
    let length = (d.prompt + t + 1) as usize;
    let entries = d.first_step.iter().zip(&d.lane).enumerate();
    let latest = entries
        .filter(|(_, (first, lane))| **lane == 0 && **first <= t)
        .map(|(i, _)| i)
        .next_back();
    let Some(i) = latest else {
        return vec![0; length];
    };
    let seen = (d.prompt + d.first_step[i]) as usize;
    let mut tiers = vec![3; seen.min(length)];
    tiers.resize(length, 0);
    let at = |k: usize| usize::try_from(d.offsets[k]).unwrap_or(usize::MAX);
    for (p, tier) in d.positions[at(i)..at(i + 1)]
        .iter()
        .zip(&d.tiers[at(i)..at(i + 1)])
    {
        if let Some(place) = tiers.get_mut(*p as usize) {
            *place = usize::from(*tier);
        }
    }
    tiers
}
