//! `paper_prototype_results.csv`: the published runs of the tiering prototype on an RTX 5080.
//!
//! Wall time is the decode of as many tokens as the run generated, sample by sample of the mean length, in `hf-eager-int8`
//! on that card. A run that evicts keeps its share of tokens at most, a tiered one streams the rest each step, serially.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH};
use crate::error::Result;
use crate::model::{KvFormat, WeightFormat};
use crate::service::{Prepared, transfer};
use crate::validate::machine::{Machine, Setup};
use crate::validate::steady;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "paper_prototype_results.csv",
    columns: &[
        "run",
        "hbm_ratio",
        "evict_ratio_per_interval",
        "samples",
        "total_tokens",
        "total_time_s",
        "prefetch_ms_per_sample",
        "compute_ms_per_sample",
        "prefetched_tokens_per_sample",
    ],
    cases,
};

/// The card of the published runs.
const GPU: &str = "rtx-5080";
/// Their software.
const SOFTWARE: &str = "hf-eager-int8";
/// Their model.
const MODEL: &str = "deepseek-r1-distill-qwen-7b";
/// Tokens of a prompt.
const PROMPT: f64 = 100.0;

/// What a measured column is.
#[derive(Clone, Copy)]
enum Part {
    Wall,
    Prefetch,
    Compute,
}

const FIGURES: [(&str, Part); 3] = [
    ("total_time_s", Part::Wall),
    ("compute_ms_per_sample", Part::Compute),
    ("prefetch_ms_per_sample", Part::Prefetch),
];

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for line in sheet.lines() {
        for figure in FIGURES {
            if let Some(measured) = line.optional(figure.0)? {
                all.push(Case {
                    line: line.number,
                    metric: figure.0,
                    gpu: GPU.into(),
                    framework: SOFTWARE.into(),
                    model: MODEL.into(),
                    measured,
                    fits: None,
                    law: law(line, figure.1, stock)?,
                });
            }
        }
    }
    Ok(all)
}

/// A run, a sample on average.
#[derive(Clone, Copy)]
struct Sample {
    count: f64,
    tokens: f64,
    /// Tokens that cross the link over all its steps.
    prefetched: f64,
    /// Share of its tokens kept in HBM, where the rest is destroyed.
    kept: f64,
}

fn law(line: Line<'_>, part: Part, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let count = f64::from(line.whole("samples", MOST_BATCH)?);
    let ratio = line.optional("hbm_ratio")?.unwrap_or(1.0);
    let prefetched = line.optional("prefetched_tokens_per_sample")?;
    let sample = Sample {
        count,
        tokens: line.positive("total_tokens")? / count,
        prefetched: prefetched.unwrap_or(0.0),
        kept: if prefetched.is_some() { 1.0 } else { ratio },
    };
    let model = or_reason!(stock.model(MODEL)?);
    let family = stock.family(GPU, SOFTWARE, None)?;
    let setup = Setup {
        model,
        gpus: 1,
        weights: WeightFormat::Int8,
        kv: KvFormat::Fp16,
        memory_fraction: 0.95,
    };
    Ok(Ok(Law::new(family, move |m| {
        figure(m, &setup, part, sample)
    })))
}

fn figure(machine: &Machine, setup: &Setup, part: Part, s: Sample) -> f64 {
    let prepared = Prepared::new(&machine.deploy(setup));
    let middle = PROMPT + 0.5 * s.tokens * s.kept;
    let step = steady::step(&prepared, 1, middle);
    let layer = prepared
        .classes
        .iter()
        .map(|c| c.kv_token * f64::from(c.count));
    let bytes = s.prefetched * layer.sum::<f64>();
    // K and V of each layer are one copy each, every step that something is out.
    let copies = if s.prefetched > 0.0 {
        2.0 * prepared.order.len() as f64 * s.tokens
    } else {
        0.0
    };
    let link = &machine.hardware.link;
    let prefetch = copies * link.call.get() + transfer::copy(link, prepared.h2d_rate, bytes, 1.0);
    match part {
        Part::Wall => s.count * (s.tokens * step + prefetch),
        Part::Compute => 1e3 * s.tokens * step,
        Part::Prefetch => 1e3 * prefetch,
    }
}
