//! What a loop is over, and how much memory that takes.
//!
//! Rooms are for the longest sequence in the turn that needs most, the same for every sequence: a serving engine pages
//! instead, which changes neither what is copied nor what is read.

use super::super::attend::{Board, Heads, PAGE};
use super::mode::Mode;
use super::plan::Plan;

/// What a loop is over.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) heads: Heads,
    pub(super) layers: u64,
    pub(super) depth: u64,
    pub(super) mode: Mode,
    /// A plan a sequence.
    pub(super) plans: Vec<Plan>,
    /// Steps in all.
    pub(super) steps: u32,
    /// Steps whose queries, new tokens and outputs have places of their own: all of them, or one over and over.
    pub(super) apart: u32,
}

impl Shape {
    /// Sequences.
    pub(super) fn batch(&self) -> u64 {
        self.plans.len() as u64
    }

    /// Tokens of a sequence at the end, the longest.
    pub(super) fn longest(&self) -> u64 {
        let most = self.plans.iter().map(|p| p.length).max().unwrap_or(0);
        u64::from(most + self.steps)
    }

    /// Positions on the host that are not in device memory too, in a turn.
    pub(super) fn overflow<'a>(&self, plan: &'a Plan, turn: usize) -> &'a [u32] {
        let host = &plan.turns[turn].host;
        &host[self.mode.staged(host.len())..]
    }

    fn most(&self, of: impl Fn(&Plan) -> usize) -> u64 {
        self.plans.iter().map(of).max().unwrap_or(0) as u64
    }

    /// Pages of a sequence on the host, at most.
    pub(super) fn host_pages(&self) -> u64 {
        let turns = |p: &Plan| (0..p.turns.len()).map(|t| self.overflow(p, t).len()).max();
        self.most(|p| turns(p).unwrap_or(0)).div_ceil(PAGE).max(1)
    }

    /// Pages of a sequence on the device, at most: all that is not on the host in the turn that has least there, and what
    /// a re-tier brings before it packs.
    pub(super) fn device_pages(&self) -> u64 {
        let turns = |p: &Plan| {
            let least = (0..p.turns.len()).map(|t| self.overflow(p, t).len()).min();
            p.length as usize - least.unwrap_or(0)
        };
        (self.most(turns) + u64::from(self.steps)).div_ceil(PAGE) + 1
    }

    /// Tokens that all sequences move in one direction at a re-tier, at most.
    pub(super) fn moved(&self) -> u64 {
        let change = |p: &Plan, turn: usize| {
            let over = differ(self.overflow(p, turn), self.overflow(p, turn + 1));
            over.max(differ(&p.turns[turn].host, &p.turns[turn + 1].host))
        };
        let most = |p: &Plan| (0..p.turns.len() - 1).map(|t| change(p, t)).max();
        let all: usize = self.plans.iter().map(|p| most(p).unwrap_or(0)).sum();
        all.max(1) as u64
    }

    /// Bytes of device and of pinned memory that a loop takes.
    pub(super) fn bytes(&self, sms: u32) -> (u64, u64) {
        let (h, batch, layers) = (&self.heads, self.batch(), self.layers);
        let (device, host) = (self.device_pages(), self.host_pages());
        let side = |pages: u64| layers * batch * pages * h.page();
        let stages = self.depth * batch * host * h.page();
        let records = 2 * self.moved() * layers * h.token();
        let splits = h.splits(sms, batch, self.longest());
        let boards = Board::bytes(*h, batch, splits + 1, self.longest() + 2 * PAGE);
        let each = u64::from(self.apart) * layers * batch * h.queries() * h.dim * 7;
        let fresh = u64::from(self.apart) * batch * layers * h.token();
        let tables = batch * (device + host) * (4 + 4 * PAGE)
            + 12 * u64::from(self.steps) * batch
            + 40 * self.moved();
        let slack = 1 << 18;
        let up = side(device) + stages + records + boards + each + fresh + tables + slack;
        let down =
            side(host) + records + each + batch * h.queries() * (splits + 1) * 4 * layers + slack;
        (up, down)
    }
}

/// Entries of `b` that are not in `a`, and the other way round.
fn differ(a: &[u32], b: &[u32]) -> usize {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    let missing = |x: &[u32], y: &[u32]| x.iter().filter(|p| y.binary_search(p).is_err()).count();
    missing(&a, &b).max(missing(&b, &a))
}
