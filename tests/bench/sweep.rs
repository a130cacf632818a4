//! A thousand cells on the embedded trace, against the same cells asked one by one, measured in the same run.
//!
//! `cargo bench --bench sweep` runs 1,000 cells on two threads and fails over 20 s; `-- --smoke` runs 40 and only prints.
//! The yardstick is `simulate` on every tenth of them, in turn, as a shell loop would (less the start of a process).
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
    if !smoke && (all != 1000 || took > BAR) {
        std::process::exit(1);
    }
}
