//! Simulated runs, side by side: several files are several deployments or machines.

use crate::metrics::Outcome;
use crate::metrics::serving::Serving;

use super::super::outcome::sentences;
use super::super::page::{Block, Page};
use super::super::serving;
use super::data::{Cell, Data};
use super::entry::Entry;
use super::plans::occupancy;
use super::{Piece, Section, memory, rests, speed, steps, ways};

/// The runs as entries, told apart by their files where they look alike.
pub(super) fn entries<'a>(runs: &[(&str, &'a Outcome)]) -> Vec<Entry<'a>> {
    let way = |o: &Outcome| {
        let policy = o.policy.split(':').next().unwrap_or_default();
        format!("{policy}, {}", o.t1_mode)
    };
    let mut list: Vec<Entry> = runs.iter().map(|(_, o)| Entry::run(o, way(o))).collect();
    let names: Vec<String> = list.iter().map(Entry::name).collect();
    for (i, entry) in list.iter_mut().enumerate() {
        if names.iter().filter(|n| **n == names[i]).count() > 1 {
            entry.way = format!("{} ({})", entry.way, runs[i].0);
        }
    }
    list
}

/// The sections.
pub(super) fn sections(runs: &[(&str, &Outcome)]) -> Vec<Section> {
    let entries = entries(runs);
    let every: Vec<&Entry> = entries.iter().collect();
    let mut deployments = Section::new("ways", "Deployments");
    deployments.data(ways::table(&every));
    for e in every.iter().filter(|e| !e.outcome.changes.is_empty()) {
        deployments.text(format!("What would make {} fit, each checked:", e.name()));
        deployments.list(e.outcome.changes.clone());
    }
    let mut list = vec![deployments];
    list.extend(figures(&every));
    for e in &every {
        list.extend(
            e.outcome
                .serving
                .as_ref()
                .map(|s| load(e, s, every.len() > 1)),
        );
    }
    list.push(quality(&every));
    list.push(numbers(&every));
    list.push(asked(&every));
    list
}

/// Memory, speed, step, tiers.
pub(super) fn figures(every: &[&Entry]) -> [Section; 4] {
    let mut memory = Section::new("memory", "Where the memory goes");
    memory.figure(memory::figure(every));
    let mut speed = Section::new("throughput", "Throughput against HBM");
    speed.figure(speed::figure(every));
    let mut step = Section::new("step", "Where a step goes");
    step.figure(steps::figure(every));
    for section in [&mut speed, &mut step] {
        if section.pieces.is_empty() {
            section.text("Nothing here runs, so there is no speed.");
        }
    }
    [memory, speed, step, occupancy(every)]
}

/// What clients see.
fn load(e: &Entry, s: &Serving, several: bool) -> Section {
    let mut page = Page::default();
    serving::sections(&mut page, s);
    let mut blocks = page.blocks.into_iter();
    blocks.next(); // its title is the section's
    let mut section = Section::new("load", "Under load");
    if several {
        section = Section::new(
            &format!("load-{}", e.card),
            &format!("Under load: {}", e.name()),
        );
    }
    // The whole course is in the table below, with exact values.
    let kept = blocks.take_while(|b| *b != Block::Title("Over time".into()));
    section.pieces.extend(kept.map(Piece::Block));
    section.folded(course(s));
    section
}

fn course(s: &Serving) -> Data {
    let mut data = Data::new("over-time", "The server over time")
        .figure("at", "at_s")
        .figure("running", "running")
        .figure("in line", "waiting")
        .figure("T0 tokens", "t0_tokens")
        .figure("T1 tokens", "t1_tokens")
        .figure("T2 tokens", "t2_tokens")
        .figure("destroyed", "t3_tokens")
        .figure("KV in HBM, GiB", "kv_bytes")
        .figure("host, GiB", "ddr_bytes");
    for m in &s.over_time {
        data.row([
            Cell::time(Some(m.at_s)),
            Cell::count(u64::from(m.running)),
            Cell::count(u64::from(m.waiting)),
            Cell::count(m.t0_tokens),
            Cell::count(m.t1_tokens),
            Cell::count(m.t2_tokens),
            Cell::count(m.t3_tokens),
            Cell::gib(m.kv_bytes),
            Cell::gib(m.ddr_bytes),
        ]);
    }
    data
}

fn quality(every: &[&Entry]) -> Section {
    let mut section = Section::new("quality", "Quality");
    for e in every {
        if every.len() > 1 {
            section.text(format!("{}:", e.name()));
        }
        section.list(sentences(e.outcome));
    }
    section
}

/// Numbers and notes.
pub(super) fn numbers(every: &[&Entry]) -> Section {
    let mut section = Section::new("assumptions", "What the numbers rest on");
    let mut notes: Vec<String> = Vec::new();
    for note in every.iter().flat_map(|e| &e.outcome.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    section.list(notes);
    section.folded(rests::table(every));
    section
}

/// Every setting, a column a deployment's.
fn asked(every: &[&Entry]) -> Section {
    let mut section = Section::new("question", "The question");
    let mut data =
        Data::new("settings", "Every setting of the deployments").text("setting", "name");
    for (i, e) in every.iter().enumerate() {
        data = data.text(&e.name(), &format!("value_{i}"));
    }
    let mut names: Vec<&String> = every
        .iter()
        .flat_map(|e| e.outcome.scenario.keys())
        .collect();
    names.sort();
    names.dedup();
    for name in names {
        let values = every.iter().map(|e| e.outcome.scenario.get(name));
        let cells = values.map(|v| v.map_or_else(Cell::none, Cell::text));
        data.row(std::iter::once(Cell::text(name)).chain(cells));
    }
    section.folded(data);
    section
}
