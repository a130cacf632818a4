//! What requests hold of the prefix cache: found at admission, added as it is computed, let go at the end.

use super::{Filling, Server, Waiting};

impl Server<'_> {
    /// Ids of the full blocks in the first `positions` of a request's prompt.
    fn ids(&self, job: u32, positions: u32) -> &[u32] {
        let size = self.setup.block_tokens;
        let Some(ids) = self.setup.blocks.get(job as usize).filter(|_| size > 0) else {
            return &[];
        };
        let prompt = self.setup.jobs[job as usize].request.prompt;
        &ids[..((prompt.min(positions) / size) as usize).min(ids.len())]
    }

    /// Whether a request's prompt stays where it is: what moves, or is destroyed, is nobody else's.
    fn stays(&self, job: u32) -> bool {
        let job = &self.setup.jobs[job as usize];
        let t = &job.timeline;
        !(t.spills() || t.destroys()) || t.never_moves >= job.request.prompt
    }

    /// First positions of a request that the prefix cache has, from now on held; the last one is always computed, for its token.
    pub(super) fn cached(&mut self, job: u32, total: u32) -> u32 {
        let ids = self.ids(job, total - 1);
        let (hits, _) = self.prefix.find(ids);
        if hits == 0 {
            return 0;
        }
        let found = ids[..hits].to_vec();
        if self.stays(job) {
            self.prefix.take(&found);
            self.holds[job as usize] = found;
        }
        u32::try_from(hits).unwrap_or(u32::MAX) * self.setup.block_tokens
    }

    /// Positions of a waiting request that somebody of the batch has.
    pub(super) fn to_share(&self, w: Waiting) -> f64 {
        if w.swapped > 0.0 || !self.stays(w.job) {
            return 0.0;
        }
        let total = self.setup.jobs[w.job as usize].request.prompt + w.tokens;
        let (_, held) = self.prefix.find(self.ids(w.job, total - 1));
        held as f64 * f64::from(self.setup.block_tokens)
    }

    /// Positions that are in the batch's memory once and belong to one more of it, each time counted.
    pub(super) fn shared(&self) -> f64 {
        self.prefix.saved() as f64 * f64::from(self.setup.block_tokens)
    }

    /// Adds the full prompt blocks that are computed by now to the prefix cache.
    pub(super) fn keep_blocks(&mut self, f: &mut Filling) {
        let ids = self.ids(f.job, f.done);
        let new = ids.get(f.seen as usize..).unwrap_or_default().to_vec();
        if new.is_empty() {
            return;
        }
        f.seen = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let own: Vec<u32> = new.into_iter().filter(|id| self.prefix.add(*id)).collect();
        if self.stays(f.job) {
            self.holds[f.job as usize].extend(own);
        } else {
            self.prefix.release(&own);
        }
    }

    /// A request leaves the batch: its blocks stay as long as there is room.
    pub(super) fn let_go(&mut self, job: u32) {
        if let Some(held) = self.holds.get_mut(job as usize) {
            self.prefix.release(&std::mem::take(held));
        }
    }

    /// Drops blocks that nobody holds where the batch takes `used` bytes.
    pub(super) fn forget(&mut self, used: f64) {
        let block = self.setup.ledger.kv_token * f64::from(self.setup.block_tokens);
        if block > 0.0 {
            #[allow(clippy::cast_possible_truncation)] // saturates: no limit
            let most = ((self.setup.rules.pool - used) / block) as usize;
            self.prefix.trim(most);
        }
    }
}
