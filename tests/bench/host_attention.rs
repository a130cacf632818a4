//! How close attention on the host comes to what this machine can do, with both yardsticks measured beside it.
//!
//! `cargo bench --bench host_attention` fails on a missed bar; `-- --smoke` runs small and only prints. The yardsticks are
//! read bandwidth over the same memory on the same threads and multiply-adds in registers; the roof of a shape is the
//! lower of what both allow, and the bar is 70 % of it. All three are taken in turn, and each is the best of its rounds.
//! Memory is that of `calibrate`, in large pages if the system gives them; `-- --small-pages` shows what they are worth,
//! without a bar.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use kvplan::calibrate::host_attention::{Shape, attend};
use kvplan::calibrate::pages;
use kvplan::simd::Kernels;
use kvplan::simd::dense::{Dense, ROUND_FLOPS};
use memmap2::MmapMut;
use rayon::prelude::*;

/// Share of the roof that attention must reach.
const BAR: f64 = 0.7;

fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Finite binary16 numbers of either sign.
fn fill(all: &mut [u8]) {
    all.par_chunks_mut(1 << 20)
        .enumerate()
        .for_each(|(chunk, to)| {
            for (i, b) in to.chunks_exact_mut(2).enumerate() {
                let hash = ((chunk << 20) + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let bits = u16::try_from(hash & 0x83ff).unwrap() | 0x3000;
                b.copy_from_slice(&bits.to_le_bytes());
            }
        });
}

fn main() {
    let asked = |flag: &str| std::env::args().any(|a| a == flag);
    let (smoke, small) = (asked("--smoke"), asked("--small-pages"));
    let (pool, rounds) = if smoke {
        (64 << 20, 2)
    } else {
        (512 << 20, 60)
    };
    let mut memory = if small {
        MmapMut::map_anon(pool).unwrap()
    } else {
        pages::large(pool).unwrap()
    };
    fill(&mut memory);
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (dense, kernels) = (Dense::best(), Kernels::best());
    println!("path {}, {all} threads at most", dense.name);
    let mut missed = false;
    for threads in if all > 1 { vec![1, all] } else { vec![1] } {
        let workers = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        for (group, head_dim) in [(1, 64), (1, 128), (4, 64), (4, 128), (8, 64), (8, 128)] {
            let tokens = 4096; // 2 MiB a head, as at the contexts that are planned for
            let shape = Shape {
                batch: 1,
                context: tokens * 128 / head_dim,
                kv_heads: 8,
                group,
                head_dim,
            };
            let queries: Vec<f32> = (0..shape.width())
                .map(|i| (i % 17) as f32 * 0.1 - 0.8)
                .collect();
            let mut out = vec![0.0; shape.width()];
            let (mut read, mut multiply, mut attention) =
                (f64::INFINITY, f64::INFINITY, f64::INFINITY);
            let windows = pool / shape.bytes();
            let work = shape.flops() / usize::try_from(ROUND_FLOPS).unwrap() / threads;
            for round in 0..rounds {
                let window = |i: usize| &memory[(i % windows) * shape.bytes()..][..shape.bytes()];
                let (mine, other) = (window(2 * round), window(2 * round + 1));
                workers.install(|| {
                    let part = other.len() / threads / 512 * 512;
                    read = read.min(seconds(|| {
                        let sum = other
                            .par_chunks(part)
                            .map(|p| kernels.total(p))
                            .reduce(|| 0, u64::wrapping_add);
                        black_box(sum);
                    }));
                    attention =
                        attention.min(seconds(|| attend(dense, shape, mine, &queries, &mut out)));
                    multiply = multiply.min(seconds(|| {
                        let sum: f32 = (0..threads)
                            .into_par_iter()
                            .map(|_| dense.multiply_add(black_box(work)))
                            .sum();
                        black_box(sum);
                    }));
                });
            }
            black_box(&out);
            let reached = read.max(multiply) / attention;
            let rate = |s: f64| shape.bytes() as f64 / s / 1e9;
            println!(
                "{threads} threads, {group} queries a KV head of {head_dim}: {:.1} GB/s; DDR read {:.1} GB/s, multiply-add {:.1} GB/s \
                 ({:.0} GFLOP/s); {:.0} % of the lower (bar {:.0} %)",
                rate(attention),
                rate(read),
                rate(multiply),
                shape.flops() as f64 / multiply / 1e9,
                100.0 * reached,
                100.0 * BAR
            );
            missed |= reached < BAR;
        }
    }
    if missed && !smoke && !small {
        std::process::exit(1);
    }
}
