//! The laws strung together for one deployment: what a step costs before attention, and per-token bytes after.
//!
//! Layers of one shape form a class, so that a step evaluates each law once a class and not once a layer. Tensor
//! parallel: weights and query heads are divided, KV heads too as long as there are enough of them (else they
//! replicate), the MLA latent replicates. All figures are for one GPU; the GPUs run in step.

use crate::deploy::{Deployment, ScoreCost, T1Mode};
use crate::hardware::kernels::DecodeAttention;
use crate::model::layer::Matrix;
use crate::model::{Attention, KvFormat, Layer};

mod mixed;
mod step;
mod weights;

use super::linear::Routing;
use super::{attention, collective, cpu, linear, prefill, transfer};

/// Layers of one shape.
#[derive(Clone, Debug)]
pub struct Class {
    /// The shape.
    pub layer: Layer,
    /// How many there are.
    pub count: u32,
    /// Tokens this layer keeps at most; such a layer stays in HBM and is not tiered.
    pub window: Option<u32>,
    /// KV bytes a token stores in this layer on one GPU.
    pub kv_token: f64,
    /// The same in T2's format.
    pub t2_token: f64,
    /// Query width on one GPU (heads * `head_dim`).
    pub width: f64,
    /// Query bytes one sequence sends to the host for one layer (16 bit), one GPU.
    pub query_bytes: f64,
    /// Output bytes and log-sum-exp that come back (32 bit), one GPU.
    pub output_bytes: f64,
    /// Log-sum-exp of the whole row, which the host needs to know its tokens' weights (32 bit), one GPU.
    pub lse_bytes: f64,
    /// HBM bytes that a token costs besides, where the policy looks at the weights of attention; else 0.
    pub score_token: f64,
    /// Bytes of one layer's weights that cross the link in every step, one GPU.
    pub host_weights: f64,
    /// Share of a token's KV that a pass over K alone reads.
    key_share: f64,
    /// Query heads on one GPU.
    heads: f64,
    /// KV heads on one GPU; one latent.
    kv_heads: f64,
}

/// What a step of `m` sequences costs apart from attention and transfers (s), per class where a vector.
#[derive(Clone, Debug, Default)]
pub struct BatchCost {
    /// Sequences.
    pub m: u32,
    /// All linear layers.
    pub linear: Vec<f64>,
    /// Norms, rope, activation, launches of a layer.
    pub other: f64,
    /// Two all-reduces of a layer.
    pub collective: f64,
    /// The three above together.
    pub fixed: Vec<f64>,
    /// Output head and embedding.
    pub head: f64,
    /// Linear layers of all classes and the head; norms and launches; all-reduces: for the breakdown.
    pub totals: [f64; 3],
    /// Attention of prompts that are prefilled beside, all layers; in `fixed` too.
    pub prefill: f64,
    /// CPU between steps.
    pub gap: f64,
}

impl BatchCost {
    /// The same in a server that takes `by` times as long.
    #[must_use]
    fn slowed(mut self, by: f64) -> Self {
        let own = [
            &mut self.other,
            &mut self.collective,
            &mut self.head,
            &mut self.prefill,
            &mut self.gap,
        ];
        let lists = self.linear.iter_mut().chain(&mut self.fixed);
        own.into_iter()
            .chain(lists)
            .chain(&mut self.totals)
            .for_each(|t| *t *= by);
        self
    }
}

/// Bytes a step moves for one class: what attention reads in HBM and what crosses the link [bytes, one GPU].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// HBM bytes that the attention of the layer moves.
    pub hbm: f64,
    /// Link bytes, host to device.
    pub link: f64,
    /// DDR bytes that the host reads itself.
    pub host: f64,
    /// Link bytes that the attention kernel reads in place.
    pub in_place: f64,
}

/// A deployment with its laws made ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What it is for.
    pub deployment: Deployment,
    /// Distinct layer shapes.
    pub classes: Vec<Class>,
    /// Class of each layer, in order.
    pub order: Vec<u8>,
    /// The same as runs of consecutive layers alike: class and how many.
    pub runs: Vec<(u8, u32)>,
    /// Host to device rate of one GPU (bytes/s).
    pub h2d_rate: f64,
    /// Device to host rate of one GPU (bytes/s).
    pub d2h_rate: f64,
    /// Rate at which one GPU's kernels read host memory in place (bytes/s).
    pub in_place_rate: f64,
    /// Whether the policy looks at the weights of attention (see [`Prepared::with_scores`]).
    pub scores: bool,
    /// Whether kernels are timed as a benchmark does that repeats them: operands that fit L2 are read from it.
    pub warm: bool,
    /// How tokens spread over experts.
    pub routing: Routing,
    /// Replicas that share the experts of a layer, each computing its part for the tokens of all; 1 = its own.
    pub expert_ranks: f64,
    kernels: f64,
    /// Kernels that one layer's attention takes.
    calls: f64,
}

