//! Remarks that qualify an answer.

use std::sync::Arc;

use super::speed::one_bottleneck;
use crate::deploy::{ScoreCost, T1Mode};
use crate::hardware::Calibration;
use crate::hardware::home::DDR;
use crate::metrics::Memory;
use crate::plan::longer;
use crate::plan::run::Case;
use crate::scenario::Occupancy;
use crate::timeline::{Predict, Timeline};
use crate::units::Bytes;

/// What freeing whole pages only does to T0, where nothing is packed.
pub(in crate::plan) fn whole_pages_note(case: &Case) -> String {
    let why = "compact none: T0 keeps every page in which one T0 token is left";
    let counted = case.timelines.iter().all(|t| t.synthetic_from.is_none());
    if counted {
        format!("{why}; counted from replayed positions")
    } else if case.traces.is_empty() {
        format!("{why}; without a trace the pages are bounded from above")
    } else {
        format!("{why}; past the recorded rows the pages are extrapolated")
    }
}

/// Remarks on how and where T1 takes part.
pub(in crate::plan) fn of_mode(case: &Case) -> Vec<String> {
    let d = &case.scenario.deployment;
    let mut out = Vec::new();
    let spills = case.timelines.iter().any(|t| t.spills());
    if d.score_cost != ScoreCost::Fused && !case.scored.scores {
        out.push(
            "nothing here looks at the weights of attention: --score-cost has no effect".into(),
        );
    }
    if !spills {
        return out;
    }
    if let T1Mode::Selective(selection) = d.t1 {
        out.push(NOT_EXACT.into());
        if selection.predict == Predict::LastRow {
            out.push("predict=last-row is optimistic: it ranks by weights that a real run does not have of tokens it did not fetch".into());
        }
        if case.traces.is_empty() {
            out.push("without a trace everything fetched counts as fetched anew, in single tokens: the most there can be".into());
        }
    }
    if d.t1 == T1Mode::Direct && !d.hardware.link.coherent {
        out.push(format!(
            "direct reads over {} at {} of its copy rate, which is assumed: no attention kernel was measured there",
            d.hardware.link.name,
            d.hardware.link.in_place_share().show()
        ));
    }
    if one_bottleneck(case) {
        out.push(format!(
            "two memory channels read {}, the link {}: one bottleneck, what one takes the other lacks",
            d.hardware.host.ddr_read.show(),
            d.hardware.link.h2d.show()
        ));
    }
    if d.home != DDR {
        out.push(format!(
            "T1 lives in {}, whose own work is not counted; it is no host memory",
            d.hardware.host.name
        ));
    }
    out
}

/// What weights in host memory rest on.
const WEIGHTS_STREAM: &str = "weights in host memory are read ahead layer by layer, which no engine does; vLLM's --cpu-offload-gb reads \
nothing ahead (--overlap serial is nearer), llama.cpp computes such layers on the CPU";

/// What a mode that fetches a part of T1 must always say.
const NOT_EXACT: &str = "selective is not exact: a step attends only to the host tokens it fetches; residual mass is first-order \
and teacher-forced, not accuracy, and does not rank it against modes that attend to all";

/// Remarks that qualify the answer.
pub(in crate::plan) fn notes(case: &Case, memory: &Memory) -> Vec<String> {
    let s = &case.scenario;
    let mut out = s.notes.clone();
    if memory.ddr_peak_bytes > memory.ddr_capacity_bytes {
        out.push(format!(
            "host memory: {} would be pinned, the limit is {}",
            crate::units::text::show_bytes(Bytes(memory.ddr_peak_bytes)),
            crate::units::text::show_bytes(Bytes(memory.ddr_capacity_bytes))
        ));
    }
    for t in case.traces.iter().filter(|t| t.is_partial()) {
        out.push(format!(
            "trace {} is unfinished, its recorder was stopped: the {} rows before the cut are all that is known",
            t.name(),
            crate::trace::Rows::rows(t.as_ref())
        ));
    }
    if case.traces.len() > 1 {
        out.push(format!(
            "mass, moves and quality are means over {} traces; intervals are 90 %, by bootstrap over traces",
            case.traces.len()
        ));
    }
    out.extend(crate::catalog::hardware_warnings(&s.deployment.hardware));
    if case.timelines.iter().any(|t| t.spills()) {
        out.push("part of the KV of running requests lies in host memory: no released engine attends to it there".into());
    }
    if case.prepared.streams_weights() {
        out.push(WEIGHTS_STREAM.into());
    }
    out.extend(of_mode(case));
    if case.ledger.whole_pages && case.timelines.iter().any(|t| t.spills()) {
        out.push(whole_pages_note(case));
    }
    if case.ledger.kv_token <= 0.0 && case.timelines.iter().any(|t| t.spills()) {
        out.push(format!(
            "every layer of {} attends to a window, which stays in HBM: no token moves, whatever tier it is in",
            s.deployment.model.id
        ));
    }
    let acts = |t: &Arc<Timeline>| t.spills() || t.destroys();
    if case.spec.name() != "full" && !case.timelines.iter().any(acts) {
        out.push(format!(
            "{} moves nothing within {} tokens at these settings: every token stays in HBM",
            case.spec.name(),
            s.prompt + s.output
        ));
    }
    let least = case.spec.least_hbm_tokens(s.prompt);
    if case.timelines.iter().any(|t| t.spills()) && 2 * s.prompt > s.prompt + s.output {
        out.push(format!(
            "the prompt is protected: at least {least} of {} tokens a request stay in HBM",
            s.prompt + s.output
        ));
    }
    if case.timelines.iter().any(|t| t.destroys()) {
        out.push(longer::note(s, case.asked.is_some()));
        out.push("this policy destroys tokens: not to be ranked with policies that do not; mass lost on a small recorded model is first-order and teacher-forced, not accuracy".into());
    }
    if s.deployment.hardware.calibrated.is_none() {
        let measured = s.deployment.hardware.calibration.as_ref();
        let measured = measured
            .map_or(Vec::new(), Calibration::measured)
            .join(" and ");
        let what = if measured.is_empty() {
            "no figure here was measured on your machine".into()
        } else {
            format!("measured was only {measured}, everything else is the catalog's")
        };
        out.push(format!(
            "{} is not calibrated: {what}",
            s.deployment.hardware.label()
        ));
    }
    if s.occupancy == Occupancy::Staggered {
        out.push("staggered: one turn of a steady state, every request replaced once".into());
    }
    out
}
