//! `serving_summary.csv`: whole runs of a server under recorded arrivals, each with the workload file that its tag names.
//!
//! A tag that holds `llama`, `q32` or `q30` (or the model's own spelling) goes with the `workload_*.jsonl` beside the table
//! whose name holds the same. `setup` says the card and how it is divided: `TP2`, `DP2`, `EP`. Times count from a request's
//! coming to the engine, as the recorded runs do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::machine::Setup;
use super::super::names;
use super::super::served::{self, Division, Figures, Service};
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_TOKENS, Scope, kv, weights};
use crate::error::Result;
use crate::workload::Recorded;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "serving_summary.csv",
    columns: &[
        "setup",
        "model",
        "vllm",
        "out_tok_s",
        "ttft_mean_ms",
        "tpot_mean_ms",
    ],
    scope: Scope::Server,
    cases,
};

/// A measured column and what it is of a run.
type Figure = (&'static str, fn(&Figures) -> f64);

const FIGURES: [Figure; 8] = [
    ("makespan_s", |f| f.makespan),
    ("out_tok_s", |f| f.throughput),
    ("ttft_mean_ms", |f| 1e3 * f.ttft[0]),
    ("ttft_p50_ms", |f| 1e3 * f.ttft[1]),
    ("ttft_p99_ms", |f| 1e3 * f.ttft[2]),
    ("tpot_mean_ms", |f| 1e3 * f.tpot[0]),
    ("tpot_p50_ms", |f| 1e3 * f.tpot[1]),
    ("tpot_p99_ms", |f| 1e3 * f.tpot[2]),
];

/// Spellings of a workload in tags, and in the names of files.
const WORKLOADS: [(&[&str], &str); 3] = [
    (&["llama"], "llama"),
    (&["q32", "32b"], "q32"),
    (&["q30", "30b"], "q30"),
];

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for line in sheet.lines() {
        let run = run(line, sheet, stock)?;
        for figure in FIGURES {
            // Two of them not every table has.
            if line.maybe(figure.0).is_empty() {
                continue;
            }
            all.push(case(line, figure, &run)?);
        }
    }
    Ok(all)
}

/// A machine and what it is asked.
type Run = (Arc<super::Family>, Arc<Service>);

fn case(line: Line<'_>, figure: Figure, run: &std::result::Result<Run, Reason>) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: figure.0,
        gpu: line.text("setup")?.into(),
        framework: format!("vLLM {}", line.text("vllm")?),
        model: line.text("model")?.into(),
        measured: line.positive(figure.0)?,
        fits: None,
        law: run.clone().map(|(family, service)| {
            Law::new(family, move |m| {
                served::figures(m, &service).map_or(f64::NAN, |f| figure.1(&f))
            })
        }),
    })
}

fn run(
    line: Line<'_>,
    sheet: &Sheet,
    stock: &mut Stock,
) -> Result<std::result::Result<Run, Reason>> {
    let Some((gpu, division)) = setup(line.text("setup")?) else {
        return Ok(Err("the setup names no card of the catalog".into()));
    };
    let family = or_reason!(stock.machine(&gpu, &format!("vllm {}", line.text("vllm")?))?);
    let model = or_reason!(stock.model(line.text("model")?)?);
    if division.gpus > MOST_GPUS || division.replicas > MOST_GPUS {
        return Ok(Err("more GPUs than a table may name".into()));
    }
    let Some(path) = workload(&sheet.folder, line.maybe("tag")) else {
        return Ok(Err(
            "needs arrivals: no workload file beside the table goes with its tag".into(),
        ));
    };
    let said = |column: &str, most: u32| match line.maybe(column) {
        "" => Ok(None),
        _ => line.whole(column, most).map(Some),
    };
    let service = Service {
        setup: Setup {
            model,
            gpus: division.gpus,
            weights: or_reason!(weights(match line.maybe("dtype") {
                "bfloat16" | "auto" => "bf16",
                "float16" => "fp16",
                other => other,
            })),
            kv: or_reason!(kv(match line.maybe("kv_dtype") {
                "bf16" | "bfloat16" | "auto" => "",
                other => other,
            })),
            memory_fraction: line.maybe("gpu_memory_utilization").parse().unwrap_or(0.9),
        },
        division,
        max_running: said("max_num_seqs", MOST_BATCH)?,
        token_budget: said("max_num_batched_tokens", MOST_TOKENS)?,
        ahead: match line.maybe("async_scheduling") {
            "" => None,
            word => Some(word.eq_ignore_ascii_case("true")),
        },
        prefix_cache: line.maybe("prefix_caching").eq_ignore_ascii_case("true"),
        load: Recorded::read(&path)?,
    };
    Ok(Ok((family, Arc::new(service))))
}

/// Card and division of `1x RTX PRO 6000 Blackwell Server, TP1`.
fn setup(text: &str) -> Option<(String, Division)> {
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next()?;
    let card = first
        .split_once("x ")
        .filter(|(n, _)| n.parse::<u32>().is_ok())
        .map_or(first, |(_, card)| card);
    let words: Vec<&str> = card.split_whitespace().collect();
    // The catalog may know it by a shorter name.
    let gpu = (1..=words.len())
        .rev()
        .map(|n| words[..n].join(" "))
        .find(|name| names::hardware(name).is_some())?;
    let mut division = Division::default();
    for word in parts.flat_map(|p| p.split([' ', '+', '/', '-'])) {
        let number = |name: &str| {
            word.strip_prefix(name)?
                .trim_start_matches('=')
                .parse::<u32>()
                .ok()
        };
        if let Some(n) = number("TP").filter(|n| *n > 0) {
            division.gpus = n;
        } else if let Some(n) = number("DP").filter(|n| *n > 0) {
            division.replicas = n;
        } else if word.starts_with("EP") {
            division.experts = true;
        }
    }
    Some((gpu, division))
}

/// The workload file of a tag.
fn workload(folder: &Path, tag: &str) -> Option<PathBuf> {
    let tag = tag.to_ascii_lowercase();
    let (_, name) = WORKLOADS
        .iter()
        .find(|(spelt, _)| spelt.iter().any(|s| tag.contains(s)))?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            let file = p.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
            let lines = p.extension().is_some_and(|e| e == "jsonl");
            lines && file.starts_with("workload_") && file.contains(name)
        })
        .collect();
    files.sort();
    files.into_iter().next()
}