impl Prepared {
    /// Makes the laws ready for `deployment`.
    pub fn new(deployment: &Deployment) -> Self {
        let model = &deployment.model;
        let gpus = f64::from(deployment.gpus);
        let mut classes: Vec<Class> = Vec::new();
        let mut order = Vec::with_capacity(model.layers.len());
        for layer in &model.layers {
            let at = classes
                .iter()
                .position(|c| c.layer == *layer)
                .unwrap_or_else(|| {
                    classes.push(class(layer, deployment));
                    classes.len() - 1
                });
            classes[at].count += 1;
            order.push(u8::try_from(at).unwrap_or(u8::MAX));
        }
        let mut prepared = Self {
            classes,
            runs: runs(&order),
            order,
            h2d_rate: transfer::h2d_rate(&deployment.hardware, gpus),
            d2h_rate: transfer::d2h_rate(&deployment.hardware, gpus),
            in_place_rate: transfer::in_place_rate(&deployment.hardware, gpus),
            scores: false,
            warm: false,
            routing: Routing::default(),
            expert_ranks: 1.0,
            kernels: deployment.runtime.kernel_share.get(),
            calls: 1.0,
            deployment: deployment.clone(),
        };
        prepared.place_weights();
        prepared
    }

    /// The same for a policy that looks at the weights of every step, at the deployment's score cost (see
    /// `attention::score_bytes`).
    #[must_use]
    pub fn with_scores(mut self) -> Self {
        if self.scores {
            return self;
        }
        let cost = self.deployment.score_cost;
        self.scores = true;
        self.calls = attention::kernels(cost);
        for class in &mut self.classes {
            let keys = class.key_share * class.kv_token;
            class.score_token = attention::score_bytes(cost, keys, class.heads);
        }
        self
    }

    /// Times that KV read in place is read: once, and K once more where a second pass gets the weights.
    pub fn passes(&self, class: &Class) -> f64 {
        match self.deployment.score_cost {
            ScoreCost::Recompute if self.scores => 1.0 + class.key_share,
            _ => 1.0,
        }
    }

    /// Seconds that one layer's kernel needs to read `bytes` of KV where they lie.
    pub fn read_in_place(&self, class: &Class, bytes: f64) -> f64 {
        bytes * self.passes(class) / self.in_place_rate
    }

    /// Seconds of one layer's decode attention that moves nothing: its kernels' floors, for `sequences` that `bytes` are of.
    pub fn attention_floor(&self, class: &Class, sequences: f64, bytes: f64) -> f64 {
        let work = self.work(class, sequences, bytes);
        self.calls * attention::floor(self.attention_law(), work)
    }

    /// The law of decode attention for the KV format.
    fn attention_law(&self) -> &DecodeAttention {
        let eight_bit = self.deployment.kv != KvFormat::Fp16;
        self.deployment
            .hardware
            .gpu
            .kernels
            .attention_for(eight_bit)
    }

    /// What a layer's attention has to do.
    fn work(&self, class: &Class, sequences: f64, bytes: f64) -> attention::Work {
        let token = (class.kv_token + class.score_token) * sequences;
        attention::Work {
            bytes,
            eight_bit: self.deployment.kv != KvFormat::Fp16,
            context: if token > 0.0 { bytes / token } else { 0.0 },
            pairs: sequences * class.kv_heads,
            warm: self.warm,
        }
    }

    /// Layers of staging: the depth asked for, at most the layers that tier (those with a window stay in HBM); all of
    /// them where the fetched tokens of each layer have their own room.
    pub fn staged_layers(&self) -> u32 {
        let tiered = self.classes.iter().filter(|c| c.window.is_none());
        let layers = tiered.map(|c| c.count).sum::<u32>().max(1);
        match self.deployment.t1 {
            T1Mode::Selective(_) => layers,
            _ => self.deployment.depth.clamp(1, layers),
        }
    }

    /// Costs of a step of `m` sequences.
    pub fn batch(&self, m: u32) -> BatchCost {
        self.batch_of(m, None)
    }

