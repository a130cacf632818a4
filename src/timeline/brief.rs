//! A placement without the decisions that changed nothing.
//!
//! A re-tier before anything has to leave T0 moves no token, and the interval after it says what the one before says already.
//! Who follows a timeline step by step stops at every interval of every request; without the empty ones an idle tier costs
//! what no tier costs. Kept are all intervals with tokens on the host, since a decision there makes the prefetch stale even if
//! it moves nothing. Counts at every step, pages, moves and their steps are the same. Rival: no empty intervals in the
//! timeline itself, which is also asked how many decisions there were.

use std::sync::Arc;

use super::{Interval, PAGE, Timeline};

impl Timeline {
    /// The same placement in as few intervals as it takes, without what only its reader looks at (mass); itself if there is
    /// nothing to leave out.
    #[must_use]
    pub fn brief(self: &Arc<Self>) -> Arc<Self> {
        let mut kept: Vec<Interval> = Vec::with_capacity(self.intervals.len());
        for interval in &self.intervals {
            let goes_on = kept
                .last()
                .is_some_and(|before| self.goes_on(before, interval));
            if !goes_on {
                kept.push(*interval);
            }
        }
        if kept.len() == self.intervals.len() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            prompt: self.prompt,
            steps: self.steps,
            intervals: kept,
            retiers: self.retiers,
            never_moves: self.never_moves,
            selection: self.selection,
            selective: self.selective.clone(),
            ..Self::default()
        })
    }

    /// Whether `next` says what `before` says already.
    fn goes_on(&self, before: &Interval, next: &Interval) -> bool {
        let pages = |step: u32| f64::from((self.prompt + step + 1).div_ceil(PAGE));
        let moved = next.promoted + next.demoted + next.compressed + next.destroyed;
        let host = before.tokens[1] + before.tokens[2] + next.tokens[1] + next.tokens[2];
        let mut tokens = before.tokens;
        tokens[0] += f64::from(next.first_step - before.first_step);
        let opened = pages(next.first_step) - pages(before.first_step);
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        next.first_step < self.steps
            && moved <= 0.0
            && host <= 0.0
            && tokens.iter().zip(next.tokens).all(|(a, b)| same(*a, b))
            && same(before.t0_pages + opened, next.t0_pages)
    }
}
