//! A recorded trace under a deployment with another prompt or more steps than were recorded.
//!
//! Fewer steps: the first rows. Another prompt: it only adds or removes T0 tokens, for policies that protect the whole
//! prompt; others are refused, since their ranking would need rows that do not exist. More steps: tokens by tier come
//! from the lengths and are exact; mass and promotions past the recorded end come from a sample of the tokens that the
//! fitted law of the trace has to come (see `outlook`), scatter from the recorded rankings (see `shape`), and
//! `synthetic_from` says from where. What the sample cannot know is what the text will do; the law is that of the trace's
//! late part. Policies of the family that rank by a
//! record of their own (or by lanes) are not sampled: what they destroyed is scaled by what the recorded end shows.

use super::lanes;
use super::length::by_length;
use super::outlook::Order;
use super::pass::{drive, drive_watched};
use super::shape::Fitter;
use super::tail::extrapolate;
use crate::error::{Error, Result};
use crate::policy::four_tier::{Hbm, Params, Preset, Protected};
use crate::policy::registry::Kind;
use crate::policy::{Lanes, Policy, PolicySpec};
use crate::score::{Rule, Score};
use crate::timeline::{Interval, PAGE, Tier, Timeline};
use crate::trace::Rows;
use crate::trace::synth::{Law, WINDOW};
use std::sync::Arc;

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
        // There is no one placement of which the tiers at the end could be told.
        let replayed = drive(rows, recorded, &mut lanes.policies)?;
        timelines.extend(replayed.into_iter().map(|t| (t, Vec::new())));
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
    for (m, (mut timeline, tiers)) in members.into_iter().zip(timelines) {
        shift_prompt(&mut timeline, prompt);
        timeline.synthetic_from = rows.synthetic_from().filter(|from| *from < recorded);
        let place = m.place;
        out[place] = Some(if beyond {
            m.go_on(rows, timeline, &tiers)
        } else {
            Ok(timeline)
        });
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
    /// The timeline at the deployment's length, given the tier of each position at the recorded end.
    fn go_on(self, rows: &dyn Rows, mut timeline: Timeline, tiers: &[Tier]) -> Result<Timeline> {
        let law = self.fit.law(rows, &self.counts)?;
        extrapolate(&mut timeline, &self.counts, self.fit, law.as_deref(), tiers);
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

/// Adds the prompt tokens that the trace does not have, all of them in T0; of its pages never more than there are positions
/// for, where a page that was begun takes some of them.
fn shift_prompt(timeline: &mut Timeline, prompt: u32) {
    let more = f64::from(prompt) - f64::from(timeline.prompt);
    for interval in &mut timeline.intervals {
        let most = (prompt + interval.first_step + 1).div_ceil(PAGE);
        interval.tokens[0] += more;
        interval.t0_pages = (interval.t0_pages + more / f64::from(PAGE))
            .ceil()
            .min(f64::from(most));
    }
    timeline.prompt = prompt;
}

/// What is gathered during the replay.
pub(super) struct Fit {
    pub(super) ranking: Ranking,
    cadence: u32,
    recorded: u32,
    pub(super) fitter: Fitter,
    /// Score of each position after the last row (column sums for per-age).
    pub(super) scores: Vec<f64>,
    /// Place of the score it ranks by among those watched, if it ranks by any.
    watched: Option<usize>,
}

/// First step of the recorded end that the scatter is taken from: the last quarter, four decisions at least.
pub(super) fn late(recorded: u32) -> u32 {
    recorded - (recorded / 4).max(4 * 64).min(recorded)
}

/// Which tokens compete, and by what.
#[derive(Clone, Copy)]
pub(super) enum Ranking {
    /// Nothing ever leaves T0.
    None,
    /// Four-tier's candidates by its score.
    Score(Params),
    /// All between the sinks and the window, the oldest first.
    Age { sinks: u32, window: u32 },
    /// By what the policy alone knows: all but the latest tokens.
    Own,
}

impl Ranking {
    /// Tokens that compete when the sequence is `length` long.
    pub(super) fn protected(&self, prompt: u32, length: u32) -> Protected {
        match self {
            Self::None => Protected::between(0, length, length),
            Self::Score(params) => Protected::of(params, prompt, length),
            Self::Age { sinks, window } => Protected::between(*sinks, *window, length),
            Self::Own => Protected::between(0, WINDOW, length),
        }
    }

    pub(super) fn order(&self) -> Order {
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
            Kind::Full(_) => Ranking::None,
            Kind::FourTier(p) | Kind::Oracle(p) => Ranking::Score(p),
            Kind::StreamingLlm(p) => Ranking::Age {
                sinks: p.sinks,
                window: p.window,
            },
            _ => Ranking::Own,
        };
        Self {
            ranking,
            cadence: spec.interval().unwrap_or(64).min(64),
            recorded,
            fitter: Fitter::new(late(recorded)),
            scores: Vec::new(),
            watched: None,
        }
    }

    /// Adds the score it wants to see to those that are watched.
    fn share(&mut self, rules: &mut Vec<Rule>) {
        let own = match self.ranking {
            Ranking::None | Ranking::Own => return,
            Ranking::Score(p) => p.score,
            Ranking::Age { .. } => Rule::Cumulative,
        };
        self.watched = Some(rules.iter().position(|r| *r == own).unwrap_or_else(|| {
            rules.push(own);
            rules.len() - 1
        }));
    }

    fn watch(&mut self, step: u32, length: u32, prompt: u32, scores: &[Score]) {
        let Some(score) = self.watched.map(|at| &scores[at]) else {
            return;
        };
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
