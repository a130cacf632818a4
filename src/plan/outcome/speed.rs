//! Throughput, traffic and where a step goes, from the sums of a run.

use crate::engine::Run;
use crate::hardware::home::DDR;
use crate::metrics::{StepParts, Throughput, Traffic};
use crate::plan::run::{Case, Ran};
use crate::stats;
use crate::units::{Bytes, Ps};

pub(in crate::plan) fn throughput(case: &Case, run: &Run, full: &Run) -> Throughput {
    if run.makespan.is_never() {
        return Throughput {
            output_tokens_per_s: Some(0.0),
            at_end_tokens_per_s: Some(0.0),
            ..Throughput::default()
        };
    }
    let rate = run.tokens as f64 / run.decode_s();
    let longer = case.scenario.length_factor.filter(|_| case.asked.is_some());
    Throughput {
        output_tokens_per_s: Some(rate),
        equal_answers_tokens_per_s: longer.map(|factor| rate / factor),
        at_end_tokens_per_s: Some(run.at_end),
        full_cache_output_tokens_per_s: Some(full.tokens as f64 / full.decode_s()),
        tpot_mean_s: Some(run.tpot_mean),
        tpot_p99_s: p99(run),
        prefill_s: Some(run.prefill.secs()),
        makespan_s: Some(run.makespan.secs()),
    }
}

/// 99th percentile over the steps of a run (s).
pub(in crate::plan) fn p99(run: &Run) -> Option<f64> {
    stats::percentile_of(&mut run.steps.clone(), 0.99).map(Ps::secs)
}

/// Mean step of the run with everything in HBM (s).
pub(in crate::plan) fn full_step(full: &Run) -> f64 {
    full.decode_s() / full.steps.len().max(1) as f64
}

/// What streams for free per step: link bandwidth of all GPUs times the mean all-in-HBM step (DESIGN 5.3).
pub(in crate::plan) fn free_t1(case: &Case, full: &Run) -> u64 {
    let links = case.prepared.h2d_rate * f64::from(case.scenario.deployment.gpus);
    Bytes::ceil((links * full_step(full)).min(1e18)).0
}

/// Link bandwidth of one GPU at which the largest T1 of the run streams for free.
pub(in crate::plan) fn breakeven(case: &Case, ran: &Ran) -> Option<f64> {
    let gpus = f64::from(case.scenario.deployment.gpus);
    let t1 = ran.run.peak.t1;
    (t1 > 0.0).then(|| t1 / full_step(&ran.full) / gpus)
}

pub(in crate::plan) fn traffic(run: &Run) -> Traffic {
    // Prefetch goes on while a newcomer's prefill stalls the batch, so stalls count.
    let wall = run.decoding.secs().max(f64::MIN_POSITIVE);
    Traffic {
        h2d_bytes: Bytes::ceil(run.sums.h2d_bytes).0,
        d2h_bytes: Bytes::ceil(run.sums.d2h_bytes).0,
        h2d_busy_share: run.sums.h2d_busy.secs() / wall,
        exposed_transfer_share: (exposed(run) + run.sums.exposed_host.secs()) / wall,
    }
}

/// Seconds that the GPU waits for the link, inside attention or outside.
pub(in crate::plan) fn exposed(run: &Run) -> f64 {
    run.sums.exposed.secs() + run.sums.exposed_in_place.secs()
}

pub(in crate::plan) fn parts(run: &Run) -> StepParts {
    let n = run.steps.len().max(1) as f64;
    StepParts {
        linear_s: run.sums.linear_s / n,
        attention_s: run.sums.attention_s / n,
        other_s: run.sums.other_s / n,
        collective_s: run.sums.collective_s / n,
        gap_s: run.sums.gap.secs() / n,
        exposed_transfer_s: exposed(run) / n,
        exposed_host_s: run.sums.exposed_host.secs() / n,
        retier_s: run.sums.retier.secs() / n,
        recompute_s: run.recompute.secs() / n,
    }
}

/// The largest part of the mean step, as a word.
pub(in crate::plan) fn bound_by(case: &Case, run: &Run) -> String {
    let p = parts(run);
    let link = if case.prepared.h2d_rate < case.scenario.deployment.hardware.link.h2d.get() {
        "host-ddr (shared by the links)"
    } else if one_bottleneck(case) {
        "link and host-ddr (one bottleneck: two channels)"
    } else {
        "link"
    };
    let host = host_bound(case);
    [
        (p.linear_s + p.attention_s, "hbm-bandwidth"),
        (p.other_s + p.gap_s, "overhead"),
        (p.collective_s, "collectives"),
        (p.exposed_transfer_s, link),
        (p.exposed_host_s, host),
        (p.recompute_s, "recompute"),
    ]
    .into_iter()
    .max_by(|a, b| a.0.total_cmp(&b.0))
    .map_or_else(String::new, |(_, w)| w.to_string())
}

/// Whether the links take nearly all that two memory channels give (a desktop): neither is then the bottleneck alone.
pub(in crate::plan) fn one_bottleneck(case: &Case) -> bool {
    let d = &case.scenario.deployment;
    let (host, links) = (
        &d.hardware.host,
        d.hardware.link.h2d.get() * f64::from(d.gpus),
    );
    d.home == DDR && host.channels.get() <= 2.0 && host.ddr_read.get() < 2.0 * links
}

/// What bounds attention on the host: its memory or its cores.
pub(in crate::plan) fn host_bound(case: &Case) -> &'static str {
    let host = &case.scenario.deployment.hardware.host;
    let class = case.prepared.classes.iter().find(|c| c.window.is_none());
    class.map_or("host", |c| {
        let ddr = c.kv_token / host.ddr_read.get();
        let cpu = 4.0 * c.width / host.attention_flops.get();
        if ddr >= cpu { "host-ddr" } else { "host-cpu" }
    })
}
