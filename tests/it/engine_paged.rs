//! Preempt and recompute: a worked example, who goes first, who is refused, rounds.

use kvplan::engine::audit::Audit;
use kvplan::engine::{Run, Unwatched};
use kvplan::error::Cause;
use kvplan::units::Ps;
use proptest::prelude::*;

use crate::engine_support::{Watch, World, job, scenario};

fn world() -> World {
    World::of(&scenario("model llama-3.1-8b hardware h100-sxm weights bf16").deployment)
}

#[test]
fn two_requests_in_six_pages_by_hand() {
    // Prompt 16, output 40, pages of 16 tokens, pool 96 tokens = 6 pages. The step after `done` ones needs
    // ceil((16 + done + 1) / 16) pages: 2 from done 0, 3 from done 16, 4 from done 32.
    //   done  0: both admitted, 2 + 2 pages; prefill of 16 + 16 tokens.
    //   done 16: 3 + 3 = 6 pages, just fits.
    //   done 32: 4 + 4 > 6: the later request is preempted and loses its 48 tokens. It would need 4 more pages.
    //   The first runs alone for its last 8 steps; then the second: prefill again of 16 + 32 = 48 tokens, 8 steps.
    let w = world().with_room(96);
    let mut watch = Watch::default();
    let run = w
        .run(vec![job("full", 16, 40); 2], 2, true, &mut watch)
        .unwrap();
    let mut batch = vec![2.0; 32];
    batch.extend([1.0; 16]);
    assert_eq!(watch.sequences, batch);
    assert_eq!((run.tokens, run.preemptions), (80, 1));
    assert_eq!(
        run.prefill,
        Ps::from_secs(w.prepared.prefill(&[(0, 16), (0, 16)]))
    );
    assert_eq!(run.recompute, Ps::from_secs(w.prepared.prefill(&[(0, 48)])));
    // The wall is the steps and both prefills; the pause of the second lies between step 39 and step 40.
    let steps: Ps = run.steps.iter().copied().sum();
    assert_eq!(run.makespan, run.prefill + run.recompute + steps);
    assert_eq!(watch.times[40].begin - watch.times[39].end, run.recompute);
    // Time per output token: the first 40 steps over 40; the second all 48 steps and its recompute over 40.
    let first: Ps = run.steps[..40].iter().copied().sum();
    let mean = f64::midpoint(first.secs() / 40.0, (steps + run.recompute).secs() / 40.0);
    assert!((run.tpot_mean / mean - 1.0).abs() < 1e-12);
}

#[test]
fn a_request_that_fits_only_without_whole_pages_is_refused() {
    // 16 + 40 = 56 tokens lie in 4 pages = 64 tokens.
    let run = |room| {
        world()
            .with_room(room)
            .run(vec![job("full", 16, 40); 2], 2, true, &mut Unwatched)
    };
    for room in [8, 56, 60, 63] {
        assert_eq!(
            run(room).unwrap_err().cause,
            Cause::Infeasible,
            "room for {room}"
        );
    }
    assert_eq!(run(64).unwrap().tokens, 80);
}

/// Each run's figures that must not depend on how it was put together.
fn figures(r: &Run) -> (u64, Ps, Ps, usize) {
    (r.tokens, r.makespan, r.prefill, r.steps.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn everybody_finishes(lengths in prop::collection::vec((1u32..90, 1u32..90), 1..9), room in 16u32..400, most in 1u32..6) {
        let w = world().with_room(room);
        let jobs: Vec<_> = lengths.iter().map(|(p, o)| job("full", *p, *o)).collect();
        let longest = lengths.iter().map(|(p, o)| (p + o).div_ceil(16) * 16).max().unwrap();
        let mut audit = Audit::new(&w.prepared);
        match w.run(jobs, most, true, &mut audit) {
            Ok(run) => {
                prop_assert!(longest <= room);
                prop_assert_eq!(run.tokens, lengths.iter().map(|l| u64::from(l.1)).sum::<u64>());
                prop_assert!(run.peak.hbm.total() <= w.ledger.pool());
            }
            Err(e) => {
                prop_assert_eq!(e.cause, Cause::Infeasible);
                prop_assert!(longest > room);
            }
        }
    }

    #[test]
    fn rounds_are_the_engine_in_turn(prompt in 1u32..60, output in 1u32..60, most in 1u32..4, rounds in 1u32..5) {
        let w = world();
        let one = w.run(vec![job("full", prompt, output); most as usize], most, true, &mut Unwatched).unwrap();
        let mut joined = one.clone();
        for _ in 1..rounds {
            joined.then(&one);
        }
        let all = vec![job("full", prompt, output); (most * rounds) as usize];
        let whole = w.run(all, most, true, &mut Unwatched).unwrap();
        prop_assert_eq!(figures(&joined), figures(&whole));
        prop_assert!((joined.tpot_mean / whole.tpot_mean - 1.0).abs() < 1e-9);
    }
}

#[test]
fn arrival_order_is_kept_through_preemption() {
    // Three requests of 16 + 40 tokens in 7 pages: at done 16 they need 9, the third goes; at done 32 the others need 8,
    // the second goes and stands before the third. 16 steps of three, 16 of two, 8 of the first; then the second (4
    // pages) and the third (prompt 16 + 16 done: 3 pages) return together: 8 steps of two, 16 of the third, which
    // needs its 4th page only after the second left.
    let w = world().with_room(7 * 16);
    let mut watch = Watch::default();
    let run = w
        .run(vec![job("full", 16, 40); 3], 3, true, &mut watch)
        .unwrap();
    let mut batch = vec![3.0; 16];
    batch.extend([2.0; 16]);
    batch.extend([1.0; 8]);
    batch.extend([2.0; 8]);
    batch.extend([1.0; 16]);
    assert_eq!(watch.sequences, batch);
    assert_eq!((run.tokens, run.preemptions), (120, 2));
}
