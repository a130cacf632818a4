//! Request-steps per CPU-second under load, from a replayed timeline, and the memory that ten million of them take.
//!
//! 64 requests run together; a request that ends is followed by the next, so that each is at a length of its own. The bar:
//! 10 million request-steps a CPU-second with everything in HBM and with tiers; 3 million with the replay included; 10 million
//! request-steps in under 100 MB; two runs equal. `--smoke` runs a small one.
//!
//! Then ratios, each of two kinds of run taken in turn so that what else the machine does falls on both alike: a tier that
//! may be used and is not (four-tier at a budget that nothing reaches) against everything in HBM, under 1.10; a pool of four
//! and of sixty-four times what all requests need against one that just holds them, under 1.10. Last, where the time goes:
//! nanoseconds a step and a request-step, from two batches.
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
    serve_in(prepared, ledger, jobs, (f64::INFINITY, BATCH))
}

/// The same with so much HBM for KV and staging, and so many requests together.
fn serve_in(
    prepared: &Prepared,
    ledger: &Ledger,
    jobs: Vec<Job>,
    (pool, max_running): (f64, u32),
) -> Served {
    let server = Server::new(Serve {
        prepared,
        ledger,
        jobs,
        blocks: &[],
        block_tokens: 0,
        rules: Rules {
            max_running,
            token_budget: 2048,
            give_way: GiveWay::Recompute,
            ahead: true,
            pool,
            ddr: f64::INFINITY,
        },
    });
    server.unwrap().run(&mut Unwatched).unwrap()
}

fn verdict(reached: bool, bar: &str) -> String {
    format!("{bar} {}", if reached { "reached" } else { "NOT reached" })
}

/// CPU-seconds of each kind of run: the least of several passes, the kinds in turn.
fn least<const N: usize>(passes: u32, mut run: impl FnMut(usize)) -> [f64; N] {
    let start = Instant::now();
    let mut best = [f64::INFINITY; N];
    for _ in 0..passes {
        for (kind, best) in best.iter_mut().enumerate() {
            let begin = cpu_seconds(start);
            run(kind);
            *best = best.min(cpu_seconds(start) - begin);
        }
    }
    best
}

/// What a tier costs that is there and holds nothing.
fn idle_tier(prepared: &Prepared, ledger: &Ledger, (output, rounds): (u32, u32), passes: u32) {
    let (full, idle) = (
        replayed("full", output),
        replayed("four-tier:hbm=1000000tok", output),
    );
    assert!(
        !idle.spills() && idle.retiers > 0,
        "the tier is idle, and looked at"
    );
    let kinds = [&full, &idle];
    let times: [f64; 2] = least(passes, |kind| {
        black_box(serve(prepared, ledger, jobs(kinds[kind], output, rounds)));
    });
    let ratio = times[1] / times[0];
    println!(
        "an idle tier: {ratio:.3} times the CPU time of everything in HBM, {}",
        verdict(ratio < 1.10, "under 1.10")
    );
}

/// What more HBM costs: nothing looks at pages one by one.
fn pool_size(prepared: &Prepared, ledger: &Ledger, (output, rounds): (u32, u32), passes: u32) {
    let full = replayed("full", output);
    let all = ledger.sequence_bytes(f64::from(PROMPT + output + 16)) * f64::from(BATCH);
    let times: [f64; 3] = least(passes, |kind| {
        let pool = all * [1.0, 4.0, 64.0][kind];
        let served = serve_in(prepared, ledger, jobs(&full, output, rounds), (pool, BATCH));
        assert_eq!(served.run.preemptions, 0);
        black_box(served);
    });
    let (four, many) = (times[1] / times[0], times[2] / times[0]);
    println!(
        "a pool 4 and 64 times as large: {four:.3} and {many:.3} times the CPU time, {}",
        verdict(four < 1.10 && many < 1.10, "under 1.10")
    );
}

/// Time of a step and of each request in it, by a line through two batches.
fn where_it_goes(prepared: &Prepared, ledger: &Ledger, (output, rounds): (u32, u32), passes: u32) {
    let kinds = [
        replayed("full", output),
        replayed("four-tier:hbm=1800tok", output),
    ];
    for (name, timeline) in ["in HBM", "streaming"].iter().zip(&kinds) {
        let mut steps = [0.0; 2];
        let times: [f64; 2] = least(passes, |kind| {
            let together = [BATCH, BATCH / 8][kind];
            let all = jobs(timeline, output, rounds);
            let served = serve_in(prepared, ledger, all, (f64::INFINITY, together));
            steps[kind] = served.run.steps.len() as f64;
            black_box(served.run.tokens);
        });
        let each = [times[0] / steps[0] * 1e9, times[1] / steps[1] * 1e9];
        let request = (each[0] - each[1]) / f64::from(BATCH - BATCH / 8);
        println!(
            "{name:<10} {:.0} ns a step of {BATCH}, {:.0} ns of {}: {:.2} ns a request more, the rest is the step's laws (attention, pipeline, sums) whatever the batch is",
            each[0],
            each[1],
            BATCH / 8,
            request
        );
    }
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
    let memory = peak_mb();
    let passes = if smoke { 2 } else { 60 };
    idle_tier(&prepared, &ledger, (output, rounds), passes);
    pool_size(&prepared, &ledger, (output, rounds), passes);
    where_it_goes(&prepared, &ledger, (output, rounds), passes.min(8));
    if let (Some(before), Some(now)) = (before, memory) {
        println!(
            "memory: {now:.0} MB at the peak ({before:.0} before), {}",
            verdict(now < 100.0, "100 MB")
        );
    }
}
