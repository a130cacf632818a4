//! Series of the figure: divergence against what a policy keeps, and against what it holds in HBM.
//!
//! A line is a family: settings of one policy that differ in their budget alone, ordered by what they keep. Where a
//! family varies `hbm` as well, the lines against HBM are those of equal `evict`: along each only `hbm` changes.

use std::collections::BTreeMap;

use super::answer::{Evaluation, PolicyResult};
use crate::policy::{self, PolicySpec};
use crate::units::text::group;

/// Both panels with their words.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What is shown.
    pub title: String,
    /// On what.
    pub subtitle: String,
    /// What it rests on.
    pub caption: String,
    /// Families, each in its colour.
    pub families: Vec<String>,
    /// Against tokens retained, and against tokens in HBM at the peak.
    pub panels: [Panel; 2],
}

/// One panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What runs across.
    pub across: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
    /// What the full cache holds.
    pub full: f64,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Index of its family.
    pub family: usize,
    /// Its points, left to right.
    pub points: Vec<Point>,
}

/// One setting of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Tokens.
    pub across: f64,
    /// KL(full || policy) a token \[nat\].
    pub kl: f64,
    /// Its 90 % interval.
    pub interval: Option<(f64, f64)>,
    /// The budget in a word.
    pub budget: String,
}

/// Parameters that are budgets.
const BUDGETS: [&str; 5] = ["hbm", "evict", "budget", "heavy", "recent"];

/// The window is the budget of this one.
const BY_WINDOW: &str = "streaming-llm";

/// The figure of an evaluation.
pub fn figure(e: &Evaluation) -> Figure {
    let parsed = e.policies.iter().skip(1).filter_map(|p| {
        let spec = policy::parse(&p.resolved).ok()?;
        p.kl_mean.map(|kl| (p, spec, kl))
    });
    let mut families: Vec<(String, Vec<Setting<'_>>)> = Vec::new();
    for (result, spec, kl) in parsed {
        let setting = Setting { result, spec, kl };
        let key = setting.family();
        match families.iter_mut().find(|(k, _)| *k == key) {
            Some((_, list)) => list.push(setting),
            None => families.push((key, vec![setting])),
        }
    }
    let panel = |hbm: bool| Panel {
        across: if hbm {
            "tokens in HBM at the peak, mean over problems"
        } else {
            "tokens retained, mean over steps"
        },
        lines: families
            .iter()
            .enumerate()
            .flat_map(|(family, (_, list))| lines(family, list, hbm))
            .collect(),
        full: e.policies.first().map_or(0.0, |p| held(p, hbm)),
    };
    Figure {
        title: "What policies do to a model's predictions".into(),
        subtitle: subtitle(e),
        caption: caption(e),
        panels: [panel(false), panel(true)],
        families: names(&families),
    }
}

struct Setting<'a> {
    result: &'a PolicyResult,
    spec: PolicySpec,
    kl: f64,
}

fn held(p: &PolicyResult, hbm: bool) -> f64 {
    if hbm {
        p.hbm_peak_tokens_mean
    } else {
        p.retained_tokens_mean
    }
}

impl Setting<'_> {
    fn is_budget(&self, key: &str) -> bool {
        BUDGETS.contains(&key) || self.spec.name() == BY_WINDOW && key == "window"
    }

    /// Everything but the budget.
    fn family(&self) -> String {
        let fixed = self
            .spec
            .params()
            .into_iter()
            .filter(|p| !self.is_budget(p.key) && p.key != "semantics");
        let words: Vec<String> = fixed.map(|p| format!("{}={}", p.key, p.value)).collect();
        format!("{}:{}", self.spec.name(), words.join(","))
    }

    fn param(&self, key: &str) -> Option<String> {
        self.spec
            .params()
            .into_iter()
            .find(|p| p.key == key)
            .map(|p| p.value)
    }

    /// `3 %`, `256`, `128+128`.
    fn budget(&self) -> String {
        let share = |v: &str| {
            v.parse::<f64>()
                .map_or(v.to_string(), |s| format!("{} %", short(100.0 * s)))
        };
        let heavy = self.param("heavy").zip(self.param("recent"));
        if let Some(evict) = self.param("evict") {
            return format!("evict {}", share(&evict));
        }
        if let Some((heavy, recent)) = heavy {
            return format!("{heavy}+{recent}");
        }
        let key = if self.spec.name() == BY_WINDOW {
            "window"
        } else {
            "budget"
        };
        let value = self.param(key).unwrap_or_default();
        if value.contains('.') {
            share(&value)
        } else {
            value
        }
    }
}

