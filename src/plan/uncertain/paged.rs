//! Requests that take turns in a pool of KV, followed from one event to the next.
//!
//! As the engine: requests run in the order in which they came; when the pool is full the latest loses its KV and comes back,
//! computed again, once its whole context fits beside the others. Between two events every request grows by the same, so
//! that one step in the middle stands for all. Many requests are followed in groups of as many as it takes.

use std::collections::VecDeque;

use super::closed::mean_step;
use crate::memory::Ledger;
use crate::scenario::Scenario;
use crate::service::Prepared;

/// Groups of requests followed at most.
const GROUPS: u32 = 32;

/// Seconds of decode in rounds of as many as never preempt, and the mean time per token; none if not one fits.
pub(super) fn rounds(prepared: &Prepared, ledger: &Ledger, s: &Scenario) -> Option<(f64, f64)> {
    let page = s.deployment.runtime.page_tokens.max(1);
    let tokens = (s.prompt + s.output).div_ceil(page) * page;
    let fit = ledger.pool() / ledger.sequence_bytes(f64::from(tokens));
    if fit < 1.0 {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the batch
    let most = fit.min(f64::from(s.batch)) as u32;
    let step = |m: u32| mean_step(prepared, m, s.prompt, s.output);
    let (whole, rest) = (f64::from(s.batch / most), s.batch % most);
    let (full, last) = (step(most), if rest > 0 { step(rest) } else { 0.0 });
    let seconds = f64::from(s.output) * (whole * full + last);
    let tpot = (whole * f64::from(most) * full + f64::from(rest) * last) / f64::from(s.batch);
    Some((seconds, tpot))
}

/// A group of requests at one length.
#[derive(Clone, Copy, Debug)]
struct Group {
    order: u32,
    done: f64,
    began: Option<f64>,
}

/// The pool and who is in it.
struct Turns<'a> {
    prepared: &'a Prepared,
    ledger: &'a Ledger,
    prompt: f64,
    output: f64,
    /// Requests of a group.
    each: f64,
    now: f64,
    /// Sum over groups of their time per token.
    tpot: f64,
    waiting: VecDeque<Group>,
    running: Vec<Group>,
}

/// The same where the latest gives way and is computed again.
pub(super) fn preempting(prepared: &Prepared, ledger: &Ledger, s: &Scenario) -> Option<(f64, f64)> {
    let groups = s.batch.min(GROUPS);
    let mut turns = Turns {
        prepared,
        ledger,
        prompt: f64::from(s.prompt),
        output: f64::from(s.output),
        each: f64::from(s.batch) / f64::from(groups),
        now: 0.0,
        tpot: 0.0,
        waiting: (0..groups)
            .map(|order| Group {
                order,
                done: 0.0,
                began: None,
            })
            .collect(),
        running: Vec::new(),
    };
    // Not even one request at its end.
    if ledger.sequence_bytes(turns.prompt + turns.output) > ledger.pool() {
        return None;
    }
    while !(turns.waiting.is_empty() && turns.running.is_empty()) {
        turns.admit();
        turns.go();
    }
    Some((turns.now, turns.tpot / f64::from(groups)))
}

impl Turns<'_> {
    fn bytes(&self, done: f64) -> f64 {
        self.each * self.ledger.sequence_bytes(self.prompt + done)
    }

    fn used(&self) -> f64 {
        self.running.iter().map(|g| self.bytes(g.done)).sum()
    }

    /// Who waits and fits comes, with a page of room for each.
    fn admit(&mut self) {
        while let Some(group) = self.waiting.front().copied() {
            let page = f64::from(self.prepared.deployment.runtime.page_tokens);
            let after = page * self.ledger.kv_token * self.each * (self.running.len() + 1) as f64;
            let need = self.used() + self.bytes(group.done) + after;
            // A group that is too large alone still runs: its requests would take turns.
            if need > self.ledger.pool() && !self.running.is_empty() {
                return;
            }
            self.waiting.pop_front();
            // The first prompts of all are no part of decode.
            if self.now > 0.0 || group.done > 0.0 {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // tokens
                let context = (self.prompt + group.done) as u32;
                self.now += self.each * self.prepared.prefill(&[(0, context)]);
            }
            let at = self.running.partition_point(|g| g.order < group.order);
            let began = group.began.or(Some(self.now));
            self.running.insert(at, Group { began, ..group });
        }
    }

    /// Steps until somebody ends or the pool is full.
    fn go(&mut self) {
        let m = self.running.len() as f64;
        let ahead = self.running.iter().map(|g| self.output - g.done);
        let left = ahead.fold(f64::INFINITY, f64::min);
        let room = (self.ledger.pool() - self.used())
            / (m * self.each * self.ledger.kv_token).max(f64::MIN_POSITIVE);
        if room < 1.0 && self.running.len() > 1 {
            self.waiting.extend(self.running.pop());
            self.waiting.rotate_right(1);
            return;
        }
        let steps = if self.running.len() > 1 {
            left.min(room.floor())
        } else {
            left
        };
        let middle = self.running.iter().map(|g| g.done).sum::<f64>() / m + 0.5 * steps;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most the batch
        let batch = (m * self.each).round().max(1.0) as u32;
        self.now += steps * self.prepared.step(batch, self.prompt + middle + 1.0);
        for group in &mut self.running {
            group.done += steps;
        }
        let (now, output) = (self.now, self.output);
        let over = |g: &Group| g.done >= output;
        let took = |g: &Group| (now - g.began.unwrap_or(0.0)) / output;
        self.tpot += self
            .running
            .iter()
            .filter(|g| over(g))
            .map(took)
            .sum::<f64>();
        self.running.retain(|g| !over(g));
    }
}
