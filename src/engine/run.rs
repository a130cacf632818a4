//! What a run found: its steps, its totals, its peaks.
//!
//! A run is one static batch, a steady state, or several rounds of a smaller batch one after another: `then` joins them.
//! Sums are over steps; peaks are of single instants and come whole (law 3: the parts at the peak sum to the peak).

use super::StepTimes;
use crate::memory::Instant;
use crate::service::BatchCost;
use crate::units::Ps;

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Each decode step's time, gap included, prefill excluded.
    pub steps: Vec<Ps>,
    /// Output tokens made.
    pub tokens: u64,
    /// From the start to the last token.
    pub makespan: Ps,
    /// From the first decode step's start to the last one's end, stalls between them included.
    pub decoding: Ps,
    /// First prefill of every request.
    pub prefill: Ps,
    /// Prefill again after preemption.
    pub recompute: Ps,
    /// Mean over requests of decode time over output tokens (s).
    pub tpot_mean: f64,
    /// Tokens per second of the last step.
    pub at_end: f64,
    /// Preemptions.
    pub preemptions: u64,
    /// Memory.
    pub peak: Peak,
    /// Sums over steps.
    pub sums: Sums,
    /// Events handled.
    pub events: u64,
}

impl Run {
    /// Time of decoding: everything but the first prefill of each request (s).
    pub fn decode_s(&self) -> f64 {
        self.makespan.saturating_sub(self.prefill).secs()
    }

    /// This run, then `next` after it, as rounds of a smaller batch follow each other.
    pub fn then(&mut self, next: &Self) {
        let requests = |r: &Self| r.tokens as f64;
        let weighted = self.tpot_mean * requests(self) + next.tpot_mean * requests(next);
        self.tpot_mean = weighted / (requests(self) + requests(next)).max(1.0);
        self.steps.extend(&next.steps);
        self.tokens += next.tokens;
        self.makespan += next.makespan;
        self.decoding += next.decoding;
        self.prefill += next.prefill;
        self.recompute += next.recompute;
        self.at_end = next.at_end;
        self.preemptions += next.preemptions;
        self.events += next.events;
        self.sums.join(&next.sums);
        self.peak.join(&next.peak);
    }
}

/// HBM and host memory at their largest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peak {
    /// KV and staging at the HBM peak.
    pub hbm: Instant,
    /// KV if nothing were moved or destroyed, at its largest.
    pub full: f64,
    /// Destroyed tokens' bytes at that instant.
    pub destroyed: f64,
    /// Host memory at its largest.
    pub ddr: f64,
    /// T1 and T2 bytes that took part in one step, at most.
    pub t1: f64,
}

impl Peak {
    fn join(&mut self, next: &Self) {
        if next.hbm.total() > self.hbm.total() {
            self.hbm = next.hbm;
        }
        if next.full > self.full {
            (self.full, self.destroyed) = (next.full, next.destroyed);
        }
        self.ddr = self.ddr.max(next.ddr);
        self.t1 = self.t1.max(next.t1);
    }
}

/// Sums over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Bytes host to device.
    pub h2d_bytes: f64,
    /// Bytes device to host.
    pub d2h_bytes: f64,
    /// Link busy, host to device.
    pub h2d_busy: Ps,
    /// GPU waiting for transfers.
    pub exposed: Ps,
    /// GPU waiting for the host.
    pub exposed_host: Ps,
    /// GPU waiting for what its attention reads in place.
    pub exposed_in_place: Ps,
    /// Re-tier work.
    pub retier: Ps,
    /// CPU gaps.
    pub gap: Ps,
    /// Attention over HBM, that of prompts in the same steps included (s).
    pub attention_s: f64,
    /// Linear layers and head (s).
    pub linear_s: f64,
    /// Norms and launches (s).
    pub other_s: f64,
    /// All-reduce (s).
    pub collective_s: f64,
}

impl Sums {
    fn join(&mut self, next: &Self) {
        self.h2d_bytes += next.h2d_bytes;
        self.d2h_bytes += next.d2h_bytes;
        self.h2d_busy += next.h2d_busy;
        self.exposed += next.exposed;
        self.exposed_host += next.exposed_host;
        self.exposed_in_place += next.exposed_in_place;
        self.retier += next.retier;
        self.gap += next.gap;
        self.attention_s += next.attention_s;
        self.linear_s += next.linear_s;
        self.other_s += next.other_s;
        self.collective_s += next.collective_s;
    }

    pub(super) fn add(&mut self, t: &StepTimes, cost: &BatchCost) {
        self.h2d_bytes += t.h2d_bytes;
        self.d2h_bytes += t.d2h_bytes;
        self.h2d_busy += t.h2d_busy;
        self.exposed += t.exposed;
        self.exposed_host += t.exposed_host;
        self.exposed_in_place += t.exposed_in_place;
        self.retier += t.retier;
        self.gap += t.gap;
        self.attention_s += t.attention_s + cost.prefill;
        self.linear_s += cost.totals[0];
        self.other_s += cost.totals[1];
        self.collective_s += cost.totals[2];
    }
}
