//! A thousand cells on the embedded trace, against the same cells asked one by one, measured in the same run.
//!
//! `cargo bench --bench sweep` runs 1,000 cells on two threads and fails over 20 s; `-- --smoke` runs 40 and only prints.
//! The yardstick is `simulate` on every tenth of them, in turn, as a shell loop would (less the start of a process).
//!
//! Then two threads against one: the same cells on pools of one and of two, in turn, the least wall time of each; the bar is
//! 1.8. On a machine that others use the wall says little, so what the sweep itself loses is told beside it, in CPU time:
//! how much more two threads need in all, and how unevenly it falls on them (the busier one's part bounds the gain).
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::Instant;

use kvplan::plan;
use kvplan::scenario::{Settings, Verb, resolve};
use kvplan::sweep::axis::Axis;
use kvplan::sweep::grid::Grid;
use kvplan::sweep::{Sweep, run};

/// Seconds that 1,000 cells may take.
const BAR: f64 = 20.0;

fn sweep(smoke: bool) -> Sweep {
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
    let grid = Grid::new(Settings::defaults(Verb::Simulate), axes).unwrap();
    Sweep::new(grid, None, None).unwrap()
}

/// CPU-seconds of the calling thread so far; none where the system does not say.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns * 1e-9)
}

/// Wall seconds of a sweep on a pool, and CPU-seconds of each of its threads.
fn timed(sweep: &Sweep, pool: &rayon::ThreadPool) -> (f64, Option<Vec<f64>>) {
    let each = || {
        pool.broadcast(|_| thread_seconds())
            .into_iter()
            .collect::<Option<Vec<f64>>>()
    };
    let before = each();
    let begun = Instant::now();
    let cells = pool
        .install(|| run(sweep, Vec::new(), &|_| Ok(())))
        .unwrap();
    let wall = begun.elapsed().as_secs_f64();
    assert_eq!(cells.len(), sweep.grid.cells());
    let spent = |(a, b): (Vec<f64>, Vec<f64>)| a.iter().zip(b).map(|(a, b)| b - a).collect();
    (wall, before.zip(each()).map(spent))
}

/// Two threads against one.
fn jobs(sweep: &Sweep, passes: usize) {
    let pool = |n| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(n)
            .build()
            .unwrap()
    };
    let pools = [pool(1), pool(2)];
    let mut wall = [f64::INFINITY; 2];
    let (mut one, mut all, mut busier) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..passes {
        for (n, pool) in pools.iter().enumerate() {
            let (took, spent) = timed(sweep, pool);
            wall[n] = wall[n].min(took);
            let Some(spent) = spent else { continue };
            let (sum, most) = (
                spent.iter().sum::<f64>(),
                spent.iter().copied().fold(0.0, f64::max),
            );
            if n == 0 {
                one = one.min(sum);
            } else if most < busier {
                (all, busier) = (sum, most);
            }
        }
    }
    let gain = wall[0] / wall[1];
    println!(
        "--jobs 2: {gain:.2} times as fast as 1 by the wall, bar 1.8 {}",
        if gain >= 1.8 {
            "reached"
        } else {
            "NOT reached"
        }
    );
    if busier.is_finite() {
        println!(
            "  by CPU time: {one:.2} s on one thread, {all:.2} s on two ({:.2} times), the busier of them {busier:.2} s: at most {:.2} times as fast",
            all / one,
            one / busier
        );
    }
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    let sweep = sweep(smoke);
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
    jobs(&sweep, if smoke { 2 } else { 5 });
    if !smoke && (all != 1000 || took > BAR) {
        std::process::exit(1);
    }
}
