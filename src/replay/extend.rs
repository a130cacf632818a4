//! A recorded trace under a deployment with another prompt or more steps than were recorded.
//!
//! Fewer steps: the first rows. Another prompt: it only adds or removes T0 tokens, for policies that protect the whole
//! prompt; others are refused, since their ranking would need rows that do not exist. More steps: tokens by tier come
//! from the lengths and are exact; mass, moves and scatter past the recorded end come from the fitted shape of the trace
//! (see `shape`) and `synthetic_from` says from where. Past the end T3, T2 and T1 are taken to hold the lowest shares of
//! one ranking; where the policy does not rank so (it destroys, or T1 is append-only), the mass is scaled by what the
//! recorded end shows. Mass on T1 never exceeds that of all candidates and grows with T1's share of them.

use super::lanes;
use super::length::by_length;
use super::pass::{drive, drive_watched};
use super::shape::{Fitter, Shape};
use crate::error::{Error, Result};
use crate::policy::four_tier::{Hbm, Params, Preset, Protected};
use crate::policy::registry::Kind;
use crate::policy::{Lanes, Policy, PolicySpec};
use crate::score::{Rule, Score};
use crate::timeline::{Interval, Timeline};
use crate::trace::Rows;

/// Replays `rows` under `spec` for a deployment of `prompt` and `output` tokens.
///
/// # Errors
/// Usage: another prompt than recorded with a policy that does not protect it, an oracle beyond the recorded rows, a
/// trace too short to extrapolate from. Otherwise as [`super::run`].
pub fn extended(rows: &dyn Rows, spec: &PolicySpec, prompt: u32, output: u32) -> Result<Timeline> {
    extended_together(rows, std::slice::from_ref(spec), prompt, output)?.swap_remove(0)
}

/// As [`extended`] for any number of policies, with the rows decoded once for all of them; one timeline or refusal each,
/// in the order of `specs`, to the bit what [`extended`] gives alone.
///
/// # Errors
/// Damage in the rows, a policy that breaks a law: what concerns all of them.
pub fn extended_together(
    rows: &dyn Rows,
    specs: &[PolicySpec],
    prompt: u32,
    output: u32,
) -> Result<Vec<Result<Timeline>>> {
    let recorded = rows.rows().min(output);
    let beyond = output > recorded;
    let mut out: Vec<Option<Result<Timeline>>> = Vec::with_capacity(specs.len());
    let mut lanes = Batch::default();
    let mut means = Batch::default();
    for (place, spec) in specs.iter().enumerate() {
        let of_lanes = spec.card().lanes != Lanes::Sequence;
        let batch = if of_lanes { &mut lanes } else { &mut means };
        let added = batch.add(place, rows, spec, prompt, output);
        out.push(added.err().map(Err));
    }
    let mut timelines = Vec::new();
    if !lanes.policies.is_empty() {
        timelines = drive(rows, recorded, &mut lanes.policies)?;
    }
    let mut members = lanes.members;
    let split = members.len();
    members.append(&mut means.members);
    let mut rules = Vec::new();
    if beyond {
        for m in &mut members {
            m.fit.share(&mut rules);
        }
    }
    if beyond || split < members.len() {
        let replayed = drive_watched(
            rows,
            recorded,
            &mut means.policies,
            &rules,
            &mut |step, length, scores| {
                if beyond {
                    for m in &mut members {
                        m.fit.watch(step, length, rows.prompt(), scores);
                    }
                }
            },
        )?;
        timelines.extend(replayed);
    }
    for (m, mut timeline) in members.into_iter().zip(timelines) {
        shift_prompt(&mut timeline, prompt);
        let place = m.place;
        out[place] = Some(m.go_on(timeline, beyond));
    }
    Ok(out.into_iter().flatten().collect())
}

/// Policies that are replayed in one pass.
#[derive(Default)]
struct Batch {
    members: Vec<Member>,
    policies: Vec<Box<dyn Policy>>,
}

/// One of them: its place among all that were asked for, its counts at the deployment's lengths, its fit.
struct Member {
    place: usize,
    counts: Timeline,
    fit: Fit,
}

