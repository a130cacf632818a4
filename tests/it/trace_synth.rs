//! `trace synth`: rows drawn from a law, and recordings continued by their fitted shape.
#![allow(clippy::cast_possible_truncation)] // small counts

use crate::replay_support::{Made, shared};
use crate::trace_make::{file, small};
use clap::Parser;
use kvplan::cli::trace::{TraceCommand, run};
use kvplan::error::Result;
use kvplan::policy;
use kvplan::replay;
use kvplan::timeline::{Interval, Timeline};
use kvplan::trace::synth::{Drawer, Law, Shape};
use kvplan::trace::{Rows, TraceReader, default_trace, half, stats, verify};
use std::fs;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: TraceCommand,
}

/// Runs `trace synth WORDS -o OUT`.
fn synth(words: &str, out: &Path) -> Result<()> {
    let words = ["trace", "synth"]
        .into_iter()
        .chain(words.split_whitespace());
    let line = Line::try_parse_from(words.chain(["-o", out.to_str().unwrap()])).unwrap();
    run(&line.command, &mut Vec::new())
}

fn rows_of(reader: &TraceReader) -> Vec<Vec<u16>> {
    let mut rows = Vec::new();
    reader
        .for_each_in(0..reader.rows(), &mut |_, row| {
            rows.push(row.to_vec());
            Ok(())
        })
        .unwrap();
    rows
}

/// Shares of the late rows are those asked for: sinks exactly, the middle as it is at step 1,000.
#[test]
fn a_drawn_trace_has_the_shares_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for (sinks, recency, middle) in [(0.27, 0.41, 0.2), (0.1, 0.5, 0.4), (0.0, 0.9, 0.05)] {
        let out = dir.path().join("drawn.kvt");
        synth(&format!("--prompt 60 --rows 1060 --sinks {sinks} --recency {recency} --middle {middle} --seed 3"), &out).unwrap();
        let reader = TraceReader::open(&out).unwrap();
        verify::verify(&reader).unwrap();
        assert_eq!(
            (reader.prompt(), reader.rows(), reader.synthetic_from()),
            (60, 1060, Some(0))
        );
        let got = stats::mass_shares(&reader, 128, 940).unwrap().unwrap();
        assert!((got.sinks - sinks).abs() < 0.002, "{got:?}");
        assert!((got.recent / recency - 1.0).abs() < 0.12, "{got:?}");
        assert!((got.middle / middle - 1.0).abs() < 0.25, "{got:?}");
    }
}

/// Equal seeds give equal files to the bit; another seed does not; without a prompt the first row is one weight, 1.
#[test]
fn a_seed_is_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = |seed: u32, name: &str| {
        let out = dir.path().join(name);
        synth(&format!("--prompt 0 --rows 90 --seed {seed}"), &out).unwrap();
        fs::read(out).unwrap()
    };
    let one = drawn(1, "a.kvt");
    assert_eq!(one, drawn(1, "b.kvt"));
    assert_ne!(one, drawn(2, "c.kvt"));
    let rows = rows_of(&TraceReader::open(&dir.path().join("a.kvt")).unwrap());
    assert_eq!(rows[0], [half::from_f64(1.0)]);
}

/// Heavy hitters raise the share of the heaviest middle tokens; a drift of 1 takes it away again.
#[test]
fn heavy_hitters_last_unless_they_drift() {
    let dir = tempfile::tempdir().unwrap();
    let top = |flags: &str| {
        let out = dir.path().join("heavy.kvt");
        synth(&format!("--rows 900 --prompt 20 {flags}"), &out).unwrap();
        let row = rows_of(&TraceReader::open(&out).unwrap()).pop().unwrap();
        let mut old: Vec<u64> = row[20..400].iter().map(|w| half::units(*w)).collect();
        old.sort_unstable();
        old[370..].iter().sum::<u64>() as f64 / old.iter().sum::<u64>() as f64
    };
    let (none, some, drifting) = (
        top("--heavy 0"),
        top("--heavy 0.02 --drift 0"),
        top("--heavy 0.02 --drift 1"),
    );
    assert!(
        some > none + 0.07 && drifting < none + 0.03,
        "{none} {some} {drifting}"
    );
}

