//! Request-steps per CPU-second under load, from a replayed timeline, and the memory that ten million of them take.
//!
//! 64 requests run together; a request that ends is followed by the next, so that each is at a length of its own. The bar:
//! 10 million request-steps a CPU-second with everything in HBM and with tiers; 3 million with the replay included; 10 million
//! request-steps in under 100 MB; two runs equal. `--smoke` runs a small one.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kvplan::deploy::T1Mode;
use kvplan::engine::serve::{GiveWay, Rules, Serve, Served, Server};
use kvplan::engine::{Job, Unwatched};
use kvplan::memory::Ledger;
use kvplan::policy;
use kvplan::replay;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::service::Prepared;
use kvplan::timeline::Timeline;
use kvplan::trace;
use kvplan::units::Ps;
use kvplan::workload::{self, Request};

const BATCH: u32 = 64;
const PROMPT: u32 = 1024;
const WANTED: f64 = 10e6;
const WITH_REPLAY: f64 = 3e6;

/// CPU-seconds of this process so far.
fn cpu_seconds(since: Instant) -> f64 {
    std::fs::read_to_string("/proc/self/schedstat")
        .ok()
        .and_then(|t| t.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// Largest memory of this process so far (MB); none where the system does not say.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    let kb: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kb * 1024.0 / 1e6)
}

fn prepared() -> Prepared {
    let question = resolve::question(&Settings::defaults(Verb::Plan)).unwrap();
    let mut deployment = question.on(&question.cards[0]).deployment;
    deployment.t1 = T1Mode::Stream;
    Prepared::new(&deployment)
}

fn replayed(spec: &str, output: u32) -> Arc<Timeline> {
    let spec = policy::parse(spec).unwrap();
    let rows = trace::default_trace().unwrap();
    Arc::new(replay::extended(&rows, &spec, PROMPT, output).unwrap())
}

/// `rounds` requests a slot, the first ones of staggered lengths so that nobody ends together.
fn jobs(timeline: &Arc<Timeline>, output: u32, rounds: u32) -> Vec<Job> {
    let n = BATCH * rounds;
    let phases = workload::retier_phases(n, 64, 0);
    (0..n)
        .zip(phases)
        .map(|(i, phase)| Job {
            request: Request {
                prompt: PROMPT,
                output: if i < BATCH {
                    output * (i + 1) / BATCH
                } else {
                    output
                },
                arrival: Ps::ZERO,
                generated: 0,
            },
            timeline: Arc::clone(timeline),
            phase,
        })
        .collect()
}

fn serve(prepared: &Prepared, ledger: &Ledger, jobs: Vec<Job>) -> Served {
    let server = Server::new(Serve {
        prepared,
        ledger,
        jobs,
        blocks: &[],
        block_tokens: 0,
        rules: Rules {
            max_running: BATCH,
            token_budget: 2048,
            give_way: GiveWay::Recompute,
            ahead: true,
            pool: f64::INFINITY,
            ddr: f64::INFINITY,
        },
    });
    server.unwrap().run(&mut Unwatched).unwrap()
}

fn verdict(reached: bool, bar: &str) -> String {
    format!("{bar} {}", if reached { "reached" } else { "NOT reached" })
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let (output, rounds, enough) = if smoke {
        (1_000, 2, 0.05)
    } else {
        (15_360, 11, 2.0)
    };
    let prepared = prepared();
    let ledger = Ledger::new(&prepared);
    let start = Instant::now();
    let before = peak_mb();
    for (name, spec) in [("in HBM", "full"), ("streaming", "four-tier:hbm=1800tok")] {
        let begin = cpu_seconds(start);
        let timeline = replayed(spec, output);
        let replay = cpu_seconds(start) - begin;
        let first = serve(&prepared, &ledger, jobs(&timeline, output, rounds));
        let (mut calls, begin) = (0.0, cpu_seconds(start));
        while cpu_seconds(start) - begin < enough {
            let again = serve(&prepared, &ledger, jobs(&timeline, output, rounds));
            assert!(
                first.lives == again.lives && first.gaps == again.gaps,
                "two runs differ"
            );
            calls += 1.0;
        }
        let one = (cpu_seconds(start) - begin) / calls;
        let steps = black_box(first.run.tokens) as f64;
        let (rate, whole) = (steps / one, steps / (one + replay));
        println!(
            "{name:<10} batch {BATCH}: {:5.1} M request-steps, {:6.1} M a CPU-s, {}; replay included {:.1} M, {}",
            steps / 1e6,
            rate / 1e6,
            verdict(rate >= WANTED, "10 M"),
            whole / 1e6,
            verdict(whole >= WITH_REPLAY, "3 M"),
        );
    }
    if let (Some(before), Some(now)) = (before, peak_mb()) {
        println!(
            "memory: {now:.0} MB at the peak ({before:.0} before), {}",
            verdict(now < 100.0, "100 MB")
        );
    }
}
