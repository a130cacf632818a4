//! Request-steps per CPU-second of the engine, from a replayed timeline (replay time excluded and printed beside).
//!
//! A request-step is one decode step of one request. Yardstick in the same run: a bare loop over the same steps that
//! evaluates the attention line and adds up the step, in binary64, with no batch, no tiers and no memory.
//!
//! Then events per CPU-second of fidelity `layer`. Yardstick: a bare binary heap of (time, class, sequence) kept at as
//! many entries as a step has under way, one pop and one push an event, nothing done about it.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kvplan::deploy::{Fidelity, T1Mode};
use kvplan::engine::{Engine, Job, Setup, Unwatched};
use kvplan::memory::Ledger;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::service::Prepared;
use kvplan::timeline::Timeline;
use kvplan::{policy, replay, trace, workload};

const PROMPT: u32 = 1024;

/// What is aimed at for batch 64 (not a bar of this bench).
const WANTED: f64 = 10e6;

/// What is aimed at for events of fidelity `layer`.
const EVENTS: f64 = 5e6;

/// Seconds this thread has spent on a CPU, so that other work on the machine does not count; the system keeps it to a few
/// milliseconds.
fn cpu_seconds(since: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok())
        .map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// CPU-seconds of one call of `work`, called again and again for at least `enough` CPU-seconds.
fn seconds(enough: f64, mut work: impl FnMut() -> f64) -> f64 {
    let start = Instant::now();
    let begin = cpu_seconds(start);
    let mut calls = 0.0;
    loop {
        black_box(work());
        calls += 1.0;
        let spent = cpu_seconds(start) - begin;
        if spent >= enough {
            return spent / calls;
        }
    }
}

/// The default question's model on its first card.
fn prepared(t1: T1Mode) -> Prepared {
    let question = resolve::question(&Settings::defaults(Verb::Plan)).unwrap();
    let mut deployment = question.on(&question.cards[0]).deployment;
    deployment.t1 = t1;
    Prepared::new(&deployment)
}

fn replayed(spec: &str, output: u32) -> Arc<Timeline> {
    let spec = policy::parse(spec).unwrap();
    let rows = trace::default_trace().unwrap();
    Arc::new(replay::extended(&rows, &spec, PROMPT, output).unwrap())
}

fn engine(
    prepared: &Prepared,
    ledger: &Ledger,
    timeline: &Arc<Timeline>,
    batch: u32,
    output: u32,
) -> f64 {
    let jobs = workload::lockstep(batch, PROMPT, output)
        .into_iter()
        .zip(workload::retier_phases(batch, 64, 0))
        .map(|(request, phase)| Job {
            request,
            timeline: Arc::clone(timeline),
            phase,
        })
        .collect();
    let setup = Setup {
        prepared,
        ledger,
        jobs,
        max_running: batch,
        paged: false,
        respawn: false,
    };
    let run = Engine::new(setup).unwrap().run(&mut Unwatched).unwrap();
    black_box(run.makespan.secs());
    run.events as f64
}

/// The yardstick of the queue: `events` pops from a heap that holds `under_way` entries.
fn heap(events: u64, under_way: u64) -> f64 {
    let mut heap: BinaryHeap<Reverse<(u64, u8, u64)>> =
        (0..under_way).map(|i| Reverse((i * 7, 0, i))).collect();
    let mut sequence = under_way;
    for _ in 0..events {
        let Reverse((at, class, _)) = heap.pop().unwrap();
        sequence += 1;
        // Some events are near and some far, as transfers and layers are.
        let next = at + 1 + (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54);
        heap.push(Reverse((next, class ^ 1, sequence)));
    }
    heap.len() as f64
}

fn layer_fidelity(timelines: [(&str, T1Mode, &Arc<Timeline>); 3], output: u32, enough: f64) {
    const POPS: u64 = 1_000_000;
    let yardstick = POPS as f64 / seconds(enough, || heap(black_box(POPS), 4));
    println!(
        "fidelity layer, batch 8: bare heap {:.0} M events/CPU-s",
        yardstick / 1e6
    );
    for (name, t1, timeline) in timelines {
        let mut deployment = prepared(t1).deployment;
        deployment.fidelity = Fidelity::Layer;
        let prepared = Prepared::new(&deployment);
        let ledger = Ledger::new(&prepared);
        let run = || engine(&prepared, &ledger, timeline, 8, output);
        let rate = run() / seconds(enough, run);
        println!(
            "  {name:<14} {:7.1} M events/CPU-s, {:5.1} ns an event, {:.1} times the bare heap{}",
            rate / 1e6,
            1e9 / rate,
            yardstick / rate,
            if rate >= EVENTS {
                ", 5 M reached"
            } else {
                ", 5 M NOT reached"
            }
        );
    }
}

/// The yardstick: tokens of the batch to step time to sum.
fn bare(prepared: &Prepared, batch: u32, output: u32) -> f64 {
    let (class, cost) = (&prepared.classes[0], prepared.batch(batch));
    let mut tokens = f64::from(batch) * f64::from(PROMPT + 1);
    let mut total = 0.0;
    for _ in 0..output {
        let layer = cost.fixed[0]
            + prepared.attention(class, f64::from(batch), class.kv_token * black_box(tokens));
        total += cost.gap + cost.head + layer * f64::from(class.count);
        tokens += f64::from(batch);
    }
    total
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let (output, enough) = if smoke { (2_000, 0.05) } else { (15_360, 1.0) };
    let begin = Instant::now();
    let (full, tiered) = (
        replayed("full", output),
        replayed("four-tier:hbm=1800tok", output),
    );
    println!(
        "replay, excluded {:.1} ms",
        begin.elapsed().as_secs_f64() * 1e3
    );
    let modes = [
        ("in HBM", T1Mode::Stream, &full),
        ("streaming", T1Mode::Stream, &tiered),
        ("host attention", T1Mode::HostAttention, &tiered),
    ];
    let plain = prepared(T1Mode::Stream);
    for batch in [8, 64] {
        let steps = f64::from(batch) * f64::from(output);
        let yardstick = steps / seconds(enough, || bare(&plain, batch, output));
        println!(
            "batch {batch}: bare loop {:.0} M request-steps/CPU-s",
            yardstick / 1e6
        );
        for (name, t1, timeline) in modes {
            let prepared = prepared(t1);
            let ledger = Ledger::new(&prepared);
            let rate = steps
                / seconds(enough, || {
                    engine(&prepared, &ledger, timeline, batch, output)
                });
            let wanted = match batch {
                64 if rate >= WANTED => ", 10 M reached",
                64 => ", 10 M NOT reached",
                _ => "",
            };
            println!(
                "  {name:<14} {:7.1} M request-steps/CPU-s, {:5.1} ns a step, {:.1} times the bare loop{wanted}",
                rate / 1e6,
                f64::from(batch) / rate * 1e9,
                yardstick / rate
            );
        }
    }
    layer_fidelity(modes, output, enough);
}
