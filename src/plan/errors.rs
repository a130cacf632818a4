//! What the figures can be off by, by card: what `validate` found, quoted.

use std::collections::BTreeSet;

use super::answer::ExpectedError;
use crate::catalog;
use crate::error::Result;
use crate::hardware::Source;
use crate::hardware::expected::Miss;
use crate::scenario::Card;

/// What stands beside the errors by card: what no table of measurements covers.
pub(super) fn others(cards: &[Card]) -> String {
    let measured = |c: &Card| {
        c.hardware.calibration.is_some() && c.hardware.host.ddr_read.source == Source::Measured
    };
    let host = if cards.iter().all(measured) {
        "DDR bandwidth was measured; host attention in a whole step was not, so that spilling is uncertain: expect +-30 % for \
         stream, +-50 % for host-attention, until calibrated with the GPU."
    } else {
        "Host attention and DDR bandwidth are assumed and may be off by 2x, so that spilling is: expect +-30 % for stream, \
         +-50 % for host-attention, until calibrated."
    };
    format!(
        "Kernels were fitted on tables of which these steps and servers are sums. Copies over the link are off by about 5 %. {host}"
    )
}

/// The errors to expect of each card asked for, once each.
pub(super) fn of(cards: &[Card]) -> Result<Vec<ExpectedError>> {
    let known = catalog::expected()?;
    let mut seen = BTreeSet::new();
    let own = cards.iter().filter(|c| seen.insert(c.hardware.label()));
    let entry = |card: &Card| {
        let (misses, fitted) = known.of(&card.hardware.id);
        let calibrated = card.hardware.calibrated.is_some();
        let basis = match (calibrated, fitted) {
            (true, _) => "calibrated",
            (false, true) => "fitted",
            (false, false) => "class",
        };
        let median = |m: Option<Miss>| m.map(|m| m.median);
        let p90 = |m: Option<Miss>| m.map(|m| m.p90);
        let rows = |m: Option<Miss>| m.map_or(0, |m| m.rows);
        ExpectedError {
            hardware: card.hardware.label().into(),
            basis: basis.into(),
            step_median_abs_rel_error: median(misses.step),
            step_p90_abs_rel_error: p90(misses.step),
            step_rows: rows(misses.step),
            tpot_median_abs_rel_error: median(misses.tpot),
            tpot_p90_abs_rel_error: p90(misses.tpot),
            tpot_rows: rows(misses.tpot),
        }
    };
    Ok(own.map(entry).collect())
}
