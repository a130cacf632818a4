//! One policy at work on one sequence, in as many lanes as it has placements.
//!
//! A lane is one placement with its own rows: the sequence's mean rows, a layer's, or a KV head's. The policy decides for
//! each lane by itself; counts and mass are averaged over the lanes into one timeline, which is why its tokens are f64.
//! The same steps drive the cache of a real model ([`crate::forward::Keeper`]), which carries the moves out.

use std::ops::DerefMut;

use super::placement::Placement;
use crate::error::Result;
use crate::policy::{Keys, Moves, Policy, Row, View};
use crate::score::Score;
use crate::timeline::{Interval, Tier, Timeline};

/// One policy at work.
pub(crate) struct Sequence<P> {
    policy: P,
    score: Option<usize>,
    prompt: u32,
    pub(super) lanes: Vec<Placement>,
    moves: Moves,
    /// Moves of the decision just taken, summed over lanes, until the next step's token is there.
    pending: Option<Interval>,
    decisions: u32,
    /// Mass and degraded mass of the present row, summed over the lanes seen.
    mass: ([f64; 4], f64),
    positions: Vec<u32>,
    weights: Vec<f32>,
    timeline: Timeline,
}

impl<'p, P: DerefMut<Target = dyn Policy + 'p>> Sequence<P> {
    /// Before step 0, everything in T0; `score` is the index of the score that the policy ranks by.
    pub(crate) fn new(
        mut policy: P,
        prompt: u32,
        column_sums: Option<&[f32]>,
        lanes: usize,
        score: Option<usize>,
    ) -> Self {
        policy.begin(prompt, column_sums);
        let mut placement = Placement::default();
        placement.append(prompt);
        Self {
            score,
            prompt,
            lanes: vec![placement; lanes],
            moves: Moves::default(),
            pending: Some(Interval::default()),
            decisions: 0,
            mass: ([0.0; 4], 0.0),
            positions: Vec::new(),
            weights: Vec::new(),
            timeline: Timeline {
                prompt,
                ..Timeline::default()
            },
            policy,
        }
    }

    /// Whether the policy is shown rows.
    pub(crate) fn looks(&self) -> bool {
        let needs = self.policy.card().needs;
        self.score.is_none() && (needs.mean || needs.layers || needs.prompt_queries.is_some())
    }

    /// Appends the step's own token.
    pub(crate) fn begin(&mut self, step: u32) {
        for placement in &mut self.lanes {
            placement.append(1);
        }
        self.open_interval(step);
    }

    /// Books the mass of a lane's row, which sums to `total` and was added to the lane's placement, and shows it.
    pub(super) fn row(&mut self, lane: usize, row: &[f32], total: f64, keys: Option<Keys<'_>>) {
        let (mass, degraded) = self.lanes[lane].take_mass(total);
        for (sum, m) in self.mass.0.iter_mut().zip(mass) {
            *sum += m;
        }
        self.mass.1 += degraded;
        if self.looks() {
            self.show(lane, row, keys);
        }
    }

    /// Books the mass of the row `full` and shows the row `own`, one weight a position ever appended.
    pub(crate) fn take(&mut self, lane: usize, own: &[f32], full: &[f32], keys: Option<Keys<'_>>) {
        self.lanes[lane].add_mass(0, full);
        let total = full.iter().map(|w| f64::from(*w)).sum();
        self.row(lane, own, total, keys);
    }

    /// After the rows of all lanes: lets the policy act.
    pub(super) fn end(&mut self, step: u32, scores: &[Score]) -> Result<()> {
        self.end_with(step, scores, &mut |_, _| {})
    }

    /// As `end`; tells of the moves of each lane.
    pub(crate) fn end_with(
        &mut self,
        step: u32,
        scores: &[Score],
        told: &mut dyn FnMut(usize, &Moves),
    ) -> Result<()> {
        let n = self.lanes.len() as f64;
        let (mass, degraded) = std::mem::take(&mut self.mass);
        self.timeline.mass.push(mass.map(|m| m / n));
        if self.lanes.iter().any(Placement::any_degraded) {
            self.timeline.degraded.resize(step as usize, 0.0);
            self.timeline.degraded.push(degraded / n);
        }
        self.decide(step, scores, told)
    }

    /// Closes the interval before the decision just taken and opens the one that `step` begins.
    fn open_interval(&mut self, step: u32) {
        let Some(moved) = self.pending.take() else {
            return;
        };
        let mut sum = moved;
        for placement in &self.lanes {
            let mut one = Interval::default();
            placement.describe(&mut one);
            sum = plus(&sum, &one);
        }
        let n = self.lanes.len() as f64;
        let mut interval = sum;
        interval.first_step = step;
        for x in fields(&mut interval) {
            *x /= n;
        }
        self.timeline.intervals.push(interval);
    }

    /// Shows the live part of a row to a policy that keeps its own state.
    fn show(&mut self, lane: usize, row: &[f32], keys: Option<Keys<'_>>) {
        let placement = &self.lanes[lane];
        if placement.all_live() {
            return self.policy.observe(
                lane,
                Row {
                    positions: None,
                    weights: row,
                    keys,
                },
            );
        }
        self.positions.clear();
        self.weights.clear();
        for (position, (tier, weight)) in (0u32..).zip(placement.tiers().iter().zip(row)) {
            if *tier != Tier::T3 {
                self.positions.push(position);
                self.weights.push(*weight);
            }
        }
        self.policy.observe(
            lane,
            Row {
                positions: Some(&self.positions),
                weights: &self.weights,
                keys,
            },
        );
    }

    fn decide(
        &mut self,
        step: u32,
        scores: &[Score],
        told: &mut dyn FnMut(usize, &Moves),
    ) -> Result<()> {
        let mut acted = self
            .policy
            .interval()
            .is_some_and(|n| (step + 1).is_multiple_of(n));
        let mut sum = Interval::default();
        for (lane, placement) in self.lanes.iter_mut().enumerate() {
            self.moves.clear();
            let view = View {
                prompt: self.prompt,
                tiers: placement.tiers(),
                lane,
                score: self.score.map(|at| &scores[at]),
            };
            self.policy.decide(step, &view, &mut self.moves);
            if !self.moves.as_slice().is_empty() {
                acted = true;
                sum = plus(&sum, &placement.apply(&self.moves)?);
                told(lane, &self.moves);
            }
        }
        if acted {
            self.pending = Some(sum);
            self.decisions += 1;
        }
        Ok(())
    }

    /// The timeline after `steps` steps.
    pub(crate) fn finish(mut self, steps: u32) -> Timeline {
        self.open_interval(steps);
        if steps == 0 {
            self.timeline.intervals.clear();
        }
        self.timeline.steps = steps;
        self.timeline.retiers = self.decisions;
        self.timeline
    }
}

/// All counts of an interval.
fn fields(i: &mut Interval) -> impl Iterator<Item = &mut f64> {
    let moves = [
        &mut i.t0_pages,
        &mut i.promoted,
        &mut i.demoted,
        &mut i.compressed,
        &mut i.destroyed,
        &mut i.moved_runs,
    ];
    i.tokens.iter_mut().chain(&mut i.runs).chain(moves)
}

/// Sum of the counts of two intervals.
fn plus(a: &Interval, b: &Interval) -> Interval {
    let (mut sum, mut other) = (*a, *b);
    for (x, y) in fields(&mut sum).zip(fields(&mut other)) {
        *x += *y;
    }
    sum
}
