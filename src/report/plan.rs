//! The answer of `plan` as a page, in the order in which someone decides: question, verdict, a row a card, memory, does
//! tiering pay, if not in lockstep, quality, what runs it today, what the numbers rest on, what flips it, how wrong.

use crate::plan::answer::{Alternative, Plan, Row, Setting};

use super::cells::{NONE, card, count, figure, gib, rate, size, spaced};
use super::outcome::sentences;
use super::page::{Block, Grid, Mood, Page};
use super::plan_rows as rows;
use super::sure;

/// The page of an answer.
pub fn page(plan: &Plan) -> Page {
    let mut page = Page::default();
    question(&mut page, plan);
    page.title("Verdict");
    let any = plan.rows.iter().any(|r| r.verdict.best.is_some());
    page.push(Block::Verdict(
        plan.verdict.sentence.clone(),
        if any { Mood::Good } else { Mood::Bad },
    ));
    page.list(plan.verdict.in_draws.clone());
    rows::cards(&mut page, plan);
    rows::ways(&mut page, plan);
    sure::section(&mut page, plan);
    memory(&mut page, plan);
    pays(&mut page, plan);
    rows::staggered(&mut page, plan);
    quality(&mut page, plan);
    today(&mut page, plan);
    rows::rests_on(&mut page, plan);
    if !plan.verdict.flips_if.is_empty() {
        page.title("What would flip the verdict");
        page.list(plan.verdict.flips_if.clone());
    }
    rows::errors(&mut page, plan);
    if !plan.notes.is_empty() {
        page.title("Notes");
        page.list(plan.notes.clone());
    }
    page
}

fn question(page: &mut Page, plan: &Plan) {
    page.title("Question");
    page.text(asked(&plan.question));
    let line = |from_default: bool| {
        let of = |s: &&Setting| (s.from == "default") == from_default;
        let words = plan.question.iter().filter(of).map(setting);
        words.collect::<Vec<_>>().join("; ")
    };
    let facts = [("asked", line(false)), ("default", line(true))];
    page.facts(facts.into_iter().filter(|(_, text)| !text.is_empty()));
}

/// A setting with its value, and the file that gave it.
fn setting(s: &Setting) -> String {
    match s.from.as_str() {
        "default" | "flag" => format!("{} {}", s.name, spaced(&s.value)),
        file => format!("{} {} ({file})", s.name, spaced(&s.value)),
    }
}

/// The question in a sentence.
pub(super) fn asked(question: &[Setting]) -> String {
    let get = |name: &str| {
        let found = question.iter().find(|s| s.name == name);
        found.map_or(NONE, |s| s.value.as_str())
    };
    let lengths = match get("prompt") {
        NONE => format!("each as long as {} says", get("occupancy")),
        prompt => format!(
            "{} prompt + {} output tokens each",
            grouped(prompt),
            grouped(get("output"))
        ),
    };
    format!(
        "{} of {}, {}, on {}.",
        if get("batch") == "1" {
            "1 request".to_string()
        } else {
            format!("{} requests at once", get("batch"))
        },
        get("model"),
        lengths,
        get("hardware"),
    )
}

/// Whether requests are of one length, in words.
pub(super) fn lengths(question: &[Setting]) -> String {
    let get = |name: &str| question.iter().find(|s| s.name == name);
    match (get("prompt"), get("occupancy")) {
        (None, Some(file)) => format!("each request at its own length, from {}", file.value),
        _ => "all requests at the same length".into(),
    }
}

/// A count of tokens in groups of three, where it is plain digits.
fn grouped(text: &str) -> String {
    text.parse::<u64>().map_or_else(|_| text.to_string(), count)
}

