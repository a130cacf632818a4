//! A thousand cells on the embedded trace, against the same cells asked one by one, measured in the same run.
//!
//! `cargo bench --bench sweep` runs 1,000 cells on two threads and fails over 20 s; `-- --smoke` runs 40 and only prints.
//! The yardstick is `simulate` on every tenth of them, in turn, as a shell loop would (less the start of a process).
//!
//! Then two threads against one: the same cells on pools of one and of two, in turn, the least wall time of each; the bar is
//! 1.8. On a machine that others use the wall says little, so what the sweep itself loses is told beside it, in CPU time:
//! how much more two threads need in all, and how unevenly it falls on them (the busier one's part bounds the gain); and how
//! much of it is the replay of recordings, by the same cells from their lengths alone.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::Instant;

use kvplan::plan;
use kvplan::scenario::settings::Origin;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::sweep::axis::Axis;
use kvplan::sweep::grid::Grid;
use kvplan::sweep::{Sweep, run};

/// Seconds that 1,000 cells may take.
const BAR: f64 = 20.0;

fn sweep(smoke: bool, trace: Option<&str>) -> Sweep {
    let shares = if smoke {
        "policy.hbm=0.1,0.5"
    } else {
        "policy.hbm=0.02..1+0.02"
    };
    let axes = [
        shares,
        "hardware=h100-sxm,h200-sxm,gh200,rtx-pro-6000,l40s",
        "t1=stream,host-attention",
        "batch=2,8",
    ];
    let axes = axes.map(|text| Axis::parse(text).unwrap()).to_vec();
    let mut base = Settings::defaults(Verb::Simulate);
    if let Some(trace) = trace {
        base.set("trace", &[trace.into()], Origin::Flag).unwrap();
    }
    let grid = Grid::new(base, axes).unwrap();
    Sweep::new(grid, None, None).unwrap()
}

/// CPU-seconds of the calling thread so far, and seconds in which it could have run and had to wait for a core; none where
/// the system does not say.
fn thread_seconds() -> Option<[f64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut ns = text.split_whitespace().map(|t| t.parse::<f64>().ok());
    Some([ns.next()?? * 1e-9, ns.next()?? * 1e-9])
}

/// Wall seconds of a sweep on a pool; CPU-seconds of each of its threads, and the longest that one waited for a core.
struct Took {
    wall: f64,
    cpu: Vec<f64>,
    waited: f64,
}

fn timed(sweep: &Sweep, pool: &rayon::ThreadPool) -> Took {
    let each = || pool.broadcast(|_| thread_seconds().unwrap_or_default());
    let before = each();
    let begun = Instant::now();
    let cells = pool
        .install(|| run(sweep, Vec::new(), &|_| Ok(())))
        .unwrap();
    let wall = begun.elapsed().as_secs_f64();
    assert_eq!(cells.len(), sweep.grid.cells());
    let after = each();
    let spent = |k: usize| before.iter().zip(&after).map(move |(a, b)| b[k] - a[k]);
    Took {
        wall,
        cpu: spent(0).collect(),
        waited: spent(1).fold(0.0, f64::max),
    }
}

/// Two threads against one, and what the recordings cost.
fn jobs(sweep: &Sweep, counted: &Sweep, passes: usize) {
    let pool = |n| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(n)
            .build()
            .unwrap()
    };
    let pools = [pool(1), pool(2)];
    let mut best: [Option<Took>; 2] = [None, None];
    for _ in 0..passes {
        for (pool, best) in pools.iter().zip(&mut best) {
            let took = timed(sweep, pool);
            if best.as_ref().is_none_or(|b| took.wall < b.wall) {
                *best = Some(took);
            }
        }
    }
    let [Some(one), Some(two)] = best else { return };
    let gain = one.wall / two.wall;
    println!(
        "--jobs 2: {gain:.2} times as fast as 1 by the wall, bar 1.8 {}; for {:.0} and {:.0} % of it a thread waited for a core that others had",
        if gain >= 1.8 {
            "reached"
        } else {
            "NOT reached"
        },
        100.0 * one.waited / one.wall,
        100.0 * two.waited / two.wall
    );
    let (alone, all) = (one.cpu.iter().sum::<f64>(), two.cpu.iter().sum::<f64>());
    let busier = two.cpu.iter().copied().fold(0.0, f64::max);
    if busier <= 0.0 {
        return;
    }
    let by_lengths: f64 = timed(counted, &pools[0]).cpu.iter().sum();
    println!(
        "  by CPU time: {alone:.2} s on one thread, {all:.2} s on two, the busier of them {busier:.2} s: {:.2} times as fast on cores of its own, less what it waits for the other at the end of a window",
        alone / busier
    );
    println!(
        "  replaying recordings takes {:.0} % of the CPU time, what is left are the cells, {:.2} ms each: the larger is the limit",
        100.0 * (1.0 - by_lengths / alone),
        1e3 * by_lengths / sweep.grid.cells() as f64
    );
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    let (sweep, counted) = (sweep(smoke, None), sweep(smoke, Some("none")));
    let all = sweep.grid.cells();
    let begun = Instant::now();
    let cells = pool
        .install(|| run(&sweep, Vec::new(), &|_| Ok(())))
        .unwrap();
    let took = begun.elapsed().as_secs_f64();
    let answer = sweep.answer(cells).unwrap();
    let begun = Instant::now();
    let every = 10;
    for index in (0..all).step_by(every) {
        let settings = sweep
            .grid
            .settings(&sweep.grid.place(index), false)
            .unwrap();
        let alone = plan::simulate(&resolve::scenario(&settings).unwrap()).unwrap();
        assert_eq!(Some(&alone), answer.cells[index].outcome.as_ref());
    }
    let alone = begun.elapsed().as_secs_f64() * every as f64;
    println!(
        "{all} cells on 2 threads: {took:.2} s, {:.0} cells/s (bar {BAR} s for 1,000)",
        all as f64 / took
    );
    println!(
        "one by one on 1 thread: {alone:.2} s; the sweep takes {:.2} of half of that",
        took / (alone / 2.0)
    );
    jobs(&sweep, &counted, if smoke { 2 } else { 5 });
    if !smoke && (all != 1000 || took > BAR) {
        std::process::exit(1);
    }
}
