//! The state of a server over time: means by duration, and a few hundred samples.
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
    /// Requests that wait.
    pub waiting: u32,
    /// Tokens of the decoding requests in T0..T3.
    pub tiers: [f64; 4],
    /// HBM in use for KV and staging (bytes).
    pub hbm: f64,
    /// Host memory promised to requests (bytes).
    pub ddr: f64,
    /// Output tokens made so far.
    pub tokens: u64,
}

/// Means over time, and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// Requests in the batch.
    pub running: f64,
    /// Requests that wait.
    pub waiting: f64,
    /// Tokens in T0..T3.
    pub tiers: [f64; 4],
    /// HBM in use for KV and staging (bytes).
    pub hbm: f64,
    /// Most requests in the batch.
    pub running_max: u32,
    /// Most that wait.
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
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            stride: STRIDE,
            due: Ps::ZERO,
            sums: Means::default(),
        }
    }
}

impl Watch {
    /// The state held for `time` until now.
    pub(super) fn see(&mut self, time: Ps, sample: Sample) {
        let (s, t) = (&mut self.sums, time.secs());
        s.busy += t;
        s.running += t * f64::from(sample.running);
        s.waiting += t * f64::from(sample.waiting);
        s.hbm += t * sample.hbm;
        for (sum, n) in s.tiers.iter_mut().zip(sample.tiers) {
            *sum += t * n;
        }
        s.running_max = s.running_max.max(sample.running);
        s.waiting_max = s.waiting_max.max(sample.waiting);
        if sample.at >= self.due {
            self.keep(sample);
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

    /// The samples, and the means.
    pub(super) fn finish(self) -> (Vec<Sample>, Means) {
        let mut m = self.sums;
        let busy = m.busy.max(f64::MIN_POSITIVE);
        m.running /= busy;
        m.waiting /= busy;
        m.hbm /= busy;
        m.tiers = m.tiers.map(|t| t / busy);
        (self.samples, m)
    }
}
