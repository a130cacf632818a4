//! A server in its steady state: a constant number of requests, each replaced as it ends.
//!
//! With B requests running, alike in lengths, a request's life is `output` decode steps, and in that time each of the B
//! is prefilled once: `T = output * step(B) + B * prefill`. So a token takes `step + (B - 1) * prefill / output` on
//! average, the throughput is `B * output / T`, and a request that comes waits for half a step and its own prefill. If
//! more are offered than fit the KV pool, the others queue for a share of T. What is ignored: the decode steps that ride
//! in a prefill chunk, the burst at the start, and spread of lengths. Rival: the event engine under arrivals, which these
//! rows do not need.

use crate::memory::Ledger;
use crate::service::Prepared;

/// A load of equal requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests offered at a time.
    pub offered: u32,
    /// Prompt tokens.
    pub prompt: u32,
    /// Tokens generated.
    pub output: u32,
}

/// What a request sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Requests running.
    pub running: u32,
    /// Time to the first token, mean (s).
    pub ttft: f64,
    /// Time per further token, mean (s).
    pub tpot: f64,
    /// Tokens generated per second, all requests.
    pub throughput: f64,
}

/// Seconds of a decode step of `m` requests of `tokens` each, all in HBM.
pub fn step(prepared: &Prepared, m: u32, tokens: f64) -> f64 {
    let cost = prepared.batch(m);
    layers(prepared, m, tokens, &cost.fixed) + cost.head + cost.gap
}

/// Seconds of the layers: `fixed` of each class and its attention.
pub fn layers(prepared: &Prepared, m: u32, tokens: f64, fixed: &[f64]) -> f64 {
    let classes = prepared.classes.iter().zip(fixed);
    classes
        .map(|(class, fixed)| {
            let seen = class.window.map_or(tokens, |w| tokens.min(f64::from(w)));
            let bytes = f64::from(m) * seen * class.kv_token;
            f64::from(class.count) * (fixed + prepared.attention(class, f64::from(m), bytes))
        })
        .sum()
}

/// Requests of this length that the KV pool holds, at most `offered`; none if not one fits.
pub fn running(prepared: &Prepared, load: Load) -> Option<u32> {
    let ledger = Ledger::new(prepared);
    // An engine that preempts fills the pool with what is there; one that never does keeps room for the whole output.
    let grown = if prepared.deployment.runtime.preempts {
        0.5
    } else {
        1.0
    };
    let tokens = f64::from(load.prompt) + grown * f64::from(load.output);
    let slots = (ledger.pool() / ledger.sequence_bytes(tokens)).floor();
    #[allow(clippy::cast_possible_truncation)] // at most `offered`
    let running = slots.clamp(0.0, f64::from(load.offered)) as u32;
    (running > 0).then_some(running)
}

/// The steady state of a load; none if not one request fits.
pub fn steady(prepared: &Prepared, load: Load) -> Option<Steady> {
    let running = running(prepared, load)?;
    let (m, output) = (f64::from(running), f64::from(load.output));
    let middle = f64::from(load.prompt) + 0.5 * output;
    let step = step(prepared, running, middle);
    let prefill = prepared.prefill(&[(0, load.prompt)]);
    let life = output * step + m * prefill;
    let queued = f64::from(load.offered - running) / m * life;
    Some(Steady {
        running,
        ttft: queued + 0.5 * step + prefill,
        tpot: step + (m - 1.0) * prefill / output,
        throughput: m * output / life,
    })
}
