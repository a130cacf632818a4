//! What stands where: which results belong together, their verdicts first, how to make it again last.

use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::plan::solve::answer::{Solution, Solved};
use crate::sweep::answer::Answer;

use super::super::cells::{card, count};
use super::super::page::{Block, Mood};
use super::super::{outcome, plan, solve, sweep};
use super::data::{Cell, Data};
use super::source::{Saved, Source};
use super::{Document, Part, Piece, Section, Verdict};
use super::{outcomes, plans, questions, solves, sweeps};

/// Results of one question.
enum Together<'a> {
    Plans(Vec<(&'a Source, &'a Plan)>),
    Runs(Vec<(&'a str, &'a Outcome)>),
    Sweep(&'a Source, &'a Answer),
    Found(&'a Source, &'a Solution),
}

/// A report of results: plans of one question side by side, simulated runs side by side, all else by itself.
pub fn document(sources: &[Source]) -> Document {
    let groups = grouped(sources);
    let several = groups.len() > 1;
    Document {
        title: match &groups[..] {
            [one] => one.title(),
            more => format!("{} questions, {} results", more.len(), sources.len()),
        },
        version: env!("CARGO_PKG_VERSION").into(),
        verdicts: sources
            .iter()
            .flat_map(|s| verdicts(s, sources.len() > 1))
            .collect(),
        parts: groups
            .iter()
            .map(|g| Part {
                name: several.then(|| g.title()),
                sections: g.sections(),
            })
            .collect(),
        again: again(sources),
    }
}

fn grouped(sources: &[Source]) -> Vec<Together<'_>> {
    let mut groups: Vec<Together> = Vec::new();
    for source in sources {
        match &source.saved {
            Saved::Plan(p) => match beside(&mut groups, p) {
                Some(list) => list.push((source, p)),
                None => groups.push(Together::Plans(vec![(source, p)])),
            },
            Saved::Outcome(o) => {
                let runs = groups.iter_mut().find_map(|g| match g {
                    Together::Runs(list) => Some(list),
                    _ => None,
                });
                match runs {
                    Some(list) => list.push((&source.name, o)),
                    None => groups.push(Together::Runs(vec![(&source.name, o)])),
                }
            }
            Saved::Sweep(s) => groups.push(Together::Sweep(source, s)),
            Saved::Solution(s) => groups.push(Together::Found(source, s)),
        }
    }
    groups
}

/// The plans that this one may stand beside.
fn beside<'g, 'a>(
    groups: &'g mut [Together<'a>],
    plan: &Plan,
) -> Option<&'g mut Vec<(&'a Source, &'a Plan)>> {
    groups.iter_mut().find_map(|g| match g {
        Together::Plans(list) if list.iter().all(|(_, p)| plans::alike(p, plan)) => Some(list),
        _ => None,
    })
}

impl Together<'_> {
    fn title(&self) -> String {
        match self {
            Self::Plans(list) => {
                let list: Vec<&Plan> = list.iter().map(|(_, p)| *p).collect();
                plan::asked(&plans::question(&list))
            }
            Self::Runs(list) => match &list[..] {
                [(_, o)] => outcome::asked(o),
                more => format!("{} deployments, simulated", more.len()),
            },
            Self::Sweep(source, s) => {
                let axes: Vec<&str> = s.vary.iter().map(|a| a.name.as_str()).collect();
                format!("{}: a sweep over {}", source.name, axes.join(", "))
            }
            Self::Found(source, s) => format!("{}: find {}", source.name, s.find),
        }
    }

    fn sections(&self) -> Vec<Section> {
        match self {
            Self::Plans(list) => {
                let list: Vec<&Plan> = list.iter().map(|(_, p)| *p).collect();
                plans::sections(&list)
            }
            Self::Runs(list) => outcomes::sections(list),
            Self::Sweep(_, s) => sweeps::sections(s),
            Self::Found(_, s) => solves::sections(s),
        }
    }
}

fn verdicts(source: &Source, several: bool) -> Vec<Verdict> {
    let of = several.then(|| source.name.clone());
    let one = |(text, mood): (String, Mood), sure: Vec<String>| {
        let of = of.clone();
        vec![Verdict {
            of,
            text,
            sure,
            mood,
        }]
    };
    match &source.saved {
        Saved::Plan(p) => {
            let any = p.rows.iter().any(|r| r.verdict.best.is_some());
            let mood = if any { Mood::Good } else { Mood::Bad };
            one(
                (p.verdict.sentence.clone(), mood),
                p.verdict.in_draws.clone(),
            )
        }
        Saved::Outcome(o) => one(outcome::answer(o), Vec::new()),
        Saved::Sweep(s) => one(sweep::said(s), Vec::new()),
        Saved::Solution(s) => s
            .rows
            .iter()
            .map(|row| found(s, row, of.as_deref()))
            .collect(),
    }
}

/// The answer of a card of a search.
fn found(s: &Solution, row: &Solved, file: Option<&str>) -> Verdict {
    let (text, mood) = solve::answer(s, row);
    let name = card(&row.hardware, row.gpus);
    Verdict {
        of: Some(file.map_or(name.clone(), |file| format!("{file}, {name}"))),
        text,
        sure: Vec::new(),
        mood,
    }
}

/// How to make it again: commands, hashes, versions.
fn again(sources: &[Source]) -> Section {
    let mut section = Section::new("again", "How to make it again");
    let version = env!("CARGO_PKG_VERSION");
    section.text(format!(
        "kvplan {version} laid this out. The same version gives the same bytes of a result for the same question: each \
         command below prints them again. Trace and scenario files that a question names must lie where they lay."
    ));
    let mut lines: Vec<String> = Vec::new();
    for source in sources {
        let file = questions::quoted(&source.name);
        lines.extend(questions::command(source).map(|c| format!("{c} -o {file}")));
        if !matches!(source.saved, Saved::Solution(_)) {
            lines.push(format!("kvplan rerun {file} | cmp - {file}"));
        }
    }
    let files: Vec<String> = sources.iter().map(|s| questions::quoted(&s.name)).collect();
    lines.push(format!("kvplan report {} -o report.html", files.join(" ")));
    section
        .pieces
        .push(Piece::Block(Block::Command(lines.join("\n"))));
    let mut data = Data::new("results", "The results behind this report")
        .text("result", "file")
        .text("kvplan", "kvplan_version")
        .figure("size, bytes", "size_bytes")
        .text("SHA-256", "sha256");
    for s in sources {
        data.row([
            Cell::text(&s.name),
            Cell::text(s.version()),
            Cell::count(s.bytes).shown(count(s.bytes)),
            Cell::text(&s.sha256),
        ]);
    }
    section.data(data);
    section
}
