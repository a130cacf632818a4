//! An evaluation as a page and as CSV: a row a policy, and a row a policy on a problem.

use crate::error::Result;
use crate::eval::answer::{AnswerResult, Evaluation, PolicyResult, ProblemResult, Question};

use super::cells::{NONE, count, figure, maybe_percent, percent, spaced};
use super::csv;
use super::page::{Block, Grid, Mood, Page};

/// The page of an evaluation.
pub fn page(e: &Evaluation) -> Page {
    let mut page = Page::default();
    question(&mut page, e);
    if !e.question.teacher_forced {
        texts(&mut page, e);
    }
    along(&mut page, e);
    page.title("What this shows and does not show");
    page.list(e.notes.clone());
    page
}

fn question(page: &mut Page, e: &Evaluation) {
    let q = &e.question;
    page.title("Question");
    let tokens: u64 = e.problems.iter().map(|p| u64::from(p.prompt_tokens)).sum();
    let n = e.problems.len() as u64;
    let mean = tokens as f64 / n.max(1) as f64;
    let facts = [
        (
            "model",
            format!(
                "{}, {}, weights {}",
                q.model,
                q.quantisation,
                short(&q.weights_sha256)
            ),
        ),
        (
            "problems",
            format!(
                "{} of {}, prompts of {} tokens in the mean",
                count(n),
                q.problems,
                figure(Some(mean))
            ),
        ),
        ("texts", drawn(q)),
        ("cache", format!("T2 {}, positions {}", q.t2, q.positions)),
    ];
    page.facts(facts);
    if let Some(equal) = &q.equal {
        let text = format!(
            "{} {} tokens at {} + {} in the mean",
            equal.by,
            figure(Some(equal.target_tokens)),
            figure(Some(equal.prompt_tokens)),
            figure(Some(equal.output_tokens))
        );
        page.facts([("equal", text)]);
    }
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn drawn(q: &Question) -> String {
    let most = count(q.max_new_tokens.into());
    if q.teacher_forced {
        return format!("given ones, or the full cache's; {most} tokens at most");
    }
    if q.temperature > 0.0 {
        let (t, p, s) = (q.temperature, q.top_p, q.seed);
        format!("drawn at temperature {t}, top-p {p}, seed {s}; {most} tokens at most")
    } else {
        format!("likeliest tokens; {most} at most")
    }
}

/// Figures of each policy's own texts.
fn texts(page: &mut Page, e: &Evaluation) {
    page.title(
        "Own texts (accuracy with Wilson's 95 % interval; p: McNemar's exact test against full)",
    );
    let mut grid = Grid::new([
        "POLICY",
        "RIGHT",
        "ACCURACY\n%",
        "95 %",
        "P",
        "CHANGED",
        "SAME\nTEXT",
        "FIRST\nDIFF",
        "TOKENS\n/answer",
        "TOKENS\n/right",
    ]);
    for (i, p) in e.policies.iter().enumerate() {
        let against = |text: String| if i == 0 { NONE.into() } else { text };
        grid.row([
            spaced(&p.policy),
            p.correct
                .map_or(NONE.into(), |k| format!("{k}/{}", p.graded)),
            points(p.accuracy),
            interval(p.accuracy_low, p.accuracy_high),
            against(p.mcnemar_p.map_or(NONE.into(), |v| format!("{v:.3}"))),
            against(p.answers_changed.map_or(NONE.into(), |n| n.to_string())),
            against(maybe_percent(p.texts_identical_share)),
            against(figure(p.first_difference_median_token)),
            figure(p.tokens_per_answer),
            figure(p.tokens_per_correct_answer),
        ]);
    }
    page.grid(grid);
    let ended = e.policies.first().and_then(|p| p.ended_share);
    if let Some(share) = ended.filter(|s| *s < 1.0) {
        page.text(format!(
            "{} of the full cache's answers were cut at the most tokens: a cut answer is rarely right.",
            percent(1.0 - share)
        ));
    }
}

/// Per cent without the sign.
fn points(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.into(), |s| format!("{:.1}", 100.0 * s))
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    low.zip(high).map_or_else(
        || NONE.into(),
        |(l, h)| format!("{:.0}-{:.0}", 100.0 * l, 100.0 * h),
    )
}

/// Figures along one text for all.
fn along(page: &mut Page, e: &Evaluation) {
    let whose = if e.question.teacher_forced {
        "given texts"
    } else {
        "the full cache's texts"
    };
    let tokens = e.policies.first().map_or(0, |p| p.predicted_tokens);
    page.title(format!(
        "Along {whose} ({} tokens; KL in nat a token with its 90 % interval)",
        count(tokens.into())
    ));
    let mut grid = Grid::new([
        "POLICY",
        "KL",
        "90 %",
        "AGREE",
        "PPL",
        "GONE\nshare",
        "GONE\nmass",
        "RETAINED\ntokens",
        "HBM\nPEAK",
    ]);
    for p in &e.policies {
        grid.row([
            spaced(&p.policy),
            divergence(p.kl_mean),
            range(p),
            maybe_percent(p.argmax_agreement),
            p.perplexity.map_or(NONE.into(), |v| format!("{v:.4}")),
            percent(p.destroyed_share),
            percent(p.destroyed_mass_mean),
            figure(Some(p.retained_tokens_mean)),
            percent(p.hbm_peak_share),
        ]);
    }
    page.grid(grid);
    page.text("GONE share: destroyed over generated tokens; a policy that destroys the prompt as well can pass 100 %. GONE mass: what the full cache's rows put on them. RETAINED: T0 + T1 + T2, mean over steps. HBM PEAK: most tokens in T0, of the full cache's.");
    if let Some(best) = least(e) {
        page.push(Block::Verdict(best, Mood::Plain));
    }
}

