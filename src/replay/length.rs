//! Tokens by tier without a trace.
//!
//! For every policy here the number of tokens in each tier follows from the lengths alone, so memory and the time of exact modes are exact at any length. What only
//! the ranking decides is bounded: runs and pages from above (the scattered worst case), moves from below (`promoted` is
//! 0, `demoted` the growth of the host tiers). `mass` is empty and `synthetic_from` is 0, which is how callers tell.

use crate::error::{Error, Result};
use crate::policy::PolicySpec;
use crate::policy::four_tier::{Params, Pool, Preset, Protected, quota};
use crate::policy::registry::Kind;
use crate::policy::streaming_llm;
use crate::timeline::{Interval, Timeline};

/// Longest sequence looked at (tokens): beyond any model's context, and what keeps a typing error from filling memory.
const LIMIT: u32 = 1 << 24;

/// Tokens by tier for a prompt of `prompt` and `steps` decode steps (tokens).
///
/// # Errors
/// Usage: more than 2^24 positions. Internal: `hbm` not resolved.
pub fn by_length(spec: &PolicySpec, prompt: u32, steps: u32) -> Result<Timeline> {
    spec.resolved()?;
    if prompt.saturating_add(steps) > LIMIT {
        return Err(Error::usage(format!(
            "prompt {prompt} and output {steps} are together more than any model's context (limit 2^24 tokens)"
        )));
    }
    let mut timeline = Timeline {
        prompt,
        steps,
        synthetic_from: Some(0),
        ..Timeline::default()
    };
    if steps > 0 {
        timeline.intervals.push(all_resident(prompt));
        match spec.kind() {
            Kind::FourTier(p) | Kind::Oracle(p) => four_tier(p, &mut timeline),
            Kind::StreamingLlm(p) => streaming(*p, &mut timeline),
            _ => shrinking(spec, &mut timeline),
        }
    }
    Ok(timeline)
}

/// Step 0: the prompt and the step's own token, all in T0.
fn all_resident(prompt: u32) -> Interval {
    Interval {
        tokens: [f64::from(prompt + 1), 0.0, 0.0, 0.0],
        runs: [1.0, 0.0, 0.0, 0.0],
        t0_pages: f64::from((prompt + 1).div_ceil(16)),
        ..Interval::default()
    }
}

/// Candidates of four-tier by tier, destroyed ones in `[3]` (tokens).
type Candidates = [u32; 4];

fn four_tier(params: &Params, timeline: &mut Timeline) {
    let mut in_tier: Candidates = [0; 4];
    timeline.retiers = timeline.steps / params.interval;
    for decision in 1..=timeline.retiers {
        let first_step = decision * params.interval;
        let length = timeline.prompt + first_step;
        let protected = Protected::of(params, timeline.prompt, length);
        let before = in_tier;
        in_tier[0] += protected.candidate_count() - in_tier.iter().sum::<u32>();
        retier(params, &protected, &mut in_tier);
        let own = u32::from(first_step < timeline.steps);
        let mut interval = describe(&protected, in_tier, length, own);
        interval.first_step = first_step;
        let host = |c: &Candidates| f64::from(c[1] + c[2]);
        interval.demoted = (host(&in_tier) - host(&before)).max(0.0);
        interval.destroyed = f64::from(in_tier[3] - before[3]);
        timeline.intervals.push(interval);
    }
}

/// One decision, by counts.
fn retier(params: &Params, protected: &Protected, in_tier: &mut Candidates) {
    let live = in_tier[0] + in_tier[1] + in_tier[2];
    let prototype = params.preset == Preset::Prototype;
    let ranked = if prototype { in_tier[0] } else { live };
    let quota = quota(
        params,
        Pool {
            live,
            ranked,
            destroyed: in_tier[3],
            protected: protected.count(),
        },
    );
    let spilled = ranked - quota.evict - quota.t2 - quota.t0;
    let kept = if prototype { in_tier[1] } else { 0 };
    *in_tier = [quota.t0, kept + spilled, quota.t2, in_tier[3] + quota.evict];
}

/// Counts as an interval, with runs and pages bounded from above. `own` is the token of the step that follows, if any.
fn describe(protected: &Protected, in_tier: Candidates, length: u32, own: u32) -> Interval {
    let [t0, t1, t2, t3] = in_tier;
    let all = t0 + t1 + t2 + t3;
    let runs = |n: u32| f64::from(n.min(all - n + 2));
    let shielded = protected.count() + own;
    Interval {
        tokens: [
            f64::from(shielded + t0),
            f64::from(t1),
            f64::from(t2),
            f64::from(t3),
        ],
        runs: [
            f64::from(3 + t0.min(all - t0)),
            runs(t1),
            runs(t2),
            runs(t3),
        ],
        t0_pages: f64::from(
            (length + own)
                .div_ceil(16)
                .min(shielded.div_ceil(16) + 3 + t0),
        ),
        ..Interval::default()
    }
}

fn streaming(params: streaming_llm::Params, timeline: &mut Timeline) {
    let mut before = 0;
    for step in 0..timeline.steps {
        let length = timeline.prompt + step + 1;
        let destroyed = params.destroyed_after(length);
        if destroyed > before {
            timeline.retiers += 1;
            let own = u32::from(step + 1 < timeline.steps);
            timeline.intervals.push(cut(
                params.sinks,
                length,
                own,
                destroyed,
                destroyed - before,
                step + 1,
            ));
        }
        before = destroyed;
    }
}

/// Policies that only destroy, step by step.
fn shrinking(spec: &PolicySpec, timeline: &mut Timeline) {
    let mut live = timeline.prompt;
    for step in 0..timeline.steps {
        let length = timeline.prompt + step + 1;
        let after = spec.live_after(timeline.prompt, length, live + 1);
        let due = spec
            .interval()
            .is_some_and(|n| (step + 1).is_multiple_of(n));
        if due || after <= live {
            timeline.retiers += 1;
            let own = u32::from(step + 1 < timeline.steps);
            let mut interval = scattered(after + own, length - after);
            interval.first_step = step + 1;
            interval.destroyed = f64::from(live + 1 - after);
            timeline.intervals.push(interval);
        }
        live = after;
    }
}

/// `live` tokens in T0 and `dead` ones destroyed, with runs and pages bounded from above.
fn scattered(live: u32, dead: u32) -> Interval {
    Interval {
        tokens: [f64::from(live), 0.0, 0.0, f64::from(dead)],
        runs: [
            f64::from(live.min(dead + 1)),
            0.0,
            0.0,
            f64::from(dead.min(live + 1)),
        ],
        t0_pages: f64::from(live.min((live + dead).div_ceil(16))),
        ..Interval::default()
    }
}

/// The interval after `StreamingLLM` cut out the positions behind its sinks; exact in every field.
fn cut(sinks: u32, length: u32, own: u32, destroyed: u32, now: u32, first_step: u32) -> Interval {
    let end = sinks + destroyed;
    let (all, first_kept) = ((length + own).div_ceil(16), end / 16);
    let (full_until, head) = (sinks.div_ceil(16), f64::from(u32::from(sinks > 0)));
    Interval {
        first_step,
        tokens: [
            f64::from(length + own - destroyed),
            0.0,
            0.0,
            f64::from(destroyed),
        ],
        runs: [
            head + f64::from(u32::from(end < length + own)),
            0.0,
            0.0,
            1.0,
        ],
        t0_pages: f64::from(all - first_kept.saturating_sub(full_until)),
        destroyed: f64::from(now),
        ..Interval::default()
    }
}
