//! A deployment on a card, wherever it comes from: an alternative of a plan, a simulated run, a cell of a sweep.

use crate::metrics::Outcome;
use crate::plan::answer::{Alternative, Plan, Row, RunsIn, Staggered};

use super::super::cells::card;
use super::figure::Standing;

/// A deployment.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// What it runs on.
    pub(super) card: String,
    /// How it is run there.
    pub(super) way: String,
    /// What came out.
    pub(super) outcome: &'a Outcome,
    /// What qualifies it.
    pub(super) remark: Option<&'a str>,
    /// The same with requests at independent phases.
    pub(super) staggered: Option<&'a Staggered>,
    /// Software that runs it.
    pub(super) runs_in: &'a [RunsIn],
    /// Whether software runs it.
    pub(super) standing: Standing,
    /// Whether a figure may leave it out: it is another model, another machine, or not what was asked.
    pub(super) aside: bool,
}

impl<'a> Entry<'a> {
    /// An alternative of a card.
    fn of(row: &Row, a: &'a Alternative) -> Self {
        Self {
            card: card(&row.hardware, row.gpus),
            way: a.label.clone(),
            outcome: &a.outcome,
            remark: a.remark.as_deref(),
            staggered: a.staggered.as_ref(),
            runs_in: &a.runs_in,
            standing: match a.name.as_str() {
                "int4-weights" | "twice-the-gpus" => Standing::Other,
                _ if a.runs_in.is_empty() => Standing::NotToday,
                _ => Standing::Today,
            },
            aside: matches!(
                a.name.as_str(),
                "int4-weights" | "twice-the-gpus" | "smaller-batch"
            ),
        }
    }

    /// A run by itself.
    pub(super) fn run(outcome: &'a Outcome, way: String) -> Self {
        Self {
            card: card(&outcome.hardware, outcome.gpus),
            way,
            outcome,
            remark: None,
            staggered: None,
            runs_in: &[],
            standing: Standing::Simulated,
            aside: false,
        }
    }

    /// Tokens/s, if it runs.
    pub(super) fn speed(&self) -> Option<f64> {
        let speed = self.outcome.throughput.output_tokens_per_s;
        speed.filter(|s| self.outcome.fits && s.is_finite())
    }

    /// Card and way, for people.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.card, self.way)
    }
}

/// Every alternative of plans.
pub(super) fn of_plans<'a>(plans: &[&'a Plan]) -> Vec<Entry<'a>> {
    let rows = plans.iter().flat_map(|p| &p.rows);
    rows.flat_map(|r| r.alternatives.iter().map(move |a| Entry::of(r, a)))
        .collect()
}

/// Those that ran.
pub(super) fn ran<'e, 'a>(entries: &[&'e Entry<'a>]) -> Vec<&'e Entry<'a>> {
    let ran = entries.iter().copied();
    ran.filter(|e| e.speed().is_some()).collect()
}

/// Entries by card, in the order they come in.
pub(super) fn by_card<'e, 'a>(
    entries: impl IntoIterator<Item = &'e Entry<'a>>,
) -> Vec<(String, Vec<&'e Entry<'a>>)>
where
    'a: 'e,
{
    let mut cards: Vec<(String, Vec<&Entry>)> = Vec::new();
    for entry in entries {
        match cards.iter_mut().find(|(c, _)| *c == entry.card) {
            Some((_, list)) => list.push(entry),
            None => cards.push((entry.card.clone(), vec![entry])),
        }
    }
    cards
}
