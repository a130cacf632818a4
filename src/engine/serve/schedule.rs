//! Who takes part in the coming step: preemption, chunks of prompts, admission.

use super::{Filling, GiveWay, Server, Waiting};
use crate::service::transfer;
use crate::units::Ps;

impl Server<'_> {
    /// Chooses the batch of the step that begins at `now`.
    pub(super) fn choose(&mut self, now: Ps) {
        let before = self.out.run.preemptions;
        let mut used = self.preempt(now);
        self.forget(used);
        let decodes = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let mut budget = self.setup.rules.token_budget.saturating_sub(decodes);
        for f in &mut self.filling {
            f.chunk = (f.total - f.done).min(budget);
            budget -= f.chunk;
        }
        // Who gives way would come straight back.
        if self.out.run.preemptions == before {
            used = self.admit(now, budget, used);
        }
        self.lasts = self.lasts(used);
        let whole = self.setup.ledger.whole_pages;
        let page = whole.then_some(crate::timeline::PAGE);
        self.running.settle(&self.setup.jobs, page, whole);
    }

    /// The latest requests give way until the step that begins at `now` fits; returns what it takes (bytes).
    fn preempt(&mut self, now: Ps) -> f64 {
        loop {
            let used = self.room().bytes();
            let fits = used <= self.setup.rules.pool;
            if fits || self.running.len() + self.filling.len() <= 1 {
                return used;
            }
            if let Some(f) = self.filling.pop() {
                self.give_way(f.job, f.tokens, false, now);
            } else if let Some(r) = self.running.pop() {
                self.give_way(r.job, r.done + 1, true, now);
            }
        }
    }

    /// A request with so many tokens leaves the batch for the head of the line; `whole` says that its KV is complete.
    fn give_way(&mut self, job: u32, tokens: u32, whole: bool, now: Ps) {
        self.out.run.preemptions += 1;
        let again = self.back.iter().position(|b| *b == job);
        let whole = whole && again.is_none();
        if let Some(at) = again {
            self.back.remove(at);
        }
        self.let_go(job);
        let life = &mut self.out.lives[job as usize];
        life.preempted += 1;
        if let Some(end) = self.last_end.filter(|_| whole) {
            life.last = end;
        }
        self.ddr -= self.ddr_of[job as usize];
        let swapped = if whole {
            self.swap_out(job, tokens)
        } else {
            0.0
        };
        self.waiting.push_front(Waiting {
            job,
            tokens,
            swapped,
            since: now,
        });
    }

    /// Copies a request's KV to the host, if that is how it gives way and there is room; returns its bytes.
    fn swap_out(&mut self, job: u32, tokens: u32) -> f64 {
        let prompt = self.setup.jobs[job as usize].request.prompt;
        let timeline = &self.setup.jobs[job as usize].timeline;
        let bytes = self
            .setup
            .ledger
            .sequence_bytes(f64::from(prompt + tokens - 1));
        let room = self.setup.rules.ddr - self.ddr;
        // What already lies in host memory by tiers is not followed through a swap.
        let no = self.setup.rules.give_way == GiveWay::Recompute || timeline.spills();
        if no || bytes > room {
            return 0.0;
        }
        self.ddr += bytes;
        self.out.swaps += 1;
        let prepared = self.setup.prepared;
        self.stall += self.copy(bytes, prepared.d2h_rate);
        bytes
    }

    /// Time of a copy of `bytes` in pages over all links.
    fn copy(&self, bytes: f64, rate: f64) -> Ps {
        let d = &self.setup.prepared.deployment;
        let each = bytes / f64::from(d.gpus);
        let page = self.setup.ledger.kv_token * f64::from(d.runtime.page_tokens.max(1));
        let pieces = (bytes / page.max(1.0)).ceil();
        Ps::from_secs(transfer::copy(&d.hardware.link, rate, each, pieces))
    }

    /// Admits waiting requests in order while there are slots, tokens and room; returns what the step then takes (bytes).
    fn admit(&mut self, now: Ps, mut budget: u32, mut used: f64) -> f64 {
        while let Some(&first) = self.waiting.front() {
            let taken = self.running.len() + self.filling.len() + self.lingering as usize;
            let full = taken >= self.setup.rules.max_running as usize;
            if full || budget == 0 {
                break;
            }
            let Some(then) = self.fits(first) else {
                break;
            };
            used = then;
            self.waiting.pop_front();
            self.watch.waited(first.since, now);
            let life = &mut self.out.lives[first.job as usize];
            life.begun.get_or_insert(now);
            self.ddr += self.ddr_of[first.job as usize];
            budget -= if first.swapped > 0.0 {
                self.swap_in(first)
            } else {
                self.begin(first, budget)
            };
            self.forget(used);
        }
        used
    }

    /// What the coming step takes with this request, if it fits in HBM and host memory (bytes).
    fn fits(&self, w: Waiting) -> Option<f64> {
        let rules = &self.setup.rules;
        if self.ddr + self.ddr_of[w.job as usize] > rules.ddr {
            return None;
        }
        let mut room = self.room();
        room.prompt(self.positions(w));
        room.shared(self.to_share(w));
        let bytes = room.bytes();
        let alone = self.running.len() + self.filling.len() == 0;
        (alone || bytes <= rules.pool).then_some(bytes)
    }

    /// Positions of a waiting request that take HBM when its next token is there: all of them, or what its tiers leave there of
    /// what it had before, and its prompt at the least.
    fn positions(&self, w: Waiting) -> u32 {
        let job = &self.setup.jobs[w.job as usize];
        let (prompt, all) = (job.request.prompt, job.request.prompt + w.tokens + 1);
        if !job.timeline.spills() || w.tokens == 0 {
            return all;
        }
        #[allow(clippy::cast_possible_truncation)] // clamped to u32
        let kept = job.timeline.tokens_at(w.tokens)[0]
            .ceil()
            .clamp(0.0, f64::from(all)) as u32;
        kept.max(prompt + 1)
    }

    /// A swapped request comes back and decodes on; it takes one token of the budget.
    fn swap_in(&mut self, w: Waiting) -> u32 {
        self.ddr -= w.swapped;
        self.stall += self.copy(w.swapped, self.setup.prepared.h2d_rate);
        self.running
            .join(w.job, w.tokens - 1, &self.setup.jobs, false);
        self.back.push(w.job);
        1
    }

    /// The prompt of a request is begun; returns the tokens that it takes of the budget.
    fn begin(&mut self, w: Waiting, budget: u32) -> u32 {
        let total = self.setup.jobs[w.job as usize].request.prompt + w.tokens;
        let cached = self.cached(w.job, total);
        let chunk = (total - cached).min(budget);
        if w.tokens == 0 {
            self.out.lives[w.job as usize].cached = cached;
            self.out.cached_tokens += u64::from(cached);
        }
        self.filling.push(Filling {
            job: w.job,
            tokens: w.tokens,
            total,
            room: self.positions(w),
            done: cached,
            chunk,
            seen: cached.checked_div(self.setup.block_tokens).unwrap_or(0),
        });
        chunk
    }
}
