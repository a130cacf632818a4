//! Heavy hitters that nobody can tell from others yet.
//!
//! Up to [`WINDOW`] tokens of age a heavy hitter draws like any other token; its weight shows from then on. Whether it is
//! still there is a matter of the decisions on the way, and of how much it has drawn by the first after that age. So every
//! member to come has a *twin* of one of the recorded heavy weights, with the member's own young score: it is followed
//! through those decisions until it is destroyed, sent down where nothing comes back from, or has drawn its weight for
//! [`SPAN`] rows and ranks above the rest. Rival: sharing heavy hitters out as all who leave the window (what this
//! replaced), which loses as many of them as of the others although they outrank those within some rows.

use super::{Member, Outlook};
use crate::score::Rule;
use crate::trace::synth::{SPAN, WINDOW};

/// The lowest scores that the present decision left above each boundary. A twin stands in its member's stead, so it goes
/// the same way below them, even if above all that went: another then stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    /// Not destroyed.
    pub(super) destroyed: f64,
    /// Not sent to T2.
    pub(super) t2: f64,
    /// Not sent to T1.
    pub(super) t1: f64,
}

impl Cuts {
    pub(super) const NONE: Self = Self {
        destroyed: f64::NEG_INFINITY,
        t2: f64::NEG_INFINITY,
        t1: f64::NEG_INFINITY,
    };
}

/// Weights of heavy hitters to come, before the scaling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heavies {
    /// Destroyed before they showed.
    pub(super) lost: f64,
    /// In T1 for good.
    pub(super) down: f64,
    /// In T1 and T2 until the next decision.
    pub(super) passing: [f64; 2],
}

impl Outlook<'_> {
    /// The weight of a member's twin; none of a token that was recorded.
    pub(super) fn twin(&self, member: usize) -> f64 {
        let weights = &self.law.heavy_weights;
        if weights.is_empty() {
            0.0
        } else {
            weights[member % weights.len()]
        }
    }

    /// Score of a member's twin, which draws its weight besides from [`WINDOW`] on.
    fn twin_key(&self, m: &Member) -> f64 {
        let age = f64::from((self.law.prompt() + self.time).saturating_sub(m.position));
        let rows = (age - f64::from(WINDOW)).max(0.0);
        let weight = m.twin * self.scale;
        match self.order.rule {
            Some(Rule::Ema(keep)) => m.score + weight * (1.0 - keep.powf(rows)),
            Some(Rule::Last) => m.score + weight * f64::from(u8::from(rows > 0.0)),
            Some(Rule::PerAge) => (m.score + weight * rows) / age.max(1.0),
            _ => m.score + weight * rows,
        }
    }

    /// Follows the twins through a decision.
    pub(super) fn follow_twins(&mut self, is_candidate: &impl Fn(u32) -> bool) {
        self.heavies.passing = [0.0; 2];
        let length = self.law.prompt() + self.time;
        let each = self.weight * self.law.heavy_share;
        for at in (0..self.members.len()).rev() {
            let m = &self.members[at];
            let settled = length.saturating_sub(m.position) >= WINDOW + 2 * SPAN;
            if settled {
                break; // so are all that are older
            }
            if m.twin <= 0.0 || !is_candidate(m.position) {
                continue;
            }
            let (key, weight) = (self.twin_key(m), each * m.twin);
            let shows = length - m.position >= WINDOW + SPAN;
            let (cuts, for_good) = (self.cuts, self.order.append_only);
            let heavies = &mut self.heavies;
            let gone = if key < cuts.destroyed {
                heavies.lost += weight;
                true
            } else if key < cuts.t1 && for_good {
                heavies.down += weight;
                true
            } else if key < cuts.t2 {
                heavies.passing[1] += weight;
                false
            } else if key < cuts.t1 {
                heavies.passing[0] += weight;
                false
            } else {
                shows
            };
            if gone {
                self.members[at].twin = 0.0;
            }
        }
    }
}
