//! A recorded trace under a deployment with another prompt or more steps than were recorded.
//!
//! Fewer steps: the first rows. Another prompt: it only adds or removes T0 tokens, for policies that protect the whole
//! prompt; others are refused, since their ranking would need rows that do not exist. More steps: tokens by tier come
//! from the lengths and are exact; mass and promotions past the recorded end come from a sample of the tokens that the
//! fitted law of the trace has to come (see `outlook`), scatter from the recorded rankings (see `shape`), and
//! `synthetic_from` says from where. What the sample cannot know is what the text will do; the law is that of the trace's
//! late part.

use super::length::by_length;
use super::outlook::{Order, Outlook, Recorded};
use super::pass::drive_watched;
use super::shape::{Fitter, Shape};
use crate::error::{Error, Result};
use crate::policy::PolicySpec;
use crate::policy::four_tier::{Hbm, Params, Preset, Protected};
use crate::policy::registry::Kind;
use crate::score::{Rule, Score};
use crate::timeline::{Interval, Tier, Timeline};
use crate::trace::Rows;
use crate::trace::synth::Law;
use std::sync::Arc;

/// Replays `rows` under `spec` for a deployment of `prompt` and `output` tokens.
///
/// # Errors
/// Usage: another prompt than recorded with a policy that does not protect it, an oracle beyond the recorded rows, a
/// trace too short to extrapolate from. Otherwise as [`super::run`].
pub fn extended(rows: &dyn Rows, spec: &PolicySpec, prompt: u32, output: u32) -> Result<Timeline> {
    let counts = by_length(spec, prompt, output)?;
    check(rows, spec, prompt, output)?;
    let recorded = rows.rows().min(output);
    let beyond = output > recorded;
    let mut fit = Fit::new(spec, recorded);
    let mut policies = [on_recorded_prompt(spec, prompt, rows.prompt()).build()?];
    let rules = if beyond { fit.rules() } else { Vec::new() };
    let mut ended = drive_watched(
        rows,
        recorded,
        &mut policies,
        &rules,
        &mut |step, length, scores| {
            if beyond {
                fit.watch(step, length, rows.prompt(), scores);
            }
        },
    )?;
    let (mut timeline, tiers) = ended.swap_remove(0);
    shift_prompt(&mut timeline, prompt);
    timeline.synthetic_from = rows.synthetic_from().filter(|from| *from < recorded);
    if beyond {
        let law = fit.law(rows, &counts)?;
        extrapolate(&mut timeline, &counts, fit, law.as_deref(), &tiers);
    }
    Ok(timeline)
}