#[test]
fn impossible_arguments_exit_2_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("no.kvt");
    for words in [
        "--rows 0",
        "--rows 4294967295",
        "--prompt 4294967295",
        "--prompt 1048576 --rows 1",
        "--sinks NaN",
        "--sinks -0.1",
        "--recency inf",
        "--recency 0 --sinks 0 --middle 0",
        "--sinks 0.5 --recency 0.4 --middle 0.2",
        "--middle 1.5",
        "--heavy 2",
        "--drift -1",
        "--revisit NaN",
        "--revisit 1e300",
        "--like no_such_trace --steps 2000",
        "--like smol_1_t9_s5 --steps 1000",
        "--like smol_1_t9_s5 --steps 0",
        "--like smol_1_t9_s5 --steps 4294967295",
    ] {
        assert_eq!(synth(words, &out).unwrap_err().exit_code(), 2, "{words}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{words}");
    }
    // Ten rows say nothing about what comes after them.
    let short = file(dir.path(), "short.kvt", &small());
    let error = synth(&format!("--like {} --steps 50", short.display()), &out).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error:?}");
    // A continuation does not replace what it continues.
    let error = synth(&format!("--like {} --steps 50", short.display()), &short).unwrap_err();
    assert!(
        error.exit_code() == 2 && error.message.contains("replace"),
        "{error:?}"
    );
    for words in [
        &["trace", "synth", "--like", "x", "-o", "y"][..],
        &["trace", "synth", "--steps", "9", "-o", "y"],
        &[
            "trace", "synth", "--like", "x", "--steps", "9", "--sinks", "0.1", "-o", "y",
        ],
        &["trace", "synth"],
    ] {
        assert!(Line::try_parse_from(words).is_err(), "{words:?}");
    }
}

/// The extremes that are allowed give sound traces.
#[test]
fn extreme_shapes_are_sound() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        "--sinks 0 --recency 1 --middle 0 --heavy 1",
        "--sinks 0 --recency 1e-9 --middle 1",
        "--sinks 0.999999 --recency 1e-7 --middle 0 --prompt 1",
        "--revisit 2 --heavy 1 --drift 1",
        "--prompt 0 --sinks 1 --recency 1e-12 --middle 0",
    ] {
        let out = dir.path().join("extreme.kvt");
        let done = synth(&format!("--rows 300 {words}"), &out);
        done.unwrap_or_else(|e| panic!("{words}: {e:?}"));
        verify::verify(&TraceReader::open(&out).unwrap())
            .unwrap_or_else(|e| panic!("{words}: {e:?}"));
    }
}

/// Recorded rows are kept to the bit, drawn ones follow, the header says so, and a second continuation keeps the first
/// boundary.
#[test]
fn a_continuation_keeps_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (once, twice) = (dir.path().join("once.kvt"), dir.path().join("twice.kvt"));
    synth("--like smol_1_t9_s5 --steps 1100 --seed 9", &once).unwrap();
    synth(&format!("--like {} --steps 1130", once.display()), &twice).unwrap();
    let (recorded, first, second) = (
        default_trace().unwrap(),
        TraceReader::open(&once).unwrap(),
        TraceReader::open(&twice).unwrap(),
    );
    assert_eq!((first.rows(), second.rows()), (1100, 1130));
    assert_eq!(
        (first.synthetic_from(), second.synthetic_from()),
        (Some(1000), Some(1000))
    );
    assert_eq!(recorded.synthetic_from(), None);
    assert!(!first.is_partial());
    verify::verify(&first).unwrap();
    let (a, b, c) = (rows_of(&recorded), rows_of(&first), rows_of(&second));
    assert!(a == b[..1000] && b == c[..1100]);
    assert_eq!(first.header().model, recorded.header().model);
    assert_eq!(
        first.header().prompt_column_sums,
        recorded.header().prompt_column_sums
    );
    // A replay of it says from where its rows are drawn.
    let spec = policy::parse("four-tier").unwrap();
    let timeline = replay::extended(&first, &spec, 128, 1050).unwrap();
    assert_eq!(timeline.synthetic_from, Some(1000));
    assert_eq!(
        replay::extended(&first, &spec, 128, 1000)
            .unwrap()
            .synthetic_from,
        None
    );
}

/// A law is found again in rows drawn from it: decay 1.2, noise 0.45 that keeps 0.7, no prompt trend.
#[test]
fn a_fit_finds_the_law_that_rows_were_drawn_from() {
    let law = Shape::default().law(100, 5).unwrap();
    let mut drawer = Drawer::new(&law, 5, 0);
    let rows = (0..1500).map(|_| {
        let mut row = Vec::new();
        drawer.next_row(&mut row);
        row
    });
    let made = Made {
        prompt: 100,
        sums: None,
        rows: rows.collect(),
    };
    let found = Law::fit(&made, 1500).unwrap();
    assert!((found.decay - law.decay).abs() < 0.15, "{}", found.decay);
    assert!(
        (found.noise / law.noise - 1.0).abs() < 0.2,
        "{}",
        found.noise
    );
    assert!(
        (found.noise_keep - law.noise_keep).abs() < 0.1,
        "{}",
        found.noise_keep
    );
    assert!(
        (found.revisit / law.revisit - 1.0).abs() < 0.6,
        "{}",
        found.revisit
    );
    assert!(found.heavy_share < 0.02, "{}", found.heavy_share);
    assert!(found.prompt_lasts > 0.7, "{}", found.prompt_lasts);
}

