//! Passes over the rows for any number of policies: one over the mean rows, one more for each other kind of lane asked for.

use super::lanes;
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::policy::{Lanes, Policy};
use crate::score::{PART, Rule, Score, observe_bits};
use crate::simd::Kernels;
use crate::timeline::{Tier, Timeline};
use crate::trace::{Rows, half};

/// Replays the first `limit` rows under policies of any make; timelines in the order of the policies.
///
/// # Errors
/// Damage in the rows; a policy that needs more than the trace carries (usage, naming it and the approximation to ask
/// for); a policy that breaks a law (internal).
pub fn drive(
    rows: &dyn Rows,
    limit: u32,
    policies: &mut [Box<dyn Policy>],
) -> Result<Vec<Timeline>> {
    let limit = limit.min(rows.rows());
    let mut by_lanes: [(Vec<usize>, Vec<&mut dyn Policy>); 3] = Default::default();
    for (at, policy) in policies.iter_mut().enumerate() {
        lanes::check(rows, policy.card())?;
        let (places, group) = &mut by_lanes[policy.card().lanes as usize];
        places.push(at);
        group.push(policy.as_mut());
    }
    let mut done = Vec::new();
    for (lanes, (places, group)) in [Lanes::Sequence, Lanes::Layer, Lanes::KvHead]
        .into_iter()
        .zip(by_lanes)
    {
        let timelines = match lanes {
            _ if group.is_empty() => Vec::new(),
            Lanes::Sequence => {
                let ended = means(rows, limit, group, &[], &mut |_, _, _| {})?;
                ended.into_iter().map(|(timeline, _)| timeline).collect()
            }
            Lanes::Layer => lanes::layers(rows, limit, group)?,
            Lanes::KvHead => lanes::heads(rows, limit, group)?,
        };
        done.extend(places.into_iter().zip(timelines));
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, timeline)| timeline).collect())
}

/// A timeline, and the tier of each position at its end.
pub(super) type Ended = (Timeline, Vec<Tier>);

/// As [`drive`], for policies of one lane a sequence; also keeps scores by the rules of `extra` and shows them to
/// `watch(step, length, extra scores)` after every row, and returns with each timeline the tier of each position at the end.
pub(super) fn drive_watched(
    rows: &dyn Rows,
    limit: u32,
    policies: &mut [Box<dyn Policy>],
    extra: &[Rule],
    watch: &mut dyn FnMut(u32, u32, &[Score]),
) -> Result<Vec<Ended>> {
    let group = policies
        .iter_mut()
        .map(|p| p.as_mut() as &mut dyn Policy)
        .collect();
    means(rows, limit.min(rows.rows()), group, extra, watch)
}

/// The pass over the mean rows.
fn means(
    rows: &dyn Rows,
    limit: u32,
    policies: Vec<&mut dyn Policy>,
    extra: &[Rule],
    watch: &mut dyn FnMut(u32, u32, &[Score]),
) -> Result<Vec<Ended>> {
    let totals = column_totals(rows, limit, &policies)?;
    let mut scores = Scores::new(rows, extra, totals);
    let mut sequences = Vec::with_capacity(policies.len());
    for policy in policies {
        let score = policy.score().map(|rule| scores.index(rule));
        sequences.push(Sequence::new(
            policy,
            rows.prompt(),
            rows.column_sums(),
            1,
            score,
        ));
    }
    // Whole rows are kept only for policies that look at them.
    let whole = rows.prompt() as usize + limit as usize;
    let shown = sequences.iter().any(Sequence::looks);
    let mut buffer = vec![0f32; if shown { whole } else { PART }];
    rows.for_each(limit, &mut |step, bits| {
        let length = rows.prompt() + step + 1;
        if bits.len() != length as usize {
            return Err(Error::data(format!(
                "row {step} has {} weights, expected {length}",
                bits.len()
            )));
        }
        for sequence in &mut sequences {
            sequence.begin(step);
        }
        let total = observe_bits(bits, &mut buffer, &mut scores.list, |at, part| {
            for sequence in &mut sequences {
                sequence.lanes[0].add_mass(at, part);
            }
        });
        check_sum(rows, total, bits, &|| format!("row {step}"))?;
        for sequence in &mut sequences {
            sequence.row(0, &buffer[..bits.len().min(buffer.len())], total, None);
            sequence.end(step, &scores.list)?;
        }
        watch(step, length, &scores.list[..extra.len()]);
        Ok(())
    })?;
    let ended = |s: Sequence<_>| {
        let tiers = s.lanes[0].tiers().to_vec();
        (s.finish(limit), tiers)
    };
    Ok(sequences.into_iter().map(ended).collect())
}

/// Refuses a row whose weights do not sum to 1 where they should. `total` is their sum in floating point, as the replay
/// needs it anyway; only where it is close to the bound are the bits summed again, exactly.
pub(super) fn check_sum(
    rows: &dyn Rows,
    total: f64,
    bits: &[u16],
    place: &dyn Fn() -> String,
) -> Result<()> {
    let missed = (total - 1.0).abs();
    match rows.recorded_as() {
        Some(label) if missed.is_nan() || missed > 0.9 * half::tolerance(bits.len()) => {
            half::check_sum(bits, &|| format!("{label}: {}", place()))
        }
        _ => Ok(()),
    }
}

/// Column sums of all rows, if a policy reads the future.
fn column_totals(
    rows: &dyn Rows,
    limit: u32,
    policies: &[&mut dyn Policy],
) -> Result<Option<Vec<f64>>> {
    if policies.iter().all(|p| p.score() != Some(Rule::Future)) {
        return Ok(None);
    }
    let length = rows.prompt() as usize + limit as usize;
    let (mut buffer, mut totals) = (vec![0f32; length], vec![0f64; length]);
    rows.for_each(limit, &mut |_, bits| {
        Kernels::best().widen(bits, &mut buffer);
        Kernels::best().accumulate(&mut totals, &buffer[..bits.len()]);
        Ok(())
    })?;
    Ok(Some(totals))
}

/// One score a rule.
struct Scores<'a> {
    list: Vec<Score>,
    rows: &'a dyn Rows,
    totals: Option<Vec<f64>>,
}

impl<'a> Scores<'a> {
    fn new(rows: &'a dyn Rows, extra: &[Rule], totals: Option<Vec<f64>>) -> Self {
        let start = |rule: &Rule| Score::new(*rule, rows.prompt(), rows.column_sums());
        Self {
            list: extra.iter().map(start).collect(),
            rows,
            totals,
        }
    }

    /// Index of the score for `rule`, made if it is new.
    fn index(&mut self, rule: Rule) -> usize {
        if let Some(at) = self.list.iter().position(|s| s.rule() == rule) {
            return at;
        }
        self.list.push(match (rule, self.totals.take()) {
            (Rule::Future, Some(totals)) => Score::future(self.rows.prompt(), totals),
            (_, totals) => {
                self.totals = totals;
                Score::new(rule, self.rows.prompt(), self.rows.column_sums())
            }
        });
        self.list.len() - 1
    }
}
