//! Series of a second figure: policies side by side at equal tokens, by how far they are from the full cache and by what a
//! right answer costs them.

use super::answer::{Evaluation, PolicyResult};
use super::figure;

/// Rows with their words.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// What is shown.
    pub title: String,
    /// On what.
    pub subtitle: String,
    /// What it rests on.
    pub caption: String,
    /// The policies, the nearest to the full cache first.
    pub rows: Vec<Row>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name, with what tells it from its kin.
    pub name: String,
    /// Its budget in a word.
    pub budget: String,
    /// KL(full || policy) a token with its 90 % interval \[nat\].
    pub kl: (f64, Option<(f64, f64)>),
    /// Tokens a right answer with the interval that follows from the accuracy's; none of an end that is unbounded.
    pub tokens: Option<(f64, (f64, Option<f64>))>,
    /// Tokens in HBM at the peak, mean over problems.
    pub hbm_tokens: f64,
}

/// Whether policies are better set side by side than along curves: they were made equal, or have right answers to pay for.
pub fn side_by_side(e: &Evaluation) -> bool {
    e.question.equal.is_some()
        || e.policies
            .iter()
            .any(|p| p.tokens_per_correct_answer.is_some())
}

/// The figure of an evaluation whose policies are set side by side.
pub fn policies(e: &Evaluation) -> Policies {
    let curves = figure::figure(e);
    let mut rows: Vec<Row> = Vec::new();
    let placed = curves.panels[1].lines.iter();
    for (family, point) in placed.flat_map(|l| l.points.iter().map(move |p| (l.family, p))) {
        let found = e.policies.iter().skip(1).find(|p| {
            p.kl_mean
                .is_some_and(|kl| kl.to_bits() == point.kl.to_bits())
                && p.hbm_peak_tokens_mean.to_bits() == point.across.to_bits()
        });
        rows.push(Row {
            name: curves.families[family].clone(),
            budget: point.budget.clone(),
            kl: (point.kl, point.interval),
            tokens: found.and_then(tokens),
            hbm_tokens: point.across,
        });
    }
    rows.sort_by(|a, b| a.kl.0.total_cmp(&b.kl.0).then_with(|| a.name.cmp(&b.name)));
    Policies {
        title: match &e.question.equal {
            Some(by) if by.by == "hbm-peak" => {
                "Policies at equal HBM: distance from the full cache".into()
            }
            Some(_) => "Policies at equal tokens retained: distance from the full cache".into(),
            None => "Policies as asked: distance from the full cache".into(),
        },
        subtitle: curves.subtitle,
        caption: caption(e, &rows),
        rows,
    }
}

/// Tokens a right answer: tokens an answer over the accuracy, so its interval is that of Wilson turned round.
fn tokens(p: &PolicyResult) -> Option<(f64, (f64, Option<f64>))> {
    let (cost, each) = (p.tokens_per_correct_answer?, p.tokens_per_answer?);
    let low = each / p.accuracy_high?.max(f64::MIN_POSITIVE);
    let high = p.accuracy_low.filter(|a| *a > 0.0).map(|a| each / a);
    Some((cost, (low, high)))
}

fn caption(e: &Evaluation, rows: &[Row]) -> String {
    let equality = match &e.question.equal {
        Some(by) => format!(
            "Budgets were solved for equal {} at {:.0} + {:.0} tokens; texts that end earlier hold fewer.",
            if by.by == "hbm-peak" {
                "tokens in HBM at the peak"
            } else {
                "tokens retained"
            },
            by.prompt_tokens,
            by.output_tokens
        ),
        None => "Policies ran as asked and hold different numbers of tokens (right).".into(),
    };
    let cost = if rows.iter().any(|r| r.tokens.is_some()) {
        " Tokens a right answer: 95 % interval from Wilson's of the accuracy."
    } else {
        " No policy has a right answer of its own here, so there is no cost of one."
    };
    format!(
        "KL(full || policy) a token, logarithmic, 90 % bootstrap over problems.{cost} {equality} One model, one text a problem: another may rank policies otherwise. kvplan {}.",
        e.kvplan_version
    )
}
