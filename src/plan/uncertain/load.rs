//! What clients of a server under load may see: the whole run again for each draw, since no closed form queues.

use rayon::prelude::*;

use super::unknown;
use crate::error::Result;
use crate::metrics::serving::{Serving, ServingIntervals};
use crate::plan::recordings::Recordings;
use crate::plan::run::Case;
use crate::plan::served;
use crate::scenario::{Scenario, UnderLoad};
use crate::uncertain::ends;

/// Runs at most: each takes as long as the answer itself.
const MOST: u32 = 100;

/// p5 and p95 of what `seen` says; none where nothing is to be drawn.
///
/// # Errors
/// As `simulate`.
pub(in crate::plan) fn of_load(
    s: &Scenario,
    load: &UnderLoad,
    traces: &Recordings,
    seen: &Serving,
) -> Result<Option<ServingIntervals>> {
    let n = s.intervals.draws().min(MOST);
    if n == 0 {
        return Ok(None);
    }
    let run = |deployment| -> Result<Serving> {
        let one = Scenario {
            deployment,
            ..s.clone()
        };
        let case = Case::new(&one, traces)?;
        Ok(served::serving(&case, load, &case.serve(load, None)?))
    };
    let machines = unknown(s).draws(s.seed, n);
    let drawn: Vec<Serving> = machines
        .par_iter()
        .map(|m| run(m.put(&s.deployment)))
        .collect::<Result<_>>()?;
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
