//! A decode step with all KV in HBM, in closed form: requests alike, nothing moves but weights that lie in host memory.

use super::{Class, Prepared};

impl Prepared {
    /// Seconds of a decode step of `m` requests of `tokens` each, all in HBM.
    pub fn step(&self, m: u32, tokens: f64) -> f64 {
        let cost = self.batch(m);
        self.layers(m, tokens, &cost.fixed) + cost.head + cost.gap
    }

    /// Seconds of the layers: `fixed` of each class, its attention and what its streamed weights cost.
    pub fn layers(&self, m: u32, tokens: f64, fixed: &[f64]) -> f64 {
        let classes = self.classes.iter().zip(fixed);
        let layer = |(class, fixed): (&Class, &f64)| {
            let seen = class.window.map_or(tokens, |w| tokens.min(f64::from(w)));
            let bytes = f64::from(m) * seen * class.kv_token;
            let attention = self.attention(class, f64::from(m), bytes);
            f64::from(class.count) * (fixed + attention + self.weight_write(class))
        };
        self.beside_weights(1.0, classes.map(layer).sum())
    }
}
