//! The tables that are known, one file each: which columns are configuration, which are measured, and the law between.
//!
//! A table turns its lines into cases: a measured figure and either a law, a function of the machine in the figure's own
//! unit, or the reason why there is none. A law calls `service`; no formula of a kernel stands here.

/// Unwraps the value or makes the reason the law's.
macro_rules! or_reason {
    ($value:expr) => {
        match $value {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

mod allreduce;
mod attention;
mod cpu;
mod linear;
mod prefill;
mod prototype;
mod published;
mod serving;
mod silicon;
mod step;
mod transfers;
mod vidur;

use std::sync::Arc;

use super::machine::{Family, Machine, Scope};
use super::names::short;
use super::sheet::{Line, Sheet};
use super::stock::{Reason, Stock};
use crate::error::Result;
use crate::model::{KvFormat, Matrix, WeightFormat};
use crate::service::linear as linear_law;

/// Most GPUs that a row may name.
const MOST_GPUS: u32 = 1024;
/// Longest sequence.
const MOST_TOKENS: u32 = 1 << 26;
/// Largest batch or number of rows.
const MOST_BATCH: u32 = 1 << 22;
/// Widest matrix.
const MOST_WIDTH: u32 = 1 << 22;

/// A kind of table.
pub struct Kind {
    /// How its file's name ends.
    pub ending: &'static str,
    /// Columns that it must have.
    pub columns: &'static [&'static str],
    /// What its figures are of.
    pub scope: Scope,
    /// Its lines as cases.
    pub cases: fn(&Sheet, &mut Stock) -> Result<Vec<Case>>,
}

/// A measured figure and the law for it.
pub struct Case {
    /// Line in the file.
    pub line: u64,
    /// Column of the figure.
    pub metric: &'static str,
    /// GPU as spelt.
    pub gpu: String,
    /// Software or source.
    pub framework: String,
    /// Model or shape.
    pub model: String,
    /// Measured, in the file's unit.
    pub measured: f64,
    /// The law of a kernel that such a figure fits, where it is one call of one kernel.
    pub fits: Option<Fits>,
    /// The law, or why there is none.
    pub law: std::result::Result<Law, Reason>,
}

/// A law of a kernel that `fit` fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fits {
    /// Decode attention over 16-bit KV, of the usual family or of another.
    Attention(Option<&'static str>),
    /// The same over 8-bit KV.
    Attention8Bit,
    /// Linear layers with 16-bit weights.
    Linear,
    /// The same with 8-bit weights.
    Linear8Bit,
    /// Attention of prefill.
    Prefill,
    /// The routed experts of a layer, which follow the law of linear layers with a spread of their own.
    Experts,
}

/// A function of a machine, in the unit of the figure.
pub struct Law {
    /// The machine and its variants.
    pub family: Arc<Family>,
    /// The function.
    pub of: Box<dyn Fn(&Machine) -> f64 + Send + Sync>,
}

impl Law {
    fn new(family: Arc<Family>, of: impl Fn(&Machine) -> f64 + Send + Sync + 'static) -> Self {
        Self {
            family,
            of: Box::new(of),
        }
    }
}

/// All of them, in the order of the answer.
pub const KNOWN: &[Kind] = &[
    attention::KIND,
    linear::KIND,
    vidur::KIND,
    prefill::KIND,
    step::KIND,
    cpu::KIND,
    allreduce::KIND,
    transfers::KIND,
    silicon::KIND,
    published::KIND,
    serving::KIND,
    prototype::KIND,
];

/// Tables of which a row is one call of a kernel, by the end of their names.
pub const OPERATORS: [&str; 4] = [
    attention::KIND.ending,
    linear::KIND.ending,
    vidur::KIND.ending,
    prefill::KIND.ending,
];

/// One matrix of a rank for `rows` tokens, in microseconds; `warm` where a bench cycles through copies of it.
fn product(
    family: Arc<Family>,
    format: WeightFormat,
    matrix: Matrix,
    warm: bool,
    rows: f64,
) -> Law {
    Law::new(family, move |m| {
        let split = linear_law::Split {
            gpus: 1.0,
            kernels: m.runtime.kernel_share.get(),
            warm,
            routing: linear_law::Routing::default(),
        };
        1e6 * linear_law::matrix(&m.hardware.gpu, &format, &matrix, split, rows)
    })
}

/// Heads of queries, heads of KV and width of a head, from `32/8/128`.
fn heads(line: Line<'_>, column: &str) -> Result<[u32; 3]> {
    let parts: Vec<Option<u32>> = line
        .text(column)?
        .split('/')
        .map(|p| p.parse().ok().filter(|n| (1..=1 << 16).contains(n)))
        .collect();
    match parts[..] {
        [Some(query), Some(kv), Some(width)] => Ok([query, kv, width]),
        _ => Err(line.fault(column, "is not query heads/KV heads/width of a head")),
    }
}

/// A weight format as tables write it: `F16 (14.96GB)`, `GPTQ4 g128`, `int4(AWQ)`; blank is bf16.
fn weights(text: &str) -> std::result::Result<WeightFormat, Reason> {
    let text = text.trim().to_ascii_lowercase();
    if text.contains("see note") {
        return Err("label contradicts the memory bandwidth (VALIDATION trap 7)".into());
    }
    if text.contains("on cpu") {
        return Err("part of it lies in host memory; the row does not say how much".into());
    }
    let word = text.split([' ', '(', ',']).next().unwrap_or_default();
    Ok(match word {
        "" | "bf16" => WeightFormat::Bf16,
        "fp16" | "f16" => WeightFormat::Fp16,
        "fp8" => WeightFormat::Fp8,
        "int8" => WeightFormat::Int8,
        "int4" | "awq" | "gptq4" | "nvfp4" | "fp4" => WeightFormat::Int4,
        "mxfp4" => WeightFormat::Mxfp4,
        "exl2" if text.contains("4.0bpw") => WeightFormat::Int4,
        _ if word.starts_with('q') && !word.contains('.') => WeightFormat::parse(word)
            .map_err(|_| format!("weight format `{}` is not modelled", short(word)))?,
        _ => return Err(format!("weight format `{}` is not modelled", short(&text))),
    })
}

/// A KV format; blank is 16 bit.
fn kv(text: &str) -> std::result::Result<KvFormat, Reason> {
    match text.trim() {
        "" => Ok(KvFormat::Fp16),
        t => KvFormat::parse(t).map_err(|_| format!("KV format `{}` is not modelled", short(t))),
    }
}
