//! A placement under `selective`: which host tokens each step fetches, and the mass of those it does not.
//!
//! Before the attention of step t the tokens in T1 and T2 are ranked: by their weight in row t-1 as recorded (`last-row`,
//! which a real run could not know of tokens it did not attend to), or by the policy's own score (`fetched-only`). Under
//! the latter the score is that of a run which attends only to T0 and to what it fetched: a row is added to it with the
//! unfetched tokens' weights taken as 0, so the policy, too, promotes by what such a run would know. Weights that remain
//! are those of the full-cache row, not renormalised: teacher-forced, like all masses of a replay.
//!
//! `top-k` takes the k best; `top-p` the fewest whose predictions sum to that share of all host tokens' predictions. Ties
//! go to the lower position. A token fetched in the step before does not cross the link again unless its tier changed.
//! Past the recorded rows: see `beyond`. Rival: rank by keys (Quest), which needs keys and queries of every head. Units:
//! tokens, attention weight.

mod beyond;
mod rank;

use super::by_length;
use super::extend::{extended, on_recorded_prompt};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::policy::PolicySpec;
use crate::policy::registry::Kind;
use crate::score::{Rule, Score};
use crate::simd::Kernels;
use crate::timeline::{Fetch, Predict, Selection, Tier, Timeline};
use crate::trace::Rows;
use beyond::Beyond;
use rank::Ranked;

/// As [`extended`], for a deployment that attends only to what `selection` fetches.
///
/// # Errors
/// Usage: a policy that reads the future. Otherwise as [`extended`].
pub fn selected(
    rows: &dyn Rows,
    spec: &PolicySpec,
    selection: Selection,
    (prompt, output): (u32, u32),
) -> Result<Timeline> {
    if matches!(spec.kind(), Kind::Oracle(_)) {
        return Err(Error::usage(
            "policy `oracle` reads the future: what it would fetch says nothing of a real run",
        )
        .help("use --policy four-tier with --t1 selective, or oracle with --t1 stream"));
    }
    let mut whole = extended(rows, spec, prompt, output)?;
    whole.selection = Some(selection);
    if !whole.spills() {
        whole.selective = vec![Fetch::default(); whole.mass.len()];
        return Ok(whole);
    }
    let recorded = rows.rows().min(output);
    let mut beyond = Beyond::new(recorded, spec, &whole, (rows.prompt(), selection));
    let own = on_recorded_prompt(spec, prompt, rows.prompt());
    let replayed = replay(rows, recorded, &own, selection, &mut beyond)?;
    let scale = beyond.scale(&replayed.mass, &whole.mass);
    graft(&mut whole, &replayed);
    beyond.go_on(&mut whole, scale);
    Ok(whole)
}

/// Tokens by tier without a trace, and of them the most that is fetched: `top-k` fetches so many, `top-p` may fetch all.
///
/// # Errors
/// As [`by_length`].
pub fn selected_by_length(
    spec: &PolicySpec,
    selection: Selection,
    (prompt, steps): (u32, u32),
) -> Result<Timeline> {
    Ok(Timeline {
        selection: Some(selection),
        ..by_length(spec, prompt, steps)?
    })
}

/// The recorded rows under the policy and the selection; mass and moves are those of a run that selects.
fn replay(
    rows: &dyn Rows,
    limit: u32,
    spec: &PolicySpec,
    selection: Selection,
    beyond: &mut Beyond,
) -> Result<Timeline> {
    let mut policy = spec.build()?;
    let rule = policy.score();
    let score = Score::new(
        rule.unwrap_or(Rule::Cumulative),
        rows.prompt(),
        rows.column_sums(),
    );
    let mut scores = [score];
    let mut sequence = Sequence::new(
        policy.as_mut(),
        rows.prompt(),
        rows.column_sums(),
        1,
        rule.map(|_| 0),
    );
    let length = rows.prompt() as usize + limit as usize;
    let mut state = State::new(selection, length);
    rows.for_each(limit, &mut |step, bits| {
        sequence.begin(step);
        let total = Kernels::best().widen(bits, &mut state.row);
        let row_length = bits.len();
        let fetch = state.pick(sequence.lanes[0].tiers(), &scores[0]);
        beyond.watch(step, sequence.lanes[0].tiers(), &scores[0], &state);
        sequence.lanes[0].add_mass(0, &state.row[..row_length]);
        sequence.row(0, &state.row[..row_length], total, None);
        scores[0].observe(state.attended(row_length));
        sequence.end(step, &scores)?;
        state.fetches.push(fetch);
        std::mem::swap(&mut state.row, &mut state.before);
        Ok(())
    })?;
    Ok(Timeline {
        selective: state.fetches,
        ..sequence.finish(limit)
    })
}

