//! What a run under load leaves behind: each step booked and shown, peaks, samples, means.

use super::{Sample, Served, Server};
use crate::deploy::WriteBack;
use crate::engine::{Observer, StepFact, StepTimes};
use crate::error::Result;
use crate::memory::Instant;
use crate::units::Ps;

impl Server<'_> {
    /// Books a step that took `times`, and shows it.
    pub(super) fn told<O: Observer + ?Sized>(
        &mut self,
        times: &StepTimes,
        observer: &mut O,
    ) -> Result<()> {
        let instant = self.peaks(times);
        let totals = *self.running.totals();
        let m = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        observer.step(&StepFact {
            times,
            held: &self.held,
            destroyed: totals.tiers[3],
            appended: totals.length,
            instant,
            peak: self.out.run.peak.hbm,
            ddr: self.out.run.peak.ddr,
        })?;
        self.record(m, times, instant.total());
        Ok(())
    }

    /// Books a step: its time, the tokens it made, the state after it.
    fn record(&mut self, m: u32, times: &StepTimes, hbm: f64) {
        let run = &mut self.out.run;
        if m > 0 {
            run.steps.push(times.end - times.begin);
            #[allow(clippy::cast_possible_truncation)] // at most the batch
            let back = self.back.len() as u32;
            if let Some(before) = self.last_end.filter(|_| m > back) {
                self.out
                    .gaps
                    .push((times.end.saturating_sub(before), m - back));
            }
        }
        run.tokens += u64::from(m);
        run.makespan = times.end;
        run.decoding = times.end - *self.first.get_or_insert(times.begin);
        let mut tiers = self.running.totals().tiers;
        tiers[0] += self.prompts(f64::from);
        let run = &mut self.out.run;
        let since = self.last_end.unwrap_or(times.begin);
        self.last_end = Some(times.end);
        let sample = Sample {
            at: times.end,
            running: m + u32::try_from(self.filling.len()).unwrap_or(u32::MAX),
            waiting: 0,
            tiers,
            hbm,
            ddr: self.ddr,
            tokens: run.tokens,
        };
        self.watch.see(times.end.saturating_sub(since), sample);
    }

    /// Sum of `of` over the positions in HBM of the prompts that are being computed.
    fn prompts(&self, of: impl Fn(u32) -> f64) -> f64 {
        let there = |f: &super::Filling| of((f.done + f.chunk).min(f.room));
        self.filling.iter().map(there).sum()
    }

    /// Adds the step just run to the peaks; returns what it held.
    fn peaks(&mut self, times: &StepTimes) -> Instant {
        let (ledger, totals) = (self.setup.ledger, self.running.totals());
        let mut instant = ledger.instant(&self.held, totals.spilling > 0.0);
        let prompts = self.prompts(|n| ledger.sequence_bytes(f64::from(n)));
        let twice = ledger.kv_token * self.shared();
        instant.kv_t0 += prompts - twice;
        let peak = &mut self.out.run.peak;
        if instant.total() > peak.hbm.total() {
            peak.hbm = instant;
        }
        let through = self.setup.prepared.deployment.write_back == WriteBack::Through;
        let copied = if through { totals.copied.max(0.0) } else { 0.0 };
        let ddr = ledger.kv_token * (totals.tiers[1] + copied) + ledger.t2_token * totals.tiers[2];
        let full =
            ledger.kv_token * totals.length + ledger.windowed_bytes(&self.held) + prompts - twice;
        if full > peak.full {
            peak.full = full;
            peak.destroyed = ledger.kv_token * totals.tiers[3];
        }
        peak.ddr = peak.ddr.max(ddr);
        peak.t1 = peak.t1.max(times.t1_bytes);
        instant
    }

    /// The whole run.
    pub(super) fn finish(mut self) -> Served {
        self.out.run.events += self.stepper.events();
        let makespan = self.out.run.makespan;
        (self.out.samples, self.out.means) = self.watch.finish(makespan);
        let each = self.out.lives.iter().filter_map(|l| l.times().tpot);
        self.out.run.tpot_mean = crate::stats::mean(each.map(Ps::secs));
        self.out
    }
}
