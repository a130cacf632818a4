//! Puts the sample where the policy's rule and the exact counts want it.
//!
//! The lowest go first: into T3 for good, then T2, then T1. Boundaries fall within a member, which then lies on both sides
//! in part. Keys are packed with their member into one integer, which selects and sorts faster than any comparison.

use super::twin::Cuts;
use super::{Member, Outlook};
use crate::score::Rule;

/// Half-width of the shifts of a boundary that promotions are averaged over, in scores.
const SOFT: f64 = 0.1;

/// How much of the way the boundary for promotions goes at each decision.
const LAG: f64 = 0.2;

impl Outlook<'_> {
    /// Key of a member: the lowest leaves first.
    fn key(&self, m: &Member) -> f64 {
        match self.order.rule {
            None => f64::from(m.position),
            Some(Rule::PerAge) => {
                m.score / f64::from((self.law.prompt() + self.time - m.position).max(1))
            }
            Some(_) => m.score,
        }
    }

    /// Puts the candidates where the counts (tokens in T1, T2, T3 after the decision) want them; tokens promoted.
    pub(in crate::replay) fn decide(
        &mut self,
        is_candidate: impl Fn(u32) -> bool,
        tokens: [f64; 3],
    ) -> f64 {
        let want = tokens.map(|n| n / self.weight);
        self.cuts = Cuts::NONE;
        if want[2] > 0.0 {
            self.rank(&is_candidate, |m| m.tiers[2] < 1.0);
            self.destroy(want[2]);
        }
        let promoted = if self.order.append_only {
            self.append(&is_candidate, want);
            0.0
        } else {
            self.rank(&is_candidate, |m| m.tiers[2] < 1.0);
            self.spill(want)
        };
        self.follow_twins(&is_candidate);
        promoted
    }

    /// Keys of live candidates, in no order.
    fn rank(&mut self, is_candidate: &impl Fn(u32) -> bool, which: impl Fn(&Member) -> bool) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        let live = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, m)| is_candidate(m.position) && which(m));
        keys.extend(live.map(|(i, m)| pack(self.key(m), i)));
        self.keys = keys;
    }

    /// Brings the lowest into T3 until `want` members are there.
    fn destroy(&mut self, want: f64) {
        let gone: f64 = self.members.iter().map(|m| m.tiers[2]).sum();
        let mut missing = want - gone;
        if missing <= 1e-9 {
            return;
        }
        if self.order.append_only {
            let members = &self.members;
            self.keys.retain(|k| members[index(*k)].tiers[0] <= 0.0);
        }
        lowest_first(&mut self.keys, missing + 1.0, true);
        for (i, key) in self.keys.iter().enumerate() {
            let m = &mut self.members[index(*key)];
            let room = 1.0 - m.tiers[2];
            let part = missing.min(room);
            // What is left of it keeps its place.
            let stays = if room > 0.0 { 1.0 - part / room } else { 0.0 };
            m.tiers[0] *= stays;
            m.tiers[1] *= stays;
            m.tiers[2] += part;
            missing -= part;
            self.cuts.destroyed = least_kept(&self.keys, i, part < room / 2.0);
            if missing <= 1e-9 {
                return;
            }
        }
    }

    /// T2 and T1 are the lowest of the live.
    fn spill(&mut self, want: [f64; 3]) -> f64 {
        let host = want[0] + want[1];
        // One of them may be destroyed in part, and then takes less than its room.
        let parts = want[1] > 0.0 || want[2] > 0.0;
        lowest_first(&mut self.keys, if parts { host + 1.0 } else { host }, parts);
        let (mut t2, mut t1) = (want[1], want[0]);
        let mut boundary = f64::INFINITY;
        let mut seen = 0.0;
        for key in &self.keys {
            let m = &mut self.members[index(*key)];
            let live = 1.0 - m.tiers[2];
            let low = t2.min(live);
            let high = t1.min(live - low);
            (t2, t1) = (t2 - low, t1 - high);
            m.tiers[0] = high;
            m.tiers[1] = low;
            if low > 0.0 {
                self.cuts.t2 = value(*key);
            }
            if seen < host && seen + live >= host {
                boundary = value(*key);
            }
            seen += live;
        }
        if host > 0.0 {
            let rest = self
                .keys
                .iter()
                .map(|k| value(*k))
                .filter(|k| *k > boundary);
            self.cuts.t1 = rest.fold(f64::INFINITY, f64::min);
        }
        self.promoted(boundary)
    }

    /// Rises through the boundary, averaged over its shifts.
    ///
    /// The boundary itself follows with some lag: that of a sample jumps with every token that enters, that of all
    /// tokens hardly moves.
    fn promoted(&mut self, boundary: f64) -> f64 {
        let last = self
            .boundary
            .filter(|b| b.is_finite() && boundary.is_finite());
        let lag = if self.order.path { LAG } else { 1.0 };
        let boundary = last.map_or(boundary, |b| b + lag * (boundary - b));
        self.boundary = Some(boundary);
        let mut rose = 0.0;
        let usable = boundary.is_finite() && boundary > 0.0;
        let steep = if usable { 0.5 / (SOFT * boundary) } else { 0.0 };
        for key in &self.keys {
            let m = &mut self.members[index(*key)];
            let soft = if usable {
                (0.5 + (value(*key) - boundary) * steep).clamp(0.0, 1.0)
            } else {
                1.0
            };
            if let Some(before) = m.soft {
                rose += (soft - before).max(0.0) * (1.0 - m.tiers[2]);
            }
            m.soft = Some(soft);
        }
        rose * self.weight
    }

    /// T1 grows by the lowest of T0.
    fn append(&mut self, is_candidate: &impl Fn(u32) -> bool, want: [f64; 3]) {
        self.rank(is_candidate, |m| m.tiers[0] + m.tiers[2] < 1.0);
        let there: f64 = self.members.iter().map(|m| m.tiers[0]).sum();
        let mut missing = want[0] - there;
        lowest_first(&mut self.keys, missing.max(0.0) + 1.0, true);
        for (i, key) in self.keys.iter().enumerate() {
            if missing <= 1e-9 {
                return;
            }
            let m = &mut self.members[index(*key)];
            let room = 1.0 - m.tiers[0] - m.tiers[2];
            let part = missing.min(room);
            m.tiers[0] += part;
            missing -= part;
            self.cuts.t1 = least_kept(&self.keys, i, part < room / 2.0);
        }
    }
}