/// What is carried from row to row.
struct State {
    selection: Selection,
    /// The present row and the one before it.
    row: Vec<f32>,
    before: Vec<f32>,
    /// The row with what was not attended to taken as 0.
    seen: Vec<f32>,
    /// Host tokens of the present step, best first.
    ranked: Ranked,
    /// Tier in which each position was fetched in the step before; T0 where it was not.
    resident: Vec<Tier>,
    fetches: Vec<Fetch>,
}

impl State {
    fn new(selection: Selection, length: usize) -> Self {
        Self {
            selection,
            row: vec![0.0; length],
            before: vec![0.0; length],
            seen: vec![0.0; length],
            ranked: Ranked::default(),
            resident: vec![Tier::T0; length],
            fetches: Vec::new(),
        }
    }

    /// What a token is ranked by.
    fn predictor<'a>(&'a self, score: &'a Score) -> impl Fn(u32) -> f64 + 'a {
        predictor(self.selection.predict, &self.before, score)
    }

    /// Ranks the host tokens before the row is looked at, and counts what is fetched of them.
    fn pick(&mut self, tiers: &[Tier], score: &Score) -> Fetch {
        let Self { ranked, before, .. } = self;
        ranked.rank(tiers, predictor(self.selection.predict, before, score));
        ranked.cut(self.selection.pick);
        let fetched = ranked.fetched();
        let fresh: Vec<u32> = fetched
            .iter()
            .copied()
            .filter(|p| self.resident[*p as usize] != tiers[*p as usize])
            .collect();
        let of = |list: &[u32], tier: Tier| {
            list.iter().filter(|p| tiers[**p as usize] == tier).count() as f64
        };
        let both = |list: &[u32]| [of(list, Tier::T1), of(list, Tier::T2)];
        let out = Fetch {
            threshold: ranked.threshold(),
            fetched: both(fetched),
            fetched_runs: rank::runs(fetched),
            fresh: both(&fresh),
            fresh_runs: rank::runs(&fresh),
            residual_mass: mass(&self.row, ranked.left()),
        };
        self.resident.fill(Tier::T0);
        for position in fetched {
            self.resident[*position as usize] = tiers[*position as usize];
        }
        out
    }

    /// The row as the score may see it.
    fn attended(&mut self, length: usize) -> &[f32] {
        if self.selection.predict == Predict::LastRow {
            return &self.row[..length];
        }
        self.seen[..length].copy_from_slice(&self.row[..length]);
        for position in self.ranked.left() {
            self.seen[*position as usize] = 0.0;
        }
        &self.seen[..length]
    }
}

/// What a position is ranked by: its weight in the row before, or its score.
fn predictor<'a>(
    predict: Predict,
    before: &'a [f32],
    score: &'a Score,
) -> impl Fn(u32) -> f64 + 'a {
    move |position| match predict {
        Predict::LastRow => f64::from(before[position as usize]),
        Predict::FetchedOnly => score.of(position),
    }
}

/// Mass of a row on some positions.
fn mass(row: &[f32], positions: &[u32]) -> f64 {
    positions.iter().map(|p| f64::from(row[*p as usize])).sum()
}

/// Puts the recorded part of a run that selects into the placement by the full rows: the counts are the same, mass, moves
/// and scatter are its own.
fn graft(whole: &mut Timeline, replayed: &Timeline) {
    let more = (f64::from(whole.prompt) - f64::from(replayed.prompt)) / 16.0;
    for (into, from) in whole.intervals.iter_mut().zip(&replayed.intervals) {
        *into = crate::timeline::Interval {
            first_step: into.first_step,
            tokens: into.tokens,
            t0_pages: (from.t0_pages + more).ceil(),
            ..*from
        };
    }
    let recorded = replayed.mass.len();
    whole.mass[..recorded].copy_from_slice(&replayed.mass);
    for (into, from) in whole.degraded.iter_mut().zip(&replayed.degraded) {
        *into = *from;
    }
    whole.selective.clone_from(&replayed.selective);
}
