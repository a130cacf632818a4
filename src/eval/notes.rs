//! What the figures of an evaluation do not show, and where theory says that they must agree.

use std::collections::BTreeMap;

use super::answer::{Evaluation, PolicyResult};
use super::sum::Asked;
use crate::policy::registry::Kind;

/// Fewest problems that a difference in accuracy of ten points takes, about.
const FEW: u32 = 200;

/// Fewest problems of which a 5th and a 95th percentile say more than the least and the most.
const SPREAD: usize = 5;

/// Remarks on an answer.
pub(super) fn notes(answer: &Evaluation, policies: &[Asked]) -> Vec<String> {
    let mut notes = vec![scope(answer)];
    notes.extend(accuracy(answer));
    notes.extend(ungraded(answer));
    notes.extend(unboxed(answer));
    notes.extend(without_given(answer));
    notes.extend(idle(answer));
    if answer.question.teacher_forced {
        notes.push("all policies ran along given texts: a text of their own, and so accuracy, was not asked for".into());
    } else {
        notes.push("KL, agreement and mass are along the full run's text: they do not say where a policy's own text ends up".into());
    }
    if answer.policies.iter().any(|p| p.destroyed_share > 0.0) {
        notes.push("mass on destroyed tokens compares settings of one policy; between policies it does not rank".into());
    }
    notes.extend(budgets(answer));
    notes.extend(without_hbm(answer, policies));
    notes
}

fn scope(answer: &Evaluation) -> String {
    let q = &answer.question;
    let draws = if q.temperature > 0.0 {
        format!(
            "one draw each at temperature {} (seed {})",
            q.temperature, q.seed
        )
    } else {
        "one greedy run each".into()
    };
    let n = answer.problems.len();
    let few = if n < SPREAD {
        format!(", and over {n} they are hardly more than the least and the most")
    } else {
        String::new()
    };
    format!(
        "{}, {draws}, {} only: intervals are over problems{few}; another model, prompt or length may rank policies otherwise",
        plural(n, "problem"),
        q.model
    )
}

fn plural(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Whether accuracy tells any policy from the full cache.
fn accuracy(answer: &Evaluation) -> Option<String> {
    let tested: Vec<&PolicyResult> = answer.policies.iter().skip(1).collect();
    let graded = answer.policies.first()?.graded;
    if graded == 0 || tested.is_empty() {
        return None;
    }
    let apart = |p: &&&PolicyResult| p.mcnemar_p.is_some_and(|v| v < 0.05);
    if tested.iter().filter(apart).count() > 0 {
        return None;
    }
    let more = if graded < FEW {
        let all = plural(graded as usize, "graded problem");
        let shows = if graded == 1 { "shows" } else { "show" };
        format!("; {all} {shows} only large losses")
    } else {
        String::new()
    };
    Some(format!(
        "accuracy tells no policy from the full cache here (McNemar p >= 0.05 for each): read KL and equal texts{more}"
    ))
}

fn ungraded(answer: &Evaluation) -> Option<String> {
    let without = answer.problems.iter().filter(|p| p.gold.is_none()).count();
    (without > 0 && !answer.question.teacher_forced).then(|| {
        format!("{without} of {} problems have no right answer in the file: they count for texts, not for accuracy", answer.problems.len())
    })
}

/// Answers of the full cache in which none was found: a wrong form counts as a wrong answer.
fn unboxed(answer: &Evaluation) -> Option<String> {
    let graded = answer.problems.iter().filter(|p| p.gold.is_some());
    let full: Vec<_> = graded.filter_map(|p| p.answers.first()).collect();
    let without = full
        .iter()
        .filter(|a| a.text.is_some() && a.answer.is_none());
    let without = without.count();
    (without > 0).then(|| {
        format!(
            "{without} of {} by the full cache held no answer in the form that is looked for, and count as wrong",
            plural(full.len(), "graded answer")
        )
    })
}

/// Problems that were to run along a given text and have none.
fn without_given(answer: &Evaluation) -> Option<String> {
    let without = answer.question.problems_without_given_text.unwrap_or(0);
    (without > 0).then(|| {
        format!(
            "{without} of {} held no given text and ran along the full cache's",
            plural(answer.problems.len(), "problem")
        )
    })
}

/// Policies that decided only after the last step, or never.
fn idle(answer: &Evaluation) -> Option<String> {
    let of = answer.policies.iter().skip(1).filter(|p| p.kept_all());
    let names: Vec<&str> = of.map(|p| p.policy.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "nothing was destroyed or moved before the last step under {}: the texts are too short for it to act, or its budget holds all, and its figures show nothing",
            names.join(", ")
        )
    })
}

