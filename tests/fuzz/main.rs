//! Seeded mutation fuzzing of everything that reads what others wrote.
//!
//! `cargo-fuzz` needs a nightly compiler, so this is a plain fuzzer that any toolchain runs: a corpus of sound inputs, a
//! mutator that knows the formats (checksums are made right again, so that damage gets past them), and a notion of
//! novelty in place of coverage: an input that meets an outcome not seen before (a new message, whatever its figures)
//! joins the corpus. What must hold: no panic, an error exits 2 or 3, nothing takes seconds, and what is accepted is
//! sound (a trace verifies, a policy prints as text that parses to the same).
//!
//! `cargo test --release --test fuzz` is a smoke run of some seconds. `KVPLAN_FUZZ_SECONDS=600 cargo test --release --test
//! fuzz -- --ignored --nocapture` runs that long, and `KVPLAN_FUZZ_SEED` picks another stream. A failure writes the input
//! to the test folder of `target` and names it.
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)] // shared with the integration tests
#[path = "../it/calibrate_make.rs"]
mod calibrate_make;
mod corpus;
#[allow(dead_code)] // shared with the integration tests
#[path = "../it/forward_make.rs"]
mod forward_make;
mod mutate;
mod runner;
mod targets;
#[allow(dead_code)] // shared with the integration tests
#[path = "../it/trace_make.rs"]
mod trace_make;

use runner::Fuzzer;
use std::time::{Duration, Instant};

/// A fixed number of inputs a target, so that a smoke run is the same everywhere.
#[test]
fn smoke() {
    for target in targets::all() {
        let mut fuzzer = Fuzzer::new(&target, 1);
        for _ in 0..target.smoke {
            fuzzer.one();
        }
        eprintln!("{}", fuzzer.summary());
    }
}

#[test]
#[ignore = "as long as KVPLAN_FUZZ_SECONDS says (60)"]
fn long() {
    let number = |name: &str, or: u64| {
        std::env::var(name)
            .ok()
            .and_then(|t| t.parse().ok())
            .unwrap_or(or)
    };
    let (seconds, seed) = (
        number("KVPLAN_FUZZ_SECONDS", 60),
        number("KVPLAN_FUZZ_SEED", 7),
    );
    let targets = targets::all();
    let share = Duration::from_secs(seconds) / u32::try_from(targets.len()).unwrap();
    for target in targets {
        let mut fuzzer = Fuzzer::new(&target, seed);
        let begin = Instant::now();
        while begin.elapsed() < share {
            fuzzer.one();
        }
        eprintln!("{}", fuzzer.summary());
    }
}
