//! Plans of one question: their cards side by side.

use crate::plan::answer::{Plan, Row, Setting};

use super::super::cells::NONE;
use super::super::plan::{self, WHEN_IT_PAYS};
use super::super::plan_rows::explained;
use super::super::sure::stays_best;
use super::data::{Cell, Data};
use super::entry::{Entry, of_plans};
use super::{Section, memory, questions, rests, rows, speed, steps, sure, tiers, today, ways};

/// The question of all of them, every card named.
pub(super) fn question(plans: &[&Plan]) -> Vec<Setting> {
    let mut cards: Vec<&str> = Vec::new();
    for row in plans.iter().flat_map(|p| &p.rows) {
        if !cards.contains(&row.hardware.as_str()) {
            cards.push(&row.hardware);
        }
    }
    let mut question = plans.first().map_or_else(Vec::new, |p| p.question.clone());
    for setting in question.iter_mut().filter(|s| s.name == "hardware") {
        setting.value = cards.join(", ");
    }
    question
}

/// Whether two plans ask the same, cards aside.
pub(super) fn alike(a: &Plan, b: &Plan) -> bool {
    let rest = |p: &Plan| -> Vec<(String, String)> {
        let settings = p.question.iter();
        let kept = settings.filter(|s| s.name != "hardware" && s.name != "gpus");
        kept.map(|s| (s.name.clone(), s.value.clone())).collect()
    };
    let card = |r: &Row| (r.hardware.clone(), r.gpus);
    let shared = a
        .rows
        .iter()
        .any(|r| b.rows.iter().any(|q| card(r) == card(q)));
    rest(a) == rest(b) && !shared
}

/// The sections.
pub(super) fn sections(plans: &[&Plan]) -> Vec<Section> {
    let all: Vec<&Row> = plans.iter().flat_map(|p| &p.rows).collect();
    let entries = of_plans(plans);
    let every: Vec<&Entry> = entries.iter().collect();
    let mut list = vec![cards(plans, &all)];
    list.extend(figures(&every));
    list.push(alternatives(&every));
    list.push(pays(&all));
    list.push(flips(plans, &all));
    list.push(today::section(&all));
    list.push(quality(&all));
    list.push(numbers(plans, &every));
    let mut asked = Section::new("question", "The question");
    asked.text(plan::asked(&question(plans)));
    asked.folded(questions::settings(&question(plans)));
    list.push(asked);
    list
}

fn cards(plans: &[&Plan], rows: &[&Row]) -> Section {
    let mut section = Section::new("cards", "By card");
    let lengths = plan::lengths(&question(plans));
    section.data(rows::cards(rows, &lengths));
    section.text(explained(rows));
    section
}

/// Figures of what was asked; what changes the question stands aside, except where it is a point among others.
fn figures(every: &[&Entry]) -> [Section; 4] {
    let asked: Vec<&Entry> = every.iter().copied().filter(|e| !e.aside).collect();
    let mut memory = Section::new("memory", "Where the memory goes");
    memory.figure(memory::figure(&asked));
    let mut speed = Section::new("throughput", "Throughput against HBM");
    speed.figure(speed::figure(every));
    let mut step = Section::new("step", "Where a step goes");
    step.figure(steps::figure(&asked));
    [memory, speed, step, occupancy(&asked)]
}

/// Where tokens live, or that they all stay.
pub(super) fn occupancy(entries: &[&Entry]) -> Section {
    let mut section = Section::new("tiers", "Tier occupancy");
    if entries.iter().any(|e| tiers::tiered(e)) {
        section.figure(tiers::figure(entries));
    } else {
        section.text("Every token stays in HBM: no tier but T0 is used.");
    }
    section
}

fn alternatives(every: &[&Entry]) -> Section {
    let mut section = Section::new("ways", "Every way to run it");
    section.data(ways::table(every));
    section
}

fn pays(rows: &[&Row]) -> Section {
    let mut section = Section::new("pays", "Does tiering pay?");
    section.text(WHEN_IT_PAYS);
    section.data(rows::pays(rows));
    let said = rows.iter().filter(|r| !r.verdict.sentence.is_empty());
    let name = |r: &Row| super::super::cells::card(&r.hardware, r.gpus);
    section.list(
        said.map(|r| format!("{}: {}", name(r), r.verdict.sentence))
            .collect(),
    );
    section
}

fn flips(plans: &[&Plan], rows: &[&Row]) -> Section {
    let mut section = Section::new("flips", "What would flip the verdict");
    let flips: Vec<String> = plans
        .iter()
        .flat_map(|p| p.verdict.flips_if.clone())
        .collect();
    if flips.is_empty() {
        section.text("Nothing that was looked at: no link and no host memory, however fast or slow, turns it round.");
    }
    section.list(flips);
    section.text(sure::draws(plans));
    section.data(sure::stands(rows));
    section.text(stays_best(rows));
    section.figure(sure::tornado(rows));
    section
}

fn quality(rows: &[&Row]) -> Section {
    let mut section = Section::new("quality", "Quality");
    section.list(plan::said_of_quality(rows.iter().copied()));
    section
}

fn numbers(plans: &[&Plan], every: &[&Entry]) -> Section {
    let mut section = Section::new("assumptions", "What the numbers rest on");
    section.data(errors(plans));
    let mut said: Vec<String> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for plan in plans {
        if !said.contains(&plan.expected_error) {
            said.push(plan.expected_error.clone());
        }
        for note in plan
            .notes
            .iter()
            .filter(|n| !notes.contains(n))
            .cloned()
            .collect::<Vec<_>>()
        {
            notes.push(note);
        }
    }
    section.text(said.join(" "));
    section.list(notes);
    section.folded(rests::table(every));
    section
}

/// How far predictions were off.
fn errors(plans: &[&Plan]) -> Data {
    let caption = "Expected error: |predicted / measured - 1|, median and what one in ten exceeds";
    let mut data = Data::new("errors", caption)
        .text("card", "hardware")
        .text("kernels", "basis")
        .figure("decode step", "step_median_abs_rel_error")
        .figure("1 in 10 over", "step_p90_abs_rel_error")
        .figure("server's time per token", "tpot_median_abs_rel_error")
        .figure("1 in 10 over", "tpot_p90_abs_rel_error");
    for e in plans.iter().flat_map(|p| &p.expected_errors) {
        data.row([
            Cell::text(&e.hardware),
            Cell::text(&e.basis).shown(match e.basis.as_str() {
                "calibrated" => "calibrated here",
                "fitted" => "measured",
                "class" => "as other cards'",
                _ => NONE,
            }),
            Cell::share(e.step_median_abs_rel_error),
            Cell::share(e.step_p90_abs_rel_error),
            Cell::share(e.tpot_median_abs_rel_error),
            Cell::share(e.tpot_p90_abs_rel_error),
        ]);
    }
    data
}
