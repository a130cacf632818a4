//! Fills in an outcome from a run: arithmetic on what was measured, nothing modelled here.

use std::sync::Arc;

use crate::deploy::{Deployment, ScoreCost, T1Mode};
use crate::engine::{Peak, Run};
use crate::hardware::home::DDR;
use crate::hardware::{Quantity, Value};
use crate::metrics::{
    Assumption, Engine, Fetched, Memory, Moves, OUTCOME_SCHEMA, Outcome, Quality, StepParts,
    Throughput, Tiers, TraceUse, Traffic,
};
use crate::replay::Quality as Mass;
use crate::scenario::Occupancy;
use crate::stats;
use crate::timeline::{Fetch, Predict, Timeline};
use crate::units::{Bytes, Ps};

use super::run::{Case, Ran};

/// The outcome of `ran` for `case`.
pub(super) fn build(case: &Case, ran: &Ran) -> Outcome {
    let s = &case.scenario;
    let d = &s.deployment;
    let memory = memory(case, &ran.run.peak);
    let shortfall = shortfall(&memory);
    let fits = shortfall == 0 && memory.ddr_peak_bytes <= memory.ddr_capacity_bytes;
    let free = free_t1(case, &ran.full);
    Outcome {
        schema: OUTCOME_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        model: d.model.id.clone(),
        hardware: d.hardware.id.clone(),
        gpus: d.gpus,
        runtime: d.runtime.id.clone(),
        batch: s.batch,
        prompt_tokens: s.prompt,
        output_tokens: s.output,
        weights: d.weights.to_string(),
        kv: d.kv.to_string(),
        policy: case.spec.to_string(),
        t1_mode: t1_words(d),
        overlap: overlap_word(case).into(),
        occupancy: s.occupancy.word().into(),
        seed: s.seed,
        scenario: std::collections::BTreeMap::new(),
        fits,
        shortfall_bytes: shortfall,
        changes: Vec::new(),
        throughput: if fits {
            throughput(s.prompt, &ran.run, &ran.full)
        } else {
            Throughput::default()
        },
        holds_tokens_per_request: u64::from(
            case.ledger
                .holds(s.batch, d.model.max_context.max(s.prompt + s.output)),
        ),
        free_t1_bytes: Some(free),
        breakeven_link_bytes_per_s: breakeven(case, ran),
        traffic: if fits {
            traffic(&ran.run)
        } else {
            Traffic::default()
        },
        quality: quality_of(case),
        fetched: fetched(&case.timelines),
        tiers: tiers(case),
        moves: moves(&case.timelines),
        trace: trace_use(case),
        depends_on_trace: depends(case),
        bound_by: if fits {
            bound_by(case, &ran.run)
        } else {
            "hbm-capacity".into()
        },
        step: if fits {
            parts(&ran.run)
        } else {
            StepParts::default()
        },
        preemptions: ran.run.preemptions,
        assumptions: assumptions(case),
        notes: notes(case, &memory),
        engine: Engine {
            fidelity: d.fidelity.word().into(),
            events: ran.run.events,
            steps: ran.run.steps.len() as u64,
        },
        memory,
    }
}

/// The T1 mode, with what is fetched where that decides the answer.
fn t1_words(d: &Deployment) -> String {
    match d.t1 {
        T1Mode::Selective(selection) => format!("selective:{selection}"),
        other => other.word().into(),
    }
}

fn overlap_word(case: &Case) -> &'static str {
    match case.scenario.deployment.overlap {
        crate::deploy::Overlap::Serial => "serial",
        crate::deploy::Overlap::Layer => "layer",
    }
}