    /// The same where replicas that share experts have `all` tokens together; none: each as many as this one.
    pub fn batch_of(&self, m: u32, all: Option<f64>) -> BatchCost {
        let rows = f64::from(m);
        let d = &self.deployment;
        let wide = f64::from(d.model.hidden) * 2.0 * rows;
        let reduce =
            collective::all_reduce(d.hardware.interconnect.as_ref(), f64::from(d.gpus), wide);
        let linear: Vec<f64> = self
            .classes
            .iter()
            .map(|c| {
                let matrices = c.layer.matrices(d.model.hidden);
                let products = self.linear_of(&matrices, rows, all);
                products + self.exchange(c, rows, all) + self.weight_write(c)
            })
            .collect();
        let (other, collective) = (d.runtime.layer_other.get(), 2.0 * reduce);
        let layers = self.order.len() as f64;
        let counts = self.classes.iter().map(|c| f64::from(c.count));
        let head = self.head(rows);
        let all_linear = head + counts.zip(&linear).map(|(n, l)| n * l).sum::<f64>();
        BatchCost {
            m,
            fixed: linear.iter().map(|l| l + other + collective).collect(),
            linear,
            other,
            collective,
            head,
            gap: cpu::step_gap(&d.runtime, rows),
            prefill: 0.0,
            totals: [all_linear, layers * other, layers * collective],
        }
        .slowed(d.runtime.off.step)
    }

    /// Seconds of these matrices for `rows` tokens on one GPU.
    pub fn linear(&self, matrices: &[Matrix], rows: f64) -> f64 {
        self.linear_of(matrices, rows, None)
    }

    /// The same where replicas that share experts have `all` tokens together.
    fn linear_of(&self, matrices: &[Matrix], rows: f64, all: Option<f64>) -> f64 {
        matrices.iter().map(|m| self.matrix(m, rows, all)).sum()
    }

    fn matrix(&self, m: &Matrix, rows: f64, all: Option<f64>) -> f64 {
        let gpus = f64::from(self.deployment.gpus);
        if m.copies <= 1 || self.expert_ranks <= 1.0 {
            return self.matrix_over(m, gpus, rows);
        }
        // A share of the experts for the tokens of all who share them.
        let ranks = self.expert_ranks;
        self.matrix_over(m, ranks * gpus, all.unwrap_or(ranks * rows))
    }

    /// Seconds in which the tokens of a layer with shared experts reach them and come back.
    fn exchange(&self, class: &Class, rows: f64, all: Option<f64>) -> f64 {
        let shared = class
            .layer
            .matrices(self.deployment.model.hidden)
            .iter()
            .any(|m| m.copies > 1);
        if self.expert_ranks <= 1.0 || !shared {
            return 0.0;
        }
        let each = all.map_or(rows, |all| all / self.expert_ranks);
        let bytes = f64::from(self.deployment.model.hidden) * 2.0 * each;
        let interconnect = self.deployment.hardware.interconnect.as_ref();
        2.0 * collective::all_reduce(interconnect, self.expert_ranks, bytes)
    }

    fn matrix_over(&self, m: &Matrix, gpus: f64, rows: f64) -> f64 {
        let d = &self.deployment;
        let split = linear::Split {
            gpus,
            kernels: self.kernels,
            warm: self.warm,
            routing: self.routing,
        };
        linear::matrix(&d.hardware.gpu, &d.weights, m, split, rows)
    }

    /// The output head: one kernel over the vocabulary.
    fn head(&self, rows: f64) -> f64 {
        self.matrix(&self.deployment.model.head_matrix(), rows, None)
    }

    /// The same with the whole vocabulary on every GPU, as some tables sum it.
    pub fn whole_head(&self, rows: f64) -> f64 {
        self.matrix_over(&self.deployment.model.head_matrix(), 1.0, rows)
    }

    /// Seconds of one layer's decode attention over `sequences` that moves `bytes` of HBM.
    pub fn attention(&self, class: &Class, sequences: f64, bytes: f64) -> f64 {
        let gpu = &self.deployment.hardware.gpu;
        let work = self.work(class, sequences, bytes);
        let alone = attention::decode(gpu, self.attention_law(), self.kernels, work, self.calls);
        alone * self.deployment.runtime.off.step
    }

    /// Seconds that copying `bytes` in HBM takes (each read and written once).
    pub fn hbm_copy(&self, bytes: f64) -> f64 {
        let gpu = &self.deployment.hardware.gpu;
        2.0 * bytes / (gpu.kernels.attention.share.get() * self.kernels * gpu.hbm_bandwidth.get())
    }

