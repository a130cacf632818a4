//! A host tier kept by a loop in Python, as the published prototype keeps it.
//!
//! No overlap: each step waits for the host's part of every layer to lie behind the device's. K and V of a layer are a copy
//! each, issued and waited for (`copy`), and the bytes go at one rate all in all (`fetch`): concatenated on the CPU, copied
//! from pageable memory, concatenated on the GPU. Measured 7.5 GB/s with the copies' floor in it, 8.7 without, where a
//! pageable copy alone reaches 15.9 on that card. The weights of attention are asked for (`scores`), and rows read back,
//! ranked and trimmed (`books`), once a step whatever the length. Rival: the pinned link of `transfer`, five times as fast,
//! which the prototype does not use. Ignored: growth of the books with the length.

use crate::hardware::{Link, Offload};

/// Seconds that `steps` steps of `layers` layers wait for `bytes` in all to come up.
pub fn fetch(tier: &Offload, layers: f64, steps: f64, bytes: f64) -> f64 {
    2.0 * layers * steps * tier.copy.get() + bytes / tier.fetch.get()
}

/// Seconds that `calls` demotions of `layers` layers wait for `bytes` in all to go down.
pub fn demote(tier: &Offload, link: &Link, layers: f64, calls: f64, bytes: f64) -> f64 {
    2.0 * layers * calls * tier.copy.get() + bytes / link.d2h.get()
}

/// Seconds that `steps` forward passes take longer because the weights of attention are asked for.
pub fn scores(tier: &Offload, steps: f64) -> f64 {
    steps * tier.scores.get()
}

/// Seconds of the policy's own work beside `steps` forward passes.
pub fn books(tier: &Offload, steps: f64) -> f64 {
    steps * tier.books.get()
}
