//! `cpu_overheads.csv`: medians of the four CPU parts of a step of an eager engine of 2024, in milliseconds.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, MOST_GPUS, Scope};
use crate::error::Result;
use crate::service::cpu::{self, Part};

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "cpu_overheads.csv",
    columns: &[
        "gpu",
        "model_name",
        "batch_size",
        "tensor_parallel_degree",
        PARTS[0].0,
        PARTS[1].0,
        PARTS[2].0,
        PARTS[3].0,
    ],
    scope: Scope::Parts,
    cases,
};

const PARTS: [(&str, Part); 4] = [
    ("schedule_median", Part::Schedule),
    ("prepare_inputs_e2e_median", Part::Inputs),
    ("sampler_e2e_median", Part::Sampler),
    ("process_model_outputs_median", Part::Outputs),
];

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for line in sheet.lines() {
        for part in PARTS {
            if let Some(measured) = line.optional(part.0)? {
                all.push(case(line, part, measured, stock)?);
            }
        }
    }
    Ok(all)
}

fn case(
    line: Line<'_>,
    part: (&'static str, Part),
    measured: f64,
    stock: &mut Stock,
) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: part.0,
        gpu: line.text("gpu")?.into(),
        framework: "sarathi-serve 2024".into(),
        model: line.text("model_name")?.into(),
        measured,
        fits: None,
        law: law(line, part.1, stock)?,
    })
}

fn law(line: Line<'_>, part: Part, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let sequences = f64::from(line.whole("batch_size", MOST_BATCH)?);
    let gpus = f64::from(line.whole("tensor_parallel_degree", MOST_GPUS)?);
    let family = or_reason!(stock.machine(line.text("gpu")?, "sarathi")?);
    Ok(Ok(Law::new(family, move |m| {
        cpu::part(&m.runtime, part, gpus, sequences).map_or(f64::NAN, |s| 1e3 * s)
    })))
}
