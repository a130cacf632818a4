//! The ledger of a deployment: what lies in HBM and in host memory, part by part, and how many tokens fit.
//!
//! What is modelled: weights in their format, less what lies in host memory or on other replicas, KV by tier and layer rule, staging of T1, activations, the runtime's
//! reserve, the desktop's reserve, pages. Activations are the larger of a prefill chunk's rows and of the sampler's logits
//! in the engine's warm-up: on an H100 vLLM leaves 0.35 GiB less for KV under Qwen2.5-7B than under Llama-3.1-8B, in the
//! ratio of their vocabularies. What the memory fraction is a share of differs by engine ([`Pool`]); `capacity` is what may
//! be used under its rule, so that fixed parts and KV together never exceed it. What is ignored: allocator fragmentation
//! beyond the spare page of compaction; graphs, which vLLM captures outside its fraction. Peak, not mean: the parts are
//! those at the instant of the peak and sum to it (law 3). All figures are over all GPUs of the deployment. Rival:
//! "parameters x 2 plus a margin", which forgets staging, so that its "HBM saved" counts memory that the attention of every
//! step still needs.

use crate::deploy::{Compact, Deployment, T1Mode};
use crate::hardware::Pool;
use crate::service::Prepared;
use crate::timeline::{Fetch, Selection};
use crate::units::Bytes;

/// HBM in use at one instant (bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Instant {
    /// KV in T0, spare pages included.
    pub kv_t0: f64,
    /// Staging of T1.
    pub staging: f64,
}

impl Instant {
    /// Both parts.
    pub fn total(self) -> f64 {
        self.kv_t0 + self.staging
    }
}

/// Tokens of all sequences by tier, and by windowed class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// Sequences running.
    pub sequences: f64,
    /// Tokens in T0, T1, T2 of layers without a window.
    pub tiers: [f64; 3],
    /// Tokens that T0's pages have room for, where a page is freed only once no T0 token is left in it; zero where live
    /// tokens are packed.
    pub room: f64,
    /// What the step fetches, where only some host tokens take part (`selective`).
    pub fetch: Fetch,
    /// Tokens each class with a window keeps (index = class; 0 for classes without one); empty if no class has one.
    pub windowed: Vec<f64>,
}

/// The fixed parts and the per-token prices of a deployment.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Weights in HBM, with the buffers that those in host memory pass through.
    pub weights: Bytes,
    /// Weights in host memory.
    pub host_weights: Bytes,
    /// Activations of a prefill chunk.
    pub activation: Bytes,
    /// Context, libraries, graphs.
    pub reserve: Bytes,
    /// What may be used.
    pub capacity: Bytes,
    /// Host memory that may be pinned.
    pub ddr_capacity: Bytes,
    /// KV bytes of a token over all unwindowed layers.
    pub kv_token: f64,
    /// The same in T2's format.
    pub t2_token: f64,
    /// KV bytes of a token and the window, of each windowed class (all its layers).
    pub windowed: Vec<Option<(f64, u32)>>,
    /// The largest layer's share of `kv_token`: what one staged layer holds of a T1 token.
    pub layer_token: f64,
    page: f64,
    depth: f64,
    t1: T1Mode,
    /// Whether T0 keeps every page with a T0 token in it.
    pub whole_pages: bool,
    spare_pages: f64,
}

