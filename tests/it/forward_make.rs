//! Small models of both families, written as GGUF files and as Hugging Face folders, and a second, plain forward pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Weights by GGUF name: dimensions (slowest first) and numbers.
pub(crate) type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A model small enough to compute by hand, with heads wider than the residual stream has room for.
#[derive(Clone, Debug)]
pub(crate) struct Tiny {
    pub(crate) architecture: &'static str,
    pub(crate) tied: bool,
    pub(crate) weights: Weights,
}

pub(crate) const LAYERS: usize = 2;
pub(crate) const HIDDEN: usize = 32;
pub(crate) const HEADS: usize = 6;
pub(crate) const KV: usize = 2;
pub(crate) const DIM: usize = 16;
pub(crate) const FF: usize = 48;
pub(crate) const VOCAB: usize = 40;
pub(crate) const EPSILON: f32 = 1e-5;
pub(crate) const BASE: f32 = 10_000.0;
pub(crate) const CONTEXT: u32 = 64;

impl Tiny {
    pub(crate) fn new(architecture: &'static str, tied: bool, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        };
        let mut weights = Weights::new();
        let mut put = |name: String, dims: &[usize], middle: f32| {
            let n = dims.iter().product();
            let numbers = (0..n).map(|_| middle + 0.8 * draw()).collect();
            weights.insert(name, (dims.to_vec(), numbers));
        };
        put("token_embd.weight".into(), &[VOCAB, HIDDEN], 0.0);
        put("output_norm.weight".into(), &[HIDDEN], 1.0);
        if !tied {
            put("output.weight".into(), &[VOCAB, HIDDEN], 0.0);
        }
        for l in 0..LAYERS {
            let name = |n: &str| format!("blk.{l}.{n}");
            put(name("attn_norm.weight"), &[HIDDEN], 1.0);
            put(name("attn_q.weight"), &[HEADS * DIM, HIDDEN], 0.0);
            put(name("attn_k.weight"), &[KV * DIM, HIDDEN], 0.0);
            put(name("attn_v.weight"), &[KV * DIM, HIDDEN], 0.0);
            put(name("attn_output.weight"), &[HIDDEN, HEADS * DIM], 0.0);
            put(name("ffn_norm.weight"), &[HIDDEN], 1.0);
            put(name("ffn_gate.weight"), &[FF, HIDDEN], 0.0);
            put(name("ffn_up.weight"), &[FF, HIDDEN], 0.0);
            put(name("ffn_down.weight"), &[HIDDEN, FF], 0.0);
            if architecture == "qwen2" {
                put(name("attn_q.bias"), &[HEADS * DIM], 0.0);
                put(name("attn_k.bias"), &[KV * DIM], 0.0);
                put(name("attn_v.bias"), &[KV * DIM], 0.0);
            }
        }
        Self {
            architecture,
            tied,
            weights,
        }
    }

    /// The model as a GGUF file of binary32.
    pub(crate) fn gguf(&self) -> Vec<u8> {
        gguf_with(self, Vec::new())
    }

    /// Metadata of its shape.
    fn keys(&self) -> Vec<(String, Key)> {
        let a = self.architecture;
        let mut keys: Vec<(String, Key)> = vec![
            ("general.architecture".into(), Key::Text(a.into())),
            ("general.name".into(), Key::Text("tiny".into())),
        ];
        for (key, value) in [
            ("block_count", LAYERS),
            ("embedding_length", HIDDEN),
            ("attention.head_count", HEADS),
            ("attention.head_count_kv", KV),
            ("attention.key_length", DIM),
            ("feed_forward_length", FF),
            ("context_length", CONTEXT as usize),
        ] {
            keys.push((
                format!("{a}.{key}"),
                Key::Count(u32::try_from(value).unwrap()),
            ));
        }
        keys.push((
            format!("{a}.attention.layer_norm_rms_epsilon"),
            Key::Float(EPSILON),
        ));
        keys.push((format!("{a}.rope.freq_base"), Key::Float(BASE)));
        keys
    }

    /// The same model as a folder: queries and keys of `llama` in the order of half-split rotation.
    pub(crate) fn folder(&self, dir: &Path) {
        let config = serde_json::json!({
            "model_type": self.architecture, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": DIM,
            "intermediate_size": FF, "vocab_size": VOCAB, "rms_norm_eps": EPSILON, "rope_theta": BASE,
            "max_position_embeddings": CONTEXT, "tie_word_embeddings": self.tied, "hidden_act": "silu",
        });
        std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let mut tensors = BTreeMap::new();
        for (name, (dims, numbers)) in &self.weights {
            let apart = self.architecture == "llama"
                && (name.contains("attn_q.") || name.contains("attn_k."));
            let numbers = if apart {
                halves(numbers, dims[1])
            } else {
                numbers.clone()
            };
            tensors.insert(face(name), (dims.clone(), numbers));
        }
        std::fs::write(dir.join("model.safetensors"), safetensors(&tensors)).unwrap();
    }
}

