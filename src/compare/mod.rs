//! A plan's ledger beside what an engine printed when it started.
//!
//! The pool is what decides how many requests run, and every planner is off by something there, so the difference is broken
//! up: the fraction, the card's memory, weights, activations, what lies outside torch, each with what it does to the pool.
//! Difference is predicted less engine. What the log does not tell apart is told together; what is left over is said to be.
//! Sizes are those of one GPU, tokens those of the whole deployment. Rival: to compare pool with pool, which cannot say why.

pub mod log;
pub mod profiles;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, did_you_mean};
use crate::plan::Plan;
use crate::plan::answer::{Alternative, Row};
use log::{Software, Start};

/// Schema id of [`Comparison`].
pub const SCHEMA: &str = "kvplan/compare/1";

/// A ledger beside an engine's: result of `kvplan compare --format json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `kvplan/compare/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// Who wrote the log.
    pub engine: String,
    /// Its release, where the log says.
    pub engine_version: Option<String>,
    /// Runtime profile of the plan.
    pub runtime: String,
    /// Model id of the plan.
    pub model: String,
    /// Hardware id of the plan's row.
    pub hardware: String,
    /// GPUs of the row.
    pub gpus: u32,
    /// Memory fraction of the engine, where the log says.
    pub engine_memory_fraction: Option<f64>,
    /// Memory fraction of the plan.
    pub predicted_memory_fraction: Option<f64>,
    /// Memory by part.
    pub parts: Vec<Part>,
    /// Tokens of the KV pool.
    pub pool_tokens: Tokens,
    /// What the difference of the KV pool consists of; sums to it where the log has the pool in bytes.
    pub reasons: Vec<Reason>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A part of one GPU's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// What it is.
    pub part: String,
    /// As the engine says.
    pub engine_bytes: Option<i64>,
    /// As predicted.
    pub predicted_bytes: Option<i64>,
    /// Predicted less engine.
    pub difference_bytes: Option<i64>,
}

/// Tokens of the KV pool, all GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// As the engine says.
    pub engine: Option<u64>,
    /// As predicted.
    pub predicted: u64,
    /// Predicted less engine.
    pub difference: Option<i64>,
    /// The same as a share of the engine's.
    pub difference_share: Option<f64>,
}

/// A reason for a difference of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What differs.
    pub reason: String,
    /// What it does to the predicted pool against the engine's, one GPU.
    pub pool_bytes: i64,
}

/// What is predicted for one GPU \[bytes\].
struct Ledger {
    memory: Option<f64>,
    fraction: Option<f64>,
    capacity: f64,
    weights: f64,
    activation: f64,
    reserve: f64,
}

impl Ledger {
    fn of(plan: &Plan, row: &Row, way: &Alternative) -> Self {
        let each = |bytes: u64| bytes as f64 / f64::from(row.gpus.max(1));
        let m = &way.outcome.memory;
        let assumed = &way.outcome.assumptions;
        let memory = assumed.iter().find(|a| a.name == "gpu.memory");
        let fraction = plan.question.iter().find(|s| s.name == "memory-fraction");
        Self {
            memory: memory.map(|a| a.value),
            fraction: fraction.and_then(|s| s.value.parse().ok()),
            capacity: each(m.hbm_capacity_bytes),
            weights: each(m.weights_bytes),
            activation: each(m.activation_bytes),
            reserve: each(m.reserve_bytes),
        }
    }

    fn pool(&self) -> f64 {
        self.capacity - self.weights - self.other()
    }

    fn other(&self) -> f64 {
        self.activation + self.reserve
    }
}

/// Sets a plan beside a start; `hardware` picks the card where the plan has several.
///
/// # Errors
/// Usage: the log is another engine's than the plan's, or it is not clear which card is meant. Data: the plan lacks its
/// ledger.
pub fn compare(plan: &Plan, start: &Start, hardware: Option<&str>) -> Result<Comparison> {
    let row = row(plan, start, hardware)?;
    let way = row.alternatives.iter().find(|a| a.name == "all-in-hbm");
    let way = way.ok_or_else(|| {
        Error::data(format!("the plan's row {} has no ledger", row.hardware))
            .help("make the plan again with this version of kvplan")
    })?;
    let software = start.software().unwrap_or(Software::Vllm);
    if !software.is(&way.outcome.runtime) {
        return Err(Error::usage(format!(
            "the log is of {}, the plan is for runtime `{}`",
            software.name(),
            way.outcome.runtime
        ))
        .help("ask `kvplan plan` again with --runtime of that engine"));
    }
    let ledger = Ledger::of(plan, row, way);
    Ok(Comparison {
        schema: SCHEMA.into(),
        kvplan_version: env!("CARGO_PKG_VERSION").into(),
        engine: software.name().into(),
        engine_version: start.version.clone(),
        runtime: way.outcome.runtime.clone(),
        model: way.outcome.model.clone(),
        hardware: row.hardware.clone(),
        gpus: row.gpus,
        engine_memory_fraction: fraction(start),
        predicted_memory_fraction: ledger.fraction,
        parts: parts(&ledger, start),
        pool_tokens: tokens(row.pool_tokens, start.pool_tokens()),
        reasons: reasons(&ledger, start),
        notes: notes(row, &ledger, start),
    })
}

