//! What runs it today: the fastest released software a card, with its command line.

use crate::plan::answer::Row;

use super::super::cells::{card, figure};
use super::super::page::Block;
use super::super::plan_rows::find;
use super::{Piece, Section};

/// The section.
pub(super) fn section(rows: &[&Row]) -> Section {
    let mut section = Section::new("today", "What runs it today");
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let name = card(&row.hardware, row.gpus);
        let best = row.verdict.best_runnable.as_deref();
        let Some(best) = best.and_then(|n| find(row, n)) else {
            section.text(format!(
                "{name}: nothing that is released runs this question."
            ));
            continue;
        };
        let speed = figure(best.outcome.throughput.output_tokens_per_s);
        for run in best.runs_in.iter().take(1) {
            let line = format!(
                "{name}: {} at {speed} tokens/s, in {}",
                best.label, run.software
            );
            match said.iter_mut().find(|(c, _)| *c == run.command) {
                Some((_, cards)) => cards.push(line),
                None => said.push((run.command.clone(), vec![line])),
            }
        }
    }
    for (command, cards) in said {
        section.list(cards);
        section.pieces.push(Piece::Block(Block::Command(command)));
    }
    section
}
