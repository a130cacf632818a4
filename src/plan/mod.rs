//! The answer against its alternatives: what fits, how fast, does tiering pay, what runs it today.
//!
//! What is modelled: every way to run the question on a card, on equal terms (tokens per second to finish all
//! requests): everything in HBM, the engine as it is with preempt-and-recompute, a smaller batch, fp8 KV, int4 weights,
//! two GPUs, and each T1 mode with `hbm=fit`. What is ignored: price (no source for most cards), tensor parallel over
//! more than what `--gpus` asks for. Rival: a calculator that says "fits" or "does not fit" and leaves the comparison to
//! the reader, who then finds out that offload does not pay (PEERS 4.3).

mod alternatives;
pub mod answer;
mod budget;
mod changes;
pub mod curve;
mod errors;
pub mod figures;
mod longer;
mod outcome;
mod placed;
mod quick;
mod recordings;
mod run;
pub mod selfcheck;
mod served;
pub mod solve;
mod uncertain;
mod verdict;
mod ways;
mod weights;

use rayon::prelude::*;

pub use answer::Plan;
pub use recordings::{Placement, Recordings};
pub use run::{Measure, decisions, measure, placement, simulate, simulate_on, simulate_watched};

use crate::error::Result;
use crate::journal::marks;
use crate::scenario::{Card, Question, Scenario};
use answer::{PLAN_SCHEMA, Row, Setting};

/// Answers a question on all its cards.
///
/// # Errors
/// As [`simulate`]; an alternative that cannot start is a row that says so, not an error.
pub fn plan(question: &Question) -> Result<Plan> {
    run::check_size(&question.base, true)?;
    let traces = Recordings::open(&question.base.trace)?;
    let rows: Vec<(Row, uncertain::OfCard)> = question
        .cards
        .par_iter()
        .map(|card: &Card| alternatives::row(&question.on(card), &traces))
        .collect::<Result<_>>()?;
    let (rows, by_card): (Vec<Row>, Vec<uncertain::OfCard>) = rows.into_iter().unzip();
    let settings = question.settings.iter();
    let errors = errors::of(&question.cards)?;
    let draws = uncertain::over_cards(&question.base, &rows, &by_card);
    Ok(Plan {
        schema: PLAN_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        question: settings
            .map(|a| Setting {
                name: a.name.into(),
                value: a.value.clone(),
                from: a.from.clone(),
            })
            .collect(),
        inputs: marks(question.base.named.clone())?,
        verdict: verdict::overall(&rows, draws.as_ref()),
        notes: notes(&question.base, &rows),
        rows,
        draws,
        expected_error: errors::others(&question.cards),
        expected_errors: errors,
    })
}

/// Remarks common to all rows, once each.
fn notes(base: &Scenario, rows: &[Row]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    if base.lengths.is_some() {
        out.extend(uncertain::missing(base));
    }
    let ways = || rows.iter().flat_map(|r| &r.alternatives);
    let lengthened = ways().any(|a| a.outcome.length_factor.is_some());
    out.extend(longer::no_effect(base.length_factor, lengthened));
    for note in ways().flat_map(|a| &a.outcome.notes) {
        if !out.contains(note) {
            out.push(note.clone());
        }
    }
    out
}

/// A scenario from pairs of setting and value, for tests.
#[cfg(test)]
fn said(flags: &str) -> Scenario {
    use crate::scenario::settings::Origin;
    use crate::scenario::{Settings, Verb, resolve};
    let mut settings = Settings::defaults(Verb::Simulate);
    let words: Vec<&str> = flags.split_whitespace().collect();
    for pair in words.chunks(2) {
        let value = [pair[1].to_string()];
        settings.set(pair[0], &value, Origin::Flag).unwrap();
    }
    resolve::scenario(&settings).unwrap()
}
