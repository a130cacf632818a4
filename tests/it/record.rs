//! Recording: what is decoded, what is scored and what is resumed are the same trace.

use std::path::Path;

use kvplan::forward::{Checkpoint, Model, Sampler};
use kvplan::record::{Done, End, Found, Settings, Task, facts, found, record};
use kvplan::trace::{Header, TraceReader, verify};

use crate::forward_make::{Tiny, write};

struct World {
    dir: tempfile::TempDir,
    model: Model,
    header: Header,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint =
            Checkpoint::open(&write(&dir, &Tiny::new("llama", true, 4).gguf())).unwrap();
        Self {
            model: Model::load(&checkpoint).unwrap(),
            header: facts(&checkpoint).unwrap(),
            dir,
        }
    }

    fn task(&self, number: u64, name: &str, given: &[u32], scored: bool) -> Task {
        let first = u32::try_from(number).unwrap();
        Task {
            number,
            path: self.dir.path().join(name),
            prompt: vec![first + 1, 7, 7, 20],
            given: given.to_vec(),
            scored,
        }
    }

    fn run(&self, tasks: Vec<Task>, together: usize) -> Vec<Done> {
        let settings = settings(together);
        let is_end = |t: u32| t == 39;
        record(
            &self.model,
            &self.header,
            &settings,
            tasks,
            &is_end,
            &mut |_| {},
        )
        .unwrap()
    }
}

fn settings(together: usize) -> Settings {
    Settings {
        max_new: 20,
        sampler: sampler(),
        layers: true,
        keys: None,
        together,
    }
}

