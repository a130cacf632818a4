//! Changes that would make a deployment fit, each checked by the ledger before it is named.

use crate::deploy::T1Mode;
use crate::error::Result;
use crate::model::layer::MatrixKind;
use crate::model::{KvFormat, WeightFormat};
use crate::scenario::Scenario;
use crate::units::text::show_bytes;

use super::budget::peak_bytes;
use super::recordings::Recordings;
use super::run::{Case, requests, with};

/// How many are named.
const MOST: usize = 4;

/// Up to four single changes of `case` that fit, cheapest in quality first.
///
/// # Errors
/// As `simulate`.
pub(super) fn that_fit(case: &Case) -> Result<Vec<String>> {
    let s = &case.scenario;
    let mut out = Vec::new();
    if let Some(batch) = largest_batch(s)? {
        let smaller = Scenario { batch, ..s.clone() };
        out.extend(fits(&smaller)?.map(|peak| format!("--batch {batch} ({peak})")));
    }
    for (text, changed) in candidates(s) {
        if out.len() < MOST {
            out.extend(fits(&changed)?.map(|peak| format!("{text} ({peak})")));
        }
    }
    Ok(out)
}

fn candidates(s: &Scenario) -> Vec<(String, Scenario)> {
    let mut out = Vec::new();
    if !s.policy.contains("hbm=fit") {
        out.push((
            "--policy four-tier:hbm=fit".into(),
            Scenario {
                policy: "four-tier:hbm=fit".into(),
                ..s.clone()
            },
        ));
    }
    if matches!(s.deployment.t1, T1Mode::Staged(_) | T1Mode::Selective(_)) {
        out.push(("--t1 stream".into(), with(s, |d| d.t1 = T1Mode::Stream)));
    }
    if s.deployment.kv == KvFormat::Fp16 {
        out.push(("--kv fp8".into(), with(s, |d| d.kv = KvFormat::Fp8)));
    }
    for gpus in [2, 4, 8] {
        if gpus > s.deployment.gpus
            && divides(s, gpus)
            && s.deployment.hardware.interconnect.is_some()
        {
            out.push((format!("--gpus {gpus}"), with(s, |d| d.gpus = gpus)));
            break;
        }
    }
    for (word, format) in [("fp8", WeightFormat::Fp8), ("int4", WeightFormat::Int4)] {
        if format.bits(MatrixKind::Ffn) < s.deployment.weights.bits(MatrixKind::Ffn) {
            out.push((
                format!("--weights {word}"),
                with(s, |d| d.weights = format.clone()),
            ));
        }
    }
    out
}

/// Whether query heads divide over so many GPUs.
pub(super) fn divides(s: &Scenario, gpus: u32) -> bool {
    s.deployment
        .model
        .layers
        .iter()
        .all(|l| l.attention.heads().is_multiple_of(gpus))
}

/// The peak in words, if a scenario fits in HBM.
fn fits(s: &Scenario) -> Result<Option<String>> {
    let case = Case::new(s, &Recordings::default())?;
    let ledger = &case.ledger;
    let need = peak_bytes(ledger, &case.timelines, &requests(s));
    let fixed = ledger.weights + ledger.activation + ledger.reserve;
    let peak = fixed + crate::units::Bytes::ceil(need);
    let words = format!(
        "HBM peak {} of {}",
        show_bytes(peak),
        show_bytes(ledger.capacity)
    );
    Ok((need <= ledger.pool()).then_some(words))
}

/// Largest smaller batch that fits as asked.
fn largest_batch(s: &Scenario) -> Result<Option<u32>> {
    let (mut low, mut high) = (0, s.batch.saturating_sub(1));
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(&Scenario {
            batch: middle,
            ..s.clone()
        })?
        .is_some()
        {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok((low > 0).then_some(low))
}