/// The row that is meant: the one named, the only one, or the only one with the memory that the log states.
fn row<'a>(plan: &'a Plan, start: &Start, hardware: Option<&str>) -> Result<&'a Row> {
    if let Some(name) = hardware {
        is_there(plan, name)?;
    }
    let named = |r: &&Row| hardware.is_none_or(|h| r.hardware == h);
    let alike = |r: &&Row| start.gpus.is_none_or(|n| n == r.gpus);
    let rows: Vec<&Row> = plan.rows.iter().filter(named).filter(alike).collect();
    if let [row] = rows[..] {
        return Ok(row);
    }
    let near = |r: &&&Row| match (memory(r), start.total) {
        (Some(m), Some(t)) => (t / m - 1.0).abs() < 0.03,
        _ => false,
    };
    let close: Vec<&&Row> = rows.iter().filter(near).collect();
    if let [row] = close[..] {
        return Ok(row);
    }
    let cards: Vec<String> = plan
        .rows
        .iter()
        .map(|r| format!("{} x {}", r.gpus, r.hardware))
        .collect();
    let log = start
        .gpus
        .map_or(String::new(), |n| format!(", and the log is of {n} GPUs"));
    Err(Error::usage(format!(
        "which row of the plan the log is of is not clear: it has {}{log}",
        cards.join(", ")
    ))
    .help("name the card with --hardware, or plan for as many GPUs with --gpus"))
}

/// Refuses a card that the plan is not of.
fn is_there(plan: &Plan, name: &str) -> Result<()> {
    let mut cards: Vec<&str> = plan.rows.iter().map(|r| r.hardware.as_str()).collect();
    cards.dedup();
    if cards.contains(&name) {
        return Ok(());
    }
    let error = Error::usage(format!(
        "--hardware {name}: the plan has no such card, it has {}",
        cards.join(", ")
    ));
    Err(match did_you_mean(name, cards) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!(
            "name a card of the plan, or make a plan of this one: kvplan plan --hardware {name} -o plan.json"
        )),
    })
}

/// Usable memory of a row's GPU, as the plan assumed it.
fn memory(row: &Row) -> Option<f64> {
    let way = row.alternatives.first()?;
    let assumed = way.outcome.assumptions.iter();
    let mut memory = assumed.filter(|a| a.name == "gpu.memory").map(|a| a.value);
    memory.next()
}

/// The engine's fraction: as it says, or what it took of what was free.
fn fraction(start: &Start) -> Option<f64> {
    let taken = start
        .pool
        .zip(start.free)
        .filter(|(_, free)| *free > 0.0)
        .map(|(pool, free)| pool / free);
    start.fraction.or(taken)
}

/// What the engine may use: as it says, or its fraction of the memory that it or the plan states.
fn budget(ledger: &Ledger, start: &Start) -> Option<f64> {
    let total = start.total.or(ledger.memory);
    start
        .budget
        .or_else(|| Some(start.fraction? * total?))
        .filter(|_| start.free.is_none())
}

/// Activations and what lies outside torch, together: as the engine says, or what its budget leaves.
fn other(ledger: &Ledger, start: &Start) -> Option<f64> {
    let told = start.activation.zip(start.outside).map(|(a, o)| a + o);
    told.or_else(|| Some(budget(ledger, start)? - start.weights? - start.pool?))
}

#[allow(clippy::cast_possible_truncation)] // sizes of a GPU
fn whole(bytes: f64) -> i64 {
    bytes.round() as i64
}

fn part(name: &str, engine: Option<f64>, predicted: Option<f64>) -> Part {
    Part {
        part: name.into(),
        engine_bytes: engine.map(whole),
        predicted_bytes: predicted.map(whole),
        difference_bytes: engine.zip(predicted).map(|(e, p)| whole(p) - whole(e)),
    }
}

