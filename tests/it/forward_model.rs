//! The forward pass on small models: against a plain one, and its laws.

use kvplan::forward::{Cache, Checkpoint, Detail, Item, Model, Step};
use kvplan::simd::dense::Dense;

use crate::forward_make::{HEADS, LAYERS, Tiny, plain, write};

fn model(tiny: &Tiny) -> Model {
    let dir = tempfile::tempdir().unwrap();
    Model::open(&write(&dir, &tiny.gguf())).unwrap()
}

/// One sequence, `chunk` tokens a step; logits of every token.
fn run(model: &Model, tokens: &[u32], chunk: usize, detail: Detail) -> Step {
    let mut caches = [Cache::new(model.shape(), tokens.len())];
    let mut all = Step::default();
    for part in tokens.chunks(chunk) {
        let step = model.step(&mut caches, &Item::of(0, part, detail)).unwrap();
        all.logits.extend(step.logits);
        all.rows.extend(step.rows);
    }
    assert_eq!(caches[0].len(), tokens.len());
    all
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

const TEXT: [u32; 11] = [1, 7, 39, 0, 12, 12, 5, 30, 22, 9, 17];

#[test]
fn both_families_compute_what_their_definition_says() {
    for (family, tied) in [
        ("llama", true),
        ("llama", false),
        ("qwen2", true),
        ("qwen2", false),
    ] {
        let tiny = Tiny::new(family, tied, 3);
        let model = model(&tiny);
        let step = run(&model, &TEXT, 1, Detail::Heads);
        let vocab = model.shape().vocab;
        for n in [1, 4, TEXT.len()] {
            let expected = plain(&tiny, &TEXT[..n]);
            let logits = &step.logits[(n - 1) * vocab..n * vocab];
            for (a, b) in logits.iter().zip(&expected.logits) {
                assert!(
                    (f64::from(*a) - b).abs() < 2e-5,
                    "{family} {n}: {a} and {b}"
                );
            }
            let rows = step.rows[n - 1].weights();
            let flat = expected.attention.iter().flatten().flatten();
            assert_eq!(rows.len(), LAYERS * HEADS * n);
            for (a, b) in rows.iter().zip(flat) {
                assert!(
                    (f64::from(*a) - b).abs() < 2e-6,
                    "{family} {n}: {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn means_are_means_of_the_heads() {
    let model = model(&Tiny::new("qwen2", true, 5));
    let heads = run(&model, &TEXT, 1, Detail::Heads);
    let layers = run(&model, &TEXT, 1, Detail::Layers);
    let means = run(&model, &TEXT, 1, Detail::Mean);
    for ((h, l), m) in heads.rows.iter().zip(&layers.rows).zip(&means.rows) {
        let n = h.positions();
        for layer in 0..LAYERS {
            for p in 0..n {
                let of = |head: usize| f64::from(h.weights()[(layer * HEADS + head) * n + p]);
                let mean = (0..HEADS).map(of).sum::<f64>() / HEADS as f64;
                assert!((f64::from(l.weights()[layer * n + p]) - mean).abs() < 1e-6);
            }
        }
        for ((a, b), c) in m.weights().iter().zip(h.mean()).zip(l.mean()) {
            assert!((a - b).abs() < 1e-6 && (a - c).abs() < 1e-6);
        }
        let sum: f64 = m.weights().iter().map(|w| f64::from(*w)).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}

#[test]
fn chunks_and_batch_mates_change_no_bit() {
    let model = model(&Tiny::new("llama", false, 8));
    let alone = run(&model, &TEXT, 1, Detail::Heads);
    for chunk in [2, 3, 7, 11] {
        let chunked = run(&model, &TEXT, chunk, Detail::Heads);
        assert_eq!(
            bits(&chunked.logits),
            bits(&alone.logits),
            "chunks of {chunk}"
        );
        assert_eq!(chunked.rows, alone.rows, "chunks of {chunk}");
    }
    // Beside a longer prompt's chunk and a sequence that decodes.
    let mut caches: Vec<Cache> = (0..3).map(|_| Cache::new(model.shape(), 8)).collect();
    model
        .step(&mut caches, &Item::of(2, &[3, 4, 5], Detail::None))
        .unwrap();
    let vocab = model.shape().vocab;
    for (t, token) in TEXT.iter().enumerate() {
        let mut batch = Item::of(0, &[8, 9], Detail::Heads);
        batch.extend(Item::of(1, &[*token], Detail::Heads));
        batch.extend(Item::of(2, &[6], Detail::Heads));
        let step = model.step(&mut caches, &batch).unwrap();
        let own = &step.logits[2 * vocab..3 * vocab];
        assert_eq!(
            bits(own),
            bits(&alone.logits[t * vocab..(t + 1) * vocab]),
            "step {t}"
        );
        assert_eq!(step.rows[2], alone.rows[t], "step {t}");
    }
}

#[test]
fn paths_and_threads_change_no_bit() {
    let tiny = Tiny::new("qwen2", false, 11);
    let expected = run(&model(&tiny).on(Dense::scalar()), &TEXT, 4, Detail::Layers);
    for path in Dense::available() {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let model = model(&tiny).on(path);
            let got = pool.install(|| run(&model, &TEXT, 4, Detail::Layers));
            assert_eq!(
                bits(&got.logits),
                bits(&expected.logits),
                "{} {threads}",
                path.name
            );
            assert_eq!(got.rows, expected.rows, "{} {threads}", path.name);
        }
    }
}

#[test]
fn a_folder_of_safetensors_is_the_same_model() {
    for (family, tied) in [("llama", false), ("qwen2", true)] {
        let tiny = Tiny::new(family, tied, 21);
        let dir = tempfile::tempdir().unwrap();
        tiny.folder(dir.path());
        let folder = Model::open(dir.path()).unwrap();
        let (a, b) = (
            run(&folder, &TEXT, 3, Detail::Mean),
            run(&model(&tiny), &TEXT, 3, Detail::Mean),
        );
        if family == "qwen2" {
            assert_eq!(bits(&a.logits), bits(&b.logits));
        }
        // Llama's queries and keys are stored in another order, so their products are summed in another order.
        for (x, y) in a.logits.iter().zip(&b.logits) {
            assert!((x - y).abs() < 2e-5, "{family}: {x} and {y}");
        }
    }
}

#[test]
fn steps_that_cannot_be_are_refused_and_leave_the_cache() {
    let model = model(&Tiny::new("llama", true, 2));
    let mut caches = [Cache::new(model.shape(), 4)];
    let refused = |caches: &mut [Cache], tokens: &[u32]| {
        let error = model
            .step(caches, &Item::of(0, tokens, Detail::None))
            .unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.message
    };
    assert_eq!(
        refused(&mut caches, &[1, 40]),
        "token 40 is not in the vocabulary of 40 tokens"
    );
    let long = refused(&mut caches, &[0; 65]);
    assert_eq!(
        long,
        "the text is longer than the model's context of 64 tokens"
    );
    assert!(caches[0].is_empty());
}

#[test]
fn a_checkpoint_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = Tiny::new("llama", true, 1);
    let checkpoint = Checkpoint::open(&write(&dir, &tiny.gguf())).unwrap();
    assert_eq!(checkpoint.name, "tiny");
    assert_eq!(checkpoint.quantisation(), "F32");
    let numbers: usize = tiny.weights.values().map(|(_, w)| w.len()).sum();
    assert_eq!(checkpoint.bytes(), 4 * numbers as u64);
}
