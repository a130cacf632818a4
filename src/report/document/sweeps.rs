//! A sweep: every cell in a table, the front marked, figures of a few cells.

use crate::metrics::Outcome;
use crate::sweep::answer::{Answer, Cell as Place};

use super::super::sweep::refusals;
use super::data::{Cell, Data};
use super::entry::Entry;
use super::figure::Standing;
use super::outcomes::{figures, numbers};
use super::{Section, questions, speed};

/// Cells that have bars of their own.
const SHOWN: usize = 12;

/// The cells that ran, as entries.
fn entries(answer: &Answer) -> Vec<Entry<'_>> {
    let ran = answer
        .cells
        .iter()
        .filter_map(|c| Some((c, c.outcome.as_ref()?)));
    ran.map(|(cell, outcome)| {
        let values = answer.vary.iter().filter(|a| a.name != "hardware");
        let values: Vec<&str> = values
            .filter_map(|a| cell.vary.get(&a.name))
            .map(String::as_str)
            .collect();
        let mut entry = Entry::run(outcome, values.join(", "));
        if cell.pareto == Some(true) {
            entry.standing = Standing::Front;
        }
        entry
    })
    .collect()
}

/// Cells with bars: those on the front, else the first.
fn few<'e, 'a>(every: &[&'e Entry<'a>]) -> Vec<&'e Entry<'a>> {
    let front: Vec<&Entry> = every
        .iter()
        .copied()
        .filter(|e| e.standing == Standing::Front)
        .collect();
    let from = if front.is_empty() { every } else { &front[..] };
    from.iter().copied().take(SHOWN).collect()
}

/// The sections.
pub(super) fn sections(answer: &Answer) -> Vec<Section> {
    let entries = entries(answer);
    let every: Vec<&Entry> = entries.iter().collect();
    let mut cells = Section::new("cells", "Cells");
    cells.data(table(answer));
    cells.list(refusals(answer));
    let mut list = vec![cells];
    let few = few(&every);
    let [mut memory, _, step, tiers] = figures(&few);
    if few.len() < every.len() {
        memory.text(format!(
            "Bars here and below are of {} cells of {}: {}.",
            few.len(),
            every.len(),
            if few.first().is_some_and(|e| e.standing == Standing::Front) {
                "those on the front, in their order"
            } else {
                "the first in their order"
            }
        ));
    }
    let mut throughput = Section::new("throughput", "Throughput against HBM");
    throughput.figure(speed::figure(&every));
    list.extend([throughput, memory, step, tiers]);
    let mut numbers = numbers(&every);
    numbers.list(answer.notes.clone());
    list.push(numbers);
    let mut asked = Section::new("question", "The question");
    if let Some(equal) = &answer.equal {
        asked.text(format!("Policies are equal in {}.", equal.definition));
    }
    asked.folded(questions::settings(&answer.question));
    list.push(asked);
    list
}

fn table(answer: &Answer) -> Data {
    let mut data = Data::new("cells", "Every cell");
    for axis in &answer.vary {
        data = data.text(&axis.name, &axis.name);
    }
    let varied = answer.vary.len();
    let mut data = data
        .text("front", "pareto")
        .text("solved", "equal.value")
        .text("fits", "fits")
        .figure("tokens/s", "output_tokens_per_s")
        .figure("time per token", "tpot_mean_s")
        .figure("HBM, GiB", "hbm_peak_bytes")
        .figure("moved, GiB", "hbm_saved_moved_bytes")
        .figure("gone, GiB", "hbm_saved_destroyed_bytes")
        .figure("destroyed", "destroyed_share")
        .figure("attention on destroyed", "destroyed_mass_mean");
    data.filters = (0..varied).chain([varied, varied + 2]).collect();
    for cell in &answer.cells {
        let mut row: Vec<Cell> = answer.vary.iter().map(|a| value(cell, &a.name)).collect();
        row.push(cell.pareto.map_or_else(Cell::none, Cell::yes));
        row.push(cell.equal.as_ref().map_or_else(Cell::none, |s| {
            Cell::text(format!("{} = {}", s.parameter, s.value))
        }));
        row.extend(outcome(cell.outcome.as_ref()));
        data.row(row);
    }
    data.without_empty("pareto").without_empty("equal.value")
}

fn value(cell: &Place, key: &str) -> Cell {
    cell.vary.get(key).map_or_else(Cell::none, Cell::text)
}

fn outcome(outcome: Option<&Outcome>) -> Vec<Cell> {
    let Some(o) = outcome else {
        let mut row = vec![Cell::text("refused")];
        row.extend((0..7).map(|_| Cell::none()));
        return row;
    };
    vec![
        Cell::yes(o.fits),
        Cell::figure(o.throughput.output_tokens_per_s),
        Cell::time(o.throughput.tpot_mean_s),
        Cell::gib(o.memory.hbm_peak_bytes),
        Cell::signed_gib(Some(o.memory.hbm_saved_moved_bytes)),
        Cell::signed_gib(Some(o.memory.hbm_saved_destroyed_bytes)),
        Cell::share(Some(o.quality.destroyed_share)),
        Cell::share(o.quality.destroyed_mass_mean),
    ]
}
