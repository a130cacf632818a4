//! The tables of an answer that set cards and alternatives side by side.

use crate::metrics::Assumption;
use crate::plan::answer::{Alternative, Plan, Row};

use super::cells::{NONE, card, count, figure, letter, value};
use super::page::{Grid, Page};
use super::plan::{lengths, short};

/// Cards side by side that fit 100 columns.
const SIDE_BY_SIDE: usize = 4;

/// Rows in groups that fit side by side.
pub(super) fn chunks(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunks(SIDE_BY_SIDE)
}

/// The head of a card's column.
pub(super) fn head(row: &Row) -> String {
    card(&row.hardware, row.gpus)
}

/// An alternative by name.
pub(super) fn find<'a>(row: &'a Row, name: &str) -> Option<&'a Alternative> {
    row.alternatives.iter().find(|a| a.name == name)
}

/// Whether an engine cannot hold even one request; what must hold all of them merely does not fit.
fn cannot_start(a: &Alternative) -> bool {
    !a.starts && a.name != "all-in-hbm"
}

/// Tokens/s of an alternative in a narrow cell.
pub(super) fn speed(row: &Row, name: &str) -> String {
    match find(row, name) {
        None => NONE.into(),
        Some(a) if cannot_start(a) => "cannot start".into(),
        Some(a) if a.outcome.throughput.output_tokens_per_s.is_none() => "no fit".into(),
        Some(a) => {
            let speed = figure(a.outcome.throughput.output_tokens_per_s);
            match a.outcome.preemptions {
                0 if a.name == "smaller-batch" => format!("{speed} (batch {})", a.outcome.batch),
                0 => speed,
                _ => format!("{speed} *"),
            }
        }
    }
}

/// A row a card.
pub(super) fn cards(page: &mut Page, plan: &Plan) {
    let lengths = lengths(&plan.question);
    page.title(format!(
        "By card (output tokens/s over the whole run, {lengths})"
    ));
    let mut grid = Grid::new([
        "CARD",
        "HOLDS\ntokens",
        "SHORT\nGiB",
        "ALL IN\nHBM",
        "ENGINE\ntoday",
        "SPILL\nstream",
        "SPILL\nstaged",
        "SPILL\nhost",
        "BEST THAT RUNS\ntoday",
    ])
    .texts(&[0, 8]);
    for row in &plan.rows {
        let best = row.verdict.best_runnable.as_deref();
        grid.row([
            head(row),
            count(row.holds_tokens_per_request),
            short(row),
            speed(row, "all-in-hbm"),
            speed(row, "engine"),
            speed(row, "stream"),
            speed(row, "staged"),
            speed(row, "host-attention"),
            best.and_then(|name| find(row, name)).map_or_else(
                || "nothing".into(),
                |a| {
                    let speed = figure(a.outcome.throughput.output_tokens_per_s);
                    format!("{speed} {}", a.label)
                },
            ),
        ]);
    }
    page.grid(grid);
    page.text(explained(&plan.rows.iter().collect::<Vec<_>>()));
}

/// Explains the marks that tables of these rows use.
pub(super) fn explained(rows: &[&Row]) -> String {
    let mut parts = vec![
        "HOLDS: tokens a request may reach with everything in HBM, all requests alike.".to_string(),
    ];
    let all = || rows.iter().flat_map(|r| &r.alternatives);
    if all().any(|a| a.outcome.preemptions > 0) {
        parts.push("*: preempts requests and recomputes them later.".into());
    }
    if all().any(|a| !cannot_start(a) && a.outcome.throughput.output_tokens_per_s.is_none()) {
        parts.push("no fit: short of memory without spilling.".into());
    }
    if all().any(cannot_start) {
        parts.push("cannot start: what must stay in HBM does not fit (for the engine, one request; for a spill, the protected tokens and staging of all), or what leaves it does not fit in host memory.".into());
    }
    parts.join(" ")
}

/// Every alternative on every card.
pub(super) fn ways(page: &mut Page, plan: &Plan) {
    page.title("Every way to run it (output tokens/s)");
    for group in chunks(&plan.rows) {
        page.grid(side_by_side(group, speed));
    }
    page.list(remarks(plan));
}

/// What qualifies an alternative, each remark once; the shortfall has its own column.
fn remarks(plan: &Plan) -> Vec<String> {
    let mut said: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for row in &plan.rows {
        for a in row.alternatives.iter().filter(|a| a.name != "all-in-hbm") {
            let Some(remark) = a.remark.as_deref() else {
                continue;
            };
            match said
                .iter_mut()
                .find(|(n, r, _)| *n == a.name && *r == remark)
            {
                Some((_, _, cards)) => cards.push(head(row)),
                None => said.push((&a.name, remark, vec![head(row)])),
            }
        }
    }
    let has = |name: &str| plan.rows.iter().filter(|r| find(r, name).is_some()).count();
    let sentence = |(name, remark, cards): &(&str, &str, Vec<String>)| match cards.len() {
        n if n == has(name) => format!("{}: {remark}", title(name)),
        _ => format!("{} on {}: {remark}", title(name), cards.join(", ")),
    };
    said.iter().map(sentence).collect()
}

