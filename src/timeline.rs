//! What a replay hands to the engine: per step, how many tokens lie in each tier, how much attention they draw, and
//! what moved.
//!
//! This is all that passes between the two halves: the replay never sees hardware and the engine never sees attention,
//! so one replay serves any machine, batch and shape. Compact by design: one [`Interval`] a re-tier (or a step, for
//! policies that act every step), tokens in f64 because lanes (layers, KV heads) are averaged into it. Shared between
//! requests through `Arc`.

mod brief;
mod selective;

pub use selective::{Fetch, Pick, Predict, Selection};

/// The four tiers, as indices of every `[_; 4]` in this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// GPU memory.
    T0 = 0,
    /// Host memory, full precision.
    T1 = 1,
    /// Host memory, reduced precision.
    T2 = 2,
    /// Destroyed, for good.
    T3 = 3,
}

/// Positions of a page.
pub const PAGE: u32 = 16;

/// A stretch of steps between two decisions: the counts at its first step; each later step appends one T0 token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// First decode step it holds for.
    pub first_step: u32,
    /// Tokens in T0..T3 during the attention of `first_step`, the step's own token included.
    pub tokens: [f64; 4],
    /// Contiguous runs of positions in T0..T3 (what scattered copies and free pages depend on).
    pub runs: [f64; 4],
    /// T0 pages (of 16 positions) that hold at least one T0 token: what whole-page freeing without compaction keeps.
    pub t0_pages: f64,
    /// Moves of the decision before `first_step`: T1 or T2 to T0.
    pub promoted: f64,
    /// T0 to T1 or T2.
    pub demoted: f64,
    /// Newly in T2.
    pub compressed: f64,
    /// Newly destroyed.
    pub destroyed: f64,
    /// Contiguous runs among the moved tokens.
    pub moved_runs: f64,
}

/// A replayed (or length-only) placement of one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Prompt tokens; step `t` attends to `prompt + t + 1` positions less the destroyed.
    pub prompt: u32,
    /// Decode steps covered.
    pub steps: u32,
    /// In order, the first at step 0. If the last step decided, a closing interval with `first_step == steps` holds its
    /// moves and the placement after them (no step runs under it, and no own token is appended).
    pub intervals: Vec<Interval>,
    /// Attention mass per step on T0..T3; empty for a timeline from lengths alone. In f64, so that the parts add up to
    /// the row's own sum.
    pub mass: Vec<[f64; 4]>,
    /// Attention mass per step on degraded tokens, wherever they live; empty if nothing was ever degraded.
    pub degraded: Vec<f64>,
    /// First step whose mass and moves are not from recorded rows.
    pub synthetic_from: Option<u32>,
    /// Decisions taken, empty ones included: floor(steps / interval); without a cadence, those that moved something.
    pub retiers: u32,
    /// First positions that the policy never moves (prompt and sinks): they are not copied to the host.
    pub never_moves: u32,
    /// How host tokens are picked where only some take part in attention (`selective`); none where all do.
    pub selection: Option<Selection>,
    /// What each step fetches; empty where all host tokens take part, and where counts alone are known.
    pub selective: Vec<Fetch>,
}

impl Timeline {
    /// Whether any token ever leaves T0 for the host.
    pub fn spills(&self) -> bool {
        self.spills_from().is_some()
    }

    /// First step at which a token lies in T1 or T2.
    pub fn spills_from(&self) -> Option<u32> {
        self.intervals
            .iter()
            .find(|i| i.tokens[1] + i.tokens[2] > 0.0)
            .map(|i| i.first_step)
    }

    /// Whether any token is ever destroyed.
    pub fn destroys(&self) -> bool {
        self.intervals.last().is_some_and(|i| i.tokens[3] > 0.0)
    }

    /// Index of the interval that holds at `step`.
    pub fn interval_at(&self, step: u32) -> usize {
        self.intervals
            .partition_point(|i| i.first_step <= step)
            .saturating_sub(1)
    }

    /// Tokens in T0..T3 during the attention of `step`.
    pub fn tokens_at(&self, step: u32) -> [f64; 4] {
        let i = &self.intervals[self.interval_at(step)];
        let mut tokens = i.tokens;
        tokens[0] += f64::from(step - i.first_step);
        tokens
    }

    /// What `step` fetches of `host` tokens in T1 and T2: as replayed, or the most there can be; none where all take part.
    pub fn fetch_at(&self, step: u32, host: [f64; 2]) -> Option<Fetch> {
        let most = self.selection?;
        let known = self.selective.get(step as usize).copied();
        Some(known.unwrap_or_else(|| most.most(host)))
    }

    /// Tokens that the pages of T0 have room for during `step`, which runs under interval `index`: a page stays as long as
    /// one T0 token is left in it.
    pub fn t0_room(&self, index: usize, step: u32) -> f64 {
        let i = &self.intervals[index];
        let pages = |step: u32| (self.prompt + step + 1).div_ceil(PAGE);
        let opened = pages(step) - pages(i.first_step);
        f64::from(PAGE) * (i.t0_pages + f64::from(opened))
    }

    /// Tokens in T0..T3 after the last step and its decision.
    pub fn tokens_end(&self) -> [f64; 4] {
        match self.intervals.last() {
            Some(i) if i.first_step == self.steps => i.tokens,
            Some(_) => self.tokens_at(self.steps - 1),
            None => [0.0; 4],
        }
    }

    /// Steps that run under interval `index`.
    pub fn steps_of(&self, index: usize) -> u32 {
        let end = self
            .intervals
            .get(index + 1)
            .map_or(self.steps, |i| i.first_step);
        end - self.intervals[index].first_step
    }

    /// Most tokens in T0 at any step; none run, 0.
    pub fn t0_peak(&self) -> f64 {
        let run = self.intervals.iter().enumerate();
        let run = run.filter(|(_, i)| i.first_step < self.steps);
        let last = |(index, i): (usize, &Interval)| {
            i.tokens[0] + f64::from(self.steps_of(index).saturating_sub(1))
        };
        run.map(last).fold(0.0, f64::max)
    }

    /// Mean tokens in T0..T3 over all steps.
    pub fn tokens_mean(&self) -> [f64; 4] {
        let mut sum = [0.0; 4];
        for (index, interval) in self.intervals.iter().enumerate() {
            let n = f64::from(self.steps_of(index));
            for (s, tokens) in sum.iter_mut().zip(interval.tokens) {
                *s += n * tokens;
            }
            sum[0] += n * (n - 1.0) / 2.0;
        }
        sum.map(|s| s / f64::from(self.steps.max(1)))
    }

    /// Mean attention mass on T0..T3 over all steps.
    pub fn mass_mean(&self) -> [f64; 4] {
        let mut sum = [0.0; 4];
        for mass in &self.mass {
            for (s, m) in sum.iter_mut().zip(mass) {
                *s += m;
            }
        }
        sum.map(|s| s / self.mass.len().max(1) as f64)
    }

    /// Sum of `what` over all decisions: `timeline.total(|i| i.promoted)`.
    pub fn total(&self, what: impl Fn(&Interval) -> f64) -> f64 {
        self.intervals.iter().map(what).sum()
    }
}
