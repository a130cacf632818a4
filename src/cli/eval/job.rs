//! The work of an evaluation: what is left of it, run with progress, each cell kept as it is done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::EvalArgs;
use super::asked::Posed;
use crate::cli::out::Out;
use crate::cli::progress;
use crate::error::Result;
use crate::eval::problems::Problem;
use crate::eval::{self, Asked, Cell, Settings, Task};
use crate::forward::{Model, Sampler, Storage, Text};
use crate::journal::Journal;
use crate::policy::PolicySpec;
use crate::units::text::group;

/// The work that is left.
pub(super) struct Job<'a> {
    pub(super) args: &'a EvalArgs,
    pub(super) policies: &'a [Asked],
    pub(super) text: &'a Text,
    pub(super) journal: Option<&'a Journal>,
}

impl Job<'_> {
    /// What is to be run of each problem.
    pub(super) fn tasks(
        &self,
        problems: &[Problem],
        posed: Vec<Posed>,
        finished: &[Cell],
    ) -> Vec<Task> {
        let done: BTreeSet<(usize, usize)> =
            finished.iter().map(|c| (c.problem, c.policy)).collect();
        let one = |(at, (problem, posed)): (usize, (&Problem, Posed))| Task {
            problem: at,
            line: problem.line,
            number: at as u64,
            prompt: posed.prompt,
            given: posed.given,
            most: posed.most,
            todo: (0..self.policies.len())
                .filter(|p| !done.contains(&(at, *p)))
                .collect(),
        };
        let all = problems.iter().zip(posed).enumerate().map(one);
        all.filter(|t| !t.todo.is_empty()).collect()
    }

    /// Every cell, those finished before among them.
    pub(super) fn cells(
        &self,
        model: &Model,
        tasks: Vec<Task>,
        mut cells: Vec<Cell>,
        out: &Out,
    ) -> Result<Vec<Cell>> {
        let args = self.args;
        let settings = Settings {
            sampler: Sampler {
                temperature: args.temperature,
                top_p: args.top_p,
                seed: args.seed,
            },
            storage: Storage {
                quantiser: args.t2,
                positions: args.positions,
            },
            free: !args.teacher_forced,
            together: args.together.into(),
        };
        let seen = Arc::new(AtomicU64::new(0));
        let most = tasks.iter().map(|t| self.most(t)).sum();
        let watch = progress::tokens(most, Arc::clone(&seen), out.quiet());
        let begun = std::time::Instant::now();
        let specs: Vec<PolicySpec> = self.policies.iter().map(|p| p.spec).collect();
        let words = eval::Words {
            is_end: &|t| self.text.is_end(t),
            decode: &|ids| self.text.decode(ids),
        };
        let mut finished = |cell: Cell| {
            if let Some(journal) = self.journal {
                journal.add(&cell)?;
            }
            cells.push(cell);
            Ok(())
        };
        let mut tell = |n| {
            seen.fetch_add(n, Ordering::Relaxed);
        };
        eval::run(
            model,
            &settings,
            &specs,
            tasks,
            words,
            &mut finished,
            &mut tell,
        )?;
        drop(watch);
        let ran = seen.load(Ordering::Relaxed);
        let rate = ran as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        out.detail(&format!(
            "{} tokens at {rate:.1} tokens/s",
            group(&ran.to_string())
        ));
        Ok(cells)
    }

    /// Tokens that a problem takes at most.
    fn most(&self, task: &Task) -> u64 {
        let (prompt, most) = (task.prompt.len() as u64, u64::from(task.most));
        let along = task.given.as_ref().map_or(most, |g| g.len() as u64);
        let tiered = task.todo.iter().filter(|p| **p != 0).count() as u64;
        let own = if self.args.teacher_forced {
            0
        } else {
            tiered * (prompt + most)
        };
        prompt + (1 + tiered) * along + own
    }
}
