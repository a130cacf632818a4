//! Where the tokens of a sequence live, turn by turn: as a policy decided over a recorded trace, or drawn.
//!
//! A turn lasts from one re-tier to the next. Recorded: a policy is replayed over the rows of a trace, and its decisions are
//! what the loop carries out; tokens on the host are ordered by their cumulative score, which says what a buffer of the best
//! would hold and what a selection would fetch. Drawn: for shapes that no trace has, as many tokens as asked, at random
//! places, of which as many change sides at the re-tier as asked: which ones makes no difference to any time.

use rand::RngExt;

use crate::error::{Error, Result};
use crate::policy;
use crate::replay::decisions;
use crate::simd::Kernels;
use crate::stats::{Purpose, stream};
use crate::trace::Rows;

/// From one re-tier to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Step from which it holds.
    pub(super) step: u32,
    /// Positions on the host, best scored first.
    pub(super) host: Vec<u32>,
}

/// One sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Tokens before step 0.
    pub(super) length: u32,
    /// Turns; the first holds from step 0.
    pub(super) turns: Vec<Turn>,
}

/// Steps between decisions.
pub(super) const INTERVAL: u32 = 64;

/// Latest tokens that drawn plans leave in device memory, and first ones.
const KEPT: (u32, u32) = (128, 4);

impl Plan {
    /// What `spec` decides over `rows`, for sequence number `number` from trace step `from` on; sequences begin an interval
    /// apart, so that their lengths differ and their re-tiers fall together.
    pub(super) fn recorded(rows: &dyn Rows, spec: &str, from: u32, number: u32) -> Result<Self> {
        let begin = from + number * INTERVAL;
        let spec = policy::parse(spec)?;
        let decided = decisions(rows, &spec)?;
        let scores = Scores::at(rows, &decided.first_step)?;
        let mut turns = Vec::new();
        for (i, first) in decided.first_step.iter().enumerate() {
            let range = decided.offsets[i] as usize..decided.offsets[i + 1] as usize;
            if range.len() as u32 != rows.prompt() + first {
                return Err(Error::internal(
                    "a policy that destroys tokens has no exact loop",
                ));
            }
            let places = decided.positions[range.clone()]
                .iter()
                .zip(&decided.tiers[range]);
            let host: Vec<u32> = places.filter(|(_, t)| **t != 0).map(|(p, _)| *p).collect();
            let turn = Turn {
                step: first.saturating_sub(begin),
                host: scores.ordered(i, host),
            };
            // Only the last of those before the begin holds then.
            if *first <= begin {
                turns.clear();
            }
            turns.push(turn);
        }
        if turns.first().is_none_or(|t| t.step != 0) {
            turns.insert(
                0,
                Turn {
                    step: 0,
                    host: Vec::new(),
                },
            );
        }
        Ok(Self {
            length: rows.prompt() + begin,
            turns,
        })
    }

    /// `host` of `length` tokens on the host, of which `moved` change sides at step `retier`.
    pub(super) fn drawn(length: u32, host: u32, moved: u32, retier: u32, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::Order);
        let last = length.saturating_sub(KEPT.0).max(KEPT.1 + 1);
        let mut pool: Vec<u32> = (KEPT.1.min(length)..last.min(length)).collect();
        for i in (1..pool.len()).rev() {
            pool.swap(i, rng.random_range(0..=i));
        }
        let host = (host as usize).min(pool.len());
        let moved = (moved as usize).min(host).min(pool.len() - host);
        let later = [&pool[moved..host], &pool[host..host + moved]].concat();
        let turns = [(0, pool[..host].to_vec()), (retier, later)];
        Self {
            length,
            turns: turns.map(|(step, host)| Turn { step, host }).to_vec(),
        }
    }
}

/// Cumulative scores of all positions at some steps.
struct Scores(Vec<Vec<f64>>);

impl Scores {
    fn at(rows: &dyn Rows, steps: &[u32]) -> Result<Self> {
        let last = steps.last().copied().unwrap_or(0);
        let whole = (rows.prompt() + last) as usize + 1;
        let (mut row, mut sums) = (vec![0f32; whole], vec![0f64; whole]);
        let mut out = Vec::new();
        rows.for_each(last, &mut |step, bits| {
            Kernels::best().widen(bits, &mut row);
            Kernels::best().accumulate(&mut sums, &row[..bits.len()]);
            if steps.get(out.len()) == Some(&(step + 1)) {
                out.push(sums.clone());
            }
            Ok(())
        })?;
        Ok(Self(out))
    }

    /// Positions with the best first, ties to the lower position.
    fn ordered(&self, entry: usize, mut positions: Vec<u32>) -> Vec<u32> {
        if let Some(sums) = self.0.get(entry) {
            positions.sort_by(|a, b| {
                let (x, y) = (sums[*a as usize], sums[*b as usize]);
                y.total_cmp(&x).then(a.cmp(b))
            });
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL, Plan};
    use crate::trace::default_trace;

    /// With half of the candidates in HBM: at trace step 448 the sequence has 128 + 448 tokens; but for 4 sinks and the
    /// latest 128 they are candidates, 444, of which 222 lie on the host.
    #[test]
    fn a_recorded_plan_carries_out_what_the_policy_decided() {
        let trace = default_trace().unwrap();
        let spec = "four-tier:hbm=0.5,protect=sinks";
        let plan = Plan::recorded(&trace, spec, 440, 0).unwrap();
        assert_eq!(plan.length, 568);
        assert_eq!(plan.turns[1].step, 8);
        assert_eq!(plan.turns[1].host.len(), 222);
        let second = Plan::recorded(&trace, spec, 440, 1).unwrap();
        assert_eq!((second.length, second.turns[1].step), (568 + INTERVAL, 8));
        assert_eq!(
            second.turns[0],
            super::Turn {
                step: 0,
                ..plan.turns[1].clone()
            }
        );
    }

    #[test]
    fn a_drawn_plan_moves_as_many_as_asked() {
        let plan = Plan::drawn(1000, 300, 20, 6, 7);
        let [first, second] = plan.turns.as_slice() else {
            panic!()
        };
        assert_eq!(
            (first.host.len(), second.host.len(), second.step),
            (300, 300, 6)
        );
        let stayed = first
            .host
            .iter()
            .filter(|p| second.host.contains(p))
            .count();
        assert_eq!(stayed, 280);
        assert!(first.host.iter().all(|p| (4..872).contains(p)));
        assert_eq!(Plan::drawn(10, 300, 20, 6, 7).turns[0].host.len(), 1);
    }
}
