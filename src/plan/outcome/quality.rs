//! What the recordings say: masses, tiers, moves, and how much of them was recorded.

use std::sync::Arc;

use crate::metrics::{Fetched, Moves, Quality, Tiers, TraceUse};
use crate::plan::run::Case;
use crate::replay::Quality as Mass;
use crate::stats;
use crate::timeline::{Fetch, Timeline};

/// Mean over the timelines; the worst of them for p99 and max. Masses exist only where rows were replayed.
pub(in crate::plan) fn quality_of(case: &Case) -> Quality {
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
pub(in crate::plan) fn leaves_out(timelines: &[Arc<Timeline>]) -> bool {
    timelines
        .iter()
        .any(|t| t.selection.is_some() && t.spills())
}

/// What the steps of a request fetch, where only some host tokens take part.
pub(in crate::plan) fn fetched(timelines: &[Arc<Timeline>]) -> Fetched {
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
pub(in crate::plan) fn over_traces(
    case: &Case,
    figure: impl Fn(&Timeline) -> f64,
) -> Option<stats::Estimate> {
    let each: Vec<f64> = case.timelines.iter().map(|t| figure(t)).collect();
    let known = each.len() > 1 && case.timelines.iter().all(|t| !t.mass.is_empty());
    known.then(|| stats::bootstrap_mean(&each, RESAMPLES, case.scenario.seed))?
}

pub(in crate::plan) fn tiers(case: &Case) -> Tiers {
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

pub(in crate::plan) fn moves(timelines: &[std::sync::Arc<Timeline>]) -> Moves {
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

pub(in crate::plan) fn trace_use(case: &Case) -> TraceUse {
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
        rows: {
            let rows = crate::trace::Rows::rows(first.as_ref());
            crate::trace::Rows::synthetic_from(first.as_ref()).map_or(rows, |s| s.min(rows))
        },
        synthetic_share: case.timelines.iter().map(past).sum::<f64>() / steps.max(1.0),
    }
}

/// Fields that rest on the recording: quality, mass, moves; times only through the moves.
pub(in crate::plan) fn depends(case: &Case) -> Vec<String> {
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
