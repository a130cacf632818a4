//! What a curve says in words: title, settings, what it rests on, and why there is none.

use crate::error::{Cause, Error};
use crate::memory::Ledger;
use crate::scenario::Scenario;
use crate::units::Bytes;
use crate::units::text::{group, show_bytes};

use super::{Curve, Series};

/// Nothing runs, with the memory that is missing for one request of `tokens`.
pub(super) fn nothing_runs(ledger: &Ledger, tokens: u32) -> Error {
    let fixed = ledger.weights + ledger.activation + ledger.reserve;
    let kv = Bytes::ceil(ledger.sequence_bytes(f64::from(tokens)));
    let short = Bytes((fixed + kv).0.saturating_sub(ledger.capacity.0));
    Error::new(
        Cause::Infeasible,
        format!(
            "nothing to draw: weights {}, activations {}, runtime {} and one request of {} tokens {} are over the {} \
             that may be used, short by {}",
            show_bytes(ledger.weights),
            show_bytes(ledger.activation),
            show_bytes(ledger.reserve),
            group(&tokens.to_string()),
            show_bytes(kv),
            show_bytes(ledger.capacity),
            show_bytes(short)
        ),
    )
    .help("use smaller --weights, more --gpus, a larger --hardware or a shorter --prompt")
}

/// The model and the cards.
pub(super) fn title(s: &Scenario) -> String {
    let d = &s.deployment;
    let cards = if d.gpus > 1 {
        format!("{} × ", d.gpus)
    } else {
        String::new()
    };
    format!("{} on {cards}{}", d.model.name, d.hardware.name)
}

/// The settings.
pub(super) fn subtitle(s: &Scenario) -> String {
    let d = &s.deployment;
    let requests = if s.batch == 1 { "request" } else { "requests" };
    format!(
        "{} {requests} at once, prompt {} tokens, {} weights, {} KV, runtime {}",
        group(&s.batch.to_string()),
        group(&s.prompt.to_string()),
        d.weights,
        d.kv,
        d.runtime.id
    )
}

/// What the figures rest on, and how to read what is drawn.
pub(super) fn caption(s: &Scenario, c: &Curve) -> String {
    let h = &s.deployment.hardware;
    let calibrated = if h.calibrated.is_some() {
        "calibrated"
    } else {
        "not calibrated"
    };
    let mut out = format!(
        "Simulated, {calibrated}: link {}, host DDR {}. All requests at the same length at once (lockstep), first prefill \
         not counted.",
        h.link.h2d.show(),
        h.host.ddr_read.show()
    );
    if c.tiers() {
        out +=
            " Shaded: a T1 mode is faster than the engine as it is, which preempts and recomputes.";
        if !c.staged_differs() {
            out += " Staged T1 is within 10 % of stream.";
        }
    }
    let ends = |series: &Series| {
        series.iter().any(Option::is_some) && series.last().is_some_and(Option::is_none)
    };
    if [&c.engine, &c.stream, &c.host].into_iter().any(ends) {
        out += " Cross: no memory for longer requests.";
    }
    out
}
