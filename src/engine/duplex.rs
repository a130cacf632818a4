//! The two directions of one link while both are busy.
//!
//! A link's directions are mostly independent; together each keeps a share of its lone pace (`Link::duplex`). So a
//! write-back and a transfer that meet slow each other for exactly as long as both are under way: of work `a` and `b` at
//! share s, the shorter is done after `min(a, b) / s`, by when the longer has as much behind it. Rival: a delay spread
//! over the whole step, which misses which layers wait.
//!
//! Both fidelities share this arithmetic: shares are parts of 2^32, so that time stays an integer; what is left rounds
//! up, what is done rounds down.

use crate::units::Ps;

/// Parts of a whole pace.
const PARTS: u128 = 1 << 32;

/// The share of its pace that a direction keeps while the other is busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(u128);

impl Share {
    /// From a share in 1e-6..=1.
    pub(super) fn new(share: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // a share of 2^32
        Self((share.clamp(1e-6, 1.0) * PARTS as f64) as u128)
    }

    /// Work done in `passed` while both directions are busy.
    #[allow(clippy::cast_possible_truncation)] // a share of a u64
    pub(super) fn slowed(self, passed: Ps) -> Ps {
        Ps((u128::from(passed.0) * self.0 / PARTS) as u64)
    }

    /// Time that `left` takes while both directions are busy, rounded up; at most NEVER.
    #[allow(clippy::cast_possible_truncation)] // bounded by NEVER
    pub(super) fn stretched(self, left: Ps) -> Ps {
        let time = (u128::from(left.0) * PARTS).div_ceil(self.0);
        Ps(time.min(u128::from(Ps::NEVER.0)) as u64)
    }
}

/// A step's write-back on its way down while the transfers of the next go up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    share: Share,
    /// Work left, as of `at`.
    left: Ps,
    /// When it was released, or up to when it is accounted for.
    at: Ps,
}

impl Down {
    /// Nothing to write.
    pub(super) fn new(share: f64) -> Self {
        Self {
            share: Share::new(share),
            left: Ps::ZERO,
            at: Ps::ZERO,
        }
    }

    /// The share that each direction keeps from here on.
    pub(super) fn share(&mut self, share: f64) {
        self.share = Share::new(share);
    }

    /// Releases `total` at `at`, when all before it is down.
    pub(super) fn release(&mut self, at: Ps, total: Ps) {
        (self.left, self.at) = (total, at);
    }

    /// Whether nothing is under way.
    pub(super) fn idle(&self) -> bool {
        self.left == Ps::ZERO
    }

    /// When it will be down if no further transfer meets it.
    pub(super) fn end(&self) -> Ps {
        self.at + self.left
    }

    /// End of a transfer of `work` that begins at `start`, no earlier than any before it.
    pub(super) fn beside(&mut self, start: Ps, work: Ps) -> Ps {
        if self.idle() {
            return start + work;
        }
        self.alone_until(start);
        let before = self.at.saturating_sub(start);
        if self.idle() || work <= before {
            return start + work;
        }
        self.both(start + before, work.saturating_sub(before))
    }

    /// Writes at full pace up to `start`.
    fn alone_until(&mut self, start: Ps) {
        let passed = start.saturating_sub(self.at);
        if passed > Ps::ZERO {
            let done = passed.min(self.left);
            self.left = self.left.saturating_sub(done);
            self.at += done;
        }
    }

    /// Both busy from `now`, until the shorter is done; returns the end of the transfer.
    fn both(&mut self, now: Ps, work: Ps) -> Ps {
        let (up, down) = (self.share.stretched(work), self.share.stretched(self.left));
        if up < down {
            self.left = self.left.saturating_sub(self.share.slowed(up));
            self.at = now + up;
            self.at
        } else {
            (self.left, self.at) = (Ps::ZERO, now + down);
            self.at + work.saturating_sub(self.share.slowed(down))
        }
    }
}
