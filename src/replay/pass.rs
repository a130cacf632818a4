//! One pass over the rows for any number of policies.

use super::placement::Placement;
use crate::error::{Error, Result};
use crate::policy::{Lanes, Moves, Policy, Row, View};
use crate::score::{PART, Rule, Score, observe_bits};
use crate::simd::Kernels;
use crate::timeline::{Interval, Tier, Timeline};
use crate::trace::Rows;

/// Replays the first `limit` rows under policies of any make.
///
/// # Errors
/// Damage in the rows; a policy that needs more than mean rows; a policy that breaks a law (internal).
pub fn drive(
    rows: &dyn Rows,
    limit: u32,
    policies: &mut [Box<dyn Policy>],
) -> Result<Vec<Timeline>> {
    let ended = drive_watched(rows, limit, policies, &[], &mut |_, _, _| {})?;
    Ok(ended.into_iter().map(|(timeline, _)| timeline).collect())
}

/// As [`drive`]; also keeps scores by the rules of `extra` and shows them to `watch(step, length, extra scores)` after
/// every row, and returns with each timeline the tier of each position at the end.
pub(super) fn drive_watched(
    rows: &dyn Rows,
    limit: u32,
    policies: &mut [Box<dyn Policy>],
    extra: &[Rule],
    watch: &mut dyn FnMut(u32, u32, &[Score]),
) -> Result<Vec<(Timeline, Vec<Tier>)>> {
    let limit = limit.min(rows.rows());
    let totals = column_totals(rows, limit, policies)?;
    let mut scores = Scores::new(rows, extra, totals);
    let mut sequences = Vec::with_capacity(policies.len());
    for policy in policies {
        sequences.push(Sequence::new(policy.as_mut(), rows, limit, &mut scores)?);
    }
    // Whole rows are kept only for policies that look at them.
    let whole = rows.prompt() as usize + limit as usize;
    let shown = sequences.iter().any(Sequence::looks);
    let mut buffer = vec![0f32; if shown { whole } else { PART }];
    rows.for_each(limit, &mut |step, bits| {
        let length = rows.prompt() + step + 1;
        if bits.len() != length as usize {
            return Err(Error::data(format!(
                "row {step} has {} weights, expected {length}",
                bits.len()
            )));
        }
        for sequence in &mut sequences {
            sequence.begin(step);
        }
        let total = observe_bits(bits, &mut buffer, &mut scores.list, |at, part| {
            for sequence in &mut sequences {
                sequence.placement.add_mass(at, part);
            }
        });
        for sequence in &mut sequences {
            sequence.end(
                step,
                &buffer[..bits.len().min(buffer.len())],
                total,
                &scores.list,
            )?;
        }
        watch(step, length, &scores.list[..extra.len()]);
        Ok(())
    })?;
    let ended = |s: Sequence| {
        let tiers = s.placement.tiers().to_vec();
        (s.finish(limit), tiers)
    };
    Ok(sequences.into_iter().map(ended).collect())
}

/// Column sums of all rows, if a policy reads the future.
fn column_totals(
    rows: &dyn Rows,
    limit: u32,
    policies: &[Box<dyn Policy>],
) -> Result<Option<Vec<f64>>> {
    if policies.iter().all(|p| p.score() != Some(Rule::Future)) {
        return Ok(None);
    }
    let length = rows.prompt() as usize + limit as usize;
    let (mut buffer, mut totals) = (vec![0f32; length], vec![0f64; length]);
    rows.for_each(limit, &mut |_, bits| {
        Kernels::best().widen(bits, &mut buffer);
        Kernels::best().accumulate(&mut totals, &buffer[..bits.len()]);
        Ok(())
    })?;
    Ok(Some(totals))
}

/// One score a rule.
struct Scores<'a> {
    list: Vec<Score>,
    rows: &'a dyn Rows,
    totals: Option<Vec<f64>>,
}

impl<'a> Scores<'a> {
    fn new(rows: &'a dyn Rows, extra: &[Rule], totals: Option<Vec<f64>>) -> Self {
        let start = |rule: &Rule| Score::new(*rule, rows.prompt(), rows.column_sums());
        Self {
            list: extra.iter().map(start).collect(),
            rows,
            totals,
        }
    }

    /// Index of the score for `rule`, made if it is new.
    fn index(&mut self, rule: Rule) -> usize {
        if let Some(at) = self.list.iter().position(|s| s.rule() == rule) {
            return at;
        }
        self.list.push(match (rule, self.totals.take()) {
            (Rule::Future, Some(totals)) => Score::future(self.rows.prompt(), totals),
            (_, totals) => {
                self.totals = totals;
                Score::new(rule, self.rows.prompt(), self.rows.column_sums())
            }
        });
        self.list.len() - 1
    }
}