impl Batch {
    fn add(
        &mut self,
        place: usize,
        rows: &dyn Rows,
        spec: &PolicySpec,
        prompt: u32,
        output: u32,
    ) -> Result<()> {
        let counts = by_length(spec, prompt, output)?;
        check(rows, spec, prompt, output)?;
        self.policies
            .push(on_recorded_prompt(spec, prompt, rows.prompt()).build()?);
        let fit = Fit::new(spec, rows.rows().min(output));
        self.members.push(Member { place, counts, fit });
        Ok(())
    }
}

impl Member {
    /// The timeline at the deployment's length.
    fn go_on(self, mut timeline: Timeline, beyond: bool) -> Result<Timeline> {
        if beyond {
            extrapolate(&mut timeline, &self.counts, &self.fit.plan(&self.counts)?);
        }
        Ok(timeline)
    }
}

fn check(rows: &dyn Rows, spec: &PolicySpec, prompt: u32, output: u32) -> Result<()> {
    lanes::check(rows, &spec.card())?;
    if prompt != rows.prompt() && !spec.protects_prompt() {
        return Err(Error::usage(format!(
            "policy `{}` ranks the prompt, which has {} tokens in the trace and {prompt} in the deployment",
            spec.name(),
            rows.prompt()
        ))
        .help(format!(
            "use --prompt {}, {}or a trace with that prompt",
            rows.prompt(),
            if spec.hbm().is_some() { "protect=prompt, " } else { "" }
        )));
    }
    if output > rows.rows() && matches!(spec.kind(), Kind::Oracle(_)) {
        return Err(Error::usage(format!(
            "policy `oracle` reads the future, which the trace records for {} steps, not {output}",
            rows.rows()
        ))
        .help(format!("use --output {} or less", rows.rows())));
    }
    Ok(())
}

/// The policy with its T0 budget less the prompt tokens that the trace does not have (or more those it has besides).
pub(super) fn on_recorded_prompt(spec: &PolicySpec, prompt: u32, recorded: u32) -> PolicySpec {
    match spec.hbm() {
        Some(Hbm::Tokens(n)) => spec.with_hbm_tokens((n + recorded).saturating_sub(prompt)),
        _ => spec.with_unseen_prompt(i64::from(prompt) - i64::from(recorded)),
    }
}

/// Adds the prompt tokens that the trace does not have, all of them in T0.
fn shift_prompt(timeline: &mut Timeline, prompt: u32) {
    let more = f64::from(prompt) - f64::from(timeline.prompt);
    for interval in &mut timeline.intervals {
        interval.tokens[0] += more;
        interval.t0_pages = (interval.t0_pages + more / 16.0).ceil();
    }
    timeline.prompt = prompt;
}

/// What is fitted during the replay.
struct Fit {
    ranking: Ranking,
    cadence: u32,
    fitter: Fitter,
    /// Places of the column sums and of the policy's own score among those watched.
    scores: [usize; 2],
}

/// First step of the recorded end that the shape is fitted to: the last quarter. The share of the candidates still grows
/// in most recorded traces, so an earlier start reads too low; a later one has too few decisions.
fn late(recorded: u32) -> u32 {
    recorded - (recorded / 4).max(4 * 64).min(recorded)
}

/// Which tokens compete, and by what.
#[derive(Clone, Copy)]
enum Ranking {
    /// Nothing ever leaves T0.
    None,
    /// Four-tier's candidates by its score.
    Score(Params),
    /// All between the sinks and the latest 128 tokens, not ranked.
    Age { sinks: u32, window: u32 },
}

/// Latest tokens that draw far more than an even share of the mass, for policies that do not rank (tokens).
const RECENT: u32 = 128;

impl Ranking {
    /// Tokens that compete when the sequence is `length` long.
    fn protected(&self, prompt: u32, length: u32) -> Protected {
        match self {
            Self::None => Protected::between(0, length, length),
            Self::Score(params) => Protected::of(params, prompt, length),
            Self::Age { sinks, window } => Protected::between(*sinks, *window, length),
        }
    }
}

impl Fit {
    fn new(spec: &PolicySpec, recorded: u32) -> Self {
        let ranking = match *spec.kind() {
            Kind::Full(_) => Ranking::None,
            Kind::FourTier(p) | Kind::Oracle(p) => Ranking::Score(p),
            Kind::StreamingLlm(p) => Ranking::Age {
                sinks: p.sinks,
                window: p.window.min(RECENT),
            },
            // No single ranking of all tokens: an even share of the mass, scaled by the recorded end.
            _ => Ranking::Age {
                sinks: 0,
                window: RECENT,
            },
        };
        Self {
            ranking,
            cadence: spec.interval().unwrap_or(64).min(64),
            fitter: Fitter::new(late(recorded)),
            scores: [0; 2],
        }
    }