/// A percentage to a hundredth, no zeros behind it.
fn short(percent: f64) -> String {
    let text = format!("{percent:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The lines of a family.
fn lines(family: usize, list: &[Setting<'_>], hbm: bool) -> Vec<Line> {
    let mut ratios: Vec<Option<String>> = list.iter().map(|s| s.param("hbm")).collect();
    ratios.sort();
    ratios.dedup();
    let apart = hbm && ratios.len() > 1;
    let mut groups: BTreeMap<String, Vec<&Setting<'_>>> = BTreeMap::new();
    for s in list {
        let key = if apart { s.budget() } else { String::new() };
        groups.entry(key).or_default().push(s);
    }
    let line = |list: Vec<&Setting<'_>>| {
        let mut points: Vec<Point> = list.into_iter().map(|s| s.point(hbm)).collect();
        points.sort_by(|a, b| a.across.total_cmp(&b.across).then(a.kl.total_cmp(&b.kl)));
        points.dedup_by(|a, b| {
            a.across.to_bits() == b.across.to_bits() && a.kl.to_bits() == b.kl.to_bits()
        });
        Line { family, points }
    };
    groups.into_values().map(line).collect()
}

impl Setting<'_> {
    fn point(&self, hbm: bool) -> Point {
        Point {
            across: held(self.result, hbm),
            kl: self.kl,
            interval: self.result.kl_low.zip(self.result.kl_high),
            budget: self.budget(),
        }
    }
}

/// Names of families, as short as they are told apart.
fn names(families: &[(String, Vec<Setting<'_>>)]) -> Vec<String> {
    let of = |list: &[Setting<'_>]| {
        list.first()
            .map_or(("", Vec::new()), |s| (s.spec.name(), s.spec.params()))
    };
    let named: Vec<_> = families.iter().map(|(_, list)| of(list)).collect();
    let one = |(name, params): &(&str, Vec<policy::Param>)| {
        let kin: Vec<_> = named.iter().filter(|(other, _)| other == name).collect();
        let telling = params.iter().filter(|p| {
            !BUDGETS.contains(&p.key)
                && p.key != "semantics"
                && kin
                    .iter()
                    .any(|(_, other)| other.iter().any(|q| q.key == p.key && q.value != p.value))
        });
        let words: Vec<String> = telling.map(|p| format!("{} {}", p.key, p.value)).collect();
        if words.is_empty() {
            (*name).to_string()
        } else {
            format!("{name}, {}", words.join(", "))
        }
    };
    named.iter().map(one).collect()
}

fn subtitle(e: &Evaluation) -> String {
    let q = &e.question;
    let tokens = e.policies.first().map_or(0, |p| p.predicted_tokens);
    let file = std::path::Path::new(&q.problems).file_name();
    let file = file.map_or(q.problems.clone(), |f| f.to_string_lossy().into_owned());
    format!(
        "{} ({}), {} of {file}, {} tokens along the {} texts",
        q.model,
        q.quantisation,
        match e.problems.len() {
            1 => "one problem".into(),
            n => format!("n = {n} problems"),
        },
        group(&tokens.to_string()),
        if q.teacher_forced {
            "given"
        } else {
            "full cache's"
        }
    )
}

fn caption(e: &Evaluation) -> String {
    let equality = match &e.question.equal {
        Some(by) => format!(
            "Budgets were solved for equal {} at {:.0} + {:.0} tokens.",
            by.by, by.prompt_tokens, by.output_tokens
        ),
        None => "Policies ran as asked: compare them on one vertical line, which is an equal number of tokens, and not point by point.".into(),
    };
    format!(
        "KL(full || policy) a token, logarithmic; bars: 90 % bootstrap over problems; 0: not a bit of difference. {equality} One model, one text a problem: another model may rank policies otherwise, and KL is no accuracy. kvplan {}.",
        e.kvplan_version
    )
}
