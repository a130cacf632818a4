//! Requests: how long they are, when they arrive, how far along they are at the start.
//!
//! A static batch is the case "all at t = 0". Lockstep: all begin together and stay at the same length, so that memory
//! peaks at batch times the longest. Staggered: the steady state of a server, request i already `phase_i` tokens along,
//! replaced by a fresh one when it ends. Phases are stratified, one uniform draw in each of `batch` equal slices of the
//! output length, so that a small batch is not all long or all short by luck of the seed. Listed: a static batch whose
//! request i has the lengths of line i mod n of a file ([`Lengths`]); all begin together, each ends when it is done.
//! Under load ([`Load`]) requests come over time ([`Arrivals`]), with lengths from a law ([`Drawn`]) or a recording
//! ([`Recorded`]).

mod arrivals;
mod drawn;
mod lengths;
mod recorded;
mod whole;

pub use arrivals::{Arrivals, Load, Slo};
pub use drawn::{Drawn, Quantiles, embedded};
pub use lengths::Lengths;
pub use recorded::Recorded;

use rand::RngExt;

use crate::stats;
use crate::units::Ps;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Prompt (tokens).
    pub prompt: u32,
    /// Output (tokens).
    pub output: u32,
    /// When it arrives.
    pub arrival: Ps,
    /// Output tokens it already has when it arrives (staggered occupancy).
    pub generated: u32,
}

/// `n` requests that begin together.
pub fn lockstep(n: u32, prompt: u32, output: u32) -> Vec<Request> {
    vec![
        Request {
            prompt,
            output,
            arrival: Ps::ZERO,
            generated: 0
        };
        n as usize
    ]
}

/// `n` requests that begin together, each with lengths of its own.
pub fn listed(n: u32, lengths: &Lengths) -> Vec<Request> {
    let request = |i| {
        let (prompt, output) = lengths.of(i);
        lockstep(1, prompt, output)[0]
    };
    (0..n).map(request).collect()
}

/// `n` requests at independent phases.
pub fn staggered(n: u32, prompt: u32, output: u32, seed: u64) -> Vec<Request> {
    let mut rng = stats::stream(seed, stats::Purpose::Phases);
    (0..n)
        .map(|i| {
            let at = (f64::from(i) + rng.random_range(0.0..1.0)) / f64::from(n);
            #[allow(clippy::cast_possible_truncation)] // below output, a u32
            let generated = (at * f64::from(output)) as u32;
            Request {
                prompt,
                output,
                arrival: Ps::ZERO,
                generated: generated.min(output - 1),
            }
        })
        .collect()
}

/// Re-tier phases of `n` sequences, 0 for a batch of one: offsets (steps) below `interval`.
pub fn retier_phases(n: u32, interval: u32, seed: u64) -> Vec<u32> {
    let mut rng = stats::stream(seed, stats::Purpose::Retier);
    if n == 1 {
        vec![0]
    } else {
        (0..n)
            .map(|_| rng.random_range(0..interval.max(1)))
            .collect()
    }
}
