//! Past the recorded end: the sample that `extended` follows against rows drawn from the same law.
#![allow(clippy::cast_possible_truncation)] // small counts

use crate::replay_support::Made;
use kvplan::policy;
use kvplan::replay;
use kvplan::timeline::{Interval, Timeline};
use kvplan::trace::synth::{Drawer, Law};
use kvplan::trace::{Rows, default_trace};

const RECORDED: u32 = 1000;
const STEPS: u32 = 4000;

/// The embedded trace continued by drawn rows.
fn drawn(seed: u64) -> Made {
    let trace = default_trace().unwrap();
    let law = Law::fit(&trace, RECORDED).unwrap();
    let mut rows = Vec::new();
    trace
        .for_each(RECORDED, &mut |_, row| {
            rows.push(row.to_vec());
            Ok(())
        })
        .unwrap();
    let mut drawer = Drawer::new(&law, seed, RECORDED);
    rows.resize_with(STEPS as usize, || {
        let mut row = Vec::new();
        drawer.next_row(&mut row);
        row
    });
    let sums = trace.column_sums().map(<[f32]>::to_vec);
    Made {
        prompt: 128,
        sums,
        rows,
    }
}

/// Mean mass by tier past the end, and all moves there.
fn tail(timeline: &Timeline) -> ([f64; 4], f64) {
    let late = &timeline.mass[RECORDED as usize..];
    let mass =
        std::array::from_fn(|tier| late.iter().map(|m| m[tier]).sum::<f64>() / late.len() as f64);
    let past = |i: &&Interval| i.first_step > RECORDED;
    let moved = timeline
        .intervals
        .iter()
        .filter(past)
        .map(|i| i.promoted + i.demoted)
        .sum();
    (mass, moved)
}

/// Within 5 % where nothing is destroyed (mass on T0 and T1, tokens moved), within 12 % where it is. Drawn rows of two seeds
/// differ by as much where something is destroyed: heavy hitters to come are some ten, and each holds 2 % of a row.
#[test]
fn the_sample_agrees_with_drawn_rows() {
    let settings = [
        ("four-tier:hbm=0.3", 0.05),
        ("four-tier:hbm=0.5", 0.05),
        ("four-tier:hbm=0.7", 0.1),
        ("four-tier:hbm=900tok", 0.05),
        ("four-tier:hbm=0", 0.05),
        ("four-tier:hbm=0.5,window=64", 0.07),
        ("four-tier:hbm=0.5,score=per-age", 0.1),
        ("streaming-llm:window=300", 0.05),
        ("four-tier:hbm=0.5,evict=0.03,semantics=per-interval", 0.12),
        (
            "four-tier:preset=prototype,hbm=0.5,evict=0.05,semantics=per-interval",
            0.12,
        ),
    ];
    let specs = settings.map(|(text, _)| policy::parse(text).unwrap());
    let traces = [drawn(1), drawn(2)];
    let replays: Vec<_> = traces
        .iter()
        .map(|t| replay::run(t, &specs).unwrap())
        .collect();
    let trace = default_trace().unwrap();
    for (i, (text, bound)) in settings.into_iter().enumerate() {
        let (got, moved) = tail(&replay::extended(&trace, &specs[i], 128, STEPS).unwrap());
        let (a, b) = (tail(&replays[0][i]), tail(&replays[1][i]));
        let want: [f64; 4] = std::array::from_fn(|tier| f64::midpoint(a.0[tier], b.0[tier]));
        let want_moved = f64::midpoint(a.1, b.1);
        eprintln!(
            "{text}: T0 {:.4} of {:.4}, T1 {:.4} of {:.4}, T3 {:.4} of {:.4}, moved {moved:.0} of {want_moved:.0}",
            got[0], want[0], got[1], want[1], got[3], want[3]
        );
        for tier in 0..4 {
            assert!(
                (got[tier] - want[tier]).abs() <= bound * want[tier].max(0.01),
                "{text}: T{tier} {} {}",
                got[tier],
                want[tier]
            );
        }
        assert!(
            (moved - want_moved).abs() <= bound * want_moved.max(1.0),
            "{text}: {moved} {want_moved}"
        );
    }
}

/// Recorded rows decide up to their end, whatever comes after; the rest is flagged; equal questions give equal bits.
#[test]
fn the_recorded_part_is_not_touched() {
    let trace = default_trace().unwrap();
    for text in [
        "four-tier:hbm=0.5",
        "four-tier:hbm=3000tok",
        "four-tier:hbm=0.4,t2=0.2,evict=0.1,semantics=cumulative",
        "streaming-llm:window=200",
    ] {
        let spec = policy::parse(text).unwrap();
        let recorded = replay::run(&trace, &[spec]).unwrap().remove(0);
        let long = replay::extended(&trace, &spec, 128, 9000).unwrap();
        assert_eq!(long.mass[..1000], recorded.mass[..], "{text}");
        assert_eq!(long.synthetic_from, Some(1000));
        assert_eq!(long, replay::extended(&trace, &spec, 128, 9000).unwrap());
        assert_eq!(long.mass.len(), 9000);
        assert!(long.degraded.is_empty() || long.degraded.len() == 9000);
    }
}

/// With more in HBM, less mass lies below it; with nothing outside, none does.
#[test]
fn mass_on_the_host_falls_with_the_budget() {
    let trace = default_trace().unwrap();
    let on_host: Vec<f64> = (0..=10)
        .map(|i| {
            let spec = policy::parse(&format!("four-tier:hbm={}", f64::from(i) / 10.0)).unwrap();
            tail(&replay::extended(&trace, &spec, 128, 6000).unwrap()).0[1]
        })
        .collect();
    assert!(on_host.windows(2).all(|w| w[0] >= w[1]), "{on_host:?}");
    assert!(on_host[0] > 0.1 && on_host[10] <= 0.0, "{on_host:?}");
}

/// A cadence of one step and a long run stay cheap and whole.
#[test]
fn any_cadence_and_length_works() {
    let trace = default_trace().unwrap();
    for text in [
        "four-tier:interval=1,hbm=0.5",
        "four-tier:interval=5000",
        "four-tier:window=1,sinks=0,interval=7,hbm=0.2",
        "four-tier:score=last",
        "four-tier:window=900",
    ] {
        let spec = policy::parse(text).unwrap();
        for steps in [1001, 1064, 20_000] {
            let timeline = replay::extended(&trace, &spec, 128, steps).unwrap();
            assert_eq!(timeline.mass.len(), steps as usize, "{text}");
            for mass in &timeline.mass[1000..] {
                assert!(
                    mass.iter().all(|m| (0.0..=1.0).contains(m))
                        && (mass.iter().sum::<f64>() - 1.0).abs() < 1e-9,
                    "{text}: {mass:?}"
                );
            }
            for pair in timeline.intervals.windows(2) {
                let host = |i: &Interval| i.tokens[1] + i.tokens[2];
                assert!(
                    pair[1].promoted <= host(&pair[0]) + 1e-9
                        && pair[1].promoted >= 0.0
                        && pair[1].demoted >= 0.0,
                    "{text}"
                );
            }
        }
    }
}
