//! The traces that this program recorded and ships: sound, of the prompts beside them, without loops, and made again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kvplan::forward::{Checkpoint, Model, Sampler, Text};
use kvplan::policy;
use kvplan::record::{self, Settings, Task, facts};
use kvplan::replay;
use kvplan::trace::{TraceReader, verify};

use crate::forward_reference::test_model;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces")
}

/// Traces of the dozen word problems, in their order.
fn words() -> Vec<TraceReader> {
    (1..=12)
        .map(|n| TraceReader::open(&folder().join(format!("words/{n:04}.kvt"))).unwrap())
        .collect()
}

/// The longer traces, whose first is in the binary.
fn longer() -> Vec<TraceReader> {
    (1..=3)
        .map(|n| TraceReader::open(&folder().join(format!("smol_{n}_t9_s5.kvt"))).unwrap())
        .collect()
}

fn layered() -> TraceReader {
    TraceReader::open(&folder().join("layers/0001.kvt")).unwrap()
}

fn ids(trace: &TraceReader) -> Vec<u32> {
    let tokens = trace.tokens().unwrap().unwrap();
    tokens.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn they_are_sound_and_small() {
    let all: Vec<TraceReader> = words().into_iter().chain([layered()]).collect();
    for trace in &all {
        assert!(!verify::verify(trace).unwrap().partial);
        let header = trace.header();
        assert!(header.forced.is_empty() && header.planned_rows.is_none());
        assert_eq!(header.sampler.as_ref().unwrap().seed, Some(3));
        assert_eq!(header.licence.as_deref(), Some("apache-2.0"));
    }
    assert!(all[12].file_bytes() < 500_000);
    assert!(all.iter().map(TraceReader::file_bytes).sum::<u64>() < 4_000_000);
}

#[test]
fn texts_do_not_loop() {
    for trace in words().into_iter().chain(longer()) {
        let ids = ids(&trace);
        let runs: BTreeSet<&[u32]> = ids.windows(16).collect();
        let repeated = 1.0 - runs.len() as f64 / (ids.len() - 15) as f64;
        // Sums that are said twice repeat some; a loop repeats nearly all.
        assert!(repeated < 0.1, "{}: {repeated}", trace.name());
        assert!(ids.len() > 130, "{}: {}", trace.name(), ids.len());
    }
}

#[test]
fn they_are_what_recording_the_prompts_gives() {
    let Some(path) = test_model() else {
        skip!("shipped recordings made again: the test model is not there");
    };
    let checkpoint = Checkpoint::open(&path).unwrap();
    let text = Text::open(&checkpoint).unwrap();
    let prompts = record::read(&folder().join("prompts.jsonl"), false).unwrap();
    let shipped = words();
    assert_eq!(prompts.len(), shipped.len());
    for (prompt, trace) in prompts.iter().zip(&shipped) {
        let ids = text.chat(&prompt.prompt).unwrap();
        assert_eq!(trace.header().prompt_ids, Some(ids), "{}", trace.name());
    }
    // The shortest of them, as its number, seed and prompt give it.
    let trace = &shipped[7];
    let dir = tempfile::tempdir().unwrap();
    let task = Task {
        number: 7,
        path: dir.path().join("again.kvt"),
        prompt: trace.header().prompt_ids.clone().unwrap(),
        given: Vec::new(),
        scored: false,
    };
    let settings = Settings {
        max_new: 640,
        sampler: Sampler {
            temperature: 0.6,
            top_p: 0.95,
            seed: 3,
        },
        layers: false,
        keys: None,
        together: 1,
    };
    let model = Model::load(&checkpoint).unwrap();
    let header = facts(&checkpoint).unwrap();
    let is_end = |t| text.is_end(t);
    let done =
        record::record(&model, &header, &settings, vec![task], &is_end, &mut |_| {}).unwrap();
    let again = TraceReader::open(&done[0].path).unwrap();
    assert_eq!(again.tokens().unwrap(), trace.tokens().unwrap());
    assert_eq!(rows(&again), rows(trace));
}

/// Their prompts through the template, and their rows by scoring the tokens they hold (403, 100 and 100 of them).
#[test]
fn the_longer_ones_are_what_scoring_their_texts_gives() {
    let Some(path) = test_model() else {
        skip!("shipped recordings scored again: the test model is not there");
    };
    let checkpoint = Checkpoint::open(&path).unwrap();
    let text = Text::open(&checkpoint).unwrap();
    let model = Model::load(&checkpoint).unwrap();
    let header = facts(&checkpoint).unwrap();
    let prompts = record::read(&folder().join("sets.jsonl"), false).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (n, (prompt, trace)) in prompts.iter().zip(longer()).enumerate() {
        let prompt = text.chat(&prompt.prompt).unwrap();
        assert_eq!(trace.header().prompt_ids.as_ref(), Some(&prompt), "{n}");
        let some = if n == 2 { 403 } else { 100 };
        let task = Task {
            number: n as u64,
            path: dir.path().join(format!("{n}.kvt")),
            prompt,
            given: ids(&trace)[..some].to_vec(),
            scored: true,
        };
        let settings = Settings {
            max_new: 1000,
            sampler: Sampler {
                temperature: 0.9,
                top_p: 0.95,
                seed: 5,
            },
            layers: false,
            keys: None,
            together: 1,
        };
        let done = record::record(
            &model,
            &header,
            &settings,
            vec![task],
            &|_| false,
            &mut |_| {},
        );
        let again = TraceReader::open(&done.unwrap()[0].path).unwrap();
        let again = rows(&again);
        assert!(again == rows(&trace)[..again.len()], "{n}");
    }
}

fn rows(trace: &TraceReader) -> Vec<u16> {
    let mut all = Vec::new();
    let mut take = |_, r: &[u16]| {
        all.extend_from_slice(r);
        Ok(())
    };
    trace.for_each_in(0..trace.rows(), &mut take).unwrap();
    all
}

#[test]
fn a_policy_of_layers_runs_on_recorded_layers() {
    let trace = layered();
    assert_eq!(trace.header().layers, Some(30));
    let spec = policy::parse("tova:budget=60").unwrap();
    let timeline = &replay::run(&trace, &[spec]).unwrap()[0];
    // 51 + 64 tokens, of which 60 stay in every layer after the last step: 55 are destroyed.
    let end = timeline.intervals.last().unwrap();
    assert_eq!((end.first_step, trace.prompt(), trace.rows()), (64, 51, 64));
    assert!((end.tokens[3] - 55.0).abs() < 1e-9, "{:?}", end.tokens);
    // A row's mass is 1 within what binary16 misses, destroyed tokens included; by now some lies on those.
    let last = timeline.mass[63];
    assert!((last.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{last:?}");
    assert!(last[3] > 0.001, "{last:?}");
}
