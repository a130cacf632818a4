//! Layer fidelity against the pipeline: equal to the picosecond without contention, near with it.

use kvplan::engine::{LayerEvents, LayerTimes, Pipeline, Work};
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
fn serial_is_the_sum_of_its_parts() {
    // Gap 5, fetch 7, pack 3; two layers of 10 + 20 (transfer, compute), one without a transfer of 20; head 4; its own
    // write-back of 9: 7 + 3 + 5 + 30 + 30 + 20 + 4 + 9 = 108, of which the GPU waits 20 for transfers.
    let layers = [(20, 10), (20, 0)].map(|(c, x)| LayerTimes {
        compute: Ps(c),
        transfer: Ps(x),
    });
    let mut e = LayerEvents::serial();
    let worked = e.step(&Work {
        begin: Ps(1000),
        fetch: Ps(7),
        pack: Ps(3),
        gap: Ps(5),
        order: &[0, 0, 1],
        layers: &layers,
        head: Ps(4),
        down: Ps(9),
    });
    assert_eq!((worked.retier, worked.written), (Ps(10), Ps(1108)));
    assert_eq!(
        (worked.passed.end, worked.passed.waited),
        (Ps(1095), Ps(20))
    );
    assert_eq!(
        (worked.passed.compute, worked.passed.link),
        (Ps(60), Ps(20))
    );
}

#[test]
fn a_fetch_meets_the_write_back() {
    // Both at half pace from 0: the fetch of 30 arrives at 60, by when 30 of the write-back's 50 are down; 20 more.
    let mut e = LayerEvents::new(2, 0.5);
    e.write_back(Ps(0), Ps(50), 1);
    let mut p = Pipeline::new(2, 0.5);
    p.write_back(Ps(0), Ps(50));
    let layers = [LayerTimes {
        compute: Ps(100),
        transfer: Ps(0),
    }];
    let worked = e.step(&Work {
        fetch: Ps(30),
        order: &[0],
        layers: &layers,
        ..Work::default()
    });
    assert_eq!((worked.retier, worked.written), (Ps(60), Ps(80)));
    assert_eq!((p.fetch(Ps(0), Ps(30)), p.written()), (Ps(60), Ps(80)));
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
        let (mut by_events, mut pipeline) = (LayerEvents::new(depth, 1.0), Pipeline::new(depth, 1.0));
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
    fn as_the_recursion_with_contention((layers, order) in shapes(), gap in 0u64..5_000_000, depth in 1u32..5, down in 0u64..40_000_000, share in 0.3f64..1.0, pieces in 1u64..9) {
        let (mut by_events, mut pipeline) = (LayerEvents::new(depth, share), Pipeline::new(depth, share));
        let runs: Vec<(u8, u32)> = order.iter().map(|c| (*c, 1)).collect();
        let (mut a, mut b) = (Ps(0), Ps(0));
        for step in 1..7 {
            let (x, written) = by_events.pass(a + Ps(gap), &order, &layers);
            let y = pipeline.pass_runs(b + Ps(gap), &runs, &layers);
            (a, b) = (x.end.max(written), y.end.max(pipeline.written()));
            // A change of pace rounds to the picosecond: each piece and each transfer may be two off.
            let rounding = 2 * step * (pieces + order.len() as u64);
            prop_assert!(a.0.abs_diff(b.0) <= rounding, "{:?} {:?} step {}", a, b, step);
            prop_assert!(x.link.0.abs_diff(y.link.0) <= rounding, "{:?} {:?}", x, y);
            by_events.write_back(a, Ps(down), pieces);
            pipeline.write_back(b, Ps(down));
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
