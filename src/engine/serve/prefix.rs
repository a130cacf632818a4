//! Prompt blocks that requests share: which are there, who holds them, what that saves.
//!
//! A block is known by an id that stands for its text and all before it, so that the blocks of a prompt that are there are a
//! run from its start. A hit saves the compute of its tokens, and their memory while somebody else holds the block: a block in
//! use takes its bytes once, however many hold it. Two that compute the same block at the same time have a copy each, as in
//! vLLM, and the first is the one that is found. A block that nobody holds any more stays as long as its memory is not needed: the
//! one that was let go longest ago is dropped first, of one prompt its end before its beginning. Ignored: sharing of a prompt
//! that a policy moves to other tiers or destroys (hits save compute alone), and of layers with a window. Rival: a radix tree
//! over tokens, which gives the same run.

use std::collections::BTreeMap;

/// A block that is there.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Requests that hold it.
    holders: u32,
    /// When the last of them let it go; its key in `idle`.
    since: u64,
}

/// Blocks that are there, by id; those that nobody holds also by when they were let go.
#[derive(Debug, Default)]
pub(super) struct PrefixCache {
    known: BTreeMap<u32, Block>,
    idle: BTreeMap<u64, u32>,
    clock: u64,
    saved: u64,
}

impl PrefixCache {
    /// How many of the first blocks are there, and how many of these somebody holds.
    pub(super) fn find(&self, ids: &[u32]) -> (usize, usize) {
        let there = ids.iter().map_while(|id| self.known.get(id));
        there.fold((0, 0), |(all, held), b| {
            (all + 1, held + usize::from(b.holders > 0))
        })
    }

    /// One more holds these blocks, all of which are there.
    pub(super) fn take(&mut self, ids: &[u32]) {
        for id in ids {
            let Some(block) = self.known.get_mut(id) else {
                continue;
            };
            if block.holders == 0 {
                self.idle.remove(&block.since);
            } else {
                self.saved += 1;
            }
            block.holders += 1;
        }
    }

    /// A block that was computed is there, held by who computed it; no if it was there already, and that one has a copy of
    /// its own.
    pub(super) fn add(&mut self, id: u32) -> bool {
        if self.known.contains_key(&id) {
            return false;
        }
        let block = Block {
            holders: 1,
            since: 0,
        };
        self.known.insert(id, block);
        true
    }

    /// Lets go of blocks, the last of them first.
    pub(super) fn release(&mut self, ids: &[u32]) {
        for id in ids.iter().rev() {
            let Some(block) = self.known.get_mut(id).filter(|b| b.holders > 0) else {
                continue;
            };
            block.holders -= 1;
            if block.holders > 0 {
                self.saved -= 1;
                continue;
            }
            self.clock += 1;
            block.since = self.clock;
            self.idle.insert(self.clock, *id);
        }
    }

    /// Drops blocks that nobody holds until at most `most` of them are left.
    pub(super) fn trim(&mut self, most: usize) {
        while self.idle.len() > most {
            let Some((_, id)) = self.idle.pop_first() else {
                break;
            };
            self.known.remove(&id);
        }
    }

    /// Blocks that would be there once more for each further holder: memory that sharing saves.
    pub(super) fn saved(&self) -> u64 {
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PrefixCache;

    #[test]
    fn a_run_from_the_start_counts_and_the_oldest_end_goes() {
        let mut c = PrefixCache::default();
        assert_eq!(c.find(&[1, 2, 3]), (0, 0));
        assert!([1, 2, 3].iter().all(|id| c.add(*id)));
        assert_eq!(c.find(&[1, 2, 9, 3]), (2, 2), "a gap ends the run");
        assert!(!c.add(2), "a copy");
        // Another takes two: they are held twice, and once more than is needed.
        c.take(&[1, 2]);
        assert_eq!(c.saved(), 2);
        c.trim(0);
        assert_eq!(c.find(&[1, 2, 3]), (3, 3), "what is held stays");
        c.release(&[1, 2, 3]);
        assert_eq!((c.saved(), c.find(&[1, 2, 3])), (0, (3, 2)));
        // Idle now: 3 alone, then 2 and 1 in this order.
        c.release(&[1, 2]);
        c.trim(1);
        assert_eq!(c.find(&[1, 2, 3]), (1, 0));
    }

    proptest! {
        /// Against lists of who holds what: saved are all holdings less their union, and what is held is there.
        #[test]
        fn memory_in_use_is_the_union(
            ops in prop::collection::vec((0u8..4, 0u32..4, 1u32..7), 1..120)
        ) {
            let mut c = PrefixCache::default();
            let mut held: Vec<Vec<u32>> = Vec::new();
            for (op, family, n) in ops {
                // A family of prompts that begin alike: blocks 10 f + 0, 10 f + 1, ...
                let ids: Vec<u32> = (0..n).map(|i| 10 * family + i).collect();
                match op {
                    0 | 1 => {
                        let (hits, _) = c.find(&ids);
                        c.take(&ids[..hits]);
                        let mut own = ids[..hits].to_vec();
                        own.extend(ids[hits..].iter().filter(|id| c.add(**id)));
                        held.push(own);
                    }
                    2 if !held.is_empty() => {
                        let own = held.remove(family as usize % held.len());
                        c.release(&own);
                    }
                    _ => c.trim(n as usize),
                }
                let mut union: Vec<u32> = held.concat();
                let all = union.len();
                union.sort_unstable();
                union.dedup();
                prop_assert_eq!(c.saved(), (all - union.len()) as u64);
                for own in &held {
                    for id in own {
                        prop_assert_eq!(c.find(&[*id]), (1, 1));
                    }
                }
            }
        }
    }
}
