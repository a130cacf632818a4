//! Start-up to the printed default answer: bar 100 ms. Yardstick in the same run: the binary doing nothing (`--version`).
#![allow(missing_docs, clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Shortest of `n` runs: noise only adds.
fn best(args: &[&str], n: u32) -> Duration {
    (0..n)
        .map(|_| {
            let begin = Instant::now();
            let done = Command::new(env!("CARGO_BIN_EXE_kvplan"))
                .args(args)
                .stdout(Stdio::null())
                .status();
            assert!(done.is_ok_and(|s| s.success()), "kvplan {args:?} failed");
            begin.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let n = if smoke { 3 } else { 20 };
    let nothing = best(&["--version"], n);
    let answer = best(&["plan"], n);
    let ms = answer.as_secs_f64() * 1e3;
    println!(
        "start-up to nothing        {:8.1} ms",
        nothing.as_secs_f64() * 1e3
    );
    println!(
        "start-up to default answer {ms:8.1} ms   bar 100 ms   {}",
        if ms < 100.0 { "met" } else { "MISSED" }
    );
    if ms >= 100.0 && !smoke {
        std::process::exit(1);
    }
}
