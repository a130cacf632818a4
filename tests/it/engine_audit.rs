//! The audit catches planted faults: one sound step, then the same with one thing wrong.

use kvplan::engine::audit::Audit;
use kvplan::engine::{Observer, StepFact, StepTimes};
use kvplan::error::Cause;
use kvplan::memory::{Held, Instant};
use kvplan::units::Ps;

use crate::engine_support::{World, scenario};

/// A step as it is told.
#[derive(Clone)]
struct Told {
    times: StepTimes,
    held: Held,
    destroyed: f64,
    appended: f64,
    instant: Instant,
    peak: Instant,
    ddr: f64,
}

/// Step `n` of two sequences: 100 ps of gap and 900 ps of compute, the link busy for 400 ps and carrying 10 bytes.
fn sound(n: u64) -> Told {
    let begin = Ps(5_000 + 1_000 * n);
    let instant = Instant {
        kv_t0: 60.0,
        staging: 4.0,
    };
    Told {
        times: StepTimes {
            begin,
            end: begin + Ps(1_000),
            gap: Ps(100),
            compute: Ps(900),
            h2d_busy: Ps(400),
            h2d_bytes: 10.0,
            d2h_bytes: 8.0,
            ..StepTimes::default()
        },
        held: Held {
            sequences: 2.0,
            tiers: [30.0 + 2.0 * n as f64, 10.0, 0.0],
            windowed: Vec::new(),
            ..Held::default()
        },
        destroyed: 5.0,
        appended: 45.0 + 2.0 * n as f64,
        instant,
        peak: instant,
        ddr: 100.0,
    }
}

/// What an audit says to a sound step followed by a changed one.
fn after(change: impl FnOnce(&mut Told)) -> Result<(), String> {
    let world = World::of(&scenario("model smollm2-135m").deployment);
    let mut audit = Audit::new(&world.prepared);
    let mut second = sound(1);
    change(&mut second);
    for told in [sound(0), second] {
        let fact = StepFact {
            times: &told.times,
            held: &told.held,
            destroyed: told.destroyed,
            appended: told.appended,
            instant: told.instant,
            peak: told.peak,
            ddr: told.ddr,
        };
        audit.step(&fact).map_err(|e| {
            assert_eq!(e.cause, Cause::Internal);
            e.message
        })?;
    }
    Ok(())
}

#[track_caller]
fn refused(law: &str, change: impl FnOnce(&mut Told)) {
    let said = after(change).unwrap_err();
    assert!(
        said.contains(&format!("law of {law} broken at step 1")),
        "{said}"
    );
}

#[test]
fn a_sound_run_passes() {
    after(|_| ()).unwrap();
}

#[test]
fn lost_and_returning_tokens_are_caught() {
    refused("tokens", |t| t.held.tiers[1] -= 1.0);
    refused("tokens", |t| t.appended += 1.0);
    // One destroyed token lives again: the count still adds up.
    refused("tokens", |t| {
        t.destroyed -= 1.0;
        t.held.tiers[0] += 1.0;
    });
}

#[test]
fn impossible_memory_is_caught() {
    refused("bytes", |t| t.instant.kv_t0 = -1.0);
    refused("bytes", |t| t.instant.staging += 1.0);
    // 100 bytes at the start and 16 came down since.
    refused("bytes", |t| t.ddr = 117.0);
}

#[test]
fn impossible_time_is_caught() {
    refused("time", |t| t.times.begin = Ps(5_999));
    refused("time", |t| t.times.end = t.times.begin);
    refused("time", |t| t.times.exposed = Ps(1));
    // 400 + 1,601 of the 2,000 ps since the start.
    refused("busy link", |t| t.times.h2d_busy = Ps(1_601));
    // Idle between the steps is no slack for the parts of one.
    refused("time", |t| t.times.compute += Ps(1));
}

#[test]
fn a_link_faster_than_its_rate_is_caught() {
    // 55 GB/s for 800 ps are 44 bytes; 20 came up.
    after(|t| t.times.h2d_bytes = 33.0).unwrap();
    refused("bytes", |t| t.times.h2d_bytes = 36.0);
}

#[test]
fn a_run_that_never_ends_is_sound() {
    after(|t| {
        t.times.exposed = Ps::NEVER;
        t.times.h2d_busy = Ps::NEVER;
        t.times.end = t.times.begin + Ps::NEVER;
    })
    .unwrap();
}