/// One policy at work on the sequence.
struct Sequence<'p> {
    policy: &'p mut dyn Policy,
    score: Option<usize>,
    prompt: u32,
    placement: Placement,
    moves: Moves,
    /// Moves of the decision just taken, until the next step's token is there.
    pending: Option<Interval>,
    decisions: u32,
    positions: Vec<u32>,
    weights: Vec<f32>,
    timeline: Timeline,
}

impl<'p> Sequence<'p> {
    fn new(
        policy: &'p mut dyn Policy,
        rows: &dyn Rows,
        limit: u32,
        scores: &mut Scores<'_>,
    ) -> Result<Self> {
        let card = policy.card();
        if card.lanes != Lanes::Sequence || card.needs.layers || card.needs.heads || card.needs.keys
        {
            return Err(Error::usage(format!(
                "policy `{}` needs more than the trace carries",
                card.name
            ))
            .help("record or import a trace with rows by layer or head and keys"));
        }
        policy.begin(rows.prompt(), rows.column_sums());
        let mut placement = Placement::default();
        placement.append(rows.prompt());
        Ok(Self {
            score: policy.score().map(|rule| scores.index(rule)),
            prompt: rows.prompt(),
            placement,
            moves: Moves::default(),
            pending: Some(Interval::default()),
            decisions: 0,
            positions: Vec::new(),
            weights: Vec::new(),
            timeline: Timeline {
                prompt: rows.prompt(),
                mass: Vec::with_capacity(limit as usize),
                ..Timeline::default()
            },
            policy,
        })
    }

    /// Whether the policy is shown rows.
    fn looks(&self) -> bool {
        self.score.is_none() && self.policy.card().needs.mean
    }

    /// Appends the step's own token.
    fn begin(&mut self, step: u32) {
        self.placement.append(1);
        self.open_interval(step);
    }

    /// Books the mass of the row and lets the policy act.
    fn end(&mut self, step: u32, row: &[f32], total: f64, scores: &[Score]) -> Result<()> {
        let (mass, degraded) = self.placement.take_mass(total);
        self.timeline.mass.push(mass);
        if self.placement.any_degraded() {
            self.timeline.degraded.resize(step as usize, 0.0);
            self.timeline.degraded.push(degraded);
        }
        if self.looks() {
            self.show(row);
        }
        self.decide(step, scores)
    }

    /// Closes the interval before the decision just taken and opens the one that `step` begins.
    fn open_interval(&mut self, step: u32) {
        if let Some(mut interval) = self.pending.take() {
            interval.first_step = step;
            self.placement.describe(&mut interval);
            self.timeline.intervals.push(interval);
        }
    }

    /// Shows the live part of the row to a policy that keeps its own state.
    fn show(&mut self, row: &[f32]) {
        let tiers = self.placement.tiers();
        if self.placement.all_live() {
            return self.policy.observe(
                0,
                Row {
                    positions: None,
                    weights: row,
                    keys: None,
                },
            );
        }
        self.positions.clear();
        self.weights.clear();
        for (position, (tier, weight)) in (0u32..).zip(tiers.iter().zip(row)) {
            if *tier != Tier::T3 {
                self.positions.push(position);
                self.weights.push(*weight);
            }
        }
        self.policy.observe(
            0,
            Row {
                positions: Some(&self.positions),
                weights: &self.weights,
                keys: None,
            },
        );
    }

    fn decide(&mut self, step: u32, scores: &[Score]) -> Result<()> {
        let view = View {
            prompt: self.prompt,
            tiers: self.placement.tiers(),
            lane: 0,
            score: self.score.map(|at| &scores[at]),
        };
        self.moves.clear();
        self.policy.decide(step, &view, &mut self.moves);
        let due = self
            .policy
            .interval()
            .is_some_and(|n| (step + 1).is_multiple_of(n));
        if due || !self.moves.as_slice().is_empty() {
            self.pending = Some(self.placement.apply(&self.moves)?);
            self.decisions += 1;
        }
        Ok(())
    }

    fn finish(mut self, steps: u32) -> Timeline {
        self.open_interval(steps);
        if steps == 0 {
            self.timeline.intervals.clear();
        }
        self.timeline.steps = steps;
        self.timeline.retiers = self.decisions;
        self.timeline
    }
}