fn budgets(answer: &Evaluation) -> Option<String> {
    let q = &answer.question;
    if let Some(e) = &q.equal {
        let early = if q.problems_without_given_text == Some(0) {
            ""
        } else {
            "; texts that end earlier than --max-new need not be equal (RETAINED, HBM PEAK)"
        };
        return Some(format!(
            "budgets were solved for equal {} over the lengths of all problems ({:.0} + {:.0} tokens in the mean){early}",
            e.by, e.prompt_tokens, e.output_tokens
        ));
    }
    let retained = answer.policies.iter().skip(1).map(|p| p.retained_share);
    let (low, high) = retained.fold((f64::INFINITY, 0.0), |(l, h), r| (r.min(l), r.max(h)));
    (high - low > 0.01 && high.is_finite()).then(|| {
        "policies ran as asked and do not hold equally many tokens: rank them by --equal, or by the curves of --plot".into()
    })
}

/// Four-tier settings that differ in `hbm` alone, and whether their figures do.
fn without_hbm(answer: &Evaluation, policies: &[Asked]) -> Vec<String> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, asked) in policies.iter().enumerate() {
        if matches!(asked.spec.kind(), Kind::FourTier(_)) {
            let key = asked.spec.params().into_iter().filter(|p| p.key != "hbm");
            let words: Vec<String> = key.map(|p| format!("{}={}", p.key, p.value)).collect();
            alike.entry(words.join(",")).or_default().push(at);
        }
    }
    alike.retain(|_, list| list.len() > 1);
    if alike.is_empty() {
        return Vec::new();
    }
    let figures = |at: usize| {
        let p = &answer.policies[at];
        let texts = answer.problems.iter().map(|r| r.answers[at].text.clone());
        let kl = answer
            .problems
            .iter()
            .map(|r| r.answers[at].kl_mean.map(f64::to_bits));
        let pairs: Vec<_> = texts.zip(kl).collect();
        (
            p.perplexity.map(f64::to_bits),
            p.destroyed_mass_mean.to_bits(),
            pairs,
        )
    };
    let same = |list: &Vec<usize>| list.iter().all(|at| figures(*at) == figures(list[0]));
    let (equal, other): (Vec<_>, Vec<_>) = alike.into_values().partition(same);
    let names = |lists: &[Vec<usize>]| {
        let one = |l: &Vec<usize>| {
            let ratios: Vec<String> = l.iter().filter_map(|at| hbm(&policies[*at])).collect();
            format!(
                "{} at hbm {}",
                without(&policies[l[0]].text),
                ratios.join(" = ")
            )
        };
        lists.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let mut notes = Vec::new();
    if !equal.is_empty() {
        notes.push(format!(
            "hbm makes no difference, to the last bit of text, KL and mass (Proposition 1; what is in T1 is read in full): {}",
            names(&equal)
        ));
    }
    if !other.is_empty() {
        notes.push(format!(
            "hbm does make a difference here (a preset whose choice of T3 depends on it): {}",
            names(&other)
        ));
    }
    notes
}

/// The share in HBM as resolved.
fn hbm(asked: &Asked) -> Option<String> {
    let found = asked.spec.params().into_iter().find(|p| p.key == "hbm");
    found.map(|p| p.value)
}

/// A policy's text without its `hbm`.
fn without(text: &str) -> String {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let other = params
        .split(',')
        .filter(|p| !p.is_empty() && !p.starts_with("hbm="));
    let other: Vec<&str> = other.collect();
    if other.is_empty() {
        return name.into();
    }
    format!("{name}:{}", other.join(","))
}