/// The ledger at the peak (MODULES: parts at the instant of the peak, summing to it).
fn memory(case: &Case, peak: &Peak) -> Memory {
    let l = &case.ledger;
    let kv_t0 = Bytes::ceil(peak.hbm.kv_t0);
    let staging = Bytes::ceil(peak.hbm.staging);
    let full = Bytes::ceil(peak.full);
    let peak_bytes = l.weights + l.activation + l.reserve + kv_t0 + staging;
    // What is saved is the full cache's peak less this one's. Where nothing spills all of it is what was destroyed; else as
    // much of it as was destroyed by the time the full cache is at its peak.
    let saved = (peak.full - peak.hbm.total()).max(0.0);
    let spills = case.timelines.iter().any(|t| t.spills());
    let destroyed = Bytes::ceil(if spills {
        peak.destroyed.min(saved)
    } else {
        saved
    });
    let signed = |b: Bytes| i64::try_from(b.0).unwrap_or(i64::MAX);
    Memory {
        weights_bytes: l.weights.0,
        kv_full_bytes: full.0,
        kv_t0_bytes: kv_t0.0,
        staging_bytes: staging.0,
        activation_bytes: l.activation.0,
        reserve_bytes: l.reserve.0,
        hbm_peak_bytes: peak_bytes.0,
        hbm_capacity_bytes: l.capacity.0,
        hbm_saved_moved_bytes: signed(full) - signed(kv_t0) - signed(staging) - signed(destroyed),
        hbm_saved_destroyed_bytes: signed(destroyed),
        hbm_saved_moved_whole_pages_bytes: whole_pages(case, full, staging, destroyed),
        ddr_peak_bytes: Bytes::ceil(peak.ddr).0,
        ddr_capacity_bytes: l.ddr_capacity.0,
    }
}

/// The moved saving if a page is freed only once no T0 token is left in it, at the end of the run. Only a replay knows
/// which positions stay.
fn whole_pages(case: &Case, full: Bytes, staging: Bytes, destroyed: Bytes) -> Option<i64> {
    if !case
        .timelines
        .iter()
        .all(|t| t.spills() && t.synthetic_from.is_none())
    {
        return None;
    }
    let at_end = |t: &Arc<Timeline>| {
        let last = t.steps.saturating_sub(1);
        t.t0_room(t.interval_at(last), last)
    };
    let room = case.timelines.iter().map(at_end).sum::<f64>() / case.timelines.len() as f64;
    let held = room * case.ledger.kv_token * f64::from(case.scenario.batch);
    #[allow(clippy::cast_possible_truncation)] // far below 2^63 bytes
    let saved = (full.as_f64() - held - staging.as_f64() - destroyed.as_f64()) as i64;
    Some(saved)
}

fn shortfall(m: &Memory) -> u64 {
    m.hbm_peak_bytes.saturating_sub(m.hbm_capacity_bytes)
}

fn decode(run: &Run) -> f64 {
    run.makespan.saturating_sub(run.prefill).secs()
}

fn throughput(_prompt: u32, run: &Run, full: &Run) -> Throughput {
    if run.makespan.is_never() {
        return Throughput {
            output_tokens_per_s: Some(0.0),
            at_end_tokens_per_s: Some(0.0),
            ..Throughput::default()
        };
    }
    Throughput {
        output_tokens_per_s: Some(run.tokens as f64 / decode(run)),
        at_end_tokens_per_s: Some(run.at_end),
        full_cache_output_tokens_per_s: Some(full.tokens as f64 / decode(full)),
        tpot_mean_s: Some(run.tpot_mean),
        tpot_p99_s: p99(run),
        prefill_s: Some(run.prefill.secs()),
        makespan_s: Some(run.makespan.secs()),
    }
}

/// 99th percentile over the steps of a run (s).
pub(super) fn p99(run: &Run) -> Option<f64> {
    stats::percentile_of(&mut run.steps.clone(), 0.99).map(Ps::secs)
}

/// Mean step of the run with everything in HBM (s).
pub(super) fn full_step(full: &Run) -> f64 {
    decode(full) / full.steps.len().max(1) as f64
}

/// What streams for free per step: link bandwidth of all GPUs times the mean all-in-HBM step (DESIGN 5.3).
fn free_t1(case: &Case, full: &Run) -> u64 {
    let links = case.prepared.h2d_rate * f64::from(case.scenario.deployment.gpus);
    Bytes::ceil((links * full_step(full)).min(1e18)).0
}

/// Link bandwidth of one GPU at which the largest T1 of the run streams for free.
fn breakeven(case: &Case, ran: &Ran) -> Option<f64> {
    let gpus = f64::from(case.scenario.deployment.gpus);
    let t1 = ran.run.peak.t1;
    (t1 > 0.0).then(|| t1 / full_step(&ran.full) / gpus)
}

