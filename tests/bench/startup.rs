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

/// CPU-seconds of all children so far (user and system), in clock ticks of 10 ms; none where the system does not say.
fn children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name in brackets: state is field 3, cutime and cstime are fields 16 and 17.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at - 3)?.parse::<f64>().ok();
    Some((ticks(16)? + ticks(17)?) / 100.0)
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let n = if smoke { 3 } else { 20 };
    let nothing = best(&["--version"], n);
    let before = children();
    let answer = best(&["plan"], n);
    let spent = children().zip(before).map(|(a, b)| a - b);
    let bare = best(&["plan", "--intervals", "none"], n);
    let ms = answer.as_secs_f64() * 1e3;
    println!(
        "start-up to nothing        {:8.1} ms",
        nothing.as_secs_f64() * 1e3
    );
    println!(
        "start-up to default answer {ms:8.1} ms   bar 100 ms   {}",
        if ms < 100.0 { "met" } else { "MISSED" }
    );
    println!(
        "  without its intervals    {:8.1} ms",
        bare.as_secs_f64() * 1e3
    );
    if let Some(spent) = spent {
        println!(
            "  of all cores, mean       {:8.1} ms of CPU time",
            spent / f64::from(n) * 1e3
        );
    }
    if ms >= 100.0 && !smoke {
        std::process::exit(1);
    }
}