impl Ledger {
    /// The ledger of `prepared`'s deployment.
    pub fn new(prepared: &Prepared) -> Self {
        let d = &prepared.deployment;
        let gpus = f64::from(d.gpus);
        let full = |f: fn(&crate::service::Class) -> f64| -> f64 {
            prepared
                .classes
                .iter()
                .filter(|c| c.window.is_none())
                .map(|c| f(c) * f64::from(c.count) * gpus)
                .sum()
        };
        let host_weights = Bytes::ceil(prepared.host_weights());
        let weights = weights(prepared, host_weights);
        let (activation, reserve) = (activation(d), reserve(d));
        Self {
            weights,
            host_weights,
            activation,
            reserve,
            capacity: capacity(d, weights.as_f64(), (activation + reserve).as_f64()),
            ddr_capacity: Bytes::ceil(d.hardware.host.pinned_limit.get()),
            kv_token: full(|c| c.kv_token),
            t2_token: full(|c| c.t2_token),
            windowed: prepared
                .classes
                .iter()
                .map(|c| {
                    c.window
                        .map(|w| (c.kv_token * f64::from(c.count) * gpus, w))
                })
                .collect(),
            layer_token: gpus
                * prepared
                    .classes
                    .iter()
                    .filter(|c| c.window.is_none())
                    .map(|c| c.kv_token)
                    .fold(0.0, f64::max),
            page: f64::from(d.runtime.page_tokens),
            depth: f64::from(prepared.staged_layers()),
            t1: d.t1,
            whole_pages: d.compact == Compact::None && d.runtime.page_tokens > 1,
            spare_pages: if d.compact == Compact::Retier {
                1.0
            } else {
                0.0
            },
        }
    }

    /// Host memory left for KV.
    pub fn ddr_room(&self) -> f64 {
        self.ddr_capacity.as_f64() - self.host_weights.as_f64()
    }

    /// Host memory in use where KV takes `kv` of it.
    pub fn ddr_in_use(&self, kv: f64) -> f64 {
        kv + self.host_weights.as_f64()
    }

    /// HBM left for KV and staging; negative if the fixed parts alone do not fit.
    pub fn pool(&self) -> f64 {
        self.capacity.as_f64() - (self.weights + self.activation + self.reserve).as_f64()
    }

    /// KV bytes of one sequence of `tokens` with everything in HBM.
    pub fn sequence_bytes(&self, tokens: f64) -> f64 {
        let windowed: f64 = self
            .windowed
            .iter()
            .flatten()
            .map(|(b, w)| b * tokens.min(f64::from(*w)))
            .sum();
        self.kv_token * tokens + windowed
    }

    /// Tokens that each of `sequences` may reach with everything in HBM, at most `limit`.
    pub fn holds(&self, sequences: u32, limit: u32) -> u32 {
        let room = self.pool() / f64::from(sequences);
        largest(limit, |tokens| {
            self.sequence_bytes(f64::from(tokens)) <= room
        })
    }

    /// KV bytes of the layers with a window, which always stay in HBM.
    #[inline]
    pub fn windowed_bytes(&self, held: &Held) -> f64 {
        self.windowed
            .iter()
            .zip(&held.windowed)
            .filter_map(|(c, n)| c.map(|(b, _)| b * n))
            .sum()
    }

    /// HBM in use for KV and staging while `held` is live. `spilled` says that compaction is at work (its spare page a
    /// sequence counts).
    #[inline]
    pub fn instant(&self, held: &Held, spilled: bool) -> Instant {
        let spare = if spilled {
            self.spare_pages * self.page * held.sequences * self.kv_token
        } else {
            0.0
        };
        Instant {
            kv_t0: self.kv_token * held.tiers[0].max(held.room) + self.windowed_bytes(held) + spare,
            staging: match self.t1 {
                T1Mode::Selective(_) => self.kept(&held.fetch),
                _ => self.staging(held.tiers[1], held.tiers[2]),
            },
        }
    }

    /// What picks the tokens that take part, where not all host tokens do.
    pub fn selection(&self) -> Option<Selection> {
        self.t1.selection()
    }

    /// HBM that a fetched set takes until the next step: all its layers, T2 at full size once dequantised.
    fn kept(&self, fetch: &Fetch) -> f64 {
        self.kv_token * (fetch.fetched[0] + fetch.fetched[1])
    }

    /// Staging that `t1` and `t2` tokens need in HBM during a step: `depth` layers of what streams, T2 at its own size
    /// and dequantised beside it; the whole buffer of `staged`; nothing where T1 is attended to in place; under `selective`
    /// the most that one request with so many fetches.
    #[inline]
    pub fn staging(&self, t1: f64, t2: f64) -> f64 {
        let all = self.kv_token * t1 + self.t2_token * t2;
        if all <= 0.0 {
            return 0.0;
        }
        let layers = self.depth * self.layer_token * (t1 + t2 + t2 * self.t2_token / self.kv_token);
        match self.t1 {
            T1Mode::HostAttention | T1Mode::Direct => 0.0,
            T1Mode::Selective(selection) => self.kept(&selection.most([t1, t2])),
            T1Mode::Stream => layers,
            T1Mode::Staged(buffer) => {
                let resident = buffer.map_or(all, |b| b.as_f64().min(all));
                resident + layers * (all - resident) / all
            }
        }
    }

