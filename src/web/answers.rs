//! What is asked over HTTP, answered: each body is what the command line prints for the same settings.

use crate::error::Result;
use crate::report::document::document;
use crate::report::document::source::{Saved, Source};
use crate::report::{html, json};
use crate::scenario::{Verb, print, resolve};
use crate::sweep::Sweep;
use crate::sweep::grid::Grid;

use super::problem::Problem;
use super::question::{self, Pair};

/// An answer that is made later, on a thread of its own.
pub(super) type Work = Box<dyn FnOnce() -> Result<String> + Send>;

/// A body, or why there is none.
type Asked = std::result::Result<Work, Problem>;

/// `kvplan plan --format json`.
pub(super) fn plan(pairs: &[Pair]) -> Asked {
    let question = resolve::question(&question::settings(Verb::Plan, pairs)?)?;
    question::bounded(&question)?;
    Ok(Box::new(move || {
        json::pretty(&crate::plan::plan(&question)?)
    }))
}

/// `kvplan report` of that plan.
pub(super) fn report(pairs: &[Pair]) -> Asked {
    let question = resolve::question(&question::settings(Verb::Plan, pairs)?)?;
    question::bounded(&question)?;
    Ok(Box::new(move || {
        let plan = crate::plan::plan(&question)?;
        let text = json::pretty(&plan)?;
        let saved = Saved::Plan(Box::new(plan));
        html::render(&document(&[Source::of("plan.json".into(), &text, saved)]))
    }))
}

/// `kvplan sweep --vary ... --format json`.
pub(super) fn sweep(pairs: &[Pair]) -> Asked {
    let base = question::settings(Verb::Simulate, pairs)?;
    question::bounded_scenario(&resolve::scenario(&base)?)?;
    let sweep = Sweep::new(Grid::new(base, question::axes(pairs)?)?, None, None)?;
    Ok(Box::new(move || {
        let cells = crate::sweep::run(&sweep, Vec::new(), &|_| Ok(()))?;
        json::pretty(&sweep.answer(cells)?)
    }))
}

/// What was asked, as a scenario that `kvplan plan` and `kvplan simulate` take.
pub(super) fn scenario(pairs: &[Pair]) -> Asked {
    let settings = question::settings(Verb::Plan, pairs)?;
    resolve::question(&settings)?;
    Ok(Box::new(move || Ok(print::asked(&settings))))
}