/// `0`, `0.0123`, `3.4e-5`.
fn divergence(value: Option<f64>) -> String {
    match value {
        None => NONE.into(),
        Some(0.0) => "0".into(),
        Some(v) if v < 1e-3 => format!("{v:.1e}"),
        Some(v) => format!("{v:.4}"),
    }
}

fn range(p: &PolicyResult) -> String {
    match (p.kl_low, p.kl_high) {
        (Some(low), Some(high)) if high > 0.0 => {
            format!("{}\n{}", divergence(Some(low)), divergence(Some(high)))
        }
        _ => NONE.into(),
    }
}

/// Shares of tokens held that count as equal: a ranking by divergence holds only there.
const EQUAL: f64 = 0.02;

/// The policy of least divergence among those that destroyed something in time, where they hold equally many tokens.
fn least(e: &Evaluation) -> Option<String> {
    let of = e.policies.iter().filter(|p| p.destroyed_share > 0.0);
    let list: Vec<&PolicyResult> = of.filter(|p| !p.kept_all()).collect();
    if list.len() < 2 {
        return None;
    }
    let shares = list.iter().map(|p| p.retained_share);
    let (low, high) = shares.fold((f64::INFINITY, 0.0), |(l, h), s| (s.min(l), s.max(h)));
    if high - low > EQUAL * high {
        return Some(format!(
            "Not ranked: those that destroy hold {} to {} of the full cache's tokens, and who holds more diverges less.",
            percent(low),
            percent(high)
        ));
    }
    let best = list
        .iter()
        .filter_map(|p| Some((p.kl_mean?, *p)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let apart = list.iter().filter(|p| p.policy != best.1.policy).all(|p| {
        p.kl_low
            .zip(best.1.kl_high)
            .is_some_and(|(low, high)| low > high)
    });
    Some(format!(
        "Of those that destroy, {} stays nearest to the full cache, holding {} of its tokens{}.",
        best.1.policy,
        percent(best.1.retained_share),
        if apart {
            ""
        } else {
            "; the intervals overlap, so another text may rank them otherwise"
        }
    ))
}

#[rustfmt::skip]
const POLICY_COLUMNS: &[&str] = &[
    "policy", "resolved", "n", "graded", "correct", "accuracy", "accuracy_low", "accuracy_high",
    "tokens_per_answer", "tokens_per_correct_answer", "ended_share", "texts_identical_share",
    "answers_changed", "first_difference_median_token", "gained", "lost", "mcnemar_p",
    "predicted_tokens", "kl_mean", "kl_low", "kl_high", "argmax_agreement", "perplexity",
    "destroyed_share", "destroyed_mass_mean", "retained_tokens_mean", "retained_share",
    "hbm_peak_tokens_mean", "hbm_peak_share", "t1_tokens_mean", "t2_tokens_mean", "promoted_mean",
    "demoted_mean",
];

#[rustfmt::skip]
const ANSWER_COLUMNS: &[&str] = &[
    "policy", "tokens", "ended", "answer", "correct", "first_difference_token", "predicted_tokens",
    "kl_mean", "argmax_agreement", "surprise_mean", "destroyed_tokens", "destroyed_mass_mean",
    "hbm_peak_tokens", "text",
];

/// A row a policy.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn csv(e: &Evaluation) -> Result<String> {
    let rows = e.policies.iter().map(|p| csv::row(p, POLICY_COLUMNS));
    csv::write(POLICY_COLUMNS, rows.collect::<Result<Vec<_>>>()?)
}

/// A row a policy on a problem, the text last.
///
/// # Errors
/// A bug in the writer (exit 70).
pub fn answers(e: &Evaluation) -> Result<String> {
    let header = [&["line", "prompt_tokens", "gold"], ANSWER_COLUMNS].concat();
    let row = |p: &ProblemResult, a: &AnswerResult| -> Result<Vec<String>> {
        let mut row = vec![
            p.line.to_string(),
            p.prompt_tokens.to_string(),
            p.gold.clone().unwrap_or_default(),
        ];
        row.extend(csv::row(a, ANSWER_COLUMNS)?);
        Ok(row)
    };
    let pairs = e
        .problems
        .iter()
        .flat_map(|p| p.answers.iter().map(move |a| (p, a)));
    let rows: Result<Vec<_>> = pairs.map(|(p, a)| row(p, a)).collect();
    csv::write(&header, rows?)
}