    /// Adds the scores it wants to see to those that are watched.
    fn share(&mut self, rules: &mut Vec<Rule>) {
        let own = match self.ranking {
            Ranking::Score(p) => p.score,
            _ => Rule::Cumulative,
        };
        self.scores = [Rule::Cumulative, own].map(|rule| {
            rules.iter().position(|r| *r == rule).unwrap_or_else(|| {
                rules.push(rule);
                rules.len() - 1
            })
        });
    }

    fn watch(&mut self, step: u32, length: u32, prompt: u32, scores: &[Score]) {
        if (step + 1).is_multiple_of(self.cadence) {
            let protected = self.ranking.protected(prompt, length);
            let (received, score) = (&scores[self.scores[0]], &scores[self.scores[1]]);
            self.fitter.decision(step + 1, &protected, score, received);
        }
    }

    /// The shape, unless nothing ever leaves T0.
    fn plan(self, counts: &Timeline) -> Result<Plan> {
        let spills = counts
            .intervals
            .iter()
            .any(|i| i.tokens[1..].iter().any(|n| *n > 0.0));
        let shape = match self.ranking {
            _ if !spills => None,
            Ranking::None => None,
            Ranking::Score(_) => Some(self.fitter.fit()?),
            Ranking::Age { .. } => Some(self.fitter.fit()?.flat()),
        };
        Ok(Plan {
            shape,
            ranking: self.ranking,
        })
    }
}

/// How mass and moves go on.
struct Plan {
    shape: Option<Shape>,
    ranking: Ranking,
}

impl Plan {
    /// Candidates under an interval, destroyed ones included (tokens).
    fn candidates(&self, prompt: u32, interval: &Interval) -> f64 {
        let length = prompt + interval.first_step;
        f64::from(self.ranking.protected(prompt, length).candidate_count()).max(1.0)
    }

    /// Mass on T0..T3 of a row under an interval.
    fn mass(&self, prompt: u32, interval: &Interval, scale: &[f64; 4]) -> [f64; 4] {
        let Some(shape) = &self.shape else {
            return [1.0, 0.0, 0.0, 0.0];
        };
        let all = self.candidates(prompt, interval);
        let [_, t1, t2, t3] = interval.tokens.map(|n| n / all);
        let (low, middle, high) = (
            shape.below(t3),
            shape.below(t3 + t2),
            shape.below(t3 + t2 + t1),
        );
        let raw = [high - middle, middle - low, low];
        let scaled: [f64; 3] = std::array::from_fn(|i| raw[i] * scale[i + 1]);
        let sum: f64 = scaled.iter().sum();
        let fit = if sum > shape.below(1.0) {
            shape.below(1.0) / sum
        } else {
            1.0
        };
        let [m1, m2, m3] = scaled.map(|m| m * fit);
        [1.0 - m1 - m2 - m3, m1, m2, m3]
    }

    /// How far the recorded end lies from the fitted mass, by tier; 1 where the ranking is the policy's own.
    fn scale(&self, timeline: &Timeline) -> [f64; 4] {
        let own = match self.ranking {
            Ranking::Score(p) => p.evict <= 0.0 && p.preset == Preset::Algorithm,
            Ranking::Age { .. } => false,
            Ranking::None => true,
        };
        let mut sums = [[0.0; 4]; 2];
        if !own {
            for step in late(timeline.steps)..timeline.steps {
                let interval = &timeline.intervals[timeline.interval_at(step)];
                let fitted = self.mass(timeline.prompt, interval, &[1.0; 4]);
                for tier in 0..4 {
                    sums[0][tier] += timeline.mass[step as usize][tier];
                    sums[1][tier] += fitted[tier];
                }
            }
        }
        std::array::from_fn(|tier| match (sums[0][tier], sums[1][tier]) {
            (real, fitted) if real > 0.0 && fitted > 1e-6 => (real / fitted).clamp(0.25, 4.0),
            _ => 1.0,
        })
    }

