//! One problem with the full cache, and every policy beside it along the same text.
//!
//! All caches of a group step the same token together. The prompt runs once for each kind of placement and its cache is
//! copied: no policy acts before the first decode step.

use super::compare::{Predicted, Tally};
use super::run::{Settings, Task, Words};
use super::solo::{Solo, named};
use super::{Along, Cell, Own};
use crate::error::{Error, Result};
use crate::forward::{Cache, Detail, Item, Keeper, Model, Rows, Step, Storage, window};
use crate::policy::{Lanes, PolicySpec};
use crate::timeline::Timeline;

/// A cache with its policy after a prompt.
pub(super) struct Tiered {
    pub(super) cache: Cache,
    pub(super) keeper: Keeper,
}

/// What a prompt leaves: its logits, and a tiered cache for each policy asked for.
pub(super) struct Begun {
    pub(super) logits: Vec<f32>,
    pub(super) tiered: Vec<Tiered>,
}

/// Runs a prompt for some policies.
pub(super) fn begin(
    model: &Model,
    prompt: &[u32],
    policies: &[&PolicySpec],
    storage: Storage,
    tell: &mut dyn FnMut(u64),
) -> Result<Begun> {
    let mut kinds: Vec<Lanes> = Vec::new();
    for policy in policies {
        let lanes = policy.card().lanes;
        if !kinds.contains(&lanes) {
            kinds.push(lanes);
        }
    }
    let room = prompt.len();
    let mut caches: Vec<Cache> = kinds
        .iter()
        .map(|lanes| Cache::tiered(model.shape(), room, *lanes, storage))
        .collect();
    let most = policies.iter().map(|p| window(p, prompt.len())).max();
    let seen = model.prompt(&mut caches, prompt, most.unwrap_or(0), tell)?;
    let tiered = policies.iter().map(|policy| {
        let lanes = policy.card().lanes;
        let at = kinds.iter().position(|k| *k == lanes).unwrap_or(0);
        let cache = caches[at].clone();
        let queries = &seen.queries[seen.queries.len() - window(policy, prompt.len())..];
        let keeper = Keeper::new(policy, model.shape(), &cache, &seen.sums, queries)?;
        Ok(Tiered { cache, keeper })
    });
    let tiered = tiered.collect::<Result<_>>()?;
    Ok(Begun {
        logits: seen.logits,
        tiered,
    })
}

/// A policy that runs along.
struct Member {
    policy: usize,
    keeper: Keeper,
    logits: Vec<f32>,
    tally: Tally,
    /// Where it would first have gone another way, and with which token.
    other: Option<(u32, u32)>,
}

/// A problem at work.
pub(super) struct Group {
    task: Task,
    /// The full cache, then one a member.
    pub(super) caches: Vec<Cache>,
    members: Vec<Member>,
    logits: Vec<f32>,
    tally: Tally,
    tokens: Vec<u32>,
}

/// What a group ends in.
#[derive(Default)]
pub(super) struct Ended {
    /// Cells that are whole.
    pub(super) cells: Vec<Cell>,
    /// Texts that went another way and are still to be written.
    pub(super) solos: Vec<Solo>,
}

/// The next token of a text.
enum Next {
    Token(u32),
    /// The model ended it with this token.
    End(u32),
    /// There is no more of it.
    Over,
}

impl Group {
    /// Runs the prompt of a problem for the full cache and its policies.
    pub(super) fn begin(
        model: &Model,
        settings: &Settings,
        policies: &[PolicySpec],
        task: Task,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let todo: Vec<usize> = task.todo.iter().copied().filter(|p| *p != 0).collect();
        let specs: Vec<&PolicySpec> = todo.iter().map(|p| &policies[*p]).collect();
        let all: Vec<&PolicySpec> = std::iter::once(&policies[0]).chain(specs).collect();
        let begun = begin(model, &task.prompt, &all, settings.storage, tell)?;
        let mut tiered = begun.tiered.into_iter();
        let full = tiered
            .next()
            .ok_or_else(|| Error::internal("a group has no full cache"))?;
        let mut group = Self {
            task,
            caches: vec![full.cache],
            members: Vec::new(),
            tally: Tally::default(),
            tokens: Vec::new(),
            logits: begun.logits,
        };
        for (policy, t) in todo.into_iter().zip(tiered) {
            group.caches.push(t.cache);
            group.members.push(Member {
                policy,
                keeper: t.keeper,
                logits: group.logits.clone(),
                tally: Tally::default(),
                other: None,
            });
        }
        Ok(group)
    }

    /// Settles the next token; what the group ends in, if there is none.
    pub(super) fn advance(
        &mut self,
        settings: &Settings,
        policies: &[PolicySpec],
        words: Words<'_>,
    ) -> Result<Option<Ended>> {
        let next = self
            .next(settings, words.is_end)
            .map_err(|e| self.named(e, 0, policies))?;
        let (Next::Token(token) | Next::End(token)) = next else {
            return Ok(Some(self.end(settings, false, words)));
        };
        self.compare(settings, policies, token)?;
        if matches!(next, Next::End(_)) {
            return Ok(Some(self.end(settings, true, words)));
        }
        self.tokens.push(token);
        Ok(None)
    }

