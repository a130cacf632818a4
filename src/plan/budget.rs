//! What `hbm=fit` and `hbm=SIZE` come to, in tokens per request, before anything is replayed.
//!
//! The peak of a budget is a bound: every request at the end of its re-tier interval, so that a run at the budget found
//! never exceeds the pool. It does not fall as the budget grows, so the largest budget that fits is found by bisection.
//! Counts come from the lengths alone: no trace is read here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::deploy::T1Mode;
use crate::memory::{Held, Ledger};
use crate::policy::PolicySpec;
use crate::policy::four_tier::Hbm;
use crate::scenario::Scenario;
use crate::service::Prepared;
use crate::timeline::{Fetch, Timeline};
use crate::workload::Request;

use super::placed;
use super::run::{requests, with};

/// The scenario and its policy with every budget in tokens. `staged` without a size gets the HBM that is left once T0 is
/// as small as the policy allows.
pub(super) fn resolve(s: &Scenario, spec: PolicySpec) -> (Scenario, PolicySpec) {
    match spec.hbm() {
        Some(Hbm::Fit) => match &s.load {
            None => fit(s, &spec),
            // Under load: what the first batch could have together; admission and preemption do the rest.
            Some(load) => {
                let mut first = s.clone();
                first.load = Some(Arc::new(load.together(s.batch)));
                let (mut fitted, spec) = fit(&first, &spec);
                fitted.load.clone_from(&s.load);
                (fitted, spec)
            }
        },
        Some(Hbm::Bytes(size)) => {
            let each = size.as_f64() / f64::from(s.batch) / ledger(s).kv_token.max(1.0);
            #[allow(clippy::cast_possible_truncation)] // clamped to u32
            let tokens = each.min(f64::from(u32::MAX)) as u32;
            (s.clone(), spec.with_hbm_tokens(tokens))
        }
        _ => (s.clone(), spec),
    }
}

fn ledger(s: &Scenario) -> Ledger {
    Ledger::new(&Prepared::new(&s.deployment))
}

/// The largest T0 budget that fits; everything if everything fits, the least the policy allows if nothing does.
fn fit(s: &Scenario, spec: &PolicySpec) -> (Scenario, PolicySpec) {
    let open_buffer = s.deployment.t1 == T1Mode::Staged(None);
    let streaming = if open_buffer {
        with(s, |d| d.t1 = T1Mode::Stream)
    } else {
        s.clone()
    };
    let ledger = ledger(&streaming);
    let whole = s.prompt.saturating_add(s.output);
    let requests = requests(s);
    let peak = |budget: u32| -> f64 {
        placed::by_counts(s, &(*spec).with_hbm_tokens(budget))
            .map_or(f64::INFINITY, |t| peak_bytes(&ledger, &t, &requests))
    };
    // A budget is for every request: the one that protects least can go lowest.
    let shortest = requests.iter().map(|r| r.prompt).min().unwrap_or(s.prompt);
    let least = spec.least_hbm_tokens(shortest).min(whole);
    if peak(whole) <= ledger.pool() {
        return (s.clone(), (*spec).with_hbm_tokens(whole));
    }
    if open_buffer {
        let room = crate::units::Bytes::ceil((ledger.pool() - peak(least)).max(0.0).floor());
        return (
            with(s, |d| d.t1 = T1Mode::Staged(Some(room))),
            (*spec).with_hbm_tokens(least),
        );
    }
    (
        s.clone(),
        (*spec).with_hbm_tokens(ledger.fit(least, whole, peak).unwrap_or(least)),
    )
}

/// An upper bound of the HBM that KV and staging need over a run: every request at the end of its re-tier interval.
/// Request i has timeline i mod their number.
pub(super) fn peak_bytes(
    ledger: &Ledger,
    timelines: &[Arc<Timeline>],
    requests: &[Request],
) -> f64 {
    let (Some(first), Some(timeline)) = (requests.first(), timelines.first()) else {
        return 0.0;
    };
    if timelines.len() > 1 {
        return listed_peak(ledger, timelines, requests);
    }
    let together = requests.iter().all(|r| r == first);
    let ends = interval_ends(timeline);
    let mut moment = Moment::new(ledger, timeline);
    if together {
        let n = requests.len() as f64;
        return ends
            .iter()
            .map(|e| moment.bytes([(*e, n)].into_iter()))
            .fold(0.0, f64::max);
    }
    let span = timeline
        .steps
        .div_ceil(u32::try_from(ends.len()).unwrap_or(1))
        .max(1);
    (0..timeline.steps)
        .step_by(span as usize)
        .map(|s| {
            let step = |r: &Request| (r.generated + s) % timeline.steps;
            moment.bytes(
                requests
                    .iter()
                    .map(|r| (most_within(&ends, step(r), span), 1.0)),
            )
        })
        .fold(0.0, f64::max)
}