/// A model's GGUF file with further metadata.
pub(crate) fn gguf_with(tiny: &Tiny, more: Vec<(String, Key)>) -> Vec<u8> {
    let mut keys = tiny.keys();
    keys.extend(more);
    gguf(&keys, &tiny.weights)
}

/// Rows of a head from neighbours in pairs to pairs half a head apart: row `i` of the new order is row `2i` of the old
/// one, row `DIM/2 + i` is row `2i + 1`.
fn halves(numbers: &[f32], k: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for head in numbers.chunks(DIM * k) {
        for start in [0, 1] {
            for row in head.chunks(k).skip(start).step_by(2) {
                out.extend_from_slice(row);
            }
        }
    }
    out
}

fn face(name: &str) -> String {
    let words = [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("attn_norm", "input_layernorm"),
        ("attn_output", "self_attn.o_proj"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
        ("blk.", "model.layers."),
    ];
    if name == "output.weight" {
        return "lm_head.weight".into();
    }
    words
        .iter()
        .fold(name.to_string(), |n, (from, to)| n.replace(from, to))
}

pub(crate) fn safetensors(tensors: &Weights) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (dims, numbers)) in tensors {
        let start = data.len();
        data.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        let entry =
            serde_json::json!({"dtype": "F32", "shape": dims, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.into_bytes());
    out.extend(data);
    out
}

/// A metadata value.
pub(crate) enum Key {
    Text(String),
    Count(u32),
    Float(f32),
    Texts(Vec<String>),
    Floats(Vec<f32>),
}

fn text(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

pub(crate) fn gguf(keys: &[(String, Key)], weights: &Weights) -> Vec<u8> {
    let mut f = b"GGUF".to_vec();
    f.extend(3u32.to_le_bytes());
    f.extend((weights.len() as u64).to_le_bytes());
    f.extend((keys.len() as u64).to_le_bytes());
    for (key, value) in keys {
        text(&mut f, key);
        match value {
            Key::Text(t) => {
                f.extend(8u32.to_le_bytes());
                text(&mut f, t);
            }
            Key::Count(n) => f.extend([4u32.to_le_bytes(), n.to_le_bytes()].concat()),
            Key::Texts(texts) => {
                f.extend([9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
                f.extend((texts.len() as u64).to_le_bytes());
                for t in texts {
                    text(&mut f, t);
                }
            }
            Key::Floats(xs) => {
                f.extend([9u32.to_le_bytes(), 6u32.to_le_bytes()].concat());
                f.extend((xs.len() as u64).to_le_bytes());
                f.extend(xs.iter().flat_map(|x| x.to_le_bytes()));
            }
            Key::Float(x) => f.extend([6u32.to_le_bytes(), x.to_le_bytes()].concat()),
        }
    }
    let mut data = Vec::new();
    for (name, (dims, numbers)) in weights {
        text(&mut f, name);
        f.extend(u32::try_from(dims.len()).unwrap().to_le_bytes());
        for d in dims.iter().rev() {
            f.extend((*d as u64).to_le_bytes());
        }
        f.extend(0u32.to_le_bytes());
        f.extend((data.len() as u64).to_le_bytes());
        data.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    f.resize(f.len().next_multiple_of(32), 0);
    f.extend(data);
    f
}

pub(crate) fn write(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// What a plain forward pass gives for the last of `tokens`: logits, and weights by layer, head and position.
pub(crate) struct Plain {
    pub(crate) logits: Vec<f64>,
    pub(crate) attention: Vec<Vec<Vec<f64>>>,
}

/// Whether a query at a position does not see a key: layer, KV head, query's and key's position.
pub(crate) type Gone<'a> = &'a dyn Fn(usize, usize, usize, usize) -> bool;

/// As [`plain_without`], with every key.
pub(crate) fn plain(tiny: &Tiny, tokens: &[u32]) -> Plain {
    plain_without(tiny, tokens, &|_, _, _, _| false)
}

/// The whole text at once, in binary64, from the definitions; `llama` rotates neighbours, `qwen2` halves.
#[allow(clippy::many_single_char_names)] // those of the definitions
pub(crate) fn plain_without(tiny: &Tiny, tokens: &[u32], gone: Gone<'_>) -> Plain {
    let w = |name: &str| &tiny.weights[name].1;
    let times = |m: &[f32], x: &[f64]| -> Vec<f64> {
        let row = |r: &[f32]| r.iter().zip(x).map(|(a, b)| f64::from(*a) * b).sum();
        m.chunks(x.len()).map(row).collect()
    };
    let norm = |x: &[f64], w: &[f32]| -> Vec<f64> {
        let square = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (square + f64::from(EPSILON)).sqrt();
        x.iter()
            .zip(w)
            .map(|(v, w)| v * scale * f64::from(*w))
            .collect()
    };
    let mut xs: Vec<Vec<f64>> = tokens
        .iter()
        .map(|t| {
            w("token_embd.weight")[*t as usize * HIDDEN..][..HIDDEN]
                .iter()
                .map(|v| f64::from(*v))
                .collect()
        })
        .collect();
    let mut attention = Vec::new();
    for l in 0..LAYERS {
        let name = |n: &str| format!("blk.{l}.{n}");
        let project = |x: &[f64], which: &str, position: Option<usize>| {
            let mut y = times(
                w(&name(&format!("{which}.weight"))),
                &norm(x, w(&name("attn_norm.weight"))),
            );
            if let Some((_, bias)) = tiny.weights.get(&name(&format!("{which}.bias"))) {
                y.iter_mut()
                    .zip(bias)
                    .for_each(|(y, b)| *y += f64::from(*b));
            }
            if let Some(p) = position {
                y.chunks_mut(DIM)
                    .for_each(|h| rotate(h, p, tiny.architecture == "llama"));
            }
            y
        };
        let qs: Vec<Vec<f64>> = xs
            .iter()
            .enumerate()
            .map(|(p, x)| project(x, "attn_q", Some(p)))
            .collect();
        let ks: Vec<Vec<f64>> = xs
            .iter()
            .enumerate()
            .map(|(p, x)| project(x, "attn_k", Some(p)))
            .collect();
        let vs: Vec<Vec<f64>> = xs.iter().map(|x| project(x, "attn_v", None)).collect();
        let mut heads_of_last = Vec::new();
        for (p, x) in xs.iter_mut().enumerate() {
            let mut joined = Vec::new();
            heads_of_last = Vec::new();
            for h in 0..HEADS {
                let of = |v: &[f64], head: usize| v[head * DIM..(head + 1) * DIM].to_vec();
                let kv = h / (HEADS / KV);
                let q = of(&qs[p], h);
                let score =
                    |k: &Vec<f64>| q.iter().zip(of(k, kv)).map(|(a, b)| a * b).sum::<f64>() / 4.0; // sqrt 16
                let seen = |i: usize| if gone(l, kv, p, i) { 0.0 } else { 1.0 };
                let e: Vec<f64> = ks[..=p]
                    .iter()
                    .enumerate()
                    .map(|(i, k)| seen(i) * score(k).exp())
                    .collect();
                let z: f64 = e.iter().sum();
                let a: Vec<f64> = e.iter().map(|v| v / z).collect();
                for d in 0..DIM {
                    joined.push(a.iter().zip(&vs).map(|(a, v)| a * v[kv * DIM + d]).sum());
                }
                heads_of_last.push(a);
            }
            let out = times(w(&name("attn_output.weight")), &joined);
            x.iter_mut().zip(&out).for_each(|(x, o)| *x += o);
            let h = norm(x, w(&name("ffn_norm.weight")));
            let up = times(w(&name("ffn_up.weight")), &h);
            let gate: Vec<f64> = times(w(&name("ffn_gate.weight")), &h)
                .iter()
                .zip(&up)
                .map(|(g, u)| g / (1.0 + (-g).exp()) * u)
                .collect();
            let out = times(w(&name("ffn_down.weight")), &gate);
            x.iter_mut().zip(&out).for_each(|(x, o)| *x += o);
        }
        attention.push(heads_of_last);
    }
    let output = if tiny.tied {
        "token_embd.weight"
    } else {
        "output.weight"
    };
    let last = norm(xs.last().unwrap(), w("output_norm.weight"));
    Plain {
        logits: times(w(output), &last),
        attention,
    }
}

fn rotate(head: &mut [f64], position: usize, neighbours: bool) {
    for i in 0..DIM / 2 {
        let angle = position as f64 * f64::from(BASE).powf(-2.0 * i as f64 / DIM as f64);
        let (a, b) = if neighbours {
            (2 * i, 2 * i + 1)
        } else {
            (i, i + DIM / 2)
        };
        let (u, v) = (head[a], head[b]);
        head[a] = u * angle.cos() - v * angle.sin();
        head[b] = u * angle.sin() + v * angle.cos();
    }
}

/// Metadata of a byte-level tokenizer of [`VOCAB`] tokens: letters, two merges, and a chat template.
pub(crate) fn tokenizer() -> Vec<(String, Key)> {
    let key = |k: &str, v: Key| (format!("tokenizer.{k}"), v);
    let letters = "abcdefghijklmnopqrstuvwxyz.,:!?0123456"
        .chars()
        .map(String::from);
    let tokens: Vec<String> = letters.chain(["th".into(), "the".into()]).collect();
    assert_eq!(tokens.len(), VOCAB);
    vec![
        key("ggml.model", Key::Text("gpt2".into())),
        key("ggml.pre", Key::Text("qwen2".into())),
        key("ggml.tokens", Key::Texts(tokens)),
        key("ggml.merges", Key::Texts(vec!["t h".into(), "th e".into()])),
        key("ggml.eos_token_id", Key::Count(29)),
        key(
            "chat_template",
            Key::Text(
                "{% for m in messages %}{{ m['role'] }}:{{ m.content.strip() }}{% endfor %}!"
                    .into(),
            ),
        ),
    ]
}