/// The same with requests at independent phases.
pub(super) fn staggered(page: &mut Page, plan: &Plan) {
    let any = plan
        .rows
        .iter()
        .flat_map(|r| &r.alternatives)
        .any(|a| a.staggered.is_some());
    if !any {
        return;
    }
    page.title("If not in lockstep: requests at independent phases (output tokens/s)");
    for group in chunks(&plan.rows) {
        page.grid(side_by_side(group, |row, name| {
            let Some(alternative) = find(row, name) else {
                return NONE.into();
            };
            match &alternative.staggered {
                None if cannot_start(alternative) => "cannot start".into(),
                None => NONE.into(),
                Some(s) => match s.output_tokens_per_s {
                    None => "no fit".into(),
                    Some(speed) if s.preemptions > 0 => format!("{} *", figure(Some(speed))),
                    Some(speed) => figure(Some(speed)),
                },
            }
        }));
    }
}

/// Alternatives down, cards across.
fn side_by_side(group: &[Row], cell: impl Fn(&Row, &str) -> String) -> Grid {
    let mut grid = Grid::new(std::iter::once(String::new()).chain(group.iter().map(head)));
    let mut names: Vec<&str> = Vec::new();
    for alternative in group.iter().flat_map(|r| &r.alternatives) {
        if !names.contains(&alternative.name.as_str()) {
            names.push(&alternative.name);
        }
    }
    for name in names {
        let cells = group.iter().map(|r| cell(r, name));
        grid.row(std::iter::once(title(name).to_string()).chain(cells));
    }
    grid
}

/// An alternative for people.
fn title(name: &str) -> &str {
    match name {
        "all-in-hbm" => "all in HBM",
        "engine" => "engine as it is",
        "smaller-batch" => "smaller batch",
        "fp8-kv" => "8-bit KV (fp8; llama.cpp: q8_0)",
        "int4-weights" => "int4 weights (another model)",
        "twice-the-gpus" => "twice the GPUs",
        "weights-in-ddr" => "weights in DDR, streamed",
        "stream" => "spill, streamed",
        "staged" => "spill, staged",
        "direct" => "spill, read in place",
        "host-attention" => "spill, host attention",
        "selective" => "spill, selective (not exact)",
        other => other,
    }
}

/// The numbers behind the answer, cards side by side, each with the letter of its source.
pub(super) fn rests_on(page: &mut Page, plan: &Plan) {
    page.title("What the numbers rest on");
    for group in chunks(&plan.rows) {
        let lists: Vec<Vec<&Assumption>> = group.iter().map(numbers).collect();
        let mut names: Vec<&str> = Vec::new();
        for a in lists.iter().flatten() {
            if !names.contains(&a.name.as_str()) {
                names.push(&a.name);
            }
        }
        let mut grid = Grid::new(std::iter::once(String::new()).chain(group.iter().map(head)));
        for name in names {
            let cells = lists.iter().map(|list| {
                let found = list.iter().find(|a| a.name == name);
                found.map_or_else(
                    || NONE.into(),
                    |a| format!("{} {}", value(a.value, &a.unit), letter(a.source)),
                )
            });
            grid.row(std::iter::once(name.to_string()).chain(cells));
        }
        page.grid(grid);
    }
    let uncalibrated = plan.rows.iter().filter(|r| !r.calibrated).count();
    let calibrated = match uncalibrated {
        0 => "Every card here is calibrated.",
        n if n == plan.rows.len() => {
            "No card here is calibrated as a whole: m is what others measured on such a card, unless `calibrate` measured it."
        }
        _ => {
            "Some cards are calibrated; for the others m is what others measured on such a card, unless `calibrate` measured it."
        }
    };
    page.text(format!(
        "m measured, d datasheet, p published, a assumed. {calibrated} Ranges and references: `kvplan show hardware NAME`, \
         or `kvplan explain RESULT KEY` on a saved answer."
    ));
}

/// Every number of a row's alternatives, each once.
fn numbers(row: &Row) -> Vec<&Assumption> {
    let mut list: Vec<&Assumption> = Vec::new();
    for a in row.alternatives.iter().flat_map(|a| &a.outcome.assumptions) {
        if !list.iter().any(|known| known.name == a.name) {
            list.push(a);
        }
    }
    list
}

/// How far predictions were off: what `validate` found, by card.
pub(super) fn errors(page: &mut Page, plan: &Plan) {
    page.title("Expected error (|predicted / measured - 1|: median, and what one in ten exceeds)");
    let mut grid = Grid::new([
        "CARD",
        "KERNELS",
        "DECODE STEP",
        "1 IN 10",
        "SERVER'S TPOT",
        "1 IN 10",
    ])
    .texts(&[0, 1]);
    let percent = |share: Option<f64>| share.map_or(NONE.into(), |s| format!("{:.0} %", 100.0 * s));
    for e in &plan.expected_errors {
        grid.row([
            e.hardware.clone(),
            match e.basis.as_str() {
                "calibrated" => "calibrated here",
                "fitted" => "measured",
                _ => "as other cards'",
            }
            .into(),
            percent(e.step_median_abs_rel_error),
            percent(e.step_p90_abs_rel_error),
            percent(e.tpot_median_abs_rel_error),
            percent(e.tpot_p90_abs_rel_error),
        ]);
    }
    page.grid(grid);
    page.text(plan.expected_error.clone());
}