/// What a setting's tail looks like: mass on T0, T1, T3, promotions, demotions.
fn tail(timeline: &Timeline, from: usize) -> [f64; 5] {
    let rows = (timeline.mass.len() - from) as f64;
    let mass = |tier: usize| timeline.mass[from..].iter().map(|m| m[tier]).sum::<f64>() / rows;
    let moved = |f: fn(&Interval) -> f64| {
        let late = timeline
            .intervals
            .iter()
            .filter(|i| i.first_step as usize > from);
        late.map(f).sum::<f64>()
    };
    [
        mass(0),
        mass(1),
        mass(3),
        moved(|i| i.promoted),
        moved(|i| i.demoted),
    ]
}

const SETTINGS: [&str; 6] = [
    "four-tier:hbm=0.3",
    "four-tier:hbm=0.5",
    "four-tier:hbm=0.7",
    "four-tier:hbm=0.3,evict=0.03,semantics=per-interval",
    "four-tier:hbm=0.5,evict=0.03,semantics=per-interval",
    "four-tier:hbm=0.7,evict=0.03,semantics=per-interval",
];

/// Relative errors of the rest of a trace continued from its first `rows`, by setting, mean over seeds 0..8.
fn errors(trace: &Made, rows: usize) -> [[f64; 5]; 6] {
    let specs = SETTINGS.map(|text| policy::parse(text).unwrap());
    let real = replay::run(trace, &specs).unwrap();
    let law = Law::fit(trace, rows as u32).unwrap();
    let mut out = [[0.0; 5]; 6];
    for seed in 0..8 {
        let mut drawer = Drawer::new(&law, seed, rows as u32);
        let mut all = trace.rows[..rows].to_vec();
        all.resize_with(trace.rows.len(), || {
            let mut row = Vec::new();
            drawer.next_row(&mut row);
            row
        });
        let drawn = Made {
            rows: all,
            ..trace.clone()
        };
        for (i, timeline) in replay::run(&drawn, &specs).unwrap().iter().enumerate() {
            let (got, want) = (tail(timeline, rows), tail(&real[i], rows));
            for j in 0..5 {
                out[i][j] += if want[j] > 0.0 {
                    (got[j] / want[j] - 1.0) / 8.0
                } else {
                    0.0
                };
            }
        }
    }
    out
}

fn print(name: &str, rows: usize, errors: &[[f64; 5]; 6]) {
    eprintln!("{name} from its first {rows} rows; error in %: T0, T1, T3 mass, promoted, demoted");
    for (setting, row) in SETTINGS.iter().zip(errors) {
        let cells: Vec<String> = row.iter().map(|e| format!("{:+7.1}", 100.0 * e)).collect();
        eprintln!("  {setting:<55} {}", cells.join(" "));
    }
}

/// Fitted on the first 1,200 rows of a 2,500-row recording, the rest is met within 15 %: mass by tier, promotions, demotions.
/// The text begins to loop some hundred rows before that; a law that does not see it has 20 % too many promotions at
/// hbm=0.3 with eviction.
#[test]
fn a_long_recording_is_met_by_its_continuation() {
    let Some(shared) = shared() else {
        skip!("continuation against a recorded tail: no raw traces beside the checkout");
    };
    let long = Made::read(&shared.join("traces"), "smol_long_t6_s8");
    let errors = errors(&long, 1200);
    print("smol_long_t6_s8", 1200, &errors);
    for (i, row) in errors.iter().enumerate() {
        for (j, error) in row.iter().enumerate() {
            assert!(
                error.abs() <= 0.15,
                "{} [{j}]: {:+.1} %",
                SETTINGS[i],
                100.0 * error
            );
        }
    }
}

/// The same law on other recordings, from their first 60 %: reported, and held to what a short recording allows. The one of
/// Qwen has 352 rows to fit, 40 % too little on T1 after them.
#[test]
fn other_recordings_are_met_as_far_as_they_are_long() {
    let Some(shared) = shared() else {
        skip!("continuations against recorded tails: no raw traces beside the checkout");
    };
    for name in [
        "smol_0_t6_s1",
        "smol_1_t6_s2",
        "smol_2_t6_s3",
        "qwen_0_t6_s1",
    ] {
        let trace = Made::read(&shared.join("traces"), name);
        let rows = trace.rows.len() * 6 / 10;
        let errors = errors(&trace, rows);
        print(name, rows, &errors);
        for row in &errors {
            assert!(
                row[0].abs() < 0.08
                    && row[1].abs() < 0.45
                    && row[3].abs() < 0.4
                    && row[4].abs() < 0.15,
                "{name}: {row:?}"
            );
        }
    }
}
