//! What lies where draws how much: means by tier times exact counts, and heavy hitters by themselves.

use super::Outlook;
use crate::timeline::Tier;

impl Outlook<'_> {
    /// What a token of T1, T2, T3 draws in the stride.
    pub(super) fn weigh(&mut self) {
        let (mut mass, mut held) = ([0.0; 3], [0.0; 3]);
        for m in &self.members {
            for tier in 0..3 {
                mass[tier] += m.tiers[tier] * m.now;
                held[tier] += m.tiers[tier];
            }
        }
        let typical = mass.iter().sum::<f64>() / held.iter().sum::<f64>().max(1e-9);
        for tier in 0..3 {
            self.each[tier] = if held[tier] > 1e-9 {
                mass[tier] / held[tier]
            } else {
                typical
            };
        }
    }

    /// Heavy hitters that the record left where they cannot come back from.
    fn stuck(&self, out: &mut [f64; 3]) {
        for (weight, tier) in &self.heavy {
            match tier {
                Tier::T3 => out[2] += weight * self.scale,
                Tier::T1 if self.order.append_only => out[0] += weight * self.scale,
                _ => {}
            }
        }
    }

    /// Mass on T1, T2, T3 of the stride just passed, given the tokens that were there and all candidates, destroyed ones
    /// included.
    pub(in crate::replay) fn mass(&self, tokens: [f64; 3], candidates: f64) -> [f64; 3] {
        let mut out: [f64; 3] = std::array::from_fn(|tier| tokens[tier] * self.each[tier]);
        let heavy = self.heavy_mass * self.scale;
        if self.order.rule.is_none() {
            out[2] += heavy * tokens[2] / candidates.max(1.0);
        } else {
            // They leave T0 only where it has no room even for them.
            let hitters = self.heavy.len() as f64 + f64::from(self.time) * self.law.heavy_share;
            let room = candidates - tokens.iter().sum::<f64>();
            out[0] += heavy
                * (1.0 - room / hitters.max(1e-9)).clamp(0.0, 1.0)
                * f64::from(u8::from(tokens[0] > 0.0));
            self.stuck(&mut out);
            // No more of them are gone than have come to show.
            let shown = |weight: f64| weight.min(self.new_heavy()) * self.scale;
            out[0] += shown(self.heavies.down) + self.heavies.passing[0] * self.scale;
            out[1] += self.heavies.passing[1] * self.scale;
            out[2] += shown(self.heavies.lost);
        }
        let sum: f64 = out.iter().sum();
        if sum > 1.0 { out.map(|m| m / sum) } else { out }
    }
}