fn traffic(run: &Run) -> Traffic {
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
fn exposed(run: &Run) -> f64 {
    run.sums.exposed.secs() + run.sums.exposed_in_place.secs()
}

pub(super) fn parts(run: &Run) -> StepParts {
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
fn bound_by(case: &Case, run: &Run) -> String {
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
fn one_bottleneck(case: &Case) -> bool {
    let d = &case.scenario.deployment;
    let (host, links) = (
        &d.hardware.host,
        d.hardware.link.h2d.get() * f64::from(d.gpus),
    );
    d.home == DDR && host.channels.get() <= 2.0 && host.ddr_read.get() < 2.0 * links
}

/// What bounds attention on the host: its memory or its cores.
fn host_bound(case: &Case) -> &'static str {
    let host = &case.scenario.deployment.hardware.host;
    let class = case.prepared.classes.iter().find(|c| c.window.is_none());
    class.map_or("host", |c| {
        let ddr = c.kv_token / host.ddr_read.get();
        let cpu = 4.0 * c.width / host.attention_flops.get();
        if ddr >= cpu { "host-ddr" } else { "host-cpu" }
    })
}

/// Mean over the timelines; the worst of them for p99 and max. Masses exist only where rows were replayed.
fn quality_of(case: &Case) -> Quality {
    let each: Vec<Mass> = case.timelines.iter().map(|t| Mass::of(t)).collect();
    let n = each.len().max(1) as f64;
    let recorded = case.timelines.iter().all(|t| !t.mass.is_empty());
    let interval = over_traces(case, |t| Mass::of(t).destroyed.mean);
    let worst = |f: fn(&Mass) -> f64| recorded.then(|| each.iter().map(f).fold(0.0, f64::max));
    let mean = |f: fn(&Mass) -> f64| recorded.then(|| each.iter().map(f).sum::<f64>() / n);
    let selects = leaves_out(&case.timelines);
    let picked = |x: Option<f64>| x.filter(|_| selects);
    Quality {
        destroyed_share: each.iter().map(|q| q.destroyed_share).sum::<f64>() / n,
        destroyed_mass_mean: mean(|q| q.destroyed.mean),
        destroyed_mass_mean_low: interval.map(|i| i.low),
        destroyed_mass_mean_high: interval.map(|i| i.high),
        destroyed_mass_p99: worst(|q| q.destroyed.p99),
        destroyed_mass_max: worst(|q| q.destroyed.max),
        residual_mass_mean: picked(mean(|q| q.residual.mean)),
        residual_mass_p99: picked(worst(|q| q.residual.p99)),
        residual_mass_max: picked(worst(|q| q.residual.max)),
        lost_mass_mean: mean(|q| q.lost.mean),
        lost_mass_p99: worst(|q| q.lost.p99),
        lost_mass_max: worst(|q| q.lost.max),
        output_error_bound: worst(|q| q.error_bound_max),
    }
}

/// Whether host tokens are left out of steps: where nothing spills, nothing is.
fn leaves_out(timelines: &[Arc<Timeline>]) -> bool {
    timelines
        .iter()
        .any(|t| t.selection.is_some() && t.spills())
}

/// What the steps of a request fetch, where only some host tokens take part.
fn fetched(timelines: &[Arc<Timeline>]) -> Fetched {
    if !leaves_out(timelines) {
        return Fetched::default();
    }
    let mut all = Fetch::default();
    let (mut steps, mut most) = (0.0, 0.0f64);
    for t in timelines {
        for step in 0..t.steps {
            let [_, t1, t2, _] = t.tokens_at(step);
            let Some(fetch) = t.fetch_at(step, [t1, t2]) else {
                return Fetched::default();
            };
            all.add(&fetch);
            most = most.max(fetch.fetched[0] + fetch.fetched[1]);
            steps += 1.0;
        }
    }
    let mean = |n: f64| Some(n / f64::max(steps, 1.0));
    Fetched {
        tokens_mean: mean(all.fetched[0] + all.fetched[1]),
        fresh_mean: mean(all.fresh[0] + all.fresh[1]),
        fresh_runs_mean: mean(all.fresh_runs),
        tokens_max: Some(most),
    }
}

/// Resamples behind an interval over traces.
const RESAMPLES: u32 = 2000;

/// Mean of a figure of each trace's timeline with its bootstrap interval; none without rows or for a single trace.
fn over_traces(case: &Case, figure: impl Fn(&Timeline) -> f64) -> Option<stats::Estimate> {
    let each: Vec<f64> = case.timelines.iter().map(|t| figure(t)).collect();
    let known = each.len() > 1 && case.timelines.iter().all(|t| !t.mass.is_empty());
    known.then(|| stats::bootstrap_mean(&each, RESAMPLES, case.scenario.seed))?
}

fn tiers(case: &Case) -> Tiers {
    let timelines = &case.timelines;
    let mut out = Tiers::default();
    let n = timelines.len() as f64;
    let recorded = timelines.iter().all(|t| !t.mass.is_empty());
    for t in timelines {
        let (means, ends, mass) = (t.tokens_mean(), t.tokens_end(), t.mass_mean());
        for (i, tier) in [&mut out.t0, &mut out.t1, &mut out.t2, &mut out.t3]
            .into_iter()
            .enumerate()
        {
            tier.tokens_mean += means[i] / n;
            tier.tokens_end += ends[i] / n;
            tier.mass_mean = recorded.then(|| tier.mass_mean.unwrap_or(0.0) + mass[i] / n);
        }
    }
    let all = [&mut out.t0, &mut out.t1, &mut out.t2, &mut out.t3];
    for (i, tier) in all.into_iter().enumerate() {
        let interval = over_traces(case, |t| t.mass_mean()[i]);
        (tier.mass_low, tier.mass_high) = (interval.map(|i| i.low), interval.map(|i| i.high));
    }
    out
}

fn moves(timelines: &[std::sync::Arc<Timeline>]) -> Moves {
    let n = timelines.len() as f64;
    let sum = |f: fn(&crate::timeline::Interval) -> f64| {
        timelines
            .iter()
            .flat_map(|t| &t.intervals)
            .map(f)
            .sum::<f64>()
            / n
    };
    let decided = timelines.iter().map(|t| f64::from(t.retiers)).sum::<f64>() / n.max(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a mean of u32
    let retiers = decided.round() as u32;
    let (promoted, demoted) = (sum(|i| i.promoted), sum(|i| i.demoted));
    let each = decided.max(1.0);
    Moves {
        retiers,
        promoted_per_retier: promoted / each,
        demoted_per_retier: demoted / each,
        promoted_total: promoted,
        demoted_total: demoted,
        destroyed_total: sum(|i| i.destroyed),
    }
}

fn trace_use(case: &Case) -> TraceUse {
    let Some(first) = case.traces.first() else {
        return TraceUse::default();
    };
    let names: Vec<_> = case.traces.iter().map(|t| t.name().to_string()).collect();
    let past =
        |t: &Arc<Timeline>| f64::from(t.synthetic_from.map_or(0, |s| t.steps - s.min(t.steps)));
    let steps: f64 = case.timelines.iter().map(|t| f64::from(t.steps)).sum();
    TraceUse {
        name: Some(names.join(", ")),
        recorded_model: Some(first.header().model.clone()),
        n: u32::try_from(case.traces.len()).ok().filter(|n| *n > 1),
        rows: crate::trace::Rows::rows(first.as_ref()),
        synthetic_share: case.timelines.iter().map(past).sum::<f64>() / steps.max(1.0),
    }
}

/// Fields that rest on the recording: quality, mass, moves; times only through the moves.
fn depends(case: &Case) -> Vec<String> {
    if case.traces.is_empty() || !case.timelines.iter().any(|t| t.spills() || t.destroys()) {
        return Vec::new();
    }
    let mut out: Vec<String> = (0..4).map(|i| format!("tiers.t{i}.mass_mean")).collect();
    out.extend(
        [
            "moves.promoted_per_retier",
            "moves.demoted_per_retier",
            "moves.promoted_total",
            "moves.demoted_total",
        ]
        .map(String::from),
    );
    if case.timelines.iter().any(|t| t.destroys()) {
        out.extend(
            [
                "destroyed_mass_mean",
                "destroyed_mass_p99",
                "destroyed_mass_max",
                "output_error_bound",
            ]
            .map(|k| format!("quality.{k}")),
        );
    }
    if leaves_out(&case.timelines) {
        out.extend(
            [
                "fetched.fresh_mean",
                "fetched.fresh_runs_mean",
                "quality.residual_mass_mean",
                "quality.residual_mass_p99",
                "quality.residual_mass_max",
                "quality.lost_mass_mean",
                "quality.lost_mass_p99",
                "quality.lost_mass_max",
            ]
            .map(String::from),
        );
    }
    if case.timelines.iter().any(|t| t.spills()) {
        out.extend(
            [
                "throughput.output_tokens_per_s",
                "traffic.h2d_bytes",
                "memory.hbm_saved_moved_whole_pages_bytes",
            ]
            .map(String::from),
        );
    }
    out
}

fn assumption<Q: Quantity>(name: &str, v: &Value<Q>) -> Assumption {
    Assumption {
        name: name.into(),
        value: v.value,
        low: v.low,
        high: v.high,
        unit: Q::UNIT.into(),
        source: v.source,
        reference: v.reference.clone(),
    }
}

/// Every number that entered, with its source; those of a path not taken are left out.
pub(super) fn assumptions(case: &Case) -> Vec<Assumption> {
    let d = &case.scenario.deployment;
    let (gpu, hardware, runtime) = (&d.hardware.gpu, &d.hardware, &d.runtime);
    let k = &gpu.kernels;
    let mut out = vec![
        assumption("gpu.memory", &gpu.memory),
        assumption("gpu.hbm_bandwidth", &gpu.hbm_bandwidth),
        assumption("gpu.kernels.linear_fixed", &k.linear_fixed),
        match d.weights.bits(crate::model::layer::MatrixKind::Ffn) {
            16 => assumption("gpu.kernels.linear_share", &k.linear_share),
            8 => assumption("gpu.kernels.linear_share_8bit", &k.linear_share_8bit),
            _ => assumption("gpu.kernels.linear_share_4bit", &k.linear_share_4bit),
        },
        assumption("gpu.kernels.attention_fixed", &k.attention_fixed),
        if d.kv == crate::model::KvFormat::Fp16 {
            assumption("gpu.kernels.attention_share", &k.attention_share)
        } else {
            assumption("gpu.kernels.attention_share_8bit", &k.attention_share_8bit)
        },
        assumption("runtime.layer_other", &runtime.layer_other),
        assumption("runtime.step_gap", &runtime.step_gap),
        assumption("runtime.kernel_share", &runtime.kernel_share),
        if d.gpus > 1 {
            assumption("runtime.reserve_multi_gpu", &runtime.reserve_multi_gpu)
        } else {
            assumption("runtime.reserve", &runtime.reserve)
        },
        assumption("runtime.activation_factor", &runtime.activation_factor),
        Assumption {
            name: "memory_fraction".into(),
            value: d.memory_fraction,
            low: d.memory_fraction,
            high: d.memory_fraction,
            unit: "share".into(),
            source: crate::hardware::Source::Assumed,
            reference: "--memory-fraction; 0.95 unless given, where vLLM itself takes 0.90".into(),
        },
    ];
    if case.timelines.iter().any(|t| t.spills()) {
        out.extend(way_to_t1(d));
    }
    if let Some(i) = hardware.interconnect.as_ref().filter(|_| d.gpus > 1) {
        out.push(assumption(
            "interconnect.allreduce_fixed",
            &i.allreduce_fixed,
        ));
        out.push(assumption("interconnect.bandwidth", &i.bandwidth));
    }
    out
}

/// The numbers of the way to T1 and of the place where it lies.
fn way_to_t1(d: &Deployment) -> Vec<Assumption> {
    let (link, host) = (&d.hardware.link, &d.hardware.host);
    let mut out = vec![
        assumption("link.h2d", &link.h2d),
        assumption("link.d2h", &link.d2h),
        assumption("link.duplex", &link.duplex),
    ];
    if d.t1 == T1Mode::Direct {
        out.push(assumption("link.in_place", &link.in_place_share()));
    }
    if host.ddr_read.get().is_finite() {
        out.push(assumption("host.ddr_read", &host.ddr_read));
    }
    if d.t1 == T1Mode::HostAttention {
        out.push(assumption("host.attention_flops", &host.attention_flops));
    }
    out.push(assumption("host.pinned_limit", &host.pinned_limit));
    if d.home != DDR {
        for a in &mut out {
            a.name = home_key(&d.home, &a.name);
        }
    }
    out
}

/// The name of a number in the home's own table.
fn home_key(home: &str, key: &str) -> String {
    let own = match key {
        "link.h2d" => "read",
        "link.d2h" => "write",
        "link.duplex" => "duplex",
        "link.in_place" => "in_place",
        "host.ddr_read" => "shared",
        "host.pinned_limit" => "capacity",
        other => return other.into(),
    };
    format!("homes.{home}.{own}")
}

/// What freeing whole pages only does to T0, where nothing is packed.
fn whole_pages_note(case: &Case) -> String {
    let why = "compact none: T0 keeps every page in which one T0 token is left";
    let counted = case.timelines.iter().all(|t| t.synthetic_from.is_none());
    if counted {
        format!("{why}; counted from replayed positions")
    } else if case.traces.is_empty() {
        format!("{why}; without a trace the pages are bounded from above")
    } else {
        format!("{why}; past the recorded rows the pages are extrapolated")
    }
}

/// Remarks on how and where T1 takes part.
fn of_mode(case: &Case) -> Vec<String> {
    let d = &case.scenario.deployment;
    let mut out = Vec::new();
    let spills = case.timelines.iter().any(|t| t.spills());
    if d.score_cost != ScoreCost::Fused && !case.scored.scores {
        out.push(
            "nothing here looks at the weights of attention: --score-cost has no effect".into(),
        );
    }
    if !spills {
        return out;
    }
    if let T1Mode::Selective(selection) = d.t1 {
        out.push(NOT_EXACT.into());
        if selection.predict == Predict::LastRow {
            out.push("predict=last-row is optimistic: it ranks by weights that a real run does not have of tokens it did not fetch".into());
        }
        if case.traces.is_empty() {
            out.push("without a trace everything fetched counts as fetched anew, in single tokens: the most there can be".into());
        }
    }
    if d.t1 == T1Mode::Direct && !d.hardware.link.coherent {
        out.push(format!(
            "direct reads over {} at {} of its copy rate, which is assumed: no attention kernel was measured there",
            d.hardware.link.name,
            d.hardware.link.in_place_share().show()
        ));
    }
    if one_bottleneck(case) {
        out.push(format!(
            "two memory channels read {}, the link {}: one bottleneck, what one takes the other lacks",
            d.hardware.host.ddr_read.show(),
            d.hardware.link.h2d.show()
        ));
    }
    if d.home != DDR {
        out.push(format!(
            "T1 lives in {}, whose own work is not counted; it is no host memory",
            d.hardware.host.name
        ));
    }
    out
}

/// What a mode that fetches a part of T1 must always say.
const NOT_EXACT: &str = "selective is not exact: a step attends only to the host tokens it fetches; residual mass is first-order \
and teacher-forced, not accuracy, and does not rank it against modes that attend to all";

/// Remarks that qualify the answer.
fn notes(case: &Case, memory: &Memory) -> Vec<String> {
    let s = &case.scenario;
    let mut out = s.notes.clone();
    if memory.ddr_peak_bytes > memory.ddr_capacity_bytes {
        out.push(format!(
            "host memory: {} would be pinned, the limit is {}",
            crate::units::text::show_bytes(Bytes(memory.ddr_peak_bytes)),
            crate::units::text::show_bytes(Bytes(memory.ddr_capacity_bytes))
        ));
    }
    if case.traces.len() > 1 {
        out.push(format!(
            "mass, moves and quality are means over {} traces; intervals are 90 %, by bootstrap over traces",
            case.traces.len()
        ));
    }
    out.extend(crate::catalog::hardware_warnings(&s.deployment.hardware));
    if case.timelines.iter().any(|t| t.spills()) {
        out.push("part of the KV of running requests lies in host memory: no released engine attends to it there".into());
    }
    out.extend(of_mode(case));
    if case.ledger.whole_pages && case.timelines.iter().any(|t| t.spills()) {
        out.push(whole_pages_note(case));
    }
    let acts = |t: &Arc<Timeline>| t.spills() || t.destroys();
    if case.spec.name() != "full" && !case.timelines.iter().any(acts) {
        out.push(format!(
            "{} moves nothing within {} tokens at these settings: every token stays in HBM",
            case.spec.name(),
            s.prompt + s.output
        ));
    }
    let least = case.spec.least_hbm_tokens(s.prompt);
    if case.timelines.iter().any(|t| t.spills()) && 2 * s.prompt > s.prompt + s.output {
        out.push(format!(
            "the prompt is protected: at least {least} of {} tokens a request stay in HBM",
            s.prompt + s.output
        ));
    }
    if case.timelines.iter().any(|t| t.destroys()) {
        out.push("this policy destroys tokens: not to be ranked with policies that do not; mass lost on a small recorded model is first-order and teacher-forced, not accuracy".into());
    }
    if s.deployment.hardware.calibrated.is_none() {
        out.push(format!(
            "{} is not calibrated: no figure here was measured on your machine",
            s.deployment.hardware.id
        ));
    }
    if s.occupancy == Occupancy::Staggered {
        out.push("staggered: one turn of a steady state, every request replaced once".into());
    }
    out
}