/// The lowest score that was left where it was when the key at `last` was the last to go, by less than half or more; keys ascend up
/// to the one behind it.
fn least_kept(keys: &[u64], last: usize, hardly: bool) -> f64 {
    let at = if hardly { last } else { last + 1 };
    keys.get(at).map_or(f64::INFINITY, |k| value(*k))
}

/// A key of at least 0 and an index as one integer that orders by both.
#[allow(clippy::cast_possible_truncation)] // binary32 is plenty for a rank, and indices are thousands
fn pack(key: f64, index: usize) -> u64 {
    u64::from((key.max(0.0) as f32).to_bits()) << 32 | index as u64
}

#[allow(clippy::cast_possible_truncation)] // the low half
fn index(packed: u64) -> usize {
    packed as u32 as usize
}

#[allow(clippy::cast_possible_truncation)] // the high half
fn value(packed: u64) -> f64 {
    f64::from(f32::from_bits((packed >> 32) as u32))
}

/// Brings the `count` lowest keys to the front, the highest of them last; all in ascending order if `sorted`.
#[allow(clippy::cast_possible_truncation)] // at most the number of keys
fn lowest_first(keys: &mut [u64], count: f64, sorted: bool) {
    let at = (count.max(0.0).ceil() as usize).min(keys.len());
    if at > 0 {
        keys.select_nth_unstable(at - 1);
    }
    if sorted {
        keys[..at].sort_unstable();
    }
}
