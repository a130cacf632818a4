//! The front: cells than which no other is better.
//!
//! A cell *dominates* another if it is no worse in any objective and better in one. A cell that fits and has every figure
//! takes part; it is on the front if no cell dominates it, so equal cells stay together. Tokens destroyed are an
//! objective by default, since they are never to be traded in silence: a cell that destroys nothing has a destroyed mass
//! of 0, one that destroys without a recording has none and takes no part. Rival: a weighted score; nobody's weights are
//! ours to choose.

use crate::error::{Error, Result, did_you_mean};
use crate::metrics::Outcome;

use super::answer::{Aim, Cell};

/// A figure that may be better or worse.
#[derive(Clone, Copy)]
pub struct Objective {
    /// Word of the flag.
    pub name: &'static str,
    /// Key of the outcome.
    pub key: &'static str,
    /// Whether more is better.
    pub higher: bool,
    figure: fn(&Outcome) -> Option<f64>,
}

impl std::fmt::Debug for Objective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn objective(
    name: &'static str,
    key: &'static str,
    higher: bool,
    figure: fn(&Outcome) -> Option<f64>,
) -> Objective {
    Objective {
        name,
        key,
        higher,
        figure,
    }
}

/// All objectives; the first three are taken by default.
#[rustfmt::skip] // one row an objective
pub const OBJECTIVES: &[Objective] = &[
    objective("tokens-per-s", "throughput.output_tokens_per_s", true, |o| o.throughput.comparable()),
    objective("hbm-peak", "memory.hbm_peak_bytes", false, |o| Some(o.memory.hbm_peak_bytes as f64)),
    objective("destroyed-mass", "quality.destroyed_mass_mean", false, destroyed_mass),
    objective("destroyed-share", "quality.destroyed_share", false, |o| Some(o.quality.destroyed_share)),
    objective("tpot", "throughput.tpot_mean_s", false, |o| o.throughput.tpot_mean_s),
    objective("tpot-p99", "throughput.tpot_p99_s", false, |o| o.throughput.tpot_p99_s),
    objective("makespan", "throughput.makespan_s", false, |o| o.throughput.makespan_s),
    objective("ddr-peak", "memory.ddr_peak_bytes", false, |o| Some(o.memory.ddr_peak_bytes as f64)),
    objective("saved-moved", "memory.hbm_saved_moved_bytes", true, |o| Some(o.memory.hbm_saved_moved_bytes as f64)),
    objective("link-bytes", "traffic.h2d_bytes", false, |o| Some(o.traffic.h2d_bytes as f64)),
    objective("batch", "batch", true, |o| Some(f64::from(o.batch))),
    objective("output", "output_tokens", true, |o| Some(f64::from(o.output_tokens))),
    objective("gpus", "gpus", false, |o| Some(f64::from(o.gpus))),
];

/// Objectives taken without a list.
const DEFAULT: usize = 3;

fn destroyed_mass(o: &Outcome) -> Option<f64> {
    let q = &o.quality;
    if o.fetched.tokens_mean.is_some() {
        // What a step leaves out is lost to it as if destroyed; without a recording nobody knows how much.
        return q.lost_mass_mean;
    }
    let nothing = q.destroyed_share <= 0.0;
    q.destroyed_mass_mean.or(nothing.then_some(0.0))
}

/// Objectives by name; none asked for are the first three.
///
/// # Errors
/// Usage: an unknown name, a name twice.
pub fn parse(list: &str) -> Result<Vec<Objective>> {
    if list.trim().is_empty() {
        return Ok(OBJECTIVES[..DEFAULT].to_vec());
    }
    let mut out: Vec<Objective> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = OBJECTIVES.iter().find(|o| o.name == name || o.key == name);
        let objective = found.ok_or_else(|| unknown(name))?;
        if out.iter().any(|o| o.name == objective.name) {
            return Err(Error::usage(format!(
                "--pareto: objective `{name}` is given twice"
            )));
        }
        out.push(*objective);
    }
    Ok(out)
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = OBJECTIVES.iter().map(|o| o.name).collect();
    let list = format!("objectives: {}", names.join(", "));
    let error = Error::usage(format!("--pareto: unknown objective `{name}`"));
    match did_you_mean(name, names.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`? {list}")),
        None => error.help(list),
    }
}

impl Objective {
    /// As part of the answer.
    pub(super) fn aim(&self) -> Aim {
        Aim {
            key: self.key.into(),
            better: if self.higher { "higher" } else { "lower" }.into(),
        }
    }

    /// The figure, turned so that more is better.
    fn of(&self, outcome: &Outcome) -> Option<f64> {
        let value = (self.figure)(outcome).filter(|v| v.is_finite())?;
        Some(if self.higher { value } else { -value })
    }
}

/// Marks every cell: on the front, dominated, or not taking part.
pub fn mark(cells: &mut [Cell], objectives: &[Objective]) {
    let figures = |cell: &Cell| -> Option<Vec<f64>> {
        let outcome = cell.outcome.as_ref().filter(|o| o.fits)?;
        objectives.iter().map(|o| o.of(outcome)).collect()
    };
    let mut placed: Vec<(usize, Vec<f64>)> = cells
        .iter()
        .enumerate()
        .filter_map(|(at, cell)| Some((at, figures(cell)?)))
        .collect();
    // The best first: whatever dominates a cell stands before it, and something on the front dominates it too.
    placed.sort_by(|a, b| {
        let pairs = a.1.iter().zip(&b.1);
        pairs.fold(std::cmp::Ordering::Equal, |order, (x, y)| {
            order.then(y.total_cmp(x))
        })
    });
    let mut front: Vec<Vec<f64>> = Vec::new();
    for (at, figures) in placed {
        let dominated = front.iter().any(|better| dominates(better, &figures));
        cells[at].pareto = Some(!dominated);
        if !dominated {
            front.push(figures);
        }
    }
}

/// Whether `a` is no worse than `b` everywhere and better somewhere; more is better.
fn dominates(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a >= b) && a.iter().zip(b).any(|(a, b)| a > b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_dominate_is_no_worse_anywhere_and_better_somewhere() {
        assert!(dominates(&[2.0, 1.0], &[1.0, 1.0]));
        assert!(!dominates(&[2.0, 1.0], &[2.0, 1.0]), "equal");
        assert!(!dominates(&[2.0, 0.0], &[1.0, 1.0]), "a trade");
    }

    #[test]
    fn objectives_by_name() {
        assert_eq!(parse("").unwrap().len(), 3);
        assert_eq!(parse("tpot, gpus").unwrap().len(), 2);
        assert!(parse("tpot,tpot").is_err());
        assert!(parse("tpot,").is_err());
        let help = parse("tokens-per-sec").unwrap_err().help.unwrap();
        assert!(help.starts_with("did you mean `tokens-per-s`?"), "{help}");
    }
}
