//! The pipeline of layers against its closed form, a second plain implementation, and worked examples.

use kvplan::engine::{LayerTimes, Pipeline};
use kvplan::units::Ps;
use proptest::prelude::*;

fn layer(c: u64, x: u64) -> LayerTimes {
    LayerTimes {
        compute: Ps(c),
        transfer: Ps(x),
    }
}

/// Ends of `steps` steps of `order` with gap `g`.
fn ends(depth: u32, g: u64, order: &[u8], layers: &[LayerTimes], steps: usize) -> Vec<u64> {
    let mut pipeline = Pipeline::new(depth, 1.0);
    let mut at = Ps(0);
    (0..steps)
        .map(|_| {
            at = pipeline.pass(at + Ps(g), order, layers).end;
            at.0
        })
        .collect()
}

/// The same by events: every transfer and every layer is an event in one list; at each turn all that may start, start.
fn plain(depth: usize, g: u64, order: &[u8], layers: &[LayerTimes], steps: usize) -> Vec<u64> {
    let n = order.len() * steps;
    let of = |k: usize| layers[usize::from(order[k % order.len()])];
    let (mut sent, mut done) = (vec![None; n], vec![None; n]);
    // Only layers with a transfer take a buffer; the d-th one before must have computed.
    let users: Vec<usize> = (0..n).filter(|k| of(*k).transfer > Ps::ZERO).collect();
    for (j, &k) in users.iter().enumerate() {
        // Everything up to this transfer's buffer must be computed first.
        let until = if j >= depth { users[j - depth] } else { 0 };
        if j >= depth {
            compute(until, g, order.len(), &of, &sent, &mut done);
        }
        let link = if j == 0 {
            0
        } else {
            sent[users[j - 1]].unwrap()
        };
        let buffer = if j >= depth { done[until].unwrap() } else { 0 };
        sent[k] = Some(link.max(buffer) + of(k).transfer.0);
    }
    compute(n - 1, g, order.len(), &of, &sent, &mut done);
    (1..=steps)
        .map(|s| done[s * order.len() - 1].unwrap())
        .collect()
}

fn compute(
    last: usize,
    g: u64,
    layers: usize,
    of: &dyn Fn(usize) -> LayerTimes,
    sent: &[Option<u64>],
    done: &mut [Option<u64>],
) {
    for k in 0..=last {
        if done[k].is_none() {
            let before = if k == 0 { 0 } else { done[k - 1].unwrap() }
                + if k.is_multiple_of(layers) { g } else { 0 };
            let arrived = if of(k).transfer > Ps::ZERO {
                sent[k].unwrap()
            } else {
                0
            };
            done[k] = Some(before.max(arrived) + of(k).compute.0);
        }
    }
}

#[test]
fn three_layers_by_hand() {
    // d = 2, c = 10, x = 30, G = 5. Buffers: transfers 0 and 1 at once (30, 60); layer 0 waits to 30, ends 40;
    // layer 1 waits to 60, ends 70; transfer 2 needs layer 0's buffer (40) and the link (60): 90; layer 2: 90..100.
    // Step 2: transfer 3 needs layer 1 (70), link 90: 120; 4: layer 2 (100), link 120: 150; 5: layer 3 (130): 180.
    // Layer 3 waits to 120, ends 130; 4: 150..160; 5: 180..190. Period 90 = L x: the link bounds it.
    assert_eq!(ends(2, 5, &[0; 3], &[layer(10, 30)], 2), [100, 190]);
}

#[test]
fn one_buffer_is_serial_within_a_layer() {
    // d = 1: each transfer waits for the layer before it. L(c+x) + max(0, G-x) = 2(10+4) + (6-4) = 30 a step; the
    // first step has nothing to prefetch under its gap: transfer 0..4, gap to 6, layer 6..16, 16..20..30.
    assert_eq!(ends(1, 6, &[0; 2], &[layer(10, 4)], 3), [30, 60, 90]);
}

#[test]
fn no_transfer_is_the_full_cache() {
    assert_eq!(ends(2, 7, &[0; 4], &[layer(10, 0)], 3), [47, 94, 141]);
}

#[test]
fn a_drain_costs_the_lead() {
    // x = 10, c = 20, G = 100: all transfers of layer 0 hide in the gap. Drained at the end of the gap, layer 0 waits 10.
    let mut p = Pipeline::new(2, 1.0);
    let first = p.pass(Ps(100), &[0; 2], &[layer(20, 10)]);
    assert_eq!(first.end, Ps(140));
    p.drain(1.0, Ps(240));
    let second = p.pass(Ps(240), &[0; 2], &[layer(20, 10)]);
    assert_eq!((second.waited, second.end), (Ps(10), Ps(290)));
}

proptest! {
    #[test]
    fn uniform_layers_follow_the_closed_form(c in 1u64..500, x in 1u64..500, g in 0u64..2000, l in 2usize..40, d in 1u32..5) {
        let order = vec![0u8; l];
        let e = ends(d, g, &order, &[layer(c, x)], 60);
        let n = l as u64;
        let form = if d == 1 {
            n * (c + x) + g.saturating_sub(x)
        } else {
            let d = u64::from(d).min(n);
            (n * c + g).max(n * x).max(g + 2 * c + (n - d) * x)
        };
        if u64::from(d) <= n {
            prop_assert_eq!(e[59] - e[58], form);
        }
    }

    #[test]
    fn agrees_with_plain_events(times in prop::collection::vec((1u64..300, 0u64..300), 1..5), l in 1usize..24, g in 0u64..500, d in 1u32..5, seed in 0usize..99) {
        let layers: Vec<LayerTimes> = times.iter().map(|t| layer(t.0, t.1)).collect();
        let order: Vec<u8> = (0..l).map(|i| u8::try_from((i * 7 + seed) % layers.len()).unwrap()).collect();
        prop_assert_eq!(ends(d, g, &order, &layers, 6), plain(d as usize, g, &order, &layers, 6));
    }

    #[test]
    fn a_faster_link_never_slows(c in 1u64..300, x in 1u64..300, g in 0u64..500, l in 1usize..24, d in 1u32..4) {
        let order = vec![0u8; l];
        let slow = ends(d, g, &order, &[layer(c, x)], 8);
        let fast = ends(d, g, &order, &[layer(c, x - 1)], 8);
        prop_assert!(fast.iter().zip(&slow).all(|(f, s)| f <= s));
    }
}
