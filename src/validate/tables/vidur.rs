//! `linear_vidur.csv`: the four linear layers of a block together, by model, GPUs and rows, in microseconds.
//!
//! Its `a100` is a cloud machine with `PCIe` cards of 80 GB, not the SXM card.

use super::super::machine::Setup;
use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Fits, Kind, Law, MOST_BATCH, MOST_GPUS, Scope, weights};
use crate::error::Result;
use crate::model::KvFormat;
use crate::service::Prepared;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "linear_vidur.csv",
    columns: &[
        "gpu",
        "model",
        "tp",
        "dtype",
        "num_tokens",
        "linear_us_per_layer",
    ],
    scope: Scope::Parts,
    cases,
};

fn cases(sheet: &Sheet, stock: &mut Stock) -> Result<Vec<Case>> {
    sheet.lines().map(|line| case(line, stock)).collect()
}

fn case(line: Line<'_>, stock: &mut Stock) -> Result<Case> {
    Ok(Case {
        line: line.number,
        metric: "linear_us_per_layer",
        gpu: line.text("gpu")?.into(),
        framework: "vidur".into(),
        model: line.text("model")?.into(),
        measured: line.positive("linear_us_per_layer")?,
        fits: Some(Fits::Linear),
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let rows = f64::from(line.whole("num_tokens", MOST_BATCH)?);
    let gpus = line.whole("tp", MOST_GPUS)?;
    let gpu = match line.text("gpu")? {
        "a100" => "a100-pcie-80gb",
        other => other,
    };
    let family = or_reason!(stock.machine(gpu, "vllm")?);
    let model = or_reason!(stock.model(line.text("model")?)?);
    let weights = or_reason!(weights(line.text("dtype")?));
    let setup = Setup {
        model,
        gpus,
        weights,
        kv: KvFormat::Fp16,
        memory_fraction: 1.0,
    };
    Ok(Ok(Law::new(family, move |m| {
        let prepared = Prepared::new(&m.deploy(&setup));
        let layer = prepared
            .classes
            .first()
            .map(|c| c.layer.matrices(setup.model.hidden));
        1e6 * prepared.linear(&layer.unwrap_or_default(), rows)
    })))
}
