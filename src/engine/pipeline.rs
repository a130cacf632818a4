//! Compute and transfers of the layers of one step after another: a max-plus recursion.
//!
//! Layer k (counted over steps) computes for `c_k` once layer k-1 is done and its T1 has arrived; its transfer takes `x_k`
//! once the link is free and a staging buffer is, that is once layer k-d has computed:
//! ```text
//! T_k = max(T_{k-1}, C_{k-d}) + x_k        C_k = max(C_{k-1} + gap_k, T_k) + c_k
//! ```
//! For uniform layers the period of a step has the closed form max(Lc+G, Lx, G+2c+(L-d)x) for d >= 2 and
//! L(c+x)+max(0, G-x) for d = 1, which the tests hold it to; max(compute, transfer) is 2-48 % off. The link's lead is
//! carried from step to step. A layer without a transfer needs no buffer. Integer time, so no rounding hides a slip.
//! While the write-back of the step before is under way, a transfer takes as long as both directions together allow
//! (`duplex`), so that exactly the layers wait that meet it.
//!
//! [`Pipeline::pass`] is the recursion as written above, layer by layer. [`Pipeline::pass_runs`] is what the engine calls:
//! the recursion commutes with a shift of all its times, so once a layer has moved the whole state by one and the same
//! amount, every further layer alike does so too and the rest of the run is one multiplication (not before the write-back
//! is down). Equal to the picosecond
//! (a property test holds it to `pass`), and five layers instead of eighty.

use super::duplex::Down;
use crate::units::Ps;

/// Times of one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerTimes {
    /// Compute.
    pub compute: Ps,
    /// Transfer of its T1; zero for none.
    pub transfer: Ps,
}

/// What the layers of one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// End of the last layer.
    pub end: Ps,
    /// Sum of the layers' compute.
    pub compute: Ps,
    /// Waiting for transfers.
    pub waited: Ps,
    /// Link busy with the transfers.
    pub link: Ps,
}

/// The state carried from step to step.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Ends of the last `depth` layers that used a buffer, the oldest overwritten first.
    ends: Vec<Ps>,
    oldest: usize,
    link_free: Ps,
    /// What the layer before waited for its transfer.
    wait: Ps,
    /// The write-back of the step before.
    down: Down,
}

impl Pipeline {
    /// At rest, with staging for `depth` layers; each direction of the link keeps `share` of its pace while both are busy.
    pub fn new(depth: u32, share: f64) -> Self {
        Self {
            ends: vec![Ps::ZERO; depth.max(1) as usize],
            oldest: 0,
            link_free: Ps::ZERO,
            wait: Ps::ZERO,
            down: Down::new(share),
        }
    }

    /// From here on each direction keeps `share` of its pace while both are busy.
    pub fn share(&mut self, share: f64) {
        self.down.share(share);
    }

    /// Releases a step's write-back of `total` at `at`, once the one before is down (see [`Pipeline::written`]).
    pub fn write_back(&mut self, at: Ps, total: Ps) {
        self.down.release(at, total);
    }

    /// When all that was released is down, if no further transfer meets it.
    pub fn written(&self) -> Ps {
        self.down.end()
    }

    /// End of a fetch of `work` up the link that begins at `start` and that no transfer of a layer overlaps.
    pub fn fetch(&mut self, start: Ps, work: Ps) -> Ps {
        self.down.beside(start, work)
    }

    /// Runs the layers `order` (indices into `layers`) from `start` on.
    pub fn pass(&mut self, start: Ps, order: &[u8], layers: &[LayerTimes]) -> Passed {
        let mut out = Passed {
            end: start,
            ..Passed::default()
        };
        for class in order {
            self.layer(layers[usize::from(*class)], &mut out);
        }
        out
    }

    /// As [`Pipeline::pass`], for `runs` of consecutive layers alike: index into `layers` and how many.
    pub fn pass_runs(&mut self, start: Ps, runs: &[(u8, u32)], layers: &[LayerTimes]) -> Passed {
        let mut out = Passed {
            end: start,
            ..Passed::default()
        };
        for (class, n) in runs {
            let l = layers[usize::from(*class)];
            if l.transfer > Ps::ZERO {
                self.alike(l, *n, &mut out);
            } else {
                let compute = l.compute * u64::from(*n);
                out.end += compute;
                out.compute += compute;
            }
        }
        out
    }

    /// One layer.
    fn layer(&mut self, l: LayerTimes, out: &mut Passed) {
        if l.transfer > Ps::ZERO {
            let begin = self.link_free.max(self.ends[self.oldest]);
            self.link_free = self.down.beside(begin, l.transfer);
            out.link += self.link_free.saturating_sub(begin);
            out.waited += self.link_free.saturating_sub(out.end);
            out.end = out.end.max(self.link_free);
        }
        out.end += l.compute;
        out.compute += l.compute;
        if l.transfer > Ps::ZERO {
            self.ends[self.oldest] = out.end;
            self.oldest += 1;
            if self.oldest == self.ends.len() {
                self.oldest = 0;
            }
        }
    }

    /// `n` layers alike, each with a transfer: one by one until the state moves as a whole, then at once.
    fn alike(&mut self, l: LayerTimes, n: u32, out: &mut Passed) {
        if n == 0 {
            return;
        }
        // The first layer starts from `out.end`, which need not be the end of a layer: it tells nothing.
        self.layer(l, out);
        let (mut by, mut steady) = (Ps::ZERO, 0);
        for done in 1..n {
            if steady >= self.ends.len() && self.shift(l, by, n - done, out) {
                return;
            }
            let (end, link, waited) = (out.end, self.link_free, out.waited);
            let alone = self.down.idle();
            self.layer(l, out);
            let moved = out.end - end;
            steady = if moved == by { steady + 1 } else { 1 };
            by = moved;
            // `steady` ends in a row are `by` apart; the link must have moved by as much, alone.
            if self.link_free - link != by || !alone {
                steady = 0;
            }
            self.wait = out.waited - waited;
        }
    }

    /// `n` more layers, each of which moves the state by `by`; false (and nothing done) where time would saturate.
    fn shift(&mut self, l: LayerTimes, by: Ps, n: u32, out: &mut Passed) -> bool {
        let n = u64::from(n);
        let all = by * n;
        if (out.end + all).is_never() || (self.link_free + all).is_never() {
            return false;
        }
        self.link_free += all;
        for end in &mut self.ends {
            *end += all;
        }
        out.end += all;
        out.compute += l.compute * n;
        out.waited += self.wait * n;
        out.link += l.transfer * n;
        true
    }

    /// As [`Pipeline::pass`] when no layer has a transfer: `counts[i]` layers of class i, in any order.
    pub fn pass_still(
        start: Ps,
        counts: impl Iterator<Item = u32>,
        layers: &[LayerTimes],
    ) -> Passed {
        let compute = counts
            .zip(layers)
            .map(|(n, l)| l.compute * u64::from(n))
            .sum();
        Passed {
            end: start + compute,
            compute,
            ..Passed::default()
        }
    }

    /// A re-tier at `at` makes `share` of the prefetched T1 stale: that share of the link's lead is lost.
    pub fn drain(&mut self, share: f64, at: Ps) {
        let lead = at.saturating_sub(self.link_free);
        let lost = if share >= 1.0 {
            lead
        } else {
            Ps::from_secs(lead.secs() * share)
        };
        self.link_free += lost;
    }
}
