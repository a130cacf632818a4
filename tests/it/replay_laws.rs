//! Laws of a replay: nothing lost, nothing seen before its time, and what the error bound may claim.
#![allow(clippy::float_cmp, clippy::cast_possible_truncation)] // whole counts and exact sums; small indices

use std::sync::{Arc, Mutex};

use kvplan::policy::{self, Card, Moves, Policy, PolicySpec, Row, View};
use kvplan::replay::{self, Quality, quality};
use kvplan::timeline::{Tier, Timeline};
use proptest::prelude::*;

use crate::policy_four_tier::{made, traces};
use crate::replay_support::half;

fn all_policies() -> impl Strategy<Value = PolicySpec> {
    let text = prop::sample::select(vec![
        "full",
        "streaming-llm:sinks=2,window=9",
        "streaming-llm:sinks=0,window=1",
        "four-tier:interval=8,window=3",
        "four-tier:interval=8,window=3,hbm=30tok,t2=0.3,score=last",
        "four-tier:interval=4,window=5,evict=0.2,semantics=per-interval,score=ema:0.8",
        "four-tier:interval=6,window=2,evict=0.4,semantics=cumulative,score=per-age,protect=sinks",
        "four-tier:interval=5,window=2,evict=0.1,semantics=per-interval,preset=prototype",
        "oracle:interval=8,window=3,hbm=0.3,evict=0.1,semantics=cumulative",
        "stream-evict:budget=0.4,window=5,sinks=2,interval=8",
        "stream-evict:budget=0.1,window=3,sinks=0,interval=5,score=per-age",
        "h2o-mean:heavy=7,recent=5",
        "tova-mean:budget=13",
        "r-kv-importance:budget=20,window=4,interval=16",
        "snap-kv-mean:budget=12,window=4,kernel=3",
        "raas:budget=40,page=4,alpha=0.001",
        "lru:budget=17,alpha=0.001",
        "random:budget=20,sinks=2,window=6,seed=9",
    ]);
    text.prop_map(|t| policy::parse(t).unwrap())
}

fn replayed(rows: &crate::replay_support::Made, spec: PolicySpec) -> Timeline {
    replay::run(rows, &[spec]).unwrap().remove(0)
}

proptest! {
    #[test]
    fn tokens_and_mass_are_conserved(trace in traces(), spec in all_policies()) {
        let timeline = replayed(&trace, spec);
        let mut dead = 0.0;
        for (step, row) in (0u32..).zip(&trace.rows) {
            let tokens = timeline.tokens_at(step);
            prop_assert_eq!(tokens.iter().sum::<f64>(), f64::from(trace.prompt + step + 1));
            prop_assert!(tokens[3] >= dead, "a destroyed token came back");
            dead = tokens[3];
            let sum: f64 = row.iter().map(|b| half(*b)).sum();
            let mass = timeline.mass[step as usize];
            prop_assert!((mass.iter().sum::<f64>() - sum).abs() < 1e-9);
            prop_assert!(mass.iter().all(|m| *m >= 0.0));
        }
        prop_assert_eq!(timeline.total(|i| i.destroyed), timeline.tokens_end()[3]);
        let host = timeline.tokens_end()[1] + timeline.tokens_end()[2];
        prop_assert!(timeline.total(|i| i.demoted) - timeline.total(|i| i.promoted) >= host);
    }

    #[test]
    fn a_cut_trace_gives_the_same_moves_up_to_the_cut(trace in traces(), spec in all_policies(), at in 0f64..1.0) {
        prop_assume!(!spec.card().oracle);
        let cut = (at * trace.rows.len() as f64) as usize;
        let (whole, part) = (replayed(&trace, spec), replayed(&trace.cut(cut), spec));
        prop_assert_eq!(&whole.mass[..cut], &part.mass[..]);
        let known = part.intervals.iter().filter(|i| (i.first_step as usize) < cut);
        for (a, b) in whole.intervals.iter().zip(known) {
            prop_assert_eq!(a, b);
        }
        // The decision that closes the part made the same moves too.
        if let Some(last) = part.intervals.last().filter(|i| i.first_step as usize == cut && cut > 0) {
            let same = whole.intervals.iter().find(|i| i.first_step as usize == cut).unwrap();
            prop_assert_eq!((last.promoted, last.demoted, last.destroyed), (same.promoted, same.demoted, same.destroyed));
        }
    }

    #[test]
    fn many_policies_in_one_pass_are_as_each_alone(trace in traces(), specs in prop::collection::vec(all_policies(), 1..5)) {
        for (spec, together) in specs.iter().zip(replay::run(&trace, &specs).unwrap()) {
            prop_assert_eq!(together, replayed(&trace, *spec));
        }
    }

    #[test]
    fn cumulative_eviction_grows_with_evict(trace in traces(), low in 0f64..=1.0, high in 0f64..=1.0) {
        let (low, high) = (low.min(high), low.max(high));
        let run = |evict: f64| replayed(&trace, policy::parse(&format!("four-tier:interval=7,window=4,evict={evict},semantics=cumulative")).unwrap());
        let (few, many) = (run(low), run(high));
        prop_assert!(few.tokens_end()[3] <= many.tokens_end()[3]);
        let t = replayed(&trace, policy::parse(&format!("four-tier:interval=7,window=4,evict={high},semantics=cumulative")).unwrap());
        prop_assert!(t.tokens_end()[3] <= high * trace.rows.len() as f64);
    }
}

