//! Recording keys and queries: the same file however it comes about, and what policies of single heads make of it.

use kvplan::forward::{Cache, Checkpoint, Detail, Item, Model, Sampler};
use kvplan::policy;
use kvplan::record::{Done, Found, Settings, Task, facts, found, record};
use kvplan::replay;
use kvplan::trace::{Header, Rows, TraceReader, verify};

use crate::forward_make::{DIM, HEADS, KV, LAYERS, Tiny, write};

const PROMPT: [u32; 7] = [3, 7, 7, 20, 11, 30, 2];

struct World {
    dir: tempfile::TempDir,
    model: Model,
    header: Header,
}

impl World {
    fn new(architecture: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint =
            Checkpoint::open(&write(&dir, &Tiny::new(architecture, true, 4).gguf())).unwrap();
        Self {
            model: Model::load(&checkpoint).unwrap(),
            header: facts(&checkpoint).unwrap(),
            dir,
        }
    }

    fn run(&self, names: &[&str], given: &[u32], scored: bool, settings: &Settings) -> Vec<Done> {
        let task = |(number, name): (u64, &&str)| Task {
            number,
            path: self.dir.path().join(name),
            prompt: PROMPT.to_vec(),
            given: given.to_vec(),
            scored,
        };
        let tasks = (0..).zip(names).map(task).collect();
        let never = |_| false;
        record(
            &self.model,
            &self.header,
            settings,
            tasks,
            &never,
            &mut |_| {},
        )
        .unwrap()
    }

    fn decoded(&self, name: &str, keys: Option<u32>) -> Done {
        self.run(&[name], &[], false, &settings(keys, 1)).remove(0)
    }
}

fn settings(keys: Option<u32>, together: usize) -> Settings {
    Settings {
        max_new: 40,
        sampler: Sampler {
            temperature: 1.2,
            top_p: 0.95,
            seed: 9,
        },
        layers: true,
        keys,
        together,
    }
}

fn open(done: &Done) -> TraceReader {
    TraceReader::open(&done.path).unwrap()
}

#[test]
fn alone_together_and_resumed_are_the_same_bytes() {
    let world = World::new("llama");
    let names = ["a.kvt", "b.kvt", "c.kvt"];
    let together = world.run(&names, &[], false, &settings(Some(3), 3));
    for (number, (done, name)) in (0..).zip(together.iter().zip(["x.kvt", "y.kvt", "z.kvt"])) {
        let whole = std::fs::read(&done.path).unwrap();
        for from in [0, 1, 17] {
            let task = Task {
                number,
                path: world.dir.path().join(format!("{from}{name}")),
                prompt: PROMPT.to_vec(),
                given: done.tokens[..from].to_vec(),
                scored: false,
            };
            let (settings, never) = (settings(Some(3), 1), |_| false);
            let again = record(
                &world.model,
                &world.header,
                &settings,
                vec![task],
                &never,
                &mut |_| {},
            );
            assert!(
                std::fs::read(&again.unwrap()[0].path).unwrap() == whole,
                "{from}"
            );
        }
    }
    assert_ne!(together[0].tokens, together[1].tokens);
}

#[test]
fn a_scored_text_has_the_keys_of_a_decoded_one() {
    let world = World::new("qwen2");
    let decoded = world.decoded("d.kvt", Some(5));
    let scored = world.run(&["s.kvt"], &decoded.tokens, true, &settings(Some(5), 1));
    let vectors = |done: &Done| open(done).vectors(40).unwrap().unwrap();
    let (a, b) = (vectors(&decoded), vectors(&scored[0]));
    assert_eq!((a.first_query, a.lanes()), (2, LAYERS * KV));
    assert!(a == b);
    verify::verify(&open(&decoded)).unwrap();
    // Without them, all else is as it was.
    let bare = open(&world.decoded("n.kvt", None));
    assert!(bare.vectors(40).unwrap().is_none());
    assert_eq!(bare.tokens().unwrap(), open(&decoded).tokens().unwrap());
    assert_eq!(
        bare.header().prompt_column_sums,
        open(&decoded).header().prompt_column_sums
    );
}

