//! What a policy decided, decision by decision: which positions it kept and where.
//!
//! This is for scoring elsewhere: a hook on a real model masks what was destroyed and degrades what was compressed. Only
//! recorded rows are replayed, nothing is extrapolated. The policy runs inside a wrapper that looks at the placement before
//! the decision and applies its moves, so the replay is the one of every other verb. Memory grows with decisions times
//! live tokens, which is why there is a limit.

use std::sync::{Arc, Mutex, PoisonError};

use super::drive;
use crate::error::{Error, Result};
use crate::policy::{Card, Moves, Policy, PolicySpec, Row, View};
use crate::score::Rule;
use crate::timeline::Tier;
use crate::trace::Rows;

/// Most positions kept over all decisions.
const MOST: usize = 1 << 28;

/// Placements after decisions, one after another: entry i holds from `first_step[i]` on in lane `lane[i]`, and its live
/// positions and their tiers are `offsets[i]..offsets[i + 1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Prompt tokens.
    pub prompt: u32,
    /// Rows replayed.
    pub rows: u32,
    /// First decode step each entry holds for.
    pub first_step: Vec<u32>,
    /// Its lane: 0 for one placement a sequence, else the layer, or layer x KV heads + head.
    pub lane: Vec<u32>,
    /// One more than entries.
    pub offsets: Vec<u64>,
    /// Live positions, ascending within an entry.
    pub positions: Vec<u32>,
    /// Their tiers: 0 HBM, 1 host, 2 host at reduced precision.
    pub tiers: Vec<u8>,
}

/// Replays `rows` under `spec` and keeps every decision (each re-tier; for policies without a cadence, each that moved).
///
/// # Errors
/// As [`super::run`]; usage, if there is more than fits in memory.
pub fn decisions(rows: &dyn Rows, spec: &PolicySpec) -> Result<Decisions> {
    let kept = Arc::new(Mutex::new(Decisions {
        prompt: rows.prompt(),
        rows: rows.rows(),
        offsets: vec![0],
        ..Decisions::default()
    }));
    let mut policies: Vec<Box<dyn Policy>> = vec![Box::new(Watched {
        inner: spec.build()?,
        kept: Arc::clone(&kept),
    })];
    drive(rows, rows.rows(), &mut policies)?;
    let found = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
    if found.positions.len() >= MOST {
        return Err(Error::usage(format!(
            "the decisions of `{}` keep more than {MOST} positions",
            spec.name()
        ))
        .help("take a shorter recording, or a policy with a longer interval"));
    }
    Ok(found)
}

/// A policy and where its decisions are kept.
struct Watched {
    inner: Box<dyn Policy>,
    kept: Arc<Mutex<Decisions>>,
}

impl Policy for Watched {
    fn card(&self) -> &Card {
        self.inner.card()
    }

    fn score(&self) -> Option<Rule> {
        self.inner.score()
    }

    fn interval(&self) -> Option<u32> {
        self.inner.interval()
    }

    fn begin(&mut self, prompt: u32, column_sums: Option<&[f32]>) {
        self.inner.begin(prompt, column_sums);
    }

    fn observe(&mut self, lane: usize, row: Row<'_>) {
        self.inner.observe(lane, row);
    }

    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves) {
        let before = moves.as_slice().len();
        self.inner.decide(step, view, moves);
        let asked = &moves.as_slice()[before..];
        let due = self
            .inner
            .interval()
            .is_some_and(|n| (step + 1).is_multiple_of(n));
        if due || !asked.is_empty() {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.add(step + 1, view, asked);
        }
    }
}

impl Decisions {
    fn add(&mut self, first_step: u32, view: &View<'_>, moves: &[(u32, Tier)]) {
        if self.positions.len() >= MOST {
            return;
        }
        let mut tiers = view.tiers.to_vec();
        for (position, tier) in moves {
            tiers[*position as usize] = *tier;
        }
        for (position, tier) in (0u32..).zip(tiers) {
            if tier != Tier::T3 {
                self.positions.push(position);
                self.tiers.push(tier as u8);
            }
        }
        self.first_step.push(first_step);
        self.lane.push(u32::try_from(view.lane).unwrap_or(u32::MAX));
        self.offsets.push(self.positions.len() as u64);
    }
}
