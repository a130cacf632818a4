//! A scenario under load: the engine of `engine::serve`, and what clients see of it.
//!
//! The engine counts from a request's coming to the engine; clients also wait for what stands before it (tokenising, the
//! way through the processes: the runtime's `front`), which is added to the first token and to the last, and with the last to the
//! makespan. A request's time to the first token is that way, its stay in line and the computing of its prompt. Percentiles are
//! nearest-rank over requests, over tokens for the time between two tokens.
//!
//! The runtime's `served` factor (vLLM: 0.97) is not applied here. It was found as measured over predicted of closed loops in closed
//! form (`validate::steady`), where a prompt and a decode step never share a pass over the weights, and belongs to that form. This engine
//! shares them: without a factor the recorded server's makespan is 1.7 % short, its mean time per token 1.3 %, so that 0.97 would
//! make them 4.6 and 4.3 %. Its spread is drawn all the same (`--intervals`).

use std::sync::Arc;

use super::run::Case;
use crate::engine::audit::Audit;
use crate::engine::serve::{Life, Means, Rules, Serve, Served, Server};
use crate::engine::{Both, Job, Observer, Unwatched};
use crate::error::{Cause, Result};
use crate::hardware::Choose;
use crate::metrics::serving::{Moment, Serving, Spread};
use crate::policy::four_tier::Hbm;
use crate::scenario::{Phase, Scenario, UnderLoad};
use crate::service::Prepared;
use crate::stats;
use crate::timeline::Timeline;
use crate::units::{Bytes, Ps};
use crate::workload;

/// Tokens of a step where the runtime does not say.
const LEAST_BUDGET: f64 = 1.0;

/// The rules of a scenario's server.
pub(super) fn rules(case: &Case, load: &UnderLoad, unlimited: bool) -> Rules {
    let s = &case.scenario;
    let runtime = &s.deployment.runtime;
    #[allow(clippy::cast_possible_truncation)] // a count of tokens
    let usual = runtime.batched_tokens.get().max(LEAST_BUDGET) as u32;
    Rules {
        max_running: s.batch,
        token_budget: load.token_budget.unwrap_or(usual.max(s.batch)),
        give_way: load.give_way,
        ahead: runtime.choose == Choose::Ahead,
        pool: if unlimited {
            f64::INFINITY
        } else {
            case.ledger.pool()
        },
        ddr: if unlimited {
            f64::INFINITY
        } else {
            case.ledger.ddr_room()
        },
    }
}

impl Case {
    /// Serves the load as asked; where a request never fits, as if there were room, so that the outcome says by how much it
    /// falls short.
    ///
    /// # Errors
    /// Usage: a budget that cannot be. Internal, if a law is broken under `audit`.
    pub(super) fn serve(
        &self,
        load: &UnderLoad,
        mut watcher: Option<&mut dyn Observer>,
    ) -> Result<Served> {
        let serve = |unlimited, watcher: Option<&mut dyn Observer>| {
            self.serve_by(&self.scored, &self.timelines, load, unlimited, watcher)
        };
        match serve(
            false,
            watcher.as_deref_mut().map(|w| w as &mut dyn Observer),
        ) {
            Err(e) if e.cause == Cause::Infeasible => serve(true, watcher),
            other => other,
        }
    }

    /// Serves it with everything in an HBM of unlimited size.
    ///
    /// # Errors
    /// As [`Case::serve`].
    pub(super) fn serve_in_hbm(&self, load: &UnderLoad) -> Result<Served> {
        let full = super::placed::in_hbm(self.asked.as_ref().unwrap_or(&self.scenario))?;
        self.serve_by(&self.in_hbm(), &full, load, true, None)
    }

    fn serve_by(
        &self,
        prepared: &Prepared,
        timelines: &[Arc<Timeline>],
        load: &UnderLoad,
        unlimited: bool,
        watcher: Option<&mut dyn Observer>,
    ) -> Result<Served> {
        let server = Server::new(Serve {
            prepared,
            ledger: &self.ledger,
            jobs: self.jobs(load, timelines),
            blocks: &load.load.blocks,
            block_tokens: load.load.block_tokens,
            rules: rules(self, load, unlimited),
        })?;
        match (self.scenario.audit, watcher) {
            (false, None) => server.run(&mut Unwatched),
            (false, Some(watcher)) => server.run(watcher),
            (true, None) => server.run(&mut Audit::new(prepared)),
            (true, Some(watcher)) => server.run(&mut Both(&mut Audit::new(prepared), watcher)),
        }
    }