    /// Fills in the moves and the scatter of a decision from the fitted shape.
    fn moves(&self, prompt: u32, before: &Interval, interval: &mut Interval) {
        let (Some(shape), Ranking::Score(params)) = (&self.shape, self.ranking) else {
            return;
        };
        let all = self.candidates(prompt, interval);
        let host = |i: &Interval| i.tokens[1] + i.tokens[2];
        let gone = host(interval) + interval.tokens[3];
        if host(interval) > 0.0 && params.preset == Preset::Algorithm {
            interval.promoted = shape.climbers(gone / all).min(host(before));
        }
        interval.demoted = (interval.promoted + host(interval) - host(before)).max(0.0);
        let compressed = interval.tokens[2] - before.tokens[2];
        interval.compressed = compressed.max(0.0).min(interval.demoted);
        let scattered = (shape.runs(gone / all) * all).max(1.0);
        interval.runs[0] = 1.0 + scattered;
        let mut low = 0.0;
        for tier in [3, 2, 1] {
            // A band of the ranking is cut off from its neighbours on both sides.
            let high = low + interval.tokens[tier] / all;
            let cuts = (shape.runs(low) + shape.runs(high)) * all;
            interval.runs[tier] = cuts.min(interval.tokens[tier]);
            low = high;
        }
        let density = (scattered / gone.max(1.0)).min(1.0);
        interval.moved_runs = interval.promoted + interval.demoted * density;
        let pages = f64::from(prompt + interval.first_step + 1) / 16.0;
        interval.t0_pages = (pages - shape.pages(gone / all) * all / 16.0).ceil();
    }
}

/// Appends what was not recorded to a replayed timeline.
fn extrapolate(timeline: &mut Timeline, counts: &Timeline, plan: &Plan) {
    let recorded = timeline.steps;
    let scale = plan.scale(timeline);
    let degraded = late_degraded(timeline);
    if timeline
        .intervals
        .last()
        .is_some_and(|i| i.first_step == recorded)
    {
        // The closing interval is now one that a step runs under: its own token joins T0.
        timeline.intervals.last_mut().expect("just seen").tokens[0] += 1.0;
    }
    let known = timeline.intervals.last().map_or(0, |i| i.first_step);
    let start = counts
        .intervals
        .partition_point(|i| i.first_step <= known && recorded > 0);
    for interval in &counts.intervals[start..] {
        let mut interval = *interval;
        if let Some(before) = timeline.intervals.last() {
            let before = *before;
            plan.moves(timeline.prompt, &before, &mut interval);
        }
        timeline.intervals.push(interval);
    }
    timeline.steps = counts.steps;
    timeline.retiers = counts.retiers;
    timeline.synthetic_from = Some(recorded);
    fill_mass(timeline, recorded, plan, &scale, degraded);
}

/// Mass of every step from `recorded` on.
fn fill_mass(timeline: &mut Timeline, recorded: u32, plan: &Plan, scale: &[f64; 4], degraded: f64) {
    let first = if timeline.intervals.is_empty() {
        0
    } else {
        timeline.interval_at(recorded)
    };
    let has_t2 = timeline.intervals.iter().any(|i| i.tokens[2] > 0.0);
    if has_t2 {
        timeline.degraded.resize(recorded as usize, 0.0);
    }
    for index in first..timeline.intervals.len() {
        let interval = timeline.intervals[index];
        let from = interval.first_step.max(recorded);
        let steps = (interval.first_step + timeline.steps_of(index)).saturating_sub(from) as usize;
        let mass = plan.mass(timeline.prompt, &interval, scale);
        timeline.mass.resize(timeline.mass.len() + steps, mass);
        if has_t2 {
            let on = (mass[2] * degraded).min(1.0 - mass[3]);
            timeline
                .degraded
                .resize(timeline.degraded.len() + steps, on);
        }
    }
}

/// Mass on all degraded tokens over that on those in T2, in the recorded end.
fn late_degraded(timeline: &Timeline) -> f64 {
    let late = late(timeline.steps) as usize;
    let in_t2: f64 = timeline.mass.iter().skip(late).map(|m| m[2]).sum();
    let anywhere: f64 = timeline.degraded.iter().skip(late).sum();
    if in_t2 > 0.0 && anywhere > 0.0 {
        anywhere / in_t2
    } else {
        1.0
    }
}
