//! What a model looks like: the numbers that decide every tensor's shape.
//!
//! Read from a file that a stranger wrote, so each number has a limit and the contradictions between them are refused
//! before anything is allocated by them. Units: elements, but [`Shape::context`], which is tokens.

use crate::error::{Error, Result};

/// How frequencies of the rotary embedding are stretched for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All by one factor.
    Linear(f64),
    /// Llama-3: slow frequencies by `factor`, fast ones not, those between by a line in the wave's length.
    Llama3 {
        /// What slow frequencies are divided by.
        factor: f64,
        /// Waves longer than the original context over this are slow.
        low: f64,
        /// Waves shorter than the original context over this are fast.
        high: f64,
        /// Tokens of the original context.
        original: f64,
    },
    /// Each frequency by its own divisor, as GGUF stores Llama-3's.
    Divisors(Vec<f32>),
}

/// The rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub base: f64,
    /// Whether a pair is two neighbours (GGUF's `llama`) or entries half a head apart (all others).
    pub interleaved: bool,
    /// Stretching of the frequencies.
    pub scaling: Scaling,
}

/// Shape of a decoder of the Llama or Qwen2 family.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// `llama` or `qwen2`.
    pub architecture: String,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// KV heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward part.
    pub ff: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Added to the mean square in the norms.
    pub epsilon: f32,
    /// Rotary embedding.
    pub rope: Rope,
    /// Longest context the model was made for, in tokens.
    pub context: usize,
}

impl Shape {
    /// Query heads of a KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of all keys of a position.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Width of all queries of a position.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Refuses numbers beyond any real model, and those that contradict each other.
    ///
    /// # Errors
    /// Data, naming the number and the file.
    pub fn check(self, label: &str) -> Result<Self> {
        let limits = [
            ("layers", self.layers, 1 << 10),
            ("hidden width", self.hidden, 1 << 16),
            ("heads", self.heads, 1 << 10),
            ("KV heads", self.kv_heads, 1 << 10),
            ("head width", self.head_dim, 1 << 10),
            ("feed-forward width", self.ff, 1 << 20),
            ("vocabulary", self.vocab, 1 << 21),
            ("context", self.context, 1 << 24),
        ];
        let wrong = |what: String| Err(Error::data(format!("{label}: {what}")));
        for (name, value, limit) in limits {
            if value == 0 || value > limit {
                return wrong(format!("{name} {value} is outside 1..={limit}"));
            }
        }
        for (name, value, of) in [
            ("hidden width", self.hidden, 16),
            ("head width", self.head_dim, 16),
            ("feed-forward width", self.ff, 16),
            ("heads", self.heads, self.kv_heads),
        ] {
            if !value.is_multiple_of(of) {
                return wrong(format!("{name} {value} is not a multiple of {of}"));
            }
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return wrong("the norms' epsilon is not a number of at least 0".into());
        }
        match self.rope.check() {
            Ok(()) => Ok(self),
            Err(why) => wrong(why),
        }
    }
}

impl Rope {
    fn check(&self) -> std::result::Result<(), String> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let sound = match &self.scaling {
            Scaling::None => true,
            Scaling::Linear(factor) => positive(*factor),
            Scaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => [*factor, *low, *high, *original].into_iter().all(positive) && high > low,
            Scaling::Divisors(d) => d.iter().all(|x| positive(f64::from(*x))),
        };
        if !sound {
            return Err("its rope scaling holds a number that cannot be".into());
        }
        if positive(self.base) {
            Ok(())
        } else {
            Err(format!("rope base {} is not a positive number", self.base))
        }
    }
}