    /// Seconds of one layer's attention on the host for `m` sequences with `bytes` of KV in host memory: query down,
    /// attention, partial output back (DESIGN 5.1). All GPUs' parts share the DDR and the cores.
    pub fn host_attention(&self, class: &Class, m: f64, bytes: f64, tokens: f64) -> f64 {
        let d = &self.deployment;
        let gpus = f64::from(d.gpus);
        let down = transfer::copy(&d.hardware.link, self.d2h_rate, m * class.query_bytes, 1.0);
        let up = transfer::copy(&d.hardware.link, self.h2d_rate, m * class.output_bytes, 1.0);
        let flops = 4.0 * class.width * tokens;
        down + attention::host(&d.hardware.host, bytes * gpus, flops * gpus) + up
    }

    /// Seconds of one layer's attention over prompts: pairs of tokens already cached and new ones, `tokens` new in all.
    fn prompt_attention(&self, class: &Class, parts: &[(u32, u32)], tokens: f64) -> f64 {
        if parts.is_empty() {
            return 0.0;
        }
        let pairs: f64 = parts
            .iter()
            .map(|&(before, new)| pairs(class.window, before, new))
            .sum();
        let work = prefill::Work {
            pairs,
            queries: tokens,
            heads: class.heads,
            width: class.width,
            operands: tokens * 2.0 * (2.0 * class.width)
                + parts
                    .iter()
                    .map(|&(before, new)| f64::from(before) + f64::from(new))
                    .sum::<f64>()
                    * class.kv_token,
        };
        prefill::attention(&self.deployment.hardware.gpu, self.kernels, work)
    }

    /// Seconds of prefill over several prompts: pairs of tokens already cached and new tokens.
    pub fn prefill(&self, parts: &[(u32, u32)]) -> f64 {
        let d = &self.deployment;
        let chunk = d.runtime.batched_tokens.get().max(1.0);
        let tokens: f64 = parts.iter().map(|p| f64::from(p.1)).sum();
        if tokens == 0.0 {
            return 0.0;
        }
        let chunks = (tokens / chunk).ceil();
        let mut seconds = 0.0;
        for class in &self.classes {
            let matrices = class.layer.matrices(d.model.hidden);
            let products =
                chunks * (self.linear(&matrices, tokens / chunks) + self.weight_write(class));
            let attention = self.prompt_attention(class, parts, tokens);
            seconds += f64::from(class.count)
                * (products + attention + chunks * d.runtime.layer_other.get());
        }
        let reduce = collective::all_reduce(
            d.hardware.interconnect.as_ref(),
            f64::from(d.gpus),
            f64::from(d.model.hidden) * 2.0 * tokens / chunks,
        );
        let layers = self.order.len() as f64;
        let each = 2.0 * layers * reduce
            + self.head(parts.len() as f64)
            + cpu::step_gap(&d.runtime, parts.len() as f64);
        let seconds = (seconds + chunks * each) * d.runtime.off.prefill;
        self.beside_weights(chunks, seconds)
    }
}

/// Runs of equal entries: the entry and how often it comes.
fn runs(order: &[u8]) -> Vec<(u8, u32)> {
    order
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX)))
        .collect()
}

fn pairs(window: Option<u32>, before: u32, new: u32) -> f64 {
    match window {
        Some(w) => prefill::causal_pairs_within(f64::from(before), f64::from(new), f64::from(w)),
        None => prefill::causal_pairs(f64::from(before), f64::from(new)),
    }
}

/// A class with no layers counted yet.
fn class(layer: &Layer, deployment: &Deployment) -> Class {
    let rule = layer.kv_rule();
    let gpus = f64::from(deployment.gpus);
    let (share, width, sent, key_share, kv_heads) = match layer.attention {
        Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            ..
        } => {
            let share = (f64::from(kv_heads) / gpus).ceil() / f64::from(kv_heads);
            let width = f64::from(heads) * f64::from(head_dim) / gpus;
            let held = share * f64::from(kv_heads);
            (share, width, f64::from(heads) / gpus, 0.5, held)
        }
        Attention::Latent {
            heads,
            kv_rank,
            rope,
            ..
        } => {
            let width = f64::from(heads) * f64::from(kv_rank + rope) / gpus;
            // The latent is key and value at once.
            (1.0, width, f64::from(heads) / gpus, 1.0, 1.0)
        }
    };
    Class {
        layer: *layer,
        count: 0,
        window: rule.window,
        kv_token: share * deployment.kv.rule_bytes(rule),
        t2_token: share
            * KvFormat::Int8
                .rule_bytes(rule)
                .min(deployment.kv.rule_bytes(rule)),
        width,
        query_bytes: 2.0 * width,
        output_bytes: 4.0 * (width + sent),
        lse_bytes: 4.0 * sent,
        score_token: 0.0,
        host_weights: 0.0,
        key_share,
        heads: sent,
        kv_heads,
    }
}
