//! Bytes of weights and of KV by format.

/// Format of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 16-bit floats (fp16 and bf16 weigh the same).
    Fp16,
    /// 8-bit floats, one scale a tensor.
    Fp8,
    /// 8-bit integers with one 16-bit scale a vector.
    Int8,
    /// llama.cpp Q8_0: 34 bytes per 32 elements.
    Q8_0,
    /// llama.cpp Q4_0: 18 bytes per 32 elements.
    Q4_0,
}

/// Format of the weights.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightFormat {
    /// bfloat16.
    Bf16,
}

/// Weight bytes by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// All layers, norms and biases included.
    pub layers: u64,
    /// Input embedding.
    pub embedding: u64,
    /// Output head; 0 where tied.
    pub head: u64,
}
