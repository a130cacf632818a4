//! Parameters of the software that the ledger and the steady state read, at the ends of their intervals.

use super::machine::{Ends as _, Knob};
use crate::hardware::{Count, Duration, Value};
use crate::hardware::{Front, Runtime, WarmUp};

/// Each once.
pub(super) const KNOBS: &[Knob] = &[
    |_, r, e| r.memory_fraction.put(e),
    |_, r, e| r.served.put(e),
    |_, r, e| warm_up(r, e, |w| &mut w.rows),
    |_, r, e| warm_up(r, e, |w| &mut w.rows_small),
    |_, r, e| warm_up(r, e, |w| &mut w.logit_bytes),
    |_, r, e| time(r, e, |f| &mut f.fixed),
    |_, r, e| time(r, e, |f| &mut f.each),
    |_, r, e| prefills(r, e, |f| &mut f.bunch),
    |_, r, e| prefills(r, e, |f| &mut f.queue),
    |_, r, e| r.offload.as_mut().is_some_and(|o| o.copy.put(e)),
    |_, r, e| r.offload.as_mut().is_some_and(|o| o.fetch.put(e)),
    |_, r, e| r.offload.as_mut().is_some_and(|o| o.scores.put(e)),
    |_, r, e| r.offload.as_mut().is_some_and(|o| o.books.put(e)),
];

fn warm_up(r: &mut Runtime, end: usize, of: fn(&mut WarmUp) -> &mut Value<Count>) -> bool {
    r.warm_up.as_mut().is_some_and(|w| of(w).put(end))
}

fn time(r: &mut Runtime, end: usize, of: fn(&mut Front) -> &mut Value<Duration>) -> bool {
    r.front.as_mut().is_some_and(|f| of(f).put(end))
}

fn prefills(r: &mut Runtime, end: usize, of: fn(&mut Front) -> &mut Value<Count>) -> bool {
    r.front.as_mut().is_some_and(|f| of(f).put(end))
}
