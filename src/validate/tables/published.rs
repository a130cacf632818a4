//! `e2e_published.csv`: throughputs and times that vendors and users publish, by engine.
//!
//! Maximum throughput is a run of the vendor's number of requests, all there at once, with as many running as the KV pool
//! holds at a memory fraction of 0.95; a static batch is one wave; batch 1 is a step; a first token is a prefill. Rows with
//! an arrival rate need arrivals. Lengths that a row leaves out are taken as a prompt of 128 and an output of 128 tokens:
//! they hardly matter at batch 1.

use super::super::machine::Setup;
use super::super::names::short;
use super::super::sheet::{Line, Sheet};
use super::super::steady::{self, Load};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_TOKENS, Scope, kv, weights};
use crate::error::Result;
use crate::model::{KvFormat, WeightFormat};
use crate::service::Prepared;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "e2e_published.csv",
    columns: &[
        "gpu",
        "model",
        "n_gpu",
        "tp",
        "weight_fmt",
        "kv_fmt",
        "engine",
        "scenario",
        "batch_or_concurrency",
        "isl",
        "osl",
        "metric",
        "value",
    ],
    scope: Scope::Server,
    cases,
};

/// Requests that TensorRT-LLM runs at once at most, by default.
const MOST_RUNNING: u32 = 2048;

/// Memory fraction of such runs.
const FRACTION: f64 = 0.95;

/// Requests of a run of maximum throughput, by prompt and output (recipe of the vendor's tables).
fn requests(load: Load) -> u32 {
    match (load.prompt, load.output) {
        (128, 128) => 30_000,
        (128 | 500 | 1000 | 2048, 128 | 1000 | 2000) | (128, 2048) => 3000,
        (20_000, _) => 1000,
        _ => 1500,
    }
}

/// Length that a row does not state \[tokens\].
const USUAL: u32 = 128;

const METRICS: [&str; 6] = [
    "output_throughput",
    "decode_speed",
    "prefill_speed",
    "ttft_mean",
    "itl_mean",
    "ttft",
];

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    sheet.lines().map(|line| case(line, stock)).collect()
}

fn case(line: Line<'_>, stock: &mut Stock) -> Result<Case> {
    let metric = line.text("metric")?;
    let Some(metric) = METRICS.iter().find(|m| **m == metric) else {
        return Err(line
            .fault("metric", "is not a known figure")
            .help(format!("one of: {}", METRICS.join(", "))));
    };
    Ok(Case {
        line: line.number,
        metric,
        gpu: line.text("gpu")?.into(),
        framework: line.text("engine")?.into(),
        model: line.text("model")?.into(),
        measured: line.positive("value")?,
        fits: None,
        law: law(line, stock)?,
    })
}

/// What a scenario asks for.
#[derive(Clone, Copy)]
enum Asked {
    Throughput,
    Batch,
    Decode,
    PrefillRate,
    FirstToken,
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let asked = match (line.text("scenario")?, line.text("metric")?) {
        ("online", _) => return Ok(Err("needs arrivals".into())),
        ("offline_max", "output_throughput") => Asked::Throughput,
        ("static_batch", "output_throughput") => Asked::Batch,
        ("batch1", "decode_speed") => Asked::Decode,
        ("batch1", "prefill_speed") => Asked::PrefillRate,
        (_, "ttft") => Asked::FirstToken,
        (scenario, metric) => {
            return Ok(Err(format!(
                "{} of {} is not modelled",
                short(metric),
                short(scenario)
            )));
        }
    };
    let offered = match line.text("batch_or_concurrency")? {
        "max" => MOST_RUNNING,
        _ => line.whole("batch_or_concurrency", MOST_BATCH)?,
    };
    let load = Load {
        offered,
        prompt: length(line, "isl")?,
        output: length(line, "osl")?,
    };
    let gpus = line.whole("tp", MOST_GPUS)?;
    let family = or_reason!(stock.machine(line.text("gpu")?, line.text("engine")?)?);
    let model = or_reason!(stock.model(line.text("model")?)?);
    let weights = or_reason!(weights(line.text("weight_fmt")?));
    let kv = match line.text("kv_fmt")? {
        "" if weights == WeightFormat::Fp8 => KvFormat::Fp8,
        text => or_reason!(kv(text)),
    };
    let setup = Setup {
        model,
        gpus,
        weights,
        kv,
        memory_fraction: FRACTION,
    };
    Ok(Ok(Law::new(family, move |m| {
        let prepared = Prepared::new(&m.deploy(&setup));
        figure(&prepared, asked, load)
    })))
}

/// A length as tables write it: `~500`; blank and 0 are unknown.
fn length(line: Line<'_>, column: &str) -> Result<u32> {
    match line.text(column)?.trim_start_matches('~') {
        "" | "0" => Ok(USUAL),
        text => match text.parse::<u32>() {
            Ok(n) if (1..=MOST_TOKENS).contains(&n) => Ok(n),
            _ => Err(line.fault(column, "is not a number of tokens")),
        },
    }
}

fn figure(prepared: &Prepared, asked: Asked, load: Load) -> f64 {
    let middle = f64::from(load.prompt) + 0.5 * f64::from(load.output);
    let first = || prepared.prefill(&[(0, load.prompt)]);
    match asked {
        Asked::Throughput => {
            let count = requests(load);
            let seconds = steady::makespan(prepared, load, count).unwrap_or(f64::NAN);
            f64::from(count) * f64::from(load.output) / seconds
        }
        Asked::Batch => {
            let tokens = f64::from(load.offered) * f64::from(load.output);
            tokens / steady::wave(prepared, load.offered, load)
        }
        Asked::Decode => 1.0 / prepared.step(1, middle),
        Asked::PrefillRate => f64::from(load.prompt) / first(),
        Asked::FirstToken => 1e3 * first(),
    }
}
