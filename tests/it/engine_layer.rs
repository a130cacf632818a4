//! Layer fidelity against the pipeline: equal to the picosecond without contention, near with it.

use kvplan::engine::{LayerEvents, LayerTimes, Pipeline};
use kvplan::units::Ps;
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = (Vec<LayerTimes>, Vec<u8>)> {
    let layer = (1u64..3_000_000, prop_oneof![Just(0u64), 1u64..3_000_000]);
    (prop::collection::vec(layer, 1..4), 1usize..60, 0usize..50).prop_map(|(times, n, seed)| {
        let layers: Vec<LayerTimes> = times
            .iter()
            .map(|t| LayerTimes {
                compute: Ps(t.0),
                transfer: Ps(t.1),
            })
            .collect();
        let order = (0..n)
            .map(|i| u8::try_from((i * 5 + seed) % layers.len()).unwrap())
            .collect();
        (layers, order)
    })
}

#[test]
fn contention_by_hand() {
    // One layer, c = 100, x = 100, duplex 0.5, depth 2; the step before released 100 of write-back at 0. Both directions
    // run at half pace from 0: at 200 each has done 100. The layer computes 200..300; alone it would be 100..200.
    let mut e = LayerEvents::new(2, 0.5);
    e.write_back(Ps(0), Ps(100), 1);
    let (passed, written) = e.pass(
        Ps(0),
        &[0],
        &[LayerTimes {
            compute: Ps(100),
            transfer: Ps(100),
        }],
    );
    assert_eq!(
        (passed.end, passed.waited, written),
        (Ps(300), Ps(200), Ps(200))
    );
}

#[test]
fn contention_ends_when_the_shorter_does() {
    // Write-back of 50 at half pace is down at 100; the transfer has then done 50 and needs 50 more: 150.
    let mut e = LayerEvents::new(2, 0.5);
    e.write_back(Ps(0), Ps(50), 1);
    let (passed, written) = e.pass(
        Ps(0),
        &[0],
        &[LayerTimes {
            compute: Ps(10),
            transfer: Ps(100),
        }],
    );
    assert_eq!(
        (passed.waited, passed.end, written),
        (Ps(150), Ps(160), Ps(100))
    );
}

proptest! {
    #[test]
    fn equal_without_contention((layers, order) in shapes(), gap in 0u64..5_000_000, depth in 1u32..5, down in 0u64..1_000_000) {
        let (mut by_events, mut pipeline) = (LayerEvents::new(depth, 1.0), Pipeline::new(depth));
        let (mut a, mut b) = (Ps(0), Ps(0));
        for _ in 0..6 {
            let (x, _) = by_events.pass(a + Ps(gap), &order, &layers);
            let y = pipeline.pass(b + Ps(gap), &order, &layers);
            prop_assert_eq!(x, y);
            (a, b) = (x.end, y.end);
            by_events.write_back(a, Ps(down), 7);
        }
    }

    #[test]
    fn contention_only_slows((layers, order) in shapes(), gap in 0u64..5_000_000, depth in 1u32..5, down in 1u64..4_000_000, duplex in 0.3f64..1.0) {
        let run = |duplex: f64| {
            let mut e = LayerEvents::new(depth, duplex);
            let mut at = Ps(0);
            for _ in 0..5 {
                at = e.pass(at + Ps(gap), &order, &layers).0.end;
                e.write_back(at, Ps(down), 3);
            }
            at
        };
        prop_assert!(run(duplex) >= run(1.0));
    }
}
