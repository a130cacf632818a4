//! What is put up before a turn: tokens of each step, slots of those to come, positions for scores, pages of a selection.

use super::super::attend::{List, PAGE};
use super::super::rig::Rig;
use super::book::Book;
use super::mode::Mode;
use super::shape::Shape;
use super::store::Store;
use crate::error::Result;

impl Store {
    /// Puts up the tables of the steps `first..last`, and takes the tokens that come in them into the books.
    pub(super) fn turn(
        &mut self,
        rig: &Rig,
        shape: &Shape,
        turn: usize,
        first: u32,
        last: u32,
    ) -> Result<()> {
        let batch = self.books.len();
        self.choose(shape, turn);
        let (mut resident, mut ahead, mut append) = (Vec::new(), Vec::new(), Vec::new());
        for _ in first..last {
            for seq in 0..batch {
                let slot = self.books[seq].append();
                append.push(self.device_slot(seq, slot));
                resident.push(self.books[seq].resident.len() as u32);
                ahead.push(self.attended(shape, seq));
            }
        }
        let at = 4 * u64::from(first) * batch as u64;
        rig.put(self.append + at, &append)?;
        rig.put(self.resident.tokens + at, &resident)?;
        rig.put(self.ahead.tokens + at, &ahead)?;
        if shape.mode.scores() {
            rig.put(
                self.resident.positions,
                &self.positions(&self.resident, |b| &b.resident),
            )?;
            rig.put(
                self.ahead.positions,
                &self.positions(&self.ahead, |b| &b.host),
            )?;
        }
        Ok(())
    }

    fn positions(&self, list: &List, side: impl Fn(&Book) -> &Vec<u32>) -> Vec<u32> {
        let room = (list.stride * PAGE) as usize;
        let one = |b: &Book| {
            let mut row = side(b).clone();
            row.resize(room, 0);
            row
        };
        self.books.iter().flat_map(one).collect()
    }

    /// Tokens of a sequence that its second list names.
    fn attended(&self, shape: &Shape, seq: usize) -> u32 {
        let host = self.books[seq].host.len() as u32;
        match shape.mode {
            Mode::HostAttention | Mode::Resident => 0,
            Mode::Selective => self.fetched_tokens(seq),
            _ => host,
        }
    }

    /// Tokens on the pages that are fetched; only the last page may be part full, and it comes last.
    fn fetched_tokens(&self, seq: usize) -> u32 {
        let (host, chosen) = (self.books[seq].host.len() as u32, &self.chosen[seq]);
        let on = |page: &u32| (host - page * PAGE as u32).min(PAGE as u32);
        chosen.iter().map(on).sum()
    }

    /// Pages with the best scored tokens of each sequence, ascending.
    fn choose(&mut self, shape: &Shape, turn: usize) {
        if shape.mode != Mode::Selective {
            return;
        }
        for (seq, plan) in shape.plans.iter().enumerate() {
            let host = &self.books[seq].host;
            let pages = host.len().div_ceil(PAGE as usize);
            let mut rank = vec![0usize; self.books[seq].length() as usize];
            for (i, position) in plan.turns[turn].host.iter().enumerate() {
                rank[*position as usize] = plan.turns[turn].host.len() - i;
            }
            let worth = |page: usize| -> usize {
                let slots = host.iter().skip(page * PAGE as usize).take(PAGE as usize);
                slots.map(|p| rank[*p as usize]).sum()
            };
            let mut order: Vec<u32> = (0..pages as u32).collect();
            order.sort_by_key(|p| (std::cmp::Reverse(worth(*p as usize)), *p));
            order.truncate(shape.mode.fetched(pages as u64) as usize);
            order.sort_unstable();
            self.chosen[seq] = order;
        }
    }

    /// Positions of a sequence that attention sees before this step's own token.
    pub(super) fn seen(&self, shape: &Shape, seq: usize) -> Vec<u32> {
        let book = &self.books[seq];
        if shape.mode != Mode::Selective {
            return (0..book.length()).collect();
        }
        let on = |page: &u32| {
            book.host
                .iter()
                .skip((page * PAGE as u32) as usize)
                .take(PAGE as usize)
        };
        let chosen = self.chosen[seq].iter().flat_map(on);
        book.resident.iter().chain(chosen).copied().collect()
    }
}
