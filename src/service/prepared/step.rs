//! A decode step with everything in HBM, in closed form: requests alike, nothing moves.

use super::Prepared;

impl Prepared {
    /// Seconds of a decode step of `m` requests of `tokens` each, all in HBM.
    pub fn step(&self, m: u32, tokens: f64) -> f64 {
        let cost = self.batch(m);
        self.layers(m, tokens, &cost.fixed) + cost.head + cost.gap
    }

    /// Seconds of the layers: `fixed` of each class and its attention.
    pub fn layers(&self, m: u32, tokens: f64, fixed: &[f64]) -> f64 {
        let classes = self.classes.iter().zip(fixed);
        classes
            .map(|(class, fixed)| {
                let seen = class.window.map_or(tokens, |w| tokens.min(f64::from(w)));
                let bytes = f64::from(m) * seen * class.kv_token;
                f64::from(class.count) * (fixed + self.attention(class, f64::from(m), bytes))
            })
            .sum()
    }
}