    /// Largest T0 budget a request (tokens after a decision) at which `peak(budget)` stays within the pool, between
    /// `least` and `most`; none if even `least` does not fit. `peak` must not fall as the budget grows.
    pub fn fit(&self, least: u32, most: u32, peak: impl Fn(u32) -> f64) -> Option<u32> {
        let pool = self.pool();
        (peak(least) <= pool).then(|| largest(most, |b| b <= least || peak(b) <= pool))
    }
}

/// Weights on all GPUs: what is not in host memory, buffers for what streams, and of experts that replicas share their part.
fn weights(prepared: &Prepared, host: Bytes) -> Bytes {
    let d = &prepared.deployment;
    let whole = Bytes(d.model.weights_bytes(&d.weights).total());
    let elsewhere = prepared.shared_experts() * (1.0 - 1.0 / prepared.expert_ranks);
    let gone = Bytes::ceil((host.as_f64() + elsewhere).min(whole.as_f64()));
    Bytes(whole.0 - gone.0) + Bytes::ceil(prepared.weight_buffers())
}

/// Largest n in 0..=limit with `holds(n)`, for a predicate that is true up to some point.
fn largest(limit: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// What may be used of all GPUs, of which `weights` and `other` are taken. Where the fraction is one of what is free, a
/// deployment whose fixed parts do not fit has the whole memory: it falls short by what is missing.
fn capacity(d: &Deployment, weights: f64, other: f64) -> Bytes {
    let usable = (d.hardware.gpu.memory.get() - d.vram_reserve.as_f64()).max(0.0);
    let usable = f64::from(d.gpus) * usable;
    let share = usable * d.memory_fraction;
    let may = match d.runtime.pool {
        Pool::OfTotal => share,
        Pool::OfFree => {
            let fixed = (weights + other).min(usable);
            fixed + d.memory_fraction * (usable - fixed)
        }
        Pool::Static => (share + other).min(usable),
    };
    Bytes::ceil(may.floor())
}

/// Activations on every GPU at their peak.
fn activation(d: &Deployment) -> Bytes {
    Bytes::ceil(f64::from(d.gpus) * chunk(d).max(warm_up(d)))
}

/// Memory from which vLLM rehearses as many sequences as on a large card.
const LARGE: f64 = 70.0 * (1u64 << 30) as f64;

/// Logits of the warm-up's largest batch on one GPU; none where the runtime has no warm-up.
fn warm_up(d: &Deployment) -> f64 {
    d.runtime.warm_up.as_ref().map_or(0.0, |w| {
        let small = d.hardware.gpu.memory.get() < LARGE || d.hardware.generation == "ampere";
        let rows = if small { &w.rows_small } else { &w.rows };
        rows.get() * f64::from(d.model.vocab) * w.logit_bytes.get()
    })
}

/// Rows of one prefill chunk on one GPU: residual and inner rows of the widest layer, 16 bit.
fn chunk(d: &Deployment) -> f64 {
    let gpus = f64::from(d.gpus);
    let widest = d
        .model
        .layers
        .iter()
        .map(|l| l.ffn.inner())
        .fold(0.0, f64::max);
    let row = 2.0 * (f64::from(d.model.hidden) + 2.0 * widest / gpus);
    d.runtime.activation_factor.get() * d.runtime.batched_tokens.get() * row
}

fn reserve(d: &Deployment) -> Bytes {
    let each = if d.gpus > 1 {
        &d.runtime.reserve_multi_gpu
    } else {
        &d.runtime.reserve
    };
    Bytes::ceil(f64::from(d.gpus) * each.get())
}