/// Softmax of a query on keys, all in binary64, from the definition.
fn attention(query: &[f32], keys: &[f32]) -> Vec<f64> {
    let dot = |k: &[f32]| -> f64 { query.iter().zip(k).map(|(a, b)| f64::from(a * b)).sum() };
    let e: Vec<f64> = keys
        .chunks(DIM)
        .map(|k| (dot(k) / (DIM as f64).sqrt()).exp())
        .collect();
    let z: f64 = e.iter().sum();
    e.into_iter().map(|x| x / z).collect()
}

#[test]
fn every_heads_row_follows_from_keys_and_queries() {
    for architecture in ["llama", "qwen2"] {
        let world = World::new(architecture);
        let done = world.decoded("d.kvt", Some(u32::MAX));
        let vectors = open(&done).vectors(40).unwrap().unwrap();
        assert_eq!(vectors.first_query, 0);
        // The rows of every head, asked of the model apart from any recording.
        let tokens = [&PROMPT[..], &done.tokens].concat();
        let mut cache = [Cache::new(world.model.shape(), tokens.len())];
        let items = Item::of(0, &tokens, Detail::Heads);
        let step = world.model.step(&mut cache, &items).unwrap();
        let mut worst = 0f64;
        for (position, rows) in (0u32..).zip(&step.rows) {
            let length = position + 1;
            for (i, row) in rows.weights().chunks(rows.positions()).enumerate() {
                let (layer, head) = (i / HEADS, i % HEADS);
                let (lane, member) = (layer * KV + head / (HEADS / KV), head % (HEADS / KV));
                let queries = vectors.queries(lane, length);
                let query = &queries[(position as usize * (HEADS / KV) + member) * DIM..][..DIM];
                let again = attention(query, vectors.keys(lane, length));
                for (a, b) in again.iter().zip(row) {
                    worst = worst.max((a - f64::from(*b)).abs());
                }
            }
        }
        assert!(worst > 0.0 && worst < 1e-3, "{architecture}: {worst}");
    }
}

#[test]
fn policies_of_single_heads_replay() {
    let world = World::new("llama");
    let trace = open(&world.decoded("all.kvt", Some(u32::MAX)));
    let specs: Vec<_> = [
        "h2o:heavy=8,recent=8",
        "r-kv:budget=24,window=4,interval=8",
        "snap-kv:budget=5,window=3",
        "tova:budget=20",
    ]
    .iter()
    .map(|s| policy::parse(s).unwrap_or_else(|e| panic!("{s}: {e:?}")))
    .collect();
    for spec in &specs {
        let timeline = &replay::run(&trace, std::slice::from_ref(spec)).unwrap()[0];
        let destroyed: f64 = timeline.intervals.iter().map(|i| i.destroyed).sum();
        assert!(destroyed > 0.0, "{spec}");
    }
    // Three of seven prompt queries are enough for a window of three, and not for H2O, which looks at all of them.
    let trace = open(&world.decoded("three.kvt", Some(3)));
    assert!(replay::run(&trace, &specs[2..3]).is_ok());
    let refused = replay::run(&trace, &specs[..1]).unwrap_err();
    assert!(
        refused.message.contains("queries of every position"),
        "{}",
        refused.message
    );
}

#[test]
fn a_finished_trace_without_what_is_asked_for_is_refused() {
    let world = World::new("llama");
    let there = |keys, wanted| {
        let name = format!("{keys:?}.kvt");
        let path = world.dir.path().join(&name);
        if !path.exists() {
            world.decoded(&name, keys);
        }
        let sampler = kvplan::trace::Sampler {
            temperature: Some(1.2),
            top_p: Some(0.95),
            seed: Some(9),
        };
        let settings = settings(wanted, 1);
        found(&path, &world.header, &PROMPT, Some(&sampler), &settings)
    };
    assert_eq!(there(Some(3), Some(3)).unwrap(), Found::Whole(40));
    assert_eq!(there(Some(3), None).unwrap(), Found::Whole(40));
    assert_eq!(there(Some(7), Some(u32::MAX)).unwrap(), Found::Whole(40));
    for (keys, wanted) in [
        (None, Some(0)),
        (Some(3), Some(4)),
        (Some(3), Some(u32::MAX)),
    ] {
        let error = there(keys, wanted).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.message.contains("without keys and as many queries"),
            "{}",
            error.message
        );
    }
}
