//! Cells to an answer: sums over problems, intervals, the paired test.
//!
//! Means over tokens and steps are of all tokens and steps together, so a long text weighs more than a short one; shares
//! of problems weigh each problem once.

use crate::stats::{mean, percentile};

use super::answer::{AnswerResult, EVAL_SCHEMA, Evaluation, PolicyResult, ProblemResult, Question};
use super::problems::Problem;
use super::tally::{Z95, mcnemar, ratio_interval, wilson};
use super::{Along, Cell, notes};
use crate::error::{Error, Result};
use crate::policy::PolicySpec;

/// Draws of a bootstrap interval.
const RESAMPLES: u32 = 2000;

/// A policy as asked and as resolved.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As asked.
    pub text: String,
    /// As resolved.
    pub spec: PolicySpec,
}

/// The answer from all cells.
///
/// # Errors
/// Internal: a cell is missing.
pub fn evaluation(
    question: Question,
    policies: &[Asked],
    problems: &[Problem],
    mut cells: Vec<Cell>,
) -> Result<Evaluation> {
    cells.sort_by_key(|c| (c.problem, c.policy));
    let wanted = (0..problems.len()).flat_map(|p| (0..policies.len()).map(move |q| (p, q)));
    if cells.iter().map(|c| (c.problem, c.policy)).ne(wanted) {
        return Err(Error::internal("a cell of the evaluation is missing"));
    }
    let table = Table {
        problems,
        cells: &cells,
        policies: policies.len(),
    };
    let results = policies.iter().enumerate();
    let results: Vec<PolicyResult> = results
        .map(|(at, asked)| table.policy(at, asked, question.seed))
        .collect();
    let rows = (0..problems.len())
        .map(|p| table.problem(p, policies))
        .collect();
    let mut answer = Evaluation {
        schema: EVAL_SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        question,
        policies: results,
        problems: rows,
        notes: Vec::new(),
    };
    answer.notes = notes::notes(&answer, policies);
    Ok(answer)
}

/// All cells, by problem and policy.
struct Table<'a> {
    problems: &'a [Problem],
    cells: &'a [Cell],
    policies: usize,
}

/// A policy's text on a problem beside the full run's.
struct Graded<'a> {
    cell: &'a Cell,
    /// Whether it is right, and the full run's; none without a right answer.
    right: Option<(bool, bool)>,
    changed: bool,
}