fn check(rows: &dyn Rows, spec: &PolicySpec, prompt: u32, output: u32) -> Result<()> {
    if prompt != rows.prompt() && !spec.protects_prompt() {
        return Err(Error::usage(format!(
            "policy `{}` ranks the prompt, which has {} tokens in the trace and {prompt} in the deployment",
            spec.name(),
            rows.prompt()
        ))
        .help(format!("use --prompt {}, protect=prompt, or a trace with that prompt", rows.prompt())));
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
fn on_recorded_prompt(spec: &PolicySpec, prompt: u32, recorded: u32) -> PolicySpec {
    match spec.hbm() {
        Some(Hbm::Tokens(n)) => spec.with_hbm_tokens((n + recorded).saturating_sub(prompt)),
        _ => *spec,
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

/// What is gathered during the replay.
struct Fit {
    ranking: Ranking,
    cadence: u32,
    recorded: u32,
    fitter: Fitter,
    /// Score of each position after the last row (column sums for per-age).
    scores: Vec<f64>,
}

/// First step of the recorded end that the scatter is taken from: the last quarter, four decisions at least.
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
    /// All between the sinks and the window, the oldest first.
    Age { sinks: u32, window: u32 },
}

impl Ranking {
    /// Tokens that compete when the sequence is `length` long.
    fn protected(&self, prompt: u32, length: u32) -> Protected {
        match self {
            Self::None => Protected::between(0, length, length),
            Self::Score(params) => Protected::of(params, prompt, length),
            Self::Age { sinks, window } => Protected::between(*sinks, *window, length),
        }
    }

    fn order(&self) -> Order {
        match self {
            Self::Score(p) => Order {
                rule: Some(p.score),
                append_only: p.preset == Preset::Prototype,
                path: p.evict > 0.0 || p.preset == Preset::Prototype,
            },
            _ => Order {
                rule: None,
                append_only: false,
                path: true,
            },
        }
    }
}

impl Fit {
    fn new(spec: &PolicySpec, recorded: u32) -> Self {
        let ranking = match *spec.kind() {
            Kind::Full => Ranking::None,
            Kind::FourTier(p) | Kind::Oracle(p) => Ranking::Score(p),
            Kind::StreamingLlm(p) => Ranking::Age {
                sinks: p.sinks,
                window: p.window,
            },
        };
        Self {
            ranking,
            cadence: spec.interval().unwrap_or(64).min(64),
            recorded,
            fitter: Fitter::new(late(recorded)),
            scores: Vec::new(),
        }
    }

    /// Scores it wants to see.
    fn rules(&self) -> Vec<Rule> {
        match self.ranking {
            Ranking::Score(p) => vec![p.score],
            _ => vec![Rule::Cumulative],
        }
    }

    fn watch(&mut self, step: u32, length: u32, prompt: u32, scores: &[Score]) {
        let score = &scores[0];
        if (step + 1).is_multiple_of(self.cadence) {
            self.fitter
                .decision(step + 1, &self.ranking.protected(prompt, length), score);
        }
        if step + 1 == self.recorded {
            let age = |p: u32| {
                if score.rule() == Rule::PerAge {
                    f64::from((length - p).max(1))
                } else {
                    1.0
                }
            };
            self.scores = (0..length).map(|p| score.of(p) * age(p)).collect();
        }
    }

    /// The law of the recorded rows, unless nothing ever leaves T0.
    fn law(&self, rows: &dyn Rows, counts: &Timeline) -> Result<Option<Arc<Law>>> {
        let leaves = |i: &Interval| i.tokens[1..].iter().any(|n| *n > 0.0);
        if matches!(self.ranking, Ranking::None) || !counts.intervals.iter().any(leaves) {
            return Ok(None);
        }
        let law = match rows.memo() {
            Some(memo) => memo.law(rows, self.recorded)?,
            None => Arc::new(Law::fit(rows, self.recorded)?),
        };
        Ok(Some(law))
    }
}

/// Decisions that are followed at most; a run with more goes in longer strides.
const STRIDES: usize = 256;
/// Decisions that are looked at where the path to them does not matter.
const LOOKS: usize = 24;

/// Appends what was not recorded to a replayed timeline.
fn extrapolate(
    timeline: &mut Timeline,
    counts: &Timeline,
    fit: Fit,
    law: Option<&Law>,
    tiers: &[Tier],
) {
    let recorded = timeline.steps;
    if let Some(last) = timeline
        .intervals
        .last_mut()
        .filter(|i| i.first_step == recorded)
    {
        // The closing interval is now one that a step runs under: its own token joins T0.
        last.tokens[0] += 1.0;
    }
    let known = timeline.intervals.last().map_or(0, |i| i.first_step);
    let start = counts
        .intervals
        .partition_point(|i| i.first_step <= known && recorded > 0);
    let ahead = &counts.intervals[start..];
    let order = fit.ranking.order();
    let mut tail = Tail {
        ranking: fit.ranking,
        outlook: law.map(|law| {
            let live = most_live(&fit.ranking, timeline.prompt, ahead);
            Outlook::new(
                law,
                order,
                counts.steps,
                live,
                &Recorded {
                    scores: &fit.scores,
                    tiers,
                },
            )
        }),
        recorded_prompt: law.map_or(0, Law::prompt),
        shape: fit.fitter.fit(),
        degraded: late_degraded(timeline),
        timeline,
    };
    if let Some(last) = tail.timeline.intervals.last().copied() {
        // Boundaries as the record left them, so that the first rise through them counts.
        tail.decide(&last);
    }
    if order.path {
        tail.follow(ahead, counts.steps);
    } else {
        tail.sample(ahead, counts.steps);
    }
    timeline.steps = counts.steps;
    timeline.retiers = counts.retiers;
    timeline.synthetic_from = Some(timeline.synthetic_from.unwrap_or(recorded));
}

/// Most candidates that are alive under any of the intervals (tokens).
fn most_live(ranking: &Ranking, prompt: u32, ahead: &[Interval]) -> u32 {
    let live = |i: &Interval| {
        let all = ranking
            .protected(prompt, prompt + i.first_step)
            .candidate_count();
        f64::from(all) - i.tokens[3]
    };
    #[allow(clippy::cast_possible_truncation)] // at most the length
    let most = ahead.iter().map(live).fold(0.0, f64::max) as u32;
    most
}

/// A timeline that goes on past what was recorded.
struct Tail<'a> {
    timeline: &'a mut Timeline,
    ranking: Ranking,
    /// None if nothing ever leaves T0.
    outlook: Option<Outlook<'a>>,
    /// Prompt of the trace: the deployment's may differ.
    recorded_prompt: u32,
    shape: Option<Shape>,
    /// Mass on degraded tokens over that in T2.
    degraded: f64,
}

impl Tail<'_> {
    /// Candidates under an interval, destroyed ones included (tokens).
    fn candidates(&self, interval: &Interval) -> f64 {
        let prompt = self.timeline.prompt;
        let protected = self.ranking.protected(prompt, prompt + interval.first_step);
        f64::from(protected.candidate_count()).max(1.0)
    }

    /// Lets the sample take the decision before `interval`; tokens promoted.
    fn decide(&mut self, interval: &Interval) -> f64 {
        let prompt = self.recorded_prompt;
        let ranges = self
            .ranking
            .protected(prompt, prompt + interval.first_step)
            .ranges();
        let [_, t1, t2, t3] = interval.tokens;
        self.outlook.as_mut().map_or(0.0, |sample| {
            sample.decide(
                |position| ranges.iter().any(|r| r.contains(&position)),
                [t1, t2, t3],
            )
        })
    }

    /// Appends an interval with its moves and scatter.
    fn push(&mut self, mut interval: Interval, promoted: f64) {
        if let (Some(before), Ranking::Score(params)) =
            (self.timeline.intervals.last().copied(), self.ranking)
            && self.outlook.is_some()
        {
            self.moves(&params, promoted, &before, &mut interval);
        }
        self.timeline.intervals.push(interval);
    }

    fn moves(&self, params: &Params, promoted: f64, before: &Interval, interval: &mut Interval) {
        let host = |i: &Interval| i.tokens[1] + i.tokens[2];
        if host(interval) > 0.0 && params.preset == Preset::Algorithm {
            let room = self.candidates(interval) - interval.tokens[1..].iter().sum::<f64>();
            interval.promoted = promoted.min(host(before)).min(room.max(0.0));
        }
        interval.demoted = (interval.promoted + host(interval) - host(before)).max(0.0);
        let compressed = interval.tokens[2] - before.tokens[2];
        interval.compressed = compressed.max(0.0).min(interval.demoted);
        if let Some(shape) = &self.shape {
            self.scatter(shape, interval);
        }
    }

    /// Runs and pages from the recorded rankings.
    fn scatter(&self, shape: &Shape, interval: &mut Interval) {
        let all = self.candidates(interval);
        let gone = interval.tokens[1..].iter().sum::<f64>();
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
        let pages = f64::from(self.timeline.prompt + interval.first_step + 1) / 16.0;
        interval.t0_pages = (pages - shape.pages(gone / all) * all / 16.0).ceil();
    }

    /// Decision after decision.
    fn follow(&mut self, ahead: &[Interval], end: u32) {
        for group in ahead.chunks(ahead.len().div_ceil(STRIDES).max(1)) {
            self.advance(group[0].first_step);
            self.fill_to(group[0].first_step);
            let promoted = self.decide(&group[0]) / group.len() as f64;
            for interval in group {
                self.push(*interval, promoted);
            }
        }
        self.advance(end);
        self.fill_to(end);
    }

    /// Looks at the middle of each of some groups of decisions: two of them in a row, and the rows between.
    fn sample(&mut self, ahead: &[Interval], end: u32) {
        let size = ahead.len().div_ceil(LOOKS).max(1);
        for (i, group) in ahead.chunks(size).enumerate() {
            let (at, next) = (i * size + group.len() / 2, i * size + group.len() / 2 + 1);
            self.advance(ahead[at].first_step);
            self.decide(&ahead[at]);
            self.advance(ahead.get(next).map_or(end, |i| i.first_step));
            let promoted = self.decide(ahead.get(next).unwrap_or(&ahead[at]));
            for interval in group {
                self.push(*interval, promoted);
            }
            self.fill_to(ahead.get((i + 1) * size).map_or(end, |i| i.first_step));
        }
        self.advance(end);
        self.fill_to(end);
    }

    fn advance(&mut self, to: u32) {
        if let Some(sample) = &mut self.outlook {
            sample.advance(to);
        }
    }

    /// Fills in the mass of every step before `to`, as of the stride just passed.
    fn fill_to(&mut self, to: u32) {
        let mut step = u32::try_from(self.timeline.mass.len()).unwrap_or(u32::MAX);
        while step < to {
            let index = self.timeline.interval_at(step);
            let interval = self.timeline.intervals[index];
            let next = self
                .timeline
                .intervals
                .get(index + 1)
                .map_or(to, |i| i.first_step.min(to));
            self.fill(&interval, step as usize, next as usize);
            step = next;
        }
    }

    fn fill(&mut self, interval: &Interval, from: usize, to: usize) {
        let [_, t1, t2, t3] = interval.tokens;
        let all = self.candidates(interval);
        let [m1, m2, m3] = self
            .outlook
            .as_ref()
            .map_or([0.0; 3], |sample| sample.mass([t1, t2, t3], all));
        self.timeline
            .mass
            .resize(to, [1.0 - m1 - m2 - m3, m1, m2, m3]);
        let degraded = &mut self.timeline.degraded;
        if t2 > 0.0 || !degraded.is_empty() {
            degraded.resize(from, 0.0);
            degraded.resize(to, (m2 * self.degraded).min(1.0 - m3));
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
