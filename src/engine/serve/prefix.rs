//! Which prompt blocks are in the cache, for prompts that begin alike: least recently used goes first.
//!
//! A block is known by an id that stands for its text and all before it, so that the blocks of a prompt that are there are a
//! run from its start. What a hit saves is the compute of its tokens. Ignored: shared blocks are still counted once for
//! each request that has them, so that memory is an upper bound. Rival: a radix tree over tokens, which gives the same run.

use std::collections::BTreeMap;

/// Blocks that are there, by id and by last use.
#[derive(Debug, Default)]
pub(super) struct PrefixCache {
    known: BTreeMap<u32, u64>,
    used: BTreeMap<u64, u32>,
    clock: u64,
}

impl PrefixCache {
    /// How many of the first blocks are there; they count as used.
    pub(super) fn hits(&mut self, ids: &[u32]) -> usize {
        let there = ids.iter().take_while(|id| self.known.contains_key(id));
        let n = there.count();
        for id in &ids[..n] {
            self.touch(*id);
        }
        n
    }

    /// Adds blocks that were computed, then drops the least used until at most `most` are left.
    pub(super) fn add(&mut self, ids: &[u32], most: usize) {
        for id in ids {
            self.touch(*id);
        }
        while self.known.len() > most {
            let Some((_, id)) = self.used.pop_first() else {
                break;
            };
            self.known.remove(&id);
        }
    }

    fn touch(&mut self, id: u32) {
        self.clock += 1;
        if let Some(before) = self.known.insert(id, self.clock) {
            self.used.remove(&before);
        }
        self.used.insert(self.clock, id);
    }
}

#[cfg(test)]
mod tests {
    use super::PrefixCache;

    #[test]
    fn a_run_from_the_start_counts_and_the_oldest_goes() {
        let mut c = PrefixCache::default();
        assert_eq!(c.hits(&[1, 2, 3]), 0);
        c.add(&[1, 2, 3], 3);
        assert_eq!(c.hits(&[1, 2, 9, 3]), 2, "a gap ends the run");
        // Used last: 1 and 2, so that 3 goes when 4 comes.
        c.add(&[4], 3);
        assert_eq!(c.hits(&[3]), 0);
        assert_eq!(c.hits(&[1, 2, 4]), 3);
    }
}