impl Table<'_> {
    fn cell(&self, problem: usize, policy: usize) -> &Cell {
        &self.cells[problem * self.policies + policy]
    }

    fn of(&self, policy: usize) -> impl Iterator<Item = &Cell> {
        (0..self.problems.len()).map(move |p| self.cell(p, policy))
    }

    /// The answer found in a text.
    fn found(&self, problem: usize, policy: usize) -> Option<String> {
        let gold = self.problems[problem].gold.as_ref()?;
        gold.extract(&self.cell(problem, policy).own.as_ref()?.text)
    }

    fn right(&self, problem: usize, policy: usize) -> Option<bool> {
        let gold = self.problems[problem].gold.as_ref()?;
        self.cell(problem, policy).own.as_ref()?;
        let found = self.found(problem, policy);
        Some(found.is_some_and(|a| gold.is(&a)))
    }

    fn graded(&self, policy: usize) -> Vec<Graded<'_>> {
        let one = |p: usize| {
            let gold = self.problems[p].gold.as_ref();
            let (own, full) = (self.found(p, policy), self.found(p, 0));
            Graded {
                cell: self.cell(p, policy),
                right: self.right(p, policy).zip(self.right(p, 0)),
                changed: gold.is_some_and(|g| !g.same(own.as_deref(), full.as_deref())),
            }
        };
        (0..self.problems.len()).map(one).collect()
    }

    fn policy(&self, at: usize, asked: &Asked, seed: u64) -> PolicyResult {
        let mut result = PolicyResult {
            policy: asked.text.clone(),
            resolved: asked.spec.to_string(),
            n: count(self.problems.len()),
            ..PolicyResult::default()
        };
        if self.of(at).all(|c| c.own.is_some()) {
            texts(&mut result, &self.graded(at));
        }
        let cells: Vec<&Cell> = self.of(at).collect();
        along(&mut result, &cells, seed);
        let full: Vec<&Cell> = self.of(0).collect();
        placement(&mut result, &cells, &full);
        result
    }

    fn problem(&self, at: usize, policies: &[Asked]) -> ProblemResult {
        let problem = &self.problems[at];
        let one = |(policy, asked): (usize, &Asked)| {
            let cell = self.cell(at, policy);
            let own = cell.own.as_ref();
            let (a, p) = (&cell.along, &cell.along.predicted);
            let n = f64::from(p.tokens);
            AnswerResult {
                policy: asked.text.clone(),
                text: own.map(|o| o.text.clone()),
                tokens: own.map(|o| o.tokens),
                ended: own.map(|o| o.ended),
                answer: self.found(at, policy),
                correct: self.right(at, policy),
                first_difference_token: own.and_then(|o| o.differs_at),
                predicted_tokens: p.tokens,
                kl_mean: over(p.kl, n),
                argmax_agreement: over(f64::from(p.agreed), n),
                surprise_mean: over(p.surprise, n),
                destroyed_tokens: a.destroyed,
                destroyed_mass_mean: a.destroyed_mass / f64::from(a.steps.max(1)),
                hbm_peak_tokens: a.hbm_peak,
            }
        };
        ProblemResult {
            line: problem.line,
            prompt_tokens: self.cell(at, 0).prompt,
            gold: problem.gold.as_ref().map(super::grade::Gold::shown),
            answers: policies.iter().enumerate().map(one).collect(),
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn over(sum: f64, n: f64) -> Option<f64> {
    (n > 0.0).then(|| sum / n)
}

/// Figures of a policy's own texts.
fn texts(result: &mut PolicyResult, all: &[Graded<'_>]) {
    let n = all.len() as f64;
    let own = || all.iter().filter_map(|g| g.cell.own.as_ref());
    result.tokens_per_answer = over(own().map(|o| f64::from(o.tokens)).sum(), n);
    result.ended_share = over(own().filter(|o| o.ended).count() as f64, n);
    let same = own().filter(|o| o.differs_at.is_none()).count();
    result.texts_identical_share = over(same as f64, n);
    let mut firsts: Vec<f64> = own().filter_map(|o| o.differs_at).map(f64::from).collect();
    result.first_difference_median_token = percentile(&mut firsts, 0.5);
    let graded: Vec<(&Graded<'_>, (bool, bool))> =
        all.iter().filter_map(|g| Some((g, g.right?))).collect();
    result.graded = count(graded.len());
    if graded.is_empty() {
        return;
    }
    let number = |test: &dyn Fn(bool, bool) -> bool| {
        count(
            graded
                .iter()
                .filter(|(_, (own, full))| test(*own, *full))
                .count(),
        )
    };
    let correct = number(&|own, _| own);
    let (gained, lost) = (
        number(&|own, full| own && !full),
        number(&|own, full| !own && full),
    );
    result.correct = Some(correct);
    result.accuracy = over(f64::from(correct), f64::from(result.graded));
    let interval = wilson(correct, result.graded, Z95);
    result.accuracy_low = interval.map(|i| i.0);
    result.accuracy_high = interval.map(|i| i.1);
    let tokens = graded.iter().filter_map(|(g, _)| g.cell.own.as_ref());
    let tokens: f64 = tokens.map(|o| f64::from(o.tokens)).sum();
    result.tokens_per_correct_answer = over(tokens, f64::from(correct));
    result.answers_changed = Some(count(graded.iter().filter(|(g, _)| g.changed).count()));
    (result.gained, result.lost) = (Some(gained), Some(lost));
    result.mcnemar_p = Some(mcnemar(gained, lost));
}

/// Figures along the text that all policies run.
fn along(result: &mut PolicyResult, cells: &[&Cell], seed: u64) {
    let all = cells.iter().map(|c| c.along.predicted);
    let sum = all
        .clone()
        .reduce(super::compare::Tally::plus)
        .unwrap_or_default();
    let n = f64::from(sum.tokens);
    result.predicted_tokens = sum.tokens;
    result.kl_mean = over(sum.kl, n);
    result.argmax_agreement = over(f64::from(sum.agreed), n);
    result.perplexity = over(sum.surprise, n).map(f64::exp);
    let parts: Vec<(f64, f64)> = all.map(|t| (t.kl, f64::from(t.tokens))).collect();
    let interval = ratio_interval(&parts, RESAMPLES, seed);
    result.kl_low = interval.map(|i| i.0);
    result.kl_high = interval.map(|i| i.1);
}

/// Where its tokens were.
fn placement(result: &mut PolicyResult, cells: &[&Cell], full: &[&Cell]) {
    let sum = |of: &[&Cell], what: &dyn Fn(&Along) -> f64| -> f64 {
        of.iter().map(|c| what(&c.along)).sum()
    };
    let steps = sum(cells, &|a| f64::from(a.steps)).max(1.0);
    let retained = |a: &Along| a.tokens.iter().sum::<f64>();
    let share = |own: f64, full: f64| if full > 0.0 { own / full } else { 1.0 };
    result.destroyed_share = sum(cells, &|a| a.destroyed) / steps;
    result.destroyed_mass_mean = sum(cells, &|a| a.destroyed_mass) / steps;
    result.retained_tokens_mean = sum(cells, &retained) / steps;
    result.retained_share = share(sum(cells, &retained), sum(full, &retained));
    let of_problems = |what: &dyn Fn(&Along) -> f64| mean(cells.iter().map(|c| what(&c.along)));
    result.hbm_peak_tokens_mean = of_problems(&|a| a.hbm_peak);
    result.hbm_peak_share = share(sum(cells, &|a| a.hbm_peak), sum(full, &|a| a.hbm_peak));
    result.t1_tokens_mean = sum(cells, &|a| a.tokens[1]) / steps;
    result.t2_tokens_mean = sum(cells, &|a| a.tokens[2]) / steps;
    result.promoted_mean = of_problems(&|a| a.promoted);
    result.demoted_mean = of_problems(&|a| a.demoted);
}
