//! The state of a server over time: means by duration, and a few hundred samples.
//!
//! Who waits is not seen at steps but followed: each stay in line, from coming (or giving way) to the begin of the step that
//! takes it up. So the mean of the line is the sum of all stays over the makespan, which is Little's law to the bit, and somebody who
//! comes and is taken up between two looks has waited.
//!
//! A run may last seconds or days, which nobody knows at its start: samples are taken a stride apart, and when there are
//! too many every other one is dropped and the stride doubled. So memory is bounded and two runs keep the same instants.

use crate::units::Ps;

/// Most samples that are kept.
const MOST: usize = 512;

/// First stride: a millisecond.
const STRIDE: Ps = Ps(1_000_000_000);

/// The state after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Ps,
    /// Requests in the batch, those being prefilled included.
    pub running: u32,
    /// Requests that wait, just before whoever is taken up at this instant.
    pub waiting: u32,
    /// Tokens in T0..T3: of decoding requests, and in T0 of prompts as far as they are computed.
    pub tiers: [f64; 4],
    /// HBM in use for KV and staging (bytes).
    pub hbm: f64,
    /// Host memory promised to requests (bytes).
    pub ddr: f64,
    /// Output tokens made so far.
    pub tokens: u64,
}

/// Means over the makespan, idle time included, and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// Requests in the batch.
    pub running: f64,
    /// Requests in line: those not begun, and those that gave way.
    pub waiting: f64,
    /// Tokens in T0..T3.
    pub tiers: [f64; 4],
    /// HBM in use for KV and staging (bytes).
    pub hbm: f64,
    /// Most requests in the batch.
    pub running_max: u32,
    /// Most in line at once.
    pub waiting_max: u32,
    /// Time in which something ran (s).
    pub busy: f64,
}

#[derive(Debug)]
pub(super) struct Watch {
    samples: Vec<Sample>,
    stride: Ps,
    due: Ps,
    sums: Means,
    line: Line,
}

/// Stays in line that lasted.
#[derive(Debug, Default)]
struct Line {
    begins: Vec<Ps>,
    ends: Vec<Ps>,
}

impl Line {
    fn sort(&mut self) {
        self.begins.sort_unstable();
        self.ends.sort_unstable();
    }

    /// How many there are just before `at`, once sorted.
    fn before(&self, at: Ps) -> u32 {
        let count = |times: &[Ps]| times.partition_point(|t| *t < at);
        u32::try_from(count(&self.begins) - count(&self.ends)).unwrap_or(u32::MAX)
    }

    /// Most at once, once sorted: the line is longest just after a begin.
    fn most(&self) -> usize {
        let mut over = 0;
        let there = self.begins.iter().enumerate().map(|(i, begin)| {
            while self.ends[over] <= *begin {
                over += 1;
            }
            i + 1 - over
        });
        there.max().unwrap_or(0)
    }

    /// Time of all stays (s).
    fn time(&self) -> f64 {
        let sum = |times: &[Ps]| times.iter().map(|t| u128::from(t.0)).sum::<u128>();
        (sum(&self.ends) - sum(&self.begins)) as f64 * 1e-12
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            stride: STRIDE,
            due: Ps::ZERO,
            sums: Means::default(),
            line: Line::default(),
        }
    }
}

impl Watch {
    /// The state held for `time` until now.
    pub(super) fn see(&mut self, time: Ps, sample: Sample) {
        let (s, t) = (&mut self.sums, time.secs());
        s.busy += t;
        s.running += t * f64::from(sample.running);
        s.hbm += t * sample.hbm;
        for (sum, n) in s.tiers.iter_mut().zip(sample.tiers) {
            *sum += t * n;
        }
        s.running_max = s.running_max.max(sample.running);
        if sample.at >= self.due {
            self.keep(sample);
        }
    }

    /// Somebody was in line from `since` until now.
    pub(super) fn waited(&mut self, since: Ps, now: Ps) {
        if now > since {
            self.line.begins.push(since);
            self.line.ends.push(now);
        }
    }

    fn keep(&mut self, sample: Sample) {
        if self.samples.len() == MOST {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.stride = self.stride * 2;
        }
        self.samples.push(sample);
        self.due = sample.at + self.stride;
    }

    /// The samples, and the means over a makespan.
    pub(super) fn finish(mut self, makespan: Ps) -> (Vec<Sample>, Means) {
        self.line.sort();
        for sample in &mut self.samples {
            sample.waiting = self.line.before(sample.at);
        }
        let mut m = self.sums;
        let over = makespan.secs().max(f64::MIN_POSITIVE);
        m.running /= over;
        m.waiting = self.line.time() / over;
        m.waiting_max = u32::try_from(self.line.most()).unwrap_or(u32::MAX);
        m.hbm /= over;
        m.tiers = m.tiers.map(|t| t / over);
        (self.samples, m)
    }
}
