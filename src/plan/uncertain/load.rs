//! What clients of a server under load may see: the whole run again for each draw, since no closed form queues.
//!
//! A draw is a machine and a sequence of requests: arrivals and lengths that are drawn are drawn anew, since nobody knows
//! tomorrow's, and percentiles over a few hundred requests differ from one sequence to the next. A recording stays as it is.

use rayon::prelude::*;

use super::unknown;
use crate::error::Result;
use crate::metrics::serving::{Serving, ServingIntervals};
use crate::plan::recordings::Recordings;
use crate::plan::run::Case;
use crate::plan::served;
use crate::scenario::Scenario;
use crate::uncertain::{Drawn, ends};

/// Runs at most: each takes as long as the answer itself.
const MOST: u32 = 100;

/// The machine and the requests of draw number `i`.
pub(in crate::plan) fn drawn(s: &Scenario, machine: &Drawn, i: usize) -> Scenario {
    Scenario {
        deployment: machine.put(&s.deployment),
        ..s.redrawn(s.seed.wrapping_add(1 + i as u64))
    }
}

/// p5 and p95 of what `seen` says; none where nothing is to be drawn.
///
/// # Errors
/// As `simulate`.
pub(in crate::plan) fn of_load(
    s: &Scenario,
    traces: &Recordings,
    seen: &Serving,
) -> Result<Option<ServingIntervals>> {
    let n = s.intervals.draws().min(MOST);
    if n == 0 {
        return Ok(None);
    }
    let run = |one: &Scenario| -> Result<Option<Serving>> {
        let own = traces.aside();
        // Lengths of its own have placements of their own, which nobody asks for again.
        let drawn = one.load.as_ref().is_some_and(|l| l.draws_lengths());
        let case = Case::new(one, if drawn { &own } else { traces })?;
        let Some(load) = &case.scenario.load else {
            return Ok(None);
        };
        Ok(Some(served::serving(&case, load, &case.serve(load, None)?)))
    };
    let machines = unknown(s).draws(s.seed, n);
    let seen_by: Vec<Option<Serving>> = machines
        .par_iter()
        .enumerate()
        .map(|(i, machine)| run(&drawn(s, machine, i)))
        .collect::<Result<_>>()?;
    let drawn: Vec<Serving> = seen_by.into_iter().flatten().collect();
    let of = |figure: fn(&Serving) -> Option<f64>| -> [Option<f64>; 2] {
        let mut all: Vec<f64> = drawn.iter().filter_map(figure).collect();
        let found = figure(seen).and_then(|best| ends(best, &mut all));
        found.map_or([None; 2], |e| e.map(Some))
    };
    let (rate, makespan) = (
        of(|s| Some(s.output_tokens_per_s)),
        of(|s| Some(s.makespan_s)),
    );
    let (ttft, ttft_p99) = (of(|s| s.ttft.mean_s), of(|s| s.ttft.p99_s));
    let (tpot, tpot_p99) = (of(|s| s.tpot.mean_s), of(|s| s.tpot.p99_s));
    Ok(Some(ServingIntervals {
        draws: n,
        output_tokens_per_s_p5: rate[0],
        output_tokens_per_s_p95: rate[1],
        makespan_s_p5: makespan[0],
        makespan_s_p95: makespan[1],
        ttft_mean_s_p5: ttft[0],
        ttft_mean_s_p95: ttft[1],
        ttft_p99_s_p5: ttft_p99[0],
        ttft_p99_s_p95: ttft_p99[1],
        tpot_mean_s_p5: tpot[0],
        tpot_mean_s_p95: tpot[1],
        tpot_p99_s_p5: tpot_p99[0],
        tpot_p99_s_p95: tpot_p99[1],
    }))
}