    fn jobs(&self, load: &UnderLoad, timelines: &[Arc<Timeline>]) -> Vec<Job> {
        let s = &self.scenario;
        let n = s.requests();
        let interval = self.spec.interval().unwrap_or(1);
        let phases = match s.phase {
            Phase::Seeded => workload::retier_phases(n, interval, s.seed),
            Phase::Lockstep => vec![0; n as usize],
        };
        let requests = load.load.requests.iter().zip(phases).enumerate();
        let job = |(i, (request, phase)): (usize, (&workload::Request, u32))| Job {
            request: *request,
            timeline: Arc::clone(&timelines[i % timelines.len()]),
            phase,
        };
        requests.map(job).collect()
    }
}

/// What clients see.
pub(super) fn serving(case: &Case, load: &UnderLoad, served: &Served) -> Serving {
    let rules = rules(case, load, false);
    let requests = &load.load.requests;
    let sum = |of: fn(&Life) -> u32| served.lives.iter().map(|l| u64::from(of(l))).sum();
    let n = requests.len() as f64;
    let last = requests.last().map_or(0.0, |r| r.arrival.secs());
    let each: Vec<Client> = served
        .lives
        .iter()
        .map(|l| client(&case.scenario, l))
        .collect();
    let ends = each.iter().map(|c| c.end).fold(0.0, f64::max);
    let makespan = ends.max(f64::MIN_POSITIVE);
    // The last token is a while on its way: nothing runs or waits in it.
    let means = over(&served.means, served.run.makespan.secs() / makespan);
    let met = load.slo.map(|slo| {
        each.iter()
            .filter(|c| slo.met(c.ttft, c.tpot, c.e2e))
            .count() as f64
    });
    let tokens = served
        .means
        .tiers
        .iter()
        .sum::<f64>()
        .max(f64::MIN_POSITIVE);
    let share = served.means.tiers.map(|t| t / tokens);
    let room = case.ledger.pool().max(0.0);
    Serving {
        requests: requests.len() as u64,
        offered_requests_per_s: (last > 0.0).then(|| (n - 1.0) / last),
        own_lengths: requests
            .iter()
            .any(|r| (r.prompt, r.output) != (case.scenario.prompt, case.scenario.output)),
        max_running: rules.max_running,
        token_budget_tokens: rules.token_budget,
        prompt_tokens_total: sum(|l| l.prompt),
        output_tokens_total: sum(|l| l.output),
        cached_tokens_total: served.cached_tokens,
        makespan_s: makespan,
        requests_per_s: n / makespan,
        output_tokens_per_s: served.run.tokens as f64 / makespan,
        ttft: spread(each.iter().map(|c| c.ttft)),
        tpot: spread(each.iter().filter_map(|c| c.tpot)),
        itl: over_tokens(&served.gaps),
        e2el: spread(each.iter().map(|c| c.e2e)),
        front: spread(each.iter().map(|c| c.way)),
        queued: spread(served.lives.iter().map(|l| l.times().queued.secs())),
        prefill: spread(each.iter().map(|c| c.prefill)),
        goodput_requests_per_s: met.map(|m| m / makespan),
        met_share: met.map(|m| m / n),
        slo_ttft_s: load.slo.and_then(|s| s.ttft),
        slo_tpot_s: load.slo.and_then(|s| s.tpot),
        slo_e2el_s: load.slo.and_then(|s| s.e2e),
        running_mean: means.running,
        running_max: means.running_max,
        waiting_mean: means.waiting,
        waiting_max: means.waiting_max,
        preemptions: served.run.preemptions,
        swaps: served.swaps,
        t0_share: share[0],
        t1_share: share[1],
        t2_share: share[2],
        t3_share: share[3],
        kv_mean_bytes: Bytes::ceil(means.hbm).0,
        kv_room_bytes: Bytes::ceil(room.floor()).0,
        intervals: None,
        unused_tiers: unused(case, served),
        over_time: served.samples.iter().map(moment).collect(),
    }
}

/// Means over a time of which the server's is this share.
fn over(means: &Means, share: f64) -> Means {
    Means {
        running: means.running * share,
        waiting: means.waiting * share,
        hbm: means.hbm * share,
        tiers: means.tiers.map(|t| t * share),
        ..*means
    }
}

