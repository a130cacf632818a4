//! How a replay compares with a plain sum of the same rows, measured in the same run.
//!
//! `cargo bench --bench replay` works on 200 MB of made rows and fails on a missed bar; `-- --smoke` runs a small size in
//! under 3 s and only prints. The yardstick converts binary16 with the same code into binary64 accumulators.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use kvplan::error::Result;
use kvplan::policy::{self, PolicySpec};
use kvplan::replay;
use kvplan::score::{PART, Rule, Score, observe_bits};
use kvplan::simd::Kernels;
use kvplan::trace::{self, Rows};

const PROMPT: u32 = 128;

/// Made rows in one slice.
struct Made {
    rows: u32,
    weights: Vec<u16>,
}

impl Made {
    /// About `bytes` of rows; weights around the mean of a row that sums to 1.
    fn new(bytes: usize) -> Self {
        let (mut rows, mut entries) = (0u32, 0usize);
        while entries * 2 < bytes {
            rows += 1;
            entries += (PROMPT + rows) as usize;
        }
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Up to 2^-14 as subnormals and small normals.
            (state >> 53) as u16
        };
        Self {
            rows,
            weights: (0..entries).map(|_| draw()).collect(),
        }
    }
}

impl Rows for Made {
    fn prompt(&self) -> u32 {
        PROMPT
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn column_sums(&self) -> Option<&[f32]> {
        None
    }

    fn for_each(&self, limit: u32, f: &mut dyn FnMut(u32, &[u16]) -> Result<()>) -> Result<()> {
        let mut rest = &self.weights[..];
        for t in 0..limit.min(self.rows) {
            let (row, after) = rest.split_at((PROMPT + t + 1) as usize);
            rest = after;
            f(t, row)?;
        }
        Ok(())
    }
}

fn plain_sum(rows: &Made) -> f64 {
    let mut total = 0.0;
    rows.for_each(rows.rows, &mut |_, bits| {
        total += Kernels::best().sum(bits);
        Ok(())
    })
    .unwrap();
    total
}

fn scoring(rows: &Made) -> f64 {
    let mut scores = [Score::new(Rule::Cumulative, PROMPT, None)];
    let mut buffer = vec![0f32; PART];
    rows.for_each(rows.rows, &mut |_, bits| {
        observe_bits(bits, &mut buffer, &mut scores, |_, _| {});
        Ok(())
    })
    .unwrap();
    scores[0].of(0)
}

fn replayed(rows: &Made, specs: &[PolicySpec]) -> f64 {
    replay::run(rows, specs)
        .unwrap()
        .iter()
        .map(|t| t.mass_mean()[1])
        .sum()
}

/// Seconds of one call.
fn seconds(work: &mut dyn FnMut() -> f64) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64()
}

fn specs(list: &[&str]) -> Vec<PolicySpec> {
    list.iter()
        .map(|s| policy::parse(&format!("four-tier:{s}")).unwrap())
        .collect()
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let rows = Made::new(if smoke { 8 << 20 } else { 208 << 20 });
    let one = specs(&["hbm=0.5"]);
    let losing = specs(&["hbm=0.5,evict=0.1,semantics=cumulative,t2=0.2"]);
    let nine = specs(&[
        "hbm=0.1", "hbm=0.2", "hbm=0.3", "hbm=0.4", "hbm=0.5", "hbm=0.6", "hbm=0.7", "hbm=0.8",
        "hbm=0.9",
    ]);
    let mut works: [&mut dyn FnMut() -> f64; 5] = [
        &mut || plain_sum(&rows),
        &mut || scoring(&rows),
        &mut || replayed(&rows, &one),
        &mut || replayed(&rows, &losing),
        &mut || replayed(&rows, &nine),
    ];
    // Interleaved, best of a few: other work on the machine then hits all of them alike.
    let mut best = [f64::INFINITY; 5];
    for _ in 0..if smoke { 1 } else { 7 } {
        for (best, work) in best.iter_mut().zip(&mut works) {
            *best = best.min(seconds(work));
        }
    }
    let [sum, score, four, lossy, all] = best;
    let mib = rows.weights.len() as f64 * 2.0 / f64::from(1 << 20);
    println!(
        "{} rows, {mib:.0} MiB, path {}",
        rows.rows,
        Kernels::best().name
    );
    println!(
        "plain sum {:.1} ms, {:.2} GiB/s",
        sum * 1e3,
        mib / 1024.0 / sum
    );
    let bars = [
        ("scoring / plain sum", score / sum, 2.2),
        ("four-tier / plain sum", four / sum, 4.0),
        ("nine settings / one setting", all / four, 4.0),
    ];
    for (name, ratio, bar) in bars {
        println!("{name}: {ratio:.2} (bar {bar})");
    }
    println!(
        "four-tier with T1, T2 and T3 in use / plain sum: {:.2}",
        lossy / sum
    );
    default_question();
    if !smoke && bars.iter().any(|(_, ratio, bar)| ratio > bar) {
        std::process::exit(1);
    }
}

/// The default question: counts by length, and the whole timeline from the embedded trace.
fn default_question() {
    let spec = policy::parse("four-tier:hbm=2210tok").unwrap();
    let runs = 200;
    let took = seconds(&mut || {
        (0..runs)
            .map(|_| replay::by_length(&spec, 1024, 15_360).unwrap().tokens_end()[1])
            .sum()
    });
    println!(
        "15,360 steps by length: {:.1} us",
        took / f64::from(runs) * 1e6
    );
    let trace = trace::default_trace().unwrap();
    let took = seconds(&mut || {
        let one = || replay::extended(&trace, &spec, 1024, 15_360).unwrap();
        (0..20).map(|_| one().mass_mean()[1]).sum()
    });
    println!(
        "15,360 steps from the embedded trace: {:.2} ms",
        took / 20.0 * 1e3
    );
}
