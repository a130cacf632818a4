//! `e2e_published.csv`: throughputs and times that vendors and users publish, by engine.
//!
//! Maximum throughput is the steady state of as many requests as the KV pool holds; a static batch has its prefill and
//! then its steps; batch 1 is a step; a first token is a prefill. Rows with an arrival rate need arrivals. Lengths that a
//! row leaves out are taken as a prompt of 128 and an output of 128 tokens: they hardly matter at batch 1.

use super::super::machine::Setup;
use super::super::names::short;
use super::super::sheet::{Line, Sheet};
use super::super::steady::{self, Load};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, MOST_TOKENS, kv, weights};
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
    cases,
};

/// Requests that TensorRT-LLM runs at once at most, by default.
const MOST_RUNNING: u32 = 2048;

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
        memory_fraction: 0.95,
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
        Asked::Throughput => steady::steady(prepared, load).map_or(f64::NAN, |s| s.throughput),
        Asked::Batch => {
            let m = f64::from(load.offered);
            let output = f64::from(load.output);
            m * output / (m * first() + output * steady::step(prepared, load.offered, middle))
        }
        Asked::Decode => 1.0 / steady::step(prepared, 1, middle),
        Asked::PrefillRate => f64::from(load.prompt) / first(),
        Asked::FirstToken => 1e3 * first(),
    }
}