fn parts(ledger: &Ledger, start: &Start) -> Vec<Part> {
    let apart = start.activation.is_some() && start.outside.is_some();
    let mut out = vec![part("memory", start.total, ledger.memory)];
    if let (Some(total), Some(free)) = (start.total, start.free) {
        let fixed = ledger.weights + ledger.other();
        out.push(part(
            "taken before the pool",
            Some(total - free),
            Some(fixed),
        ));
    } else {
        let may = budget(ledger, start);
        out.push(part("may be used", may, Some(ledger.capacity)));
    }
    out.push(part("weights", start.weights, Some(ledger.weights)));
    if apart {
        out.push(part(
            "activations",
            start.activation,
            Some(ledger.activation),
        ));
        out.push(part("outside torch", start.outside, Some(ledger.reserve)));
    } else {
        let both = other(ledger, start).filter(|_| start.free.is_none());
        out.push(part(
            "activations, outside torch",
            both,
            Some(ledger.other()),
        ));
    }
    out.push(part("KV pool", start.pool, Some(ledger.pool())));
    if start.graphs.is_some() {
        out.push(part("graphs, beside the fraction", start.graphs, None));
    }
    out
}

fn tokens(predicted: u64, engine: Option<u64>) -> Tokens {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let ratio = |e: u64| (e > 0).then(|| predicted as f64 / e as f64 - 1.0);
    Tokens {
        engine,
        predicted,
        difference: engine.map(|e| signed(predicted) - signed(e)),
        difference_share: engine.and_then(ratio),
    }
}

/// Less than this is not worth a line \[bytes\].
const SMALL: f64 = (1u64 << 20) as f64;

fn reasons(ledger: &Ledger, start: &Start) -> Vec<Reason> {
    let Some(pool) = start.pool else {
        return Vec::new();
    };
    let mut found = if start.free.is_some() {
        of_free(ledger, start)
    } else {
        of_total(ledger, start)
    };
    let told: f64 = found.iter().map(|(_, bytes)| bytes).sum();
    found.push(("what the log does not tell", ledger.pool() - pool - told));
    let lines = found.into_iter().filter(|(_, bytes)| bytes.abs() >= SMALL);
    lines
        .map(|(reason, bytes)| Reason {
            reason: reason.into(),
            pool_bytes: whole(bytes),
        })
        .collect()
}

/// The pool is a share of the memory, less what else is there.
fn of_total(ledger: &Ledger, start: &Start) -> Vec<(&'static str, f64)> {
    let mut found = Vec::new();
    if let Some(budget) = budget(ledger, start) {
        let fraction = start
            .fraction
            .zip(ledger.fraction)
            .zip(ledger.memory)
            .map_or(0.0, |((engine, ours), memory)| (ours - engine) * memory);
        found.push(("memory fraction", fraction));
        found.push(("memory of the card", ledger.capacity - budget - fraction));
    }
    if let Some(weights) = start.weights {
        found.push(("weights", weights - ledger.weights));
    }
    match (start.activation, start.outside, other(ledger, start)) {
        (Some(activation), Some(outside), _) => {
            found.push(("activations", activation - ledger.activation));
            found.push(("outside torch", outside - ledger.reserve));
        }
        (_, _, Some(both)) => found.push(("activations, outside torch", both - ledger.other())),
        _ => {}
    }
    found
}

/// The pool is a share of what is free.
fn of_free(ledger: &Ledger, start: &Start) -> Vec<(&'static str, f64)> {
    let (Some(free), Some(engine)) = (start.free, fraction(start)) else {
        return Vec::new();
    };
    let ours = ledger.fraction.unwrap_or(engine);
    let expected = ledger.memory.unwrap_or(free) - ledger.weights - ledger.other();
    vec![
        ("memory fraction", (ours - engine) * free),
        ("free before the pool", ours * (expected - free)),
    ]
}

fn notes(row: &Row, ledger: &Ledger, start: &Start) -> Vec<String> {
    let mut out = Vec::new();
    if let (Some(engine), Some(ours)) = (fraction(start), ledger.fraction)
        && (engine - ours).abs() > 0.005
    {
        out.push(format!(
            "the engine ran at a memory fraction of {engine:.2}, the plan asks for {ours}: --memory-fraction {engine:.2} makes them alike"
        ));
    }
    let tokens = start.pool_tokens().filter(|n| *n > 0);
    if let (Some(pool), Some(n)) = (start.pool.filter(|p| *p > 0.0), tokens)
        && row.pool_tokens > 0
    {
        let gpus = f64::from(row.gpus);
        let engine = pool * gpus / n as f64;
        let ours = ledger.pool() * gpus / row.pool_tokens as f64;
        if (engine / ours - 1.0).abs() > 0.05 {
            out.push(format!(
                "a token takes {engine:.0} bytes in the engine and {ours:.0} in the plan: is it another KV format, model or length of a page?"
            ));
        }
    }
    if start.pool.is_some_and(|p| p <= 0.0) {
        out.push("the engine has no memory left for KV: it does not start like this".into());
    }
    out
}
