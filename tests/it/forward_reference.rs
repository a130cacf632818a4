//! `SmolLM2` and a `Qwen2.5` decoded greedily, against a reference written apart in numpy
//! (`goldens/forward_reference.py`): one of each family, and every block format of the two files.

use std::path::{Path, PathBuf};

use kvplan::forward::{Cache, Detail, Item, Model};

/// The test model: in `KVPLAN_TEST_MODELS`, or the user's cache folder.
pub(crate) fn test_model() -> Option<PathBuf> {
    cached("SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// A model in that folder.
fn cached(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("KVPLAN_TEST_MODELS")
        .map(PathBuf::from)
        .or_else(|| {
            let home = PathBuf::from(std::env::var_os("HOME")?);
            let cache =
                std::env::var_os("XDG_CACHE_HOME").map_or(home.join(".cache"), PathBuf::from);
            Some(cache.join("kvplan"))
        })?;
    let path = folder.join(name);
    path.exists().then_some(path)
}

#[derive(serde::Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logp: Vec<f64>,
}

/// Little-endian binary32 of the golden, read from the front.
struct Numbers(&'static [u8]);

impl Numbers {
    fn next(&mut self, n: usize) -> Vec<f32> {
        let (now, rest) = self.0.split_at(4 * n);
        self.0 = rest;
        now.as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect()
    }
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f32::max)
}

/// Natural log-probability of a token.
fn logp(logits: &[f32], token: usize) -> f64 {
    let high = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from(l - high).exp()).sum();
    f64::from(logits[token] - high) - sum.ln()
}

#[test]
fn greedy_tokens_probabilities_and_rows_are_those_of_numpy() {
    let Some(path) = test_model() else {
        skip!("reference check: the test model is not there");
    };
    let golden = include_str!("goldens/forward_smollm2.json");
    agree(&path, golden, include_bytes!("goldens/forward_smollm2.f32"));
}

#[test]
fn those_of_a_qwen_too() {
    let Some(path) = cached("qwen2.5-coder-0.5b-instruct.gguf") else {
        skip!("reference check of Qwen2.5-Coder-0.5B: the test model is not there");
    };
    let golden = include_str!("goldens/forward_qwen2.json");
    agree(&path, golden, include_bytes!("goldens/forward_qwen2.f32"));
}

fn agree(path: &Path, golden: &str, numbers: &'static [u8]) {
    let golden: Golden = serde_json::from_str(golden).unwrap();
    let mut numbers = Numbers(numbers);
    let model = Model::open(path).unwrap();
    let (layers, heads) = (model.shape().layers, model.shape().heads);
    let mut caches = [Cache::new(model.shape(), 256)];
    let prompt = Item::of(0, &golden.prompt, Detail::None);
    let step = model.step(&mut caches, &prompt).unwrap();
    let vocab = model.shape().vocab;
    let mut logits = step.logits[(prompt.len() - 1) * vocab..].to_vec();
    let (mut worst, mut last) = ((0f64, 0f32), None);
    assert!(golden.tokens.len() >= 100);
    for (t, (token, expected)) in golden.tokens.iter().zip(&golden.logp).enumerate() {
        let best = (0..vocab)
            .max_by(|a, b| logits[*a].total_cmp(&logits[*b]))
            .unwrap();
        assert_eq!(best, *token as usize, "step {t}");
        worst.0 = worst.0.max((logp(&logits, best) - expected).abs());
        let step = model
            .step(&mut caches, &Item::of(0, &[*token], Detail::Heads))
            .unwrap();
        let row = &step.rows[0];
        worst.1 = worst
            .1
            .max(far(&row.mean(), &numbers.next(row.positions())));
        logits = step.logits;
        last = step.rows.into_iter().next();
    }
    let last = last.unwrap();
    let n = last.positions();
    for layer in last.weights().chunks(heads * n) {
        let mean: Vec<f32> = (0..n)
            .map(|p| (0..heads).map(|h| layer[h * n + p]).sum::<f32>() / heads as f32)
            .collect();
        worst.1 = worst.1.max(far(&mean, &numbers.next(n)));
    }
    let seventh = &last.weights()[7 * heads * n..8 * heads * n];
    worst.1 = worst.1.max(far(seventh, &numbers.next(heads * n)));
    assert!(numbers.0.is_empty() && last.weights().len() == layers * heads * n);
    assert!(
        worst.0 < 1e-4 && worst.1 < 1e-5,
        "log-probability {}, rows {}",
        worst.0,
        worst.1
    );
}