fn sampler() -> Sampler {
    Sampler {
        temperature: 1.2,
        top_p: 0.95,
        seed: 9,
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn texts_together_are_texts_alone() {
    let world = World::new();
    let tasks = |tag: &str| -> Vec<Task> {
        (0..5)
            .map(|n| world.task(n, &format!("{tag}{n}.kvt"), &[], false))
            .collect()
    };
    let (alone, three) = (world.run(tasks("a"), 1), world.run(tasks("b"), 3));
    let lengths: Vec<u32> = alone.iter().map(|d| d.rows).collect();
    for (a, b) in alone.iter().zip(&three) {
        assert_eq!((a.rows, a.end, &a.tokens), (b.rows, b.end, &b.tokens));
        assert_eq!(bytes(&a.path), bytes(&b.path));
        assert_eq!(a.end == End::Limit, a.rows == 20);
        let trace = TraceReader::open(&a.path).unwrap();
        verify::verify(&trace).unwrap();
        assert_eq!(
            (trace.rows(), trace.prompt(), trace.is_partial()),
            (a.rows, 4, false)
        );
        let sums = trace.header().prompt_column_sums.clone().unwrap();
        // Four prompt rows of sum 1.
        assert!((sums.iter().sum::<f32>() - 4.0).abs() < 1e-5, "{sums:?}");
    }
    // The draws differ from text to text, and some text ends by itself or none could.
    assert!(
        alone.iter().any(|d| d.tokens != alone[0].tokens),
        "{lengths:?}"
    );
}

#[test]
fn a_scored_text_has_the_rows_of_a_decoded_one() {
    let world = World::new();
    let decoded = world
        .run(vec![world.task(0, "d.kvt", &[], false)], 1)
        .remove(0);
    let scored = world
        .run(vec![world.task(0, "s.kvt", &decoded.tokens, true)], 1)
        .remove(0);
    assert_eq!((scored.end, scored.rows), (End::Given, decoded.rows));
    let rows = |path: &Path| {
        let trace = TraceReader::open(path).unwrap();
        let (mut all, mut layers) = (Vec::new(), Vec::new());
        trace
            .for_each_in(0..trace.rows(), &mut |_, r| {
                all.extend_from_slice(r);
                Ok(())
            })
            .unwrap();
        trace
            .for_each_layers(0..trace.rows(), &mut |_, r| {
                layers.extend_from_slice(r);
                Ok(())
            })
            .unwrap();
        (all, layers, trace.tokens().unwrap())
    };
    assert_eq!(rows(&decoded.path), rows(&scored.path));
    let header = TraceReader::open(&scored.path).unwrap().header().clone();
    assert_eq!(header.forced.len(), scored.rows as usize);
    assert_eq!(header.sampler, None);
}

#[test]
fn a_killed_recording_goes_on_to_the_same_bytes() {
    let world = World::new();
    let whole = world
        .run(vec![world.task(1, "w.kvt", &[], false)], 1)
        .remove(0);
    let file = bytes(&whole.path);
    let sampler = Some(kvplan::trace::Sampler {
        temperature: Some(1.2),
        top_p: Some(0.95),
        seed: Some(9),
    });
    let mut went_on = 0;
    for cut in (0..file.len()).step_by(file.len() / 9) {
        let name = format!("k{cut}.kvt");
        let task = world.task(1, &name, &[], false);
        let part = world.dir.path().join(format!("{name}.4711.part"));
        std::fs::write(&part, &file[..cut]).unwrap();
        let there = found(
            &task.path,
            &world.header,
            &task.prompt,
            sampler.as_ref(),
            &settings(1),
        )
        .unwrap();
        let given = match there {
            Found::Part(tokens) => {
                assert_eq!(tokens, whole.tokens[..tokens.len()]);
                went_on += 1;
                tokens
            }
            Found::Nothing => Vec::new(),
            Found::Whole(_) => unreachable!(),
        };
        let again = world.run(vec![Task { given, ..task }], 1).remove(0);
        assert_eq!(bytes(&again.path), file, "cut at {cut}");
        assert!(!part.exists());
    }
    assert!(went_on >= 2, "{went_on} of 9 cuts left a row");
    let there = found(
        &whole.path,
        &world.header,
        &[2, 7, 7, 20],
        sampler.as_ref(),
        &settings(1),
    )
    .unwrap();
    assert_eq!(there, Found::Whole(whole.rows));
    for (prompt, way) in [(vec![2, 7], sampler), (vec![2, 7, 7, 20], None)] {
        let error = found(
            &whole.path,
            &world.header,
            &prompt,
            way.as_ref(),
            &settings(1),
        )
        .unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.message.contains("was recorded with another"),
            "{}",
            error.message
        );
    }
}

#[test]
fn draws_follow_the_probabilities() {
    // Logits ln 6, ln 3, ln 1: shares 0.6, 0.3, 0.1. A nucleus of 0.85 keeps the first two: 2/3 and 1/3.
    let logits = [6f32.ln(), 3f32.ln(), 0.0];
    let share = |temperature: f64, top_p: f64| {
        let sampler = Sampler {
            temperature,
            top_p,
            seed: 3,
        };
        let mut counts = [0u32; 3];
        for step in 0..6000 {
            let drawn = sampler.draw(&logits, 2, step).unwrap();
            counts[drawn.token as usize] += 1;
            assert!((drawn.logp - [0.6f64, 0.3, 0.1][drawn.token as usize].ln()).abs() < 1e-6);
        }
        counts.map(|c| f64::from(c) / 6000.0)
    };
    let near = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 0.025);
    assert!(near(share(1.0, 1.0), [0.6, 0.3, 0.1]));
    assert!(near(share(1.0, 0.85), [2.0 / 3.0, 1.0 / 3.0, 0.0]));
    // At temperature 0.5 odds are squared: 36, 9, 1 of 46.
    assert!(near(share(0.5, 1.0), [36.0 / 46.0, 9.0 / 46.0, 1.0 / 46.0]));
    assert!(near(share(0.0, 1.0), [1.0, 0.0, 0.0]));
    let broken = Sampler {
        temperature: 0.0,
        top_p: 1.0,
        seed: 0,
    }
    .draw(&[0.0, f32::NAN], 0, 0);
    assert_eq!(broken.unwrap_err().exit_code(), 3);
}

#[test]
fn the_command_records_and_resumes() {
    let Some(model) = crate::forward_reference::test_model() else {
        skip!("the command: the test model is not there");
    };
    let dir = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kvplan"))
            .args([
                "record",
                "--model",
                model.to_str().unwrap(),
                "--max-new",
                "6",
            ])
            .args([
                "--text",
                "Why is the sky blue?",
                "--text",
                "What is 12 + 30?",
                "-o",
            ])
            .arg(dir.path())
            .args(more)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, table) = run(&[]);
    assert_eq!(code, Some(0));
    assert_eq!(table.lines().count(), 3, "{table}");
    let (code, _) = run(&[]);
    assert_eq!(code, Some(2));
    let (code, table) = run(&["--resume"]);
    assert_eq!(
        (code, table.matches("was there").count()),
        (Some(0), 2),
        "{table}"
    );
    let trace = TraceReader::open(&dir.path().join("0001.kvt")).unwrap();
    verify::verify(&trace).unwrap();
    let sum = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
    assert_eq!(trace.header().weights_sha256.as_deref(), Some(sum));
}
