//! Markdown: the same page for a document or a pull request.

use crate::metrics::Outcome;
use crate::plan::answer::Plan;
use crate::sweep::answer::Answer;

use super::document::{Document, Piece, Section};
use super::page::{Block, Grid, Page};
use super::{outcome as outcome_page, plan as plan_page, sweep as sweep_page};

/// An outcome as markdown.
pub fn outcome(outcome: &Outcome) -> String {
    render(&outcome_page::page(outcome))
}

/// An answer as markdown.
pub fn plan(plan: &Plan) -> String {
    render(&plan_page::page(plan))
}

/// A sweep as markdown.
pub fn sweep(answer: &Answer) -> String {
    render(&sweep_page::page(answer))
}

/// A report as markdown: figures as the tables behind them.
pub fn document(document: &Document) -> String {
    let mut blocks = vec![format!("# {}", escape(&document.title))];
    for v in &document.verdicts {
        let of =
            v.of.as_ref()
                .map_or(String::new(), |of| format!("{}: ", escape(of)));
        blocks.push(format!("{of}**{}**", escape(&v.text)));
        if !v.sure.is_empty() {
            blocks.push(block(&Block::List(v.sure.clone())));
        }
    }
    let several = document.parts.len() > 1;
    for part in &document.parts {
        blocks.extend(part.name.as_ref().map(|n| format!("## {}", escape(n))));
        blocks.extend(part.sections.iter().flat_map(|s| section(s, several)));
    }
    blocks.extend(section(&document.again, false));
    blocks.join("\n\n") + "\n"
}

fn section(section: &Section, below: bool) -> Vec<String> {
    let mark = if below { "###" } else { "##" };
    let mut blocks = vec![format!("{mark} {}", escape(&section.title))];
    for piece in &section.pieces {
        match piece {
            Piece::Block(Block::Title(text)) => blocks.push(format!("{mark}# {}", escape(text))),
            Piece::Block(one) => blocks.push(block(one)),
            Piece::Data(data) | Piece::Folded(data) => blocks.push(table(&data.grid())),
            Piece::Figure(f) => {
                blocks.push(format!("{mark}# {}", escape(&f.title)));
                blocks.push(escape(&f.text));
                blocks.push(table(&f.data.grid()));
            }
        }
    }
    blocks
}

/// Any page as markdown.
pub fn render(page: &Page) -> String {
    let blocks: Vec<String> = page.blocks.iter().map(block).collect();
    blocks.join("\n\n") + "\n"
}

fn block(block: &Block) -> String {
    match block {
        Block::Title(text) => format!("## {}", escape(text)),
        Block::Text(text) => escape(text),
        Block::Verdict(text, _) => format!("**{}**", escape(text)),
        Block::Facts(facts) => {
            let mut grid = Grid::new(["", ""]).texts(&[0, 1]);
            for (name, value) in facts {
                grid.row([name, value]);
            }
            table(&grid)
        }
        Block::Grid(grid) => table(grid),
        Block::List(items) => items
            .iter()
            .map(|i| format!("- {}", escape(i)))
            .collect::<Vec<_>>()
            .join("\n"),
        Block::Command(line) => {
            // A fence that nothing in the command can close.
            let fence = "`".repeat(longest_run(line).max(2) + 1);
            format!("{fence}sh\n{line}\n{fence}")
        }
    }
}

/// Backticks in a row, at most.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn table(grid: &Grid) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| escape(c).replace('\n', " ")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<&str> = (0..grid.head.len())
        .map(|i| {
            if grid.text.contains(&i) {
                "---"
            } else {
                "---:"
            }
        })
        .collect();
    let mut lines = vec![line(&grid.head), format!("| {} |", rule.join(" | "))];
    lines.extend(grid.rows.iter().map(|r| line(r)));
    lines.join("\n")
}

/// What markdown would read as markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '<' | '[' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
