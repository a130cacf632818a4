//! How fast the test model decodes, alone and eight together, on one core and on two; and how much memory it takes.
//!
//! `cargo bench --bench forward` fails on a missed bar; `-- --smoke` runs a few steps and only prints. The yardstick is
//! the prototype on one quiet core with AVX-512: 37 tokens/s alone, 125 at eight together. Without the test model it
//! says so and passes.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::PathBuf;
use std::time::Instant;

use kvplan::forward::{Cache, Detail, Item, Model};
use kvplan::simd::dense::Dense;

/// The test model: in `KVPLAN_TEST_MODELS`, or the user's cache folder.
fn test_model() -> Option<PathBuf> {
    let folder = std::env::var_os("KVPLAN_TEST_MODELS").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache/kvplan"));
    let path = folder
        .or_else(home)?
        .join("SmolLM2-135M-Instruct.Q4_1.gguf");
    path.exists().then_some(path)
}

/// Tokens/s of `sequences` decoding together behind a prompt of 16 tokens, best of a few stretches.
fn decode(model: &Model, threads: usize, sequences: usize, steps: u32) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| {
        let mut caches: Vec<Cache> = (0..sequences)
            .map(|_| Cache::new(model.shape(), 512))
            .collect();
        for s in 0..sequences {
            let prompt: Vec<u32> = (100..116).collect();
            let prompt = Item::of(s, &prompt, Detail::None);
            model.step(&mut caches, &prompt).unwrap();
        }
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let begin = Instant::now();
            for t in 0..steps {
                let batch: Vec<Item> = (0..sequences)
                    .flat_map(|s| Item::of(s, &[200 + t], Detail::Mean))
                    .collect();
                model.step(&mut caches, &batch).unwrap();
            }
            best = best.min(begin.elapsed().as_secs_f64());
        }
        f64::from(steps) * sequences as f64 / best
    })
}

/// Tokens/s of a finished text in chunks.
fn score(model: &Model, chunk: usize) -> f64 {
    let mut caches = [Cache::new(model.shape(), 512)];
    let text: Vec<u32> = (300..812).collect();
    let text = Item::of(0, &text, Detail::Mean);
    let begin = Instant::now();
    for part in text.chunks(chunk) {
        model.step(&mut caches, part).unwrap();
    }
    512.0 / begin.elapsed().as_secs_f64()
}

/// Peak memory of this process [MB], where the system says.
fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let Some(path) = test_model() else {
        println!("SKIPPED: bench forward: the test model is not there");
        return;
    };
    let begin = Instant::now();
    let model = Model::open(&path).unwrap();
    let size = std::fs::metadata(&path).unwrap().len() as f64 / 1e6;
    println!(
        "{size:.0} MB read in {:.2} s, path {}",
        begin.elapsed().as_secs_f64(),
        Dense::best().name
    );
    let steps = if smoke { 4 } else { 32 };
    let one = decode(&model, 1, 1, steps);
    let memory = peak();
    let (two, eight) = (decode(&model, 2, 1, steps), decode(&model, 1, 8, steps));
    let both = decode(&model, 2, 8, steps);
    println!("alone: {one:.1} tokens/s on one core, {two:.1} on two");
    println!("eight together: {eight:.1} tokens/s on one core, {both:.1} on two");
    if !smoke {
        println!(
            "512 tokens scored in chunks of 64: {:.0} tokens/s",
            score(&model, 64)
        );
    }
    let mut bars = vec![
        ("alone / prototype", one / 37.0, 1.0),
        ("eight together / prototype", eight / 125.0, 1.0),
        ("two cores / one, alone", two / one, 1.7),
        ("two cores / one, eight together", both / eight, 1.7),
    ];
    // The cache of 512 tokens of this model takes 24 MB.
    bars.extend(memory.map(|m| {
        (
            "2.2 times the file / peak memory less KV",
            2.2 * size / (m - 24.0),
            1.0,
        )
    }));
    for (name, ratio, bar) in &bars {
        println!("{name}: {ratio:.2} (bar {bar})");
    }
    if !smoke && bars.iter().any(|(_, ratio, bar)| ratio < bar) {
        std::process::exit(1);
    }
}
