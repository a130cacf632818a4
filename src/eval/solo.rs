//! A policy's own text, from where it went another way than the full run's.
//!
//! It starts at the prompt again: the tokens up to that place are run as the policy had run them, so that its cache and
//! scores are what they were, and the rest is drawn.

use super::group::{Tiered, begin};
use super::run::{Settings, Task, Words};
use super::{Cell, Own};
use crate::error::{Error, Result};
use crate::forward::{Cache, Item, Keeper, Model, Step};
use crate::policy::PolicySpec;

/// A text that waits to be written.
#[derive(Clone, Debug)]
pub(super) struct Solo {
    prompt: Vec<u32>,
    number: u64,
    line: u32,
    most: u32,
    /// Its first tokens, the last of them the first that differs; that one may end it.
    given: Vec<u32>,
    cell: Cell,
}

impl Solo {
    pub(super) fn new(task: &Task, cell: Cell, given: Vec<u32>) -> Self {
        Self {
            prompt: task.prompt.clone(),
            number: task.number,
            line: task.line,
            most: task.most,
            given,
            cell,
        }
    }

    fn differs_at(&self) -> u32 {
        u32::try_from(self.given.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// A text at work.
pub(super) struct Writing {
    solo: Solo,
    pub(super) caches: Vec<Cache>,
    keeper: Keeper,
    logits: Vec<f32>,
    tokens: Vec<u32>,
}

impl Writing {
    /// Runs the prompt.
    pub(super) fn begin(
        model: &Model,
        settings: &Settings,
        policies: &[PolicySpec],
        solo: Solo,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let policy = &policies[solo.cell.policy];
        let begun = begin(model, &solo.prompt, &[policy], settings.storage, tell)?;
        let mut tiered = begun.tiered.into_iter();
        let Tiered { cache, keeper } = tiered
            .next()
            .ok_or_else(|| Error::internal("a text has no cache"))?;
        Ok(Self {
            solo,
            caches: vec![cache],
            keeper,
            logits: begun.logits,
            tokens: Vec::new(),
        })
    }

    /// Settles the next token; the finished cell, if there is none.
    pub(super) fn advance(
        &mut self,
        settings: &Settings,
        policies: &[PolicySpec],
        words: Words<'_>,
    ) -> Result<Option<Cell>> {
        let at = self.tokens.len();
        let step = u32::try_from(at).unwrap_or(u32::MAX);
        if step >= self.solo.most {
            return Ok(Some(self.end(false, words)));
        }
        let token = if let Some(token) = self.solo.given.get(at) {
            *token
        } else {
            let drawn = settings.sampler.draw(&self.logits, self.solo.number, step);
            let policy = &policies[self.solo.cell.policy];
            drawn.map_err(|e| named(e, self.solo.line, policy))?.token
        };
        if (words.is_end)(token) {
            return Ok(Some(self.end(true, words)));
        }
        self.tokens.push(token);
        Ok(None)
    }

    pub(super) fn items(&self, first: usize) -> Vec<Item> {
        let token = self.tokens.last().copied().unwrap_or_default();
        vec![Item {
            detail: self.keeper.detail(),
            queries: self.keeper.queries(),
            ..Item::new(first, token)
        }]
    }

    pub(super) fn take(&mut self, step: &Step, first: usize, vocab: usize) -> Result<()> {
        self.logits.clear();
        let logits = &step.logits[first * vocab..(first + 1) * vocab];
        self.logits.extend_from_slice(logits);
        let (own, queries) = (&step.rows[first], &step.queries[first]);
        self.keeper.after(&mut self.caches[0], own, queries, None)
    }

    fn end(&self, ended: bool, words: Words<'_>) -> Cell {
        Cell {
            own: Some(Own {
                text: (words.decode)(&self.tokens),
                tokens: u32::try_from(self.tokens.len()).unwrap_or(u32::MAX),
                ended,
                differs_at: Some(self.solo.differs_at()),
            }),
            ..self.solo.cell.clone()
        }
    }
}

/// An error of a model's numbers, with the problem and the policy it came up in.
pub(super) fn named(error: Error, line: u32, policy: &PolicySpec) -> Error {
    Error {
        message: format!(
            "problem of line {line}, policy `{}`: {}",
            policy.name(),
            error.message
        ),
        ..error
    }
}
