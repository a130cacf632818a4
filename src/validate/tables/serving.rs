//! `serving_summary.csv`: whole runs of a server under recorded arrivals. They need arrivals, and are counted as such.

use super::super::sheet::{Line, Sheet};
use super::super::stock::Stock;
use super::{Case, Kind};
use crate::error::Result;

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
    cases,
};

const METRICS: [&str; 3] = ["out_tok_s", "ttft_mean_ms", "tpot_mean_ms"];

fn cases(sheet: &Sheet, _stock: &mut Stock) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for line in sheet.lines() {
        for metric in METRICS {
            all.push(case(line, metric)?);
        }
    }
    Ok(all)
}

fn case(line: Line<'_>, metric: &'static str) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric,
        gpu: line.text("setup")?.into(),
        framework: format!("vLLM {}", line.text("vllm")?),
        model: line.text("model")?.into(),
        measured: line.positive(metric)?,
        fits: None,
        law: Err("needs arrivals".into()),
    })
}