    fn next(&self, settings: &Settings, is_end: &dyn Fn(u32) -> bool) -> Result<Next> {
        let at = self.tokens.len();
        if let Some(given) = &self.task.given {
            return Ok(given.get(at).map_or(Next::Over, |t| Next::Token(*t)));
        }
        let step = u32::try_from(at).unwrap_or(u32::MAX);
        if step >= self.task.most {
            return Ok(Next::Over);
        }
        let drawn = settings
            .sampler
            .draw(&self.logits, self.task.number, step)?;
        Ok(if is_end(drawn.token) {
            Next::End(drawn.token)
        } else {
            Next::Token(drawn.token)
        })
    }

    /// Holds every prediction of the next token against the full cache's.
    fn compare(&mut self, settings: &Settings, policies: &[PolicySpec], token: u32) -> Result<()> {
        use rayon::prelude::*;
        let step = u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
        let (number, line) = (self.task.number, self.task.line);
        let full = Predicted::new(&self.logits).map_err(|e| self.named(e, 0, policies))?;
        self.tally.add(&full, &full, token);
        self.members.par_iter_mut().try_for_each(|m| {
            let failed = |e: Error| named(e, line, &policies[m.policy]);
            let own = Predicted::new(&m.logits).map_err(failed)?;
            m.tally.add(&full, &own, token);
            if m.other.is_none() && settings.free {
                let drawn = settings
                    .sampler
                    .draw(&m.logits, number, step)
                    .map_err(failed)?;
                m.other = (drawn.token != token).then_some((step, drawn.token));
            }
            Ok(())
        })
    }

    fn named(&self, error: Error, policy: usize, policies: &[PolicySpec]) -> Error {
        named(error, self.task.line, &policies[policy])
    }

    /// The token of every cache, the first of them being number `first`.
    pub(super) fn items(&self, first: usize) -> Vec<Item> {
        let token = self.tokens.last().copied().unwrap_or_default();
        // Always the finest that a policy can have lanes for: no figure then depends on which others run beside it.
        let mut items = vec![Item {
            detail: Detail::Groups,
            ..Item::new(first, token)
        }];
        items.extend(self.members.iter().enumerate().map(|(i, m)| Item {
            detail: m.keeper.detail(),
            queries: m.keeper.queries(),
            ..Item::new(first + 1 + i, token)
        }));
        items
    }

    /// What the step gave, items from `first` on: the policies act, with the full cache's row before them.
    pub(super) fn take(&mut self, step: &Step, first: usize, vocab: usize) -> Result<()> {
        let logits = |i: usize| &step.logits[(first + i) * vocab..(first + i + 1) * vocab];
        self.logits.clear();
        self.logits.extend_from_slice(logits(0));
        let full: Option<&Rows> = Some(&step.rows[first]);
        let caches = self.caches[1..].iter_mut();
        for ((i, m), cache) in (1..).zip(&mut self.members).zip(caches) {
            m.logits.clear();
            m.logits.extend_from_slice(logits(i));
            let (own, queries) = (&step.rows[first + i], &step.queries[first + i]);
            m.keeper.after(cache, own, queries, full)?;
        }
        Ok(())
    }

    fn end(&mut self, settings: &Settings, ended: bool, words: Words<'_>) -> Ended {
        let mut out = Ended::default();
        let steps = u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
        let prompt = u32::try_from(self.task.prompt.len()).unwrap_or(u32::MAX);
        let text = if settings.free {
            (words.decode)(&self.tokens)
        } else {
            String::new()
        };
        let same = settings.free.then_some(Own {
            text,
            tokens: steps,
            ended,
            differs_at: None,
        });
        if self.task.todo.contains(&0) {
            out.cells.push(Cell {
                problem: self.task.problem,
                policy: 0,
                prompt,
                own: same.clone(),
                along: full(prompt, steps, self.tally),
            });
        }
        for m in self.members.drain(..) {
            let cell = Cell {
                problem: self.task.problem,
                policy: m.policy,
                prompt,
                own: same.clone(),
                along: Along::of(&m.keeper.finish(), m.tally),
            };
            match m.other {
                None => out.cells.push(cell),
                Some((at, token)) => {
                    let mut given = self.tokens[..at as usize].to_vec();
                    given.push(token);
                    out.solos.push(Solo::new(&self.task, cell, given));
                }
            }
        }
        out
    }
}

/// What a full cache holds: everything, in T0.
fn full(prompt: u32, steps: u32, tally: Tally) -> Along {
    let timeline = Timeline {
        prompt,
        steps,
        intervals: vec![crate::timeline::Interval {
            tokens: [f64::from(prompt) + 1.0, 0.0, 0.0, 0.0],
            ..Default::default()
        }],
        ..Timeline::default()
    };
    Along::of(&timeline, tally)
}
