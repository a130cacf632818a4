//! A long trace replayed from disk: peak memory against its bar, speed against a plain read of the same file.
//!
//! The trace (1 GB, 16 MB in smoke) is written by `TraceWriter` into a temporary folder and replayed under four-tier in
//! this process, so `VmHWM` covers both. Yardstick: reading the file through a 1 MiB buffer, best of a few; both come
//! from the page cache. The plain read is the limit of any reader that decodes nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use kvplan::trace::{Header, TraceReader, TraceWriter, half};
use kvplan::{policy, replay};

const PROMPT: u32 = 128;

/// Bar on the peak resident memory of the process [bytes].
const MEMORY: f64 = 150e6;

/// Rows of a trace of about `bytes`: 2 (P + t + 1) bytes each.
#[allow(clippy::cast_possible_truncation)] // some ten thousand
fn rows_of(bytes: f64) -> u32 {
    let p = f64::from(PROMPT);
    ((p * p + bytes).sqrt() - p).ceil() as u32
}

/// Made weights of one size, and their running sum in units of 2^-24.
struct Pool {
    bits: Vec<u16>,
    sums: Vec<u64>,
}

impl Pool {
    /// Weights between 0.225 and 0.675 of 2^-exponent.
    fn new(exponent: u32, length: u32) -> Self {
        let draw = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
        let weight = |i| 0.45 * (0.5 + draw(i)) / f64::from(1u32 << exponent);
        let bits: Vec<u16> = (0..length).map(|i| half::from_f64(weight(i))).collect();
        let mut sums = vec![0];
        sums.extend(bits.iter().scan(0, |sum, w| {
            *sum += half::units(*w);
            Some(*sum)
        }));
        Self { bits, sums }
    }
}

/// Writes made rows: weights of a realistic size that sum to 1, without the time a generator of real ones would take. The
/// step's own token takes what the others leave.
fn write(path: &Path, rows: u32) {
    let mut writer = TraceWriter::create(path, Header::new("made", PROMPT)).unwrap();
    let (mut pool, mut size) = (Pool::new(0, 0), u32::MAX);
    let mut row = Vec::new();
    for t in 0..rows {
        let others = PROMPT + t;
        if size != others.ilog2() {
            size = others.ilog2();
            pool = Pool::new(size, 251 + PROMPT + rows);
        }
        let from = (t % 251) as usize;
        let to = from + others as usize;
        row.clear();
        row.extend_from_slice(&pool.bits[from..to]);
        let left = half::ONE - (pool.sums[to] - pool.sums[from]);
        row.push(half::from_f64(left as f64 / half::ONE as f64));
        writer.push_row(&row).unwrap();
    }
    writer.finish().unwrap();
}

fn plain_read(path: &Path) {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0u8; 1 << 20];
    while file.read(&mut buffer).unwrap() > 0 {
        black_box(&buffer);
    }
}

fn replayed(path: &Path) {
    let reader = TraceReader::open(path).unwrap();
    let spec = policy::parse("four-tier:hbm=0.5").unwrap();
    black_box(replay::run(&reader, &[spec]).unwrap());
}

fn seconds(n: u32, work: impl Fn()) -> f64 {
    (0..n)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Peak resident memory of this process [bytes]; none where the system does not say.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0)
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.kvt");
    let rows = rows_of(if smoke { 16e6 } else { 1.02e9 });
    let wrote = seconds(1, || write(&path, rows));
    let bytes = std::fs::metadata(&path).unwrap().len() as f64;
    let n = if smoke { 1 } else { 3 };
    let (read, replay) = (
        seconds(n, || plain_read(&path)),
        seconds(n, || replayed(&path)),
    );
    let rate = |s: f64| bytes / 1e9 / s;
    println!("{rows} rows, {:.3} GB", bytes / 1e9);
    println!("written    {:6.2} GB/s", rate(wrote));
    println!("plain read {:6.2} GB/s", rate(read));
    println!(
        "four-tier  {:6.2} GB/s, {:.1} times the plain read",
        rate(replay),
        replay / read
    );
    let Some(peak) = peak_memory() else {
        println!("peak memory not known on this system");
        return;
    };
    let met = peak < MEMORY;
    let word = if met { "met" } else { "MISSED" };
    println!(
        "VmHWM {:.1} MB   bar {:.0} MB   {word}",
        peak / 1e6,
        MEMORY / 1e6
    );
    if !met && !smoke {
        std::process::exit(1);
    }
}