/// The oracle sees the future: on a trace whose late rows attend only to one early candidate, it keeps that one.
#[test]
fn the_oracle_keeps_what_matters_later() {
    let mut trace = made(4, 40, 7, false);
    for (t, row) in trace.rows.iter_mut().enumerate() {
        if let Some(weight) = row.get_mut(8) {
            *weight = if t < 20 { 0 } else { 0x3000 };
        }
    }
    let budget = "hbm=0.1,interval=16,window=2,sinks=1";
    let tail = |name: &str| {
        let timeline = replayed(&trace, policy::parse(&format!("{name}:{budget}")).unwrap());
        timeline.mass[20..32].iter().map(|m| m[1]).sum::<f64>()
    };
    assert!(
        tail("oracle") < 0.5,
        "position 8 was left in T1: {}",
        tail("oracle")
    );
    assert!(
        tail("four-tier") > 12.0 * 0.12,
        "the cumulative score could not know: {}",
        tail("four-tier")
    );
}

/// Positions and number of weights of each row shown.
type Notes = Arc<Mutex<Vec<(Option<Vec<u32>>, usize)>>>;

/// A policy of our own that notes what it is shown.
struct Noting {
    card: Card,
    seen: Notes,
}

impl Policy for Noting {
    fn card(&self) -> &Card {
        &self.card
    }

    fn observe(&mut self, _lane: usize, row: Row<'_>) {
        self.seen
            .lock()
            .unwrap()
            .push((row.positions.map(<[u32]>::to_vec), row.weights.len()));
    }

    fn decide(&mut self, step: u32, view: &View<'_>, moves: &mut Moves) {
        match step {
            0 => moves.put(1, Tier::T3),
            1 => assert_eq!(view.tiers, [Tier::T0, Tier::T3, Tier::T0, Tier::T0]),
            _ => moves.put(1, Tier::T0),
        }
    }
}

fn noting() -> (Noting, Notes) {
    let mut card = policy::parse("four-tier").unwrap().card();
    card.name = "noting";
    let seen = Arc::default();
    (
        Noting {
            card,
            seen: Arc::clone(&seen),
        },
        seen,
    )
}

#[test]
fn a_policy_of_ones_own_sees_live_positions_only() {
    let (policy, seen) = noting();
    replay::drive(&made(2, 2, 3, false), 2, &mut [Box::new(policy)]).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(None, 3), (Some(vec![0, 2, 3]), 3)]);
}