fn memory(page: &mut Page, plan: &Plan) {
    page.title("Where the memory goes (GiB, all GPUs of a row)");
    for group in rows::chunks(&plan.rows) {
        let mut grid =
            Grid::new(std::iter::once(String::new()).chain(group.iter().map(rows::head)));
        let mut line = |name: &str, cell: &dyn Fn(&Row) -> String| {
            grid.row(std::iter::once(name.to_string()).chain(group.iter().map(cell)));
        };
        let all = |row: &Row, part: fn(&Alternative) -> u64| part_of(row, "all-in-hbm", part);
        let spill = |row: &Row, part: fn(&Alternative) -> u64| part_of(row, "stream", part);
        line("weights", &|r| all(r, |a| a.outcome.memory.weights_bytes));
        line("KV of all requests, full length", &|r| {
            all(r, |a| a.outcome.memory.kv_full_bytes)
        });
        line("activations", &|r| {
            all(r, |a| a.outcome.memory.activation_bytes)
        });
        line("runtime reserve", &|r| {
            all(r, |a| a.outcome.memory.reserve_bytes)
        });
        line("needed", &|r| all(r, |a| a.outcome.memory.hbm_peak_bytes));
        line("usable", &|r| gib(r.hbm_capacity_bytes));
        line("short by", &|r| short(r));
        line("if it spills: KV in HBM", &|r| {
            spill(r, |a| a.outcome.memory.kv_t0_bytes)
        });
        line("  staging in HBM", &|r| {
            spill(r, |a| a.outcome.memory.staging_bytes)
        });
        line("  in host memory, copies of T0 included", &|r| {
            spill(r, |a| a.outcome.memory.ddr_peak_bytes)
        });
        line("  host memory that may be pinned", &|r| {
            spill(r, |a| a.outcome.memory.ddr_capacity_bytes)
        });
        page.grid(grid);
    }
}

fn part_of(row: &Row, name: &str, part: fn(&Alternative) -> u64) -> String {
    rows::find(row, name).map_or_else(|| NONE.into(), |a| gib(part(a)))
}

/// What is missing, or a dash where all fits.
pub(super) fn short(row: &Row) -> String {
    if row.shortfall_bytes == 0 {
        NONE.into()
    } else {
        gib(row.shortfall_bytes)
    }
}

/// When tiering pays.
pub(super) const WHEN_IT_PAYS: &str = "Streaming T1 keeps nobody waiting while it is no more than the link moves in one step (free T1); what remains is \
     to write it to HBM and read it once more. Break-even is the link bandwidth at which this question's spill would be free, and at which streaming equals the best rival.";

fn pays(page: &mut Page, plan: &Plan) {
    page.title("Does tiering pay?");
    page.text(WHEN_IT_PAYS);
    let mut grid = Grid::new([
        "CARD",
        "FREE T1\na step",
        "LINK NEEDED\nto be free",
        "LINK NEEDED\nto equal best",
        "PAYS",
    ])
    .texts(&[0, 4]);
    for row in &plan.rows {
        grid.row([
            card(&row.hardware, row.gpus),
            row.free_t1_bytes.map_or_else(|| NONE.into(), size),
            rate(row.breakeven_free_bytes_per_s),
            rate(row.breakeven_best_bytes_per_s),
            if row.verdict.pays {
                "yes".into()
            } else {
                "no".into()
            },
        ]);
    }
    page.grid(grid);
    let sentence = |r: &Row| format!("{}: {}", card(&r.hardware, r.gpus), r.verdict.sentence);
    page.list(plan.rows.iter().map(sentence).collect());
}

fn quality(page: &mut Page, plan: &Plan) {
    page.title("Quality");
    page.list(said_of_quality(&plan.rows));
}

/// What can be said of the answers' quality, each sentence once.
pub(super) fn said_of_quality<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let spills = |a: &&Alternative| {
        matches!(
            a.name.as_str(),
            "stream" | "staged" | "direct" | "host-attention" | "selective"
        )
    };
    let alternatives = rows.into_iter().flat_map(|r| &r.alternatives);
    for alternative in alternatives.filter(spills) {
        for sentence in sentences(&alternative.outcome) {
            if !items.contains(&sentence) {
                items.push(sentence);
            }
        }
    }
    items.push(
        "fp8 KV and int4 weights change the arithmetic of the model; what that costs in answers is not modelled."
            .into(),
    );
    items
}

fn today(page: &mut Page, plan: &Plan) {
    page.title("What runs it today");
    for row in &plan.rows {
        let best = row
            .verdict
            .best_runnable
            .as_deref()
            .and_then(|name| rows::find(row, name));
        let Some(best) = best else {
            page.text(format!(
                "{}: nothing that is released runs this question.",
                card(&row.hardware, row.gpus)
            ));
            continue;
        };
        let speed = figure(best.outcome.throughput.output_tokens_per_s);
        for run in best.runs_in.iter().take(1) {
            page.text(format!(
                "{}: {} at {speed} tokens/s, in {}:",
                card(&row.hardware, row.gpus),
                best.label,
                run.software
            ));
            page.push(Block::Command(run.command.clone()));
        }
    }
}
