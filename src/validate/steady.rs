//! A server in its steady state: a constant number of requests, each replaced as it ends.
//!
//! Two ways to schedule prefill, with m running requests of one length, a step s(m) and a prefill p:
//! * in chunks beside the decode steps (vLLM, TensorRT-LLM): a request's life is `output * s + m * p`, for in it each of
//!   the m is prefilled once; a token takes `s + (m - 1) * p / output`;
//! * before all decode steps (`SGLang`): the m stay in step, so that every wave of them waits through one burst of m
//!   prefills and then decodes undisturbed: a first token takes `p * (m + 1) / 2` on average (`bunch` of it, where waves come
//!   apart), and a further one waits for the half of the burst that comes after its own: `s + (m - 1) / 2 * p / output`.
//!
//! In chunks, a closed loop starts with a burst too, which `rounds` requests a slot dilute; later a newcomer waits for a
//! step, its own prefill and those of others: `bunch` prefills where requests of one length end and come together, `queue`
//! more for the share of time in which some prefill is going on. Checked against a simulation of such loops: lengths that
//! vary by a fifth give the upper rows of Llama-3.1-70B to 5 %, equal ones keep requests bunched. If more are offered than
//! fit the KV pool, the others queue for their share of a life.
//!
//! A run of a fixed number of requests that are all there at once ([`makespan`]) goes in waves: those that begin together
//! are of one length and end together, their prompts share chunks, and the last wave is smaller. What is ignored: spread
//! of lengths, decode tokens in a prefill chunk. Rival: the event engine under arrivals, which these rows do not need.

use crate::hardware::Prefill;
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

/// The steady state of a load, of which each slot sees `rounds` requests from an idle start on; none if not one fits.
pub fn steady(prepared: &Prepared, load: Load, rounds: f64) -> Option<Steady> {
    let runtime = &prepared.deployment.runtime;
    let running = running(prepared, load)?;
    let (m, output) = (f64::from(running), f64::from(load.output));
    let served = runtime.served.get();
    let step = served * prepared.step(running, middle(load));
    let prefill = served * prepared.prefill(&[(0, load.prompt)]);
    let life = output * step + m * prefill;
    let others = (m - 1.0) * prefill / output;
    let burst = prefill * (m + 1.0) / 2.0;
    let (first, tpot) = if runtime.prefill == Prefill::First {
        (burst * together(prepared) + step, step + 0.5 * others)
    } else {
        let later = step + prefill * shared(prepared, m * prefill / life);
        let first = burst / rounds + (1.0 - 1.0 / rounds) * later;
        (first, step + others)
    };
    let queued = f64::from(load.offered - running) / m * life;
    Some(Steady {
        running,
        ttft: front(prepared, f64::from(load.offered)) + queued + first,
        tpot,
        throughput: m * output / life,
    })
}

/// Prefills from a request's coming to its first token while some prefill is going on for `busy` of the time.
fn shared(prepared: &Prepared, busy: f64) -> f64 {
    let front = prepared.deployment.runtime.front.as_ref();
    front.map_or(1.0, |f| f.bunch.get() + f.queue.get() * busy)
}

/// Share of a burst that a first token waits for where prefill goes first.
fn together(prepared: &Prepared) -> f64 {
    let front = prepared.deployment.runtime.front.as_ref();
    front.map_or(1.0, |f| f.bunch.get())
}

/// Seconds in the server before a request is seen and after its token is there, with so many in flight.
fn front(prepared: &Prepared, requests: f64) -> f64 {
    let front = prepared.deployment.runtime.front.as_ref();
    front.map_or(0.0, |f| f.fixed.get() + f.each.get() * requests)
}

/// Tokens that a request has on average.
fn middle(load: Load) -> f64 {
    f64::from(load.prompt) + 0.5 * f64::from(load.output)
}

/// Most prompts whose chunks are counted out; more are as many times as long.
const COUNTED: u32 = 4096;

/// Seconds of `m` requests that begin together.
pub fn wave(prepared: &Prepared, m: u32, load: Load) -> f64 {
    if m == 0 {
        return 0.0;
    }
    let counted = m.min(COUNTED);
    let prompts = vec![(0, load.prompt); counted as usize];
    let prefill = prepared.prefill(&prompts) * f64::from(m) / f64::from(counted);
    let steps = f64::from(load.output) * prepared.step(m, middle(load));
    prepared.deployment.runtime.served.get() * (prefill + steps)
}

/// Seconds of `requests` requests that are all there at once; none if not one fits.
pub fn makespan(prepared: &Prepared, load: Load, requests: u32) -> Option<f64> {
    let running = running(prepared, load)?.min(requests);
    let whole = f64::from(requests / running) * wave(prepared, running, load);
    Some(whole + wave(prepared, requests % running, load))
}