#[test]
fn bringing_back_a_destroyed_token_is_an_internal_error() {
    let (policy, _) = noting();
    let error = replay::drive(&made(2, 3, 3, false), 3, &mut [Box::new(policy)]).unwrap_err();
    assert_eq!(error.exit_code(), 70);
    assert!(error.message.contains("position 1"), "{error}");
}

#[test]
fn a_row_of_the_wrong_length_is_bad_data() {
    let mut trace = made(2, 3, 3, false);
    trace.rows[1].push(0);
    let error = replay::run(&trace, &[policy::parse("full").unwrap()]).unwrap_err();
    assert_eq!(
        (error.exit_code(), error.message.as_str()),
        (3, "row 1 has 5 weights, expected 4")
    );
}

/// Attention output over two tokens of weight 1/2 with values `destroyed` and `kept`, first whole, then with the first
/// token gone and the rest renormalised.
fn outputs(destroyed: f64, kept: f64) -> (f64, f64) {
    (0.5 * destroyed + 0.5 * kept, kept)
}

/// The printed bound, 2 * sum of destroyed weights times the norms of their own values, is 2 * 1/2 * |0| = 0, while the
/// outputs are 1/2 and 1. Ours, 2 * eps * max|v| = 2 * 1/2 * 1 = 1, holds.
#[test]
fn the_published_error_bound_is_false_and_ours_holds() {
    let (whole, cut) = outputs(0.0, 1.0);
    let error = (cut - whole).abs();
    let published = 2.0 * 0.5 * 0.0f64.abs();
    assert!(
        error > published,
        "{error} is within the published bound {published}"
    );
    assert!(error <= quality::error_bound(0.5) * 1.0);
}

proptest! {
    /// Ours on random rows and values: the destroyed set is random, the survivors are renormalised.
    #[test]
    fn the_error_bound_holds(tokens in prop::collection::vec((0.001f64..1.0, -1f64..=1.0, any::<bool>()), 1..40)) {
        prop_assume!(tokens.iter().any(|(_, _, gone)| !gone));
        let sum: f64 = tokens.iter().map(|t| t.0).sum();
        let eps: f64 = tokens.iter().filter(|t| t.2).map(|t| t.0 / sum).sum();
        let output: f64 = tokens.iter().map(|t| t.0 / sum * t.1).sum();
        let kept: f64 = tokens.iter().filter(|t| !t.2).map(|t| t.0 / sum * t.1).sum::<f64>() / (1.0 - eps);
        let greatest = tokens.iter().map(|t| t.1.abs()).fold(0.0, f64::max);
        prop_assert!((kept - output).abs() <= quality::error_bound(eps) * greatest + 1e-12);
    }
}

/// Four steps with destroyed mass 0, 0, .25, .75 of rows that sum to 1: mean .25, nearest-rank p99 = the 4th, max .75;
/// 3 of 4 generated tokens are gone.
#[test]
fn quality_by_hand() {
    let lost = [0.0, 0.0, 0.25, 0.75];
    let timeline = Timeline {
        prompt: 3,
        steps: 4,
        intervals: vec![kvplan::timeline::Interval {
            tokens: [1.0, 0.0, 0.0, 3.0],
            ..Default::default()
        }],
        mass: lost.iter().map(|m| [1.0 - m, 0.0, 0.0, *m]).collect(),
        degraded: vec![0.0, 0.0, 0.5, 0.5],
        ..Timeline::default()
    };
    let q = Quality::of(&timeline);
    assert_eq!(
        [q.destroyed.mean, q.destroyed.p99, q.destroyed.max],
        [0.25, 0.75, 0.75]
    );
    assert_eq!(
        [
            q.degraded.mean,
            q.degraded.max,
            q.error_bound_mean,
            q.error_bound_max
        ],
        [0.25, 0.5, 0.5, 1.5]
    );
    assert_eq!(q.destroyed_share.to_bits(), 0.75f64.to_bits());
}
