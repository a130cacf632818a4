//! Memory of an outcome: the ledger at the instant of the peak, and what is saved against the full cache.

use std::sync::Arc;

use crate::engine::Peak;
use crate::metrics::Memory;
use crate::plan::run::Case;
use crate::scenario::Occupancy;
use crate::timeline::Timeline;
use crate::units::Bytes;

/// The ledger at the peak (MODULES: parts at the instant of the peak, summing to it).
pub(in crate::plan) fn memory(case: &Case, peak: &Peak) -> Memory {
    let l = &case.ledger;
    let kv_t0 = Bytes::ceil(peak.hbm.kv_t0);
    let staging = Bytes::ceil(peak.hbm.staging);
    let full = Bytes::ceil(peak.full);
    let peak_bytes = l.weights + l.activation + l.reserve + kv_t0 + staging;
    // What is saved is the full cache's peak less this one's. Where nothing spills all of it is what was destroyed; else as
    // much of it as was destroyed by the time the full cache is at its peak.
    let saved = (peak.full - peak.hbm.total()).max(0.0);
    let spills = case.timelines.iter().any(|t| t.spills());
    let destroyed = Bytes::ceil(if spills {
        peak.destroyed.min(saved)
    } else {
        saved
    });
    let signed = |b: Bytes| i64::try_from(b.0).unwrap_or(i64::MAX);
    Memory {
        weights_bytes: l.weights.0,
        weights_host_bytes: l.host_weights.0,
        kv_full_bytes: full.0,
        kv_t0_bytes: kv_t0.0,
        staging_bytes: staging.0,
        activation_bytes: l.activation.0,
        reserve_bytes: l.reserve.0,
        hbm_peak_bytes: peak_bytes.0,
        hbm_capacity_bytes: l.capacity.0,
        hbm_saved_moved_bytes: signed(full) - signed(kv_t0) - signed(staging) - signed(destroyed),
        hbm_saved_destroyed_bytes: signed(destroyed),
        hbm_saved_moved_whole_pages_bytes: whole_pages(case, full, staging, destroyed),
        ddr_peak_bytes: Bytes::ceil(l.ddr_in_use(peak.ddr)).0,
        ddr_capacity_bytes: l.ddr_capacity.0,
    }
}

/// The moved saving if a page is freed only once no T0 token is left in it, at the end of the run. Only a replay knows
/// which positions stay.
pub(in crate::plan) fn whole_pages(
    case: &Case,
    full: Bytes,
    staging: Bytes,
    destroyed: Bytes,
) -> Option<i64> {
    let counted = |t: &Arc<Timeline>| t.spills() && t.synthetic_from.is_none();
    let together = case.scenario.occupancy == Occupancy::Lockstep;
    if !together || case.ledger.kv_token <= 0.0 || !case.timelines.iter().all(counted) {
        return None;
    }
    let at_end = |t: &Arc<Timeline>| {
        let last = t.steps.saturating_sub(1);
        t.t0_room(t.interval_at(last), last)
    };
    let room = case.timelines.iter().map(at_end).sum::<f64>() / case.timelines.len() as f64;
    let length = f64::from(case.scenario.prompt + case.scenario.output);
    let in_windows = case.ledger.sequence_bytes(length) - case.ledger.kv_token * length;
    let held = (room * case.ledger.kv_token + in_windows) * f64::from(case.scenario.batch);
    #[allow(clippy::cast_possible_truncation)] // far below 2^63 bytes
    let saved = (full.as_f64() - held - staging.as_f64() - destroyed.as_f64()) as i64;
    Some(saved)
}

pub(in crate::plan) fn shortfall(m: &Memory) -> u64 {
    m.hbm_peak_bytes.saturating_sub(m.hbm_capacity_bytes)
}