/// The times of one request at its client (s): `way`, the queue and `prefill` make up `ttft`.
#[derive(Clone, Copy, Debug)]
struct Client {
    way: f64,
    prefill: f64,
    /// Since the first arrival.
    end: f64,
    ttft: f64,
    tpot: Option<f64>,
    e2e: f64,
}

fn client(s: &Scenario, life: &Life) -> Client {
    let front = s.deployment.runtime.front.as_ref();
    let way = front.map_or(0.0, |f| {
        f.fixed.get() + f.each.get() * f64::from(life.ahead + 1)
    });
    let times = life.times();
    Client {
        way,
        prefill: times.ttft.saturating_sub(times.queued).secs(),
        end: life.arrival.secs() + way + times.e2e.secs(),
        ttft: way + times.ttft.secs(),
        tpot: times.tpot.map(Ps::secs),
        e2e: way + times.e2e.secs(),
    }
}

fn spread(times: impl Iterator<Item = f64>) -> Spread {
    let mut all: Vec<f64> = times.collect();
    if all.is_empty() {
        return Spread::default();
    }
    let mean = stats::mean(all.iter().copied());
    let mut at = |share| stats::percentile(&mut all, share);
    Spread {
        mean_s: Some(mean),
        p50_s: at(0.5),
        p90_s: at(0.9),
        p99_s: at(0.99),
        max_s: at(1.0),
    }
}

/// Of times that each occurred so often.
fn over_tokens(gaps: &[(Ps, u32)]) -> Spread {
    let mut gaps = gaps.to_vec();
    gaps.sort_unstable();
    let all: u64 = gaps.iter().map(|g| u64::from(g.1)).sum();
    let at = |share: f64| {
        #[allow(clippy::cast_possible_truncation)] // at most their number
        let rank = ((share * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = gaps.iter().find(|g| {
            seen += u64::from(g.1);
            seen >= rank
        });
        found.map(|g| g.0.secs())
    };
    let sum: f64 = gaps.iter().map(|g| g.0.secs() * f64::from(g.1)).sum();
    Spread {
        mean_s: (all > 0).then(|| sum / all as f64),
        p50_s: at(0.5),
        p90_s: at(0.9),
        p99_s: at(0.99),
        max_s: at(1.0),
    }
}

#[allow(clippy::cast_possible_truncation)] // counts of tokens
fn moment(s: &crate::engine::serve::Sample) -> Moment {
    let [t0, t1, t2, t3] = s.tiers.map(|t| t.round() as u64);
    Moment {
        at_s: s.at.secs(),
        running: s.running,
        waiting: s.waiting,
        t0_tokens: t0,
        t1_tokens: t1,
        t2_tokens: t2,
        t3_tokens: t3,
        kv_bytes: Bytes::ceil(s.hbm).0,
        ddr_bytes: Bytes::ceil(s.ddr).0,
        output_tokens: s.tokens,
    }
}

/// Tiers that are never used, and why.
fn unused(case: &Case, served: &Served) -> Vec<String> {
    let used = served.means.tiers.map(|t| t > 0.0);
    let mut out = Vec::new();
    let name = case.spec.name();
    let longest = case.scenario.tokens();
    let budget = match case.spec.hbm() {
        Some(Hbm::Tokens(n)) => Some(format!("{n} tokens")),
        Some(Hbm::Ratio(share)) => Some(format!("a share of {share} of the unprotected tokens")),
        _ => None,
    };
    if !used[1] && !used[2] {
        out.push(if name == "full" {
            "T1, T2: never used: policy full keeps everything in HBM; when it is full, requests wait or give way".into()
        } else if let Some(budget) = budget {
            format!(
                "T1, T2: never used: {name} may keep {budget} of a request in HBM, and the longest has {longest}"
            )
        } else {
            format!("T1, T2: never used: {name} destroys what it does not keep")
        });
    } else if !used[2] {
        out.push(format!(
            "T2: never used: {name} sends nothing to reduced precision (t2=0)"
        ));
    } else if !used[1] {
        out.push(format!(
            "T1: never used: {name} sends all it moves to reduced precision"
        ));
    }
    if !used[3] {
        out.push(format!(
            "T3: never used: {name} destroys nothing at these settings"
        ));
    }
    out
}
