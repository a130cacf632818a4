//! How far rows lie about a law, by regime.
//!
//! The regime of a row (bulk, mixed, floor) is asked of the law itself: it is evaluated at one end of a spread whose ends
//! are 1, 2 and 3 in the three regimes. A regime with few rows takes the spread of all.

use super::groups::Group;
use crate::hardware::kernels::{Kernels, Off, Spread};
use crate::hardware::value::Z95;
use crate::stats;
use crate::validate::machine::Machine;

/// Rows of a regime under which it takes the spread of all.
const FEW: usize = 10;

/// Regime and measured over predicted, of every row.
pub fn ratios(group: &Group, machine: &Machine) -> Vec<(usize, f64)> {
    let marked = marked(machine);
    let row = |r: &super::groups::Row| {
        let predicted = (r.law.of)(machine);
        let mark = ((r.law.of)(&marked) / predicted).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1, 2 or 3
        let regime = (mark.clamp(1.0, 3.0) as usize) - 1;
        (regime, r.measured / predicted)
    };
    group.rows.iter().map(row).collect()
}

/// p5 and p95 of the ratios in each regime; the interval always holds the prediction.
pub fn of(rows: &[(usize, f64)]) -> Spread {
    let ends = |regime: usize| {
        let own = |r: &&(usize, f64)| r.0 == regime;
        let mut all: Vec<f64> = rows.iter().filter(own).map(|r| r.1).collect();
        if all.len() < FEW {
            all = rows.iter().map(|r| r.1).collect();
        }
        let low = stats::percentile(&mut all, 0.05).unwrap_or(1.0).min(1.0);
        let high = stats::percentile(&mut all, 0.95).unwrap_or(1.0).max(1.0);
        [low, high]
    };
    Spread {
        bulk: ends(0),
        mixed: ends(1),
        floor: ends(2),
    }
}

/// A machine whose laws say their regime instead of a spread.
fn marked(machine: &Machine) -> Machine {
    let mark = Spread {
        bulk: [1.0; 2],
        mixed: [2.0; 2],
        floor: [3.0; 2],
    };
    let mut kernels: Kernels = machine.hardware.gpu.kernels.clone();
    kernels.attentions_mut().for_each(|law| law.spread = mark);
    kernels.linears_mut().for_each(|law| law.spread = mark);
    kernels.prefill.spread = mark;
    kernels.put_off(&Off::new([(Off::EVERY, -Z95)]));
    machine.with_kernels(kernels)
}
