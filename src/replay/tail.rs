//! Appends what was not recorded to a replayed timeline: exact counts, masses and promotions of the sample, scatter of the
//! recorded rankings.
//!
//! Where the scores alone say where a token is, a few decisions are looked at closely, two in a row, and hold for those
//! around them; where tokens are destroyed or never return, every decision is followed. Where only the policy knows how it
//! ranks (a record of its own, or one a lane), destroyed tokens have an even share of what is older than the window, times
//! what the recorded end shows. Units: tokens, shares of a row.

use super::extend::{Fit, Ranking, late};
use super::outlook::{Outlook, Recorded};
use super::shape::Shape;
use crate::policy::four_tier::{Params, Preset};
use crate::timeline::{Interval, Tier, Timeline};
use crate::trace::synth::Law;

/// Decisions that are followed at most; a run with more goes in longer strides.
const STRIDES: usize = 256;
/// Decisions that are looked at where the path to them does not matter.
const LOOKS: usize = 24;

/// Appends what was not recorded to a replayed timeline.
pub(super) fn extrapolate(
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
    let own = matches!(fit.ranking, Ranking::Own);
    let mut tail = Tail {
        ranking: fit.ranking,
        outlook: law.filter(|_| !own).map(|law| {
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
        even: law
            .filter(|_| own)
            .map(|law| Even::new(&fit.ranking, law, timeline)),
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
    /// For policies that rank by what they alone know.
    even: Option<Even>,
}

/// Destroyed tokens draw an even share of what is older than the window, times a factor.
#[derive(Clone, Copy)]
struct Even {
    /// Mass of all tokens older than the window (share of a row).
    old: f64,
    /// What the recorded end shows over the even share.
    factor: f64,
}

impl Even {
    fn new(ranking: &Ranking, law: &Law, timeline: &Timeline) -> Self {
        let old = 1.0 - law.kernel.iter().sum::<f64>().min(1.0);
        let (mut real, mut even) = (0.0, 0.0);
        for step in late(timeline.steps)..timeline.steps {
            let interval = &timeline.intervals[timeline.interval_at(step)];
            real += timeline.mass[step as usize][3];
            even += old * interval.tokens[3] / candidates(ranking, timeline.prompt, interval);
        }
        let factor = if real > 0.0 && even > 1e-6 {
            (real / even).clamp(0.25, 4.0)
        } else {
            1.0
        };
        Self { old, factor }
    }

    /// Mass on destroyed tokens, given their share of the candidates.
    fn mass(&self, share: f64) -> f64 {
        self.old * (share * self.factor).min(1.0)
    }
}

/// Candidates under an interval, destroyed ones included (tokens).
fn candidates(ranking: &Ranking, prompt: u32, interval: &Interval) -> f64 {
    let protected = ranking.protected(prompt, prompt + interval.first_step);
    f64::from(protected.candidate_count()).max(1.0)
}

impl Tail<'_> {
    fn candidates(&self, interval: &Interval) -> f64 {
        candidates(&self.ranking, self.timeline.prompt, interval)
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
        let [m1, m2, m3] = match (&self.outlook, &self.even) {
            (Some(sample), _) => sample.mass([t1, t2, t3], all),
            (None, Some(even)) => [0.0, 0.0, even.mass(t3 / all)],
            (None, None) => [0.0; 3],
        };
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