/// Moments looked at of a batch whose requests have their own lengths.
const MOMENTS: u32 = 256;

/// The same for requests of different lengths that begin together: those not yet done at each of some moments, each
/// at the most that it comes to before the next.
fn listed_peak(ledger: &Ledger, timelines: &[Arc<Timeline>], requests: &[Request]) -> f64 {
    let longest = requests.iter().map(|r| r.output).max().unwrap_or(1);
    let span = longest.div_ceil(MOMENTS).max(1);
    let mut known: BTreeMap<*const Timeline, Vec<End>> = BTreeMap::new();
    for t in timelines {
        known
            .entry(Arc::as_ptr(t))
            .or_insert_with(|| spans(t, span));
    }
    let of: Vec<&[End]> = timelines
        .iter()
        .map(|t| &known[&Arc::as_ptr(t)][..])
        .collect();
    let mut moment = Moment::new(ledger, &timelines[0]);
    moment.spills = timelines.iter().any(|t| t.spills());
    (0..longest.div_ceil(span))
        .map(|n| {
            let live = requests
                .iter()
                .enumerate()
                .filter(|(_, r)| r.output > n * span);
            moment.bytes(live.map(|(i, _)| (of[i % of.len()][n as usize], 1.0)))
        })
        .fold(0.0, f64::max)
}

/// The most that a request comes to in each `span` steps.
fn spans(t: &Timeline, span: u32) -> Vec<End> {
    let ends = interval_ends(t);
    (0..t.steps)
        .step_by(span as usize)
        .map(|step| most_within(&ends, step, span))
        .collect()
}

/// The last step of an interval.
#[derive(Clone, Copy)]
struct End {
    step: u32,
    /// Tokens in T0..T3.
    tokens: [f64; 4],
    /// Tokens that T0's pages have room for.
    room: f64,
    /// Positions, destroyed ones included.
    length: f64,
}

/// The end of each interval in which a step runs.
fn interval_ends(t: &Timeline) -> Vec<End> {
    (0..t.intervals.len())
        .filter(|i| t.steps_of(*i) > 0)
        .map(|i| {
            let step = t.intervals[i].first_step + t.steps_of(i) - 1;
            End {
                step,
                tokens: t.tokens_at(step),
                room: t.t0_room(i, step),
                length: f64::from(t.prompt) + f64::from(step) + 1.0,
            }
        })
        .collect()
}

/// The most of each part over the intervals that hold from `step` on for `span` steps (the last one at most), each as at its
/// end: one interval may hold more in T0 and the next more in host memory, the last being cut short.
fn most_within(ends: &[End], step: u32, span: u32) -> End {
    let at = |step: u32| ends.partition_point(|e| e.step < step).min(ends.len() - 1);
    let (first, last) = (at(step), at(step.saturating_add(span - 1)));
    ends[first..last].iter().fold(ends[last], End::or)
}

impl End {
    /// The larger of each part.
    fn or(self, other: &Self) -> Self {
        let mut tokens = self.tokens;
        for (most, n) in tokens.iter_mut().zip(other.tokens) {
            *most = most.max(n);
        }
        Self {
            step: self.step,
            tokens,
            room: self.room.max(other.room),
            length: self.length.max(other.length),
        }
    }
}

/// One moment of a run after another, priced with the same buffers.
struct Moment<'a> {
    ledger: &'a Ledger,
    spills: bool,
    held: Held,
}

impl<'a> Moment<'a> {
    fn new(ledger: &'a Ledger, timeline: &Timeline) -> Self {
        Self {
            ledger,
            spills: timeline.spills(),
            held: Held {
                windowed: vec![0.0; ledger.windowed.len()],
                ..Held::default()
            },
        }
    }

    /// HBM for KV and staging with each part's tokens, so many times.
    fn bytes(&mut self, parts: impl Iterator<Item = (End, f64)>) -> f64 {
        let held = &mut self.held;
        (held.sequences, held.tiers, held.room) = (0.0, [0.0; 3], 0.0);
        held.fetch = Fetch::default();
        held.windowed.fill(0.0);
        for (end, n) in parts {
            held.sequences += n;
            if self.ledger.whole_pages {
                held.room += n * end.room;
            }
            if let Some(selection) = self.ledger.selection() {
                let most = selection.most([end.tokens[1], end.tokens[2]]);
                held.fetch.add(&most.times(n));
            }
            for (sum, t) in held.tiers.iter_mut().zip(end.tokens) {
                *sum += n * t;
            }
            for (sum, class) in held.windowed.iter_mut().zip(&self.ledger.windowed) {
                *sum += class.map_or(0.0, |(_, w)| n * end.length.min(f64::from(w)));
            }
        }
        self.ledger.instant(held, self.spills).total()
    }
}
