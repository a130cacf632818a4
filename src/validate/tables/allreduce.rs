//! `comm_allreduce.csv`: one all-reduce by message and GPUs, replayed in a graph or launched eagerly, in microseconds.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_GPUS, Scope};
use crate::error::Result;
use crate::service::collective;

/// The table.
pub(super) const KIND: Kind = Kind {
    ending: "comm_allreduce.csv",
    columns: &[
        "gpu",
        "kernel_source",
        "num_gpus",
        "message_size",
        "latency_us",
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
        metric: "latency_us",
        gpu: line.text("gpu")?.into(),
        framework: line.text("kernel_source")?.into(),
        model: format!("{} GPUs", line.whole("num_gpus", MOST_GPUS)?),
        measured: line.positive("latency_us")?,
        fits: None,
        law: law(line, stock)?,
    })
}

fn law(line: Line<'_>, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let gpus = f64::from(line.whole("num_gpus", MOST_GPUS)?);
    // The message counts bytes of the whole vector.
    let bytes = line.positive("message_size")?;
    let eager = line.text("kernel_source")?.ends_with("eager");
    let family = or_reason!(stock.machine(line.text("gpu")?, "vllm")?);
    Ok(Ok(Law::new(family, move |m| {
        let interconnect = m.hardware.interconnect.as_ref();
        let law = if eager {
            collective::launched
        } else {
            collective::all_reduce
        };
        1e6 * law(interconnect, gpus, bytes)
    })))
}
