//! `paper_prototype_results.csv`: the published runs of the tiering prototype on an RTX 5080.
//!
//! Wall time is the decode of as many tokens as the run generated, sample by sample of the mean length, in `hf-eager-int8`
//! on that card. A run that evicts keeps its share of tokens at most, a tiered one fetches the rest each step, serially
//! (`service::eager_tier`). The software's figures are fitted on the run of the full cache and on the one with HBM 0.5 and
//! evict 0.1; the other two tiered runs and the two that evict are predicted. How many tokens go down and come up follows
//! from the lengths alone and is checked by `reproduce`; here it is taken from the table.

use super::super::sheet::{Line, Sheet};
use super::super::stock::{Reason, Stock};
use super::{Case, Kind, Law, MOST_BATCH, Scope};
use crate::error::Result;
use crate::service::Prepared;
use crate::validate::prototype::{self, GPU, MODEL, SOFTWARE, Sample};

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
        "offloaded_tokens_per_sample",
        "prefetch_ms_per_sample",
        "compute_ms_per_sample",
        "prefetched_tokens_per_sample",
    ],
    scope: Scope::Parts,
    cases,
};

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

fn law(line: Line<'_>, part: Part, stock: &mut Stock) -> Result<std::result::Result<Law, Reason>> {
    let count = f64::from(line.whole("samples", MOST_BATCH)?);
    let ratio = line.optional("hbm_ratio")?.unwrap_or(1.0);
    let fetched = line.optional("prefetched_tokens_per_sample")?;
    let sample = Sample {
        tokens: line.positive("total_tokens")? / count,
        demoted: line.optional("offloaded_tokens_per_sample")?.unwrap_or(0.0),
        fetched: fetched.unwrap_or(0.0),
        kept: if fetched.is_some() { 1.0 } else { ratio },
        ranked: ratio < 1.0,
    };
    let setup = prototype::setup(or_reason!(stock.model(MODEL)?));
    let family = stock.family(GPU, SOFTWARE, None)?;
    Ok(Ok(Law::new(family, move |m| {
        let prepared = Prepared::new(&m.deploy(&setup));
        let parts = prototype::parts(&prepared, sample);
        parts.map_or(f64::NAN, |p| match part {
            Part::Wall => count * p.total(),
            Part::Compute => 1e3 * p.forward,
            Part::Prefetch => 1e3 * p.fetch,
        })
    })))
}
