//! One layer taken apart: its KV rule, its linear operations, its parameters.
//!
//! The list of matrices is the one place that knows the shapes; parameters, weight bytes and the time of a step are sums
//! over it, so that they cannot drift apart. Operations that engines fuse (Q, K and V; gate and up) are one matrix here.
//! Ignored: rotary tables and buffers, which are no parameters.

use super::{Attention, Ffn, KvRule, Layer};

/// What a matrix is for, where formats and splits treat it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixKind {
    /// A projection of attention.
    Attention,
    /// A dense or shared feed-forward.
    Ffn,
    /// The router of a mixture of experts; stays at 16 bits in every format.
    Router,
    /// Routed experts.
    Expert,
    /// The output head.
    Head,
}

/// One linear operation: `copies` matrices of `out` x `inp`, of which a token uses `active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// `qkv`, `o`, `gate_up`, `down`, `router`, ...
    pub name: &'static str,
    /// Output rows.
    pub out: u32,
    /// Input columns.
    pub inp: u32,
    /// Experts, or 1.
    pub copies: u32,
    /// Experts a token uses, or 1.
    pub active: u32,
    /// Whether each copy has a bias of `out` elements.
    pub bias: bool,
    /// Rows to which llama.cpp's mixtures give more bits in half of the layers (V and down).
    pub wide_rows: u32,
    /// What it is for.
    pub kind: MatrixKind,
}

impl Matrix {
    /// Elements of one copy, without bias.
    pub fn elements(&self) -> u64 {
        u64::from(self.out) * u64::from(self.inp)
    }

    /// Parameters of one copy, bias included.
    fn parameters(&self) -> u64 {
        self.elements() + u64::from(if self.bias { self.out } else { 0 })
    }
}

/// One matrix without bias.
pub fn matrix(name: &'static str, kind: MatrixKind, out: u32, inp: u32) -> Matrix {
    Matrix {
        name,
        out,
        inp,
        copies: 1,
        active: 1,
        bias: false,
        wide_rows: 0,
        kind,
    }
}

impl Layer {
    /// How its KV grows: K and V of the KV heads, or the latent and the rope key.
    pub fn kv_rule(&self) -> KvRule {
        match self.attention {
            Attention::Grouped {
                kv_heads,
                head_dim,
                window,
                ..
            } => KvRule {
                elements: 2 * kv_heads * head_dim,
                vectors: 2 * kv_heads,
                window,
            },
            Attention::Latent { kv_rank, rope, .. } => KvRule {
                elements: kv_rank + rope,
                vectors: 2,
                window: None,
            },
        }
    }

    /// Every linear operation of the layer, in the order it runs.
    pub fn matrices(&self, hidden: u32) -> Vec<Matrix> {
        let mut all = self.attention.matrices(hidden);
        all.extend(self.ffn.matrices(hidden));
        all
    }

    /// All parameters of the layer.
    pub fn parameters(&self, hidden: u32) -> u64 {
        self.small_parameters(hidden)
            + self
                .matrices(hidden)
                .iter()
                .map(|m| u64::from(m.copies) * m.parameters())
                .sum::<u64>()
    }

    /// Parameters one token reads: active experts only; the router's biases, which only pick them, are left out as in
    /// published counts of active parameters.
    pub fn active_parameters(&self, hidden: u32) -> u64 {
        let read = |m: &Matrix| match m.kind {
            MatrixKind::Router => m.elements(),
            _ => u64::from(m.active) * m.parameters(),
        };
        let matrices: u64 = self.matrices(hidden).iter().map(read).sum();
        self.small_parameters(hidden) - self.router_correction() + matrices
    }

    /// Parameters in no matrix and no matrix bias: norms, sink logits, router correction.
    pub fn small_parameters(&self, hidden: u32) -> u64 {
        let norms = u64::from(self.norms) * u64::from(hidden);
        let attention = match self.attention {
            Attention::Grouped {
                heads,
                head_dim,
                qk_norm,
                sink_logits,
                ..
            } => {
                u64::from(qk_norm) * 2 * u64::from(head_dim)
                    + u64::from(sink_logits) * u64::from(heads)
            }
            Attention::Latent {
                kv_rank, q_rank, ..
            } => u64::from(kv_rank) + u64::from(q_rank),
        };
        norms + attention + self.router_correction()
    }

    fn router_correction(&self) -> u64 {
        match self.ffn {
            Ffn::Experts {
                experts,
                router_bias: true,
                ..
            } => u64::from(experts),
            _ => 0,
        }
    }
}

impl Attention {
    /// Query heads.
    pub fn heads(&self) -> u32 {
        match *self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => heads,
        }
    }

    fn matrices(&self, hidden: u32) -> Vec<Matrix> {
        let part = |name, out, inp| matrix(name, MatrixKind::Attention, out, inp);
        match *self {
            Self::Grouped {
                heads,
                kv_heads,
                head_dim,
                qkv_bias,
                out_bias,
                ..
            } => vec![
                Matrix {
                    bias: qkv_bias,
                    wide_rows: kv_heads * head_dim,
                    ..part("qkv", (heads + 2 * kv_heads) * head_dim, hidden)
                },
                Matrix {
                    bias: out_bias,
                    ..part("o", hidden, heads * head_dim)
                },
            ],
            Self::Latent {
                heads,
                kv_rank,
                q_rank,
                rope,
                nope,
                value,
            } => {
                let queries = heads * (nope + rope);
                let mut all = if q_rank == 0 {
                    vec![part("q", queries, hidden)]
                } else {
                    vec![part("q_a", q_rank, hidden), part("q_b", queries, q_rank)]
                };
                all.push(part("kv_a", kv_rank + rope, hidden));
                all.push(part("kv_b", heads * (nope + value), kv_rank));
                all.push(part("o", hidden, heads * value));
                all
            }
        }
    }
}

impl Ffn {
    /// Inner width that a token occupies: all experts it uses.
    pub fn inner(&self) -> f64 {
        match *self {
            Self::Dense { intermediate } => f64::from(intermediate),
            Self::Experts {
                active,
                shared,
                intermediate,
                ..
            } => f64::from(active + shared) * f64::from(intermediate),
        }
    }

    fn matrices(&self, hidden: u32) -> Vec<Matrix> {
        match *self {
            Self::Dense { intermediate } => {
                gated(["gate_up", "down"], MatrixKind::Ffn, hidden, intermediate).to_vec()
            }
            Self::Experts {
                experts,
                active,
                intermediate,
                shared,
                bias,
                ..
            } => {
                let router = Matrix {
                    bias,
                    ..matrix("router", MatrixKind::Router, experts, hidden)
                };
                let experts_pair = gated(
                    ["experts_gate_up", "experts_down"],
                    MatrixKind::Expert,
                    hidden,
                    intermediate,
                );
                let mut all = vec![router];
                all.extend(experts_pair.map(|m| Matrix {
                    copies: experts,
                    active,
                    bias,
                    ..m
                }));
                if shared > 0 {
                    all.extend(gated(
                        ["shared_gate_up", "shared_down"],
                        MatrixKind::Ffn,
                        hidden,
                        shared * intermediate,
                    ));
                }
                all
            }
        }
    }
}

/// Gate and up as one matrix, then down.
fn gated(
    names: [&'static str; 2],
    kind: MatrixKind,
    hidden: u32,
    intermediate: u32,
) -> [Matrix; 2] {
    [
        matrix(names[0], kind, 2 * intermediate, hidden),
        Matrix {
            wide_rows: hidden,
            ..matrix(names[1], kind, hidden, intermediate)
        },
    ]
}
