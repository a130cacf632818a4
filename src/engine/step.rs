//! One decode step of the running batch: its service times by T1 mode, then the pipeline of its layers.
//!
//! `stream` and `staged` overlap transfers with compute (see `pipeline`); a re-tier drains the share of the link's lead
//! that belongs to the sequences re-tiered, whose T1 is not known before. `serial` adds everything up, as the published
//! prototype ran; nothing meets there, so nothing contends. `host-attention` has no transfer but waits in every layer for
//! the slower of GPU and host. A write-back goes down under the step after its own and slows the transfers it meets.
//! The layers run by the recursion of `pipeline` or, under fidelity `layer`, by the events of `layer`: same service
//! times, same result. Ignored: overlap inside a kernel; a step of new KV is buffered on the GPU, not two. Rival: one
//! formula for the step, which cannot carry the lead.

mod events;
mod split;

use super::layer::LayerEvents;
use super::pipeline::{LayerTimes, Pipeline};
use super::spill::{Key, Spill};
use crate::deploy::{Fidelity, Layout, Overlap, WriteBack};
use crate::memory::Held;
use crate::service::{BatchCost, Prepared, transfer};
use crate::units::Ps;

/// Moves charged to a step: what re-tiering costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burst {
    /// Sequences re-tiered.
    pub sequences: f64,
    /// Tokens promoted (up the link) and the contiguous runs they lie in.
    pub promoted: f64,
    /// Tokens demoted (down the link unless written through).
    pub demoted: f64,
    /// Contiguous runs among the moved.
    pub runs: f64,
    /// Live unprotected T0 tokens packed by compaction.
    pub compacted: f64,
}

/// One step as it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// End of the previous step (or of the prefill before this one).
    pub begin: Ps,
    /// End of the last layer.
    pub end: Ps,
    /// Sum of the layers' compute.
    pub compute: Ps,
    /// Link busy with T1, host to device.
    pub h2d_busy: Ps,
    /// GPU waiting for transfers (or a full write-back queue).
    pub exposed: Ps,
    /// GPU waiting for the host's attention, inside compute.
    pub exposed_host: Ps,
    /// GPU waiting for what its attention reads in place, inside compute.
    pub exposed_in_place: Ps,
    /// Re-tier work.
    pub retier: Ps,
    /// CPU gap.
    pub gap: Ps,
    /// Bytes host to device, all GPUs.
    pub h2d_bytes: f64,
    /// Bytes device to host, all GPUs.
    pub d2h_bytes: f64,
    /// T1 and T2 bytes that took part, all GPUs.
    pub t1_bytes: f64,
    /// Seconds in attention over HBM.
    pub attention_s: f64,
}

/// The state carried from step to step.
#[derive(Clone, Debug)]
pub struct Stepper<'a> {
    prepared: &'a Prepared,
    cost: BatchCost,
    /// Batch that `cost`, `gap` and `head` are for; 0 before the first step.
    sized: u32,
    gap: Ps,
    head: Ps,
    layers: Vec<LayerTimes>,
    spill: Spill,
    /// Costs of the two halves, and of both together, where the batch is split.
    halves: Option<([BatchCost; 2], BatchCost)>,
    /// Whether the last step ran in halves.
    in_halves: bool,
    pipeline: Pipeline,
    /// What runs the layers instead of the pipeline under fidelity `layer`.
    events: Option<LayerEvents>,
    /// Bytes and tokens of the write-back under way, for drawing.
    under_way: (f64, f64),
    /// Whether the step before had transfers: the link's lead cannot reach back before the first of them.
    streamed: bool,
    token_bytes: f64,
    merge: f64,
}

impl<'a> Stepper<'a> {
    /// A machine at rest.
    pub fn new(prepared: &'a Prepared) -> Self {
        let tiered = prepared.classes.iter().filter(|c| c.window.is_none());
        let d = &prepared.deployment;
        let share = d.hardware.link.duplex.get();
        let depth = prepared.staged_layers();
        Self {
            events: (d.fidelity == Fidelity::Layer).then(|| match d.overlap {
                Overlap::Layer => LayerEvents::new(depth, share),
                Overlap::Serial => LayerEvents::serial(),
            }),
            under_way: (0.0, 0.0),
            prepared,
            cost: BatchCost::default(),
            sized: 0,
            streamed: false,
            gap: Ps::ZERO,
            head: Ps::ZERO,
            layers: vec![LayerTimes::default(); prepared.classes.len()],
            spill: Spill::default(),
            halves: None,
            in_halves: false,
            pipeline: Pipeline::new(depth, share),
            token_bytes: tiered.map(|c| c.kv_token * f64::from(c.count)).sum(),
            merge: d.hardware.gpu.kernels.linear.fixed.get(),
        }
    }

    /// Runs one step of `m` sequences that begins at `begin` with `held` live. `written` of the sequences write their
    /// new token through to the host.
    pub fn step(
        &mut self,
        begin: Ps,
        m: u32,
        held: &Held,
        burst: &Burst,
        written: f64,
    ) -> StepTimes {
        self.size(m);
        self.run(begin, m, held, burst, written)
    }

    /// One step beside chunks of prompts, at the costs of both together ([`Prepared::mixed`]).
    pub fn step_beside(
        &mut self,
        begin: Ps,
        cost: BatchCost,
        held: &Held,
        burst: &Burst,
        written: f64,
    ) -> StepTimes {
        let m = cost.m;
        self.gap = Ps::from_secs(cost.gap);
        self.head = Ps::from_secs(cost.head);
        self.cost = cost;
        self.halves = None;
        self.sized = 0;
        self.run(begin, m, held, burst, written)
    }

    /// One step at the costs taken up.
    fn run(&mut self, begin: Ps, m: u32, held: &Held, burst: &Burst, written: f64) -> StepTimes {
        self.in_halves = false;
        let kept = held.tiers[1] + held.tiers[2] <= 0.0 && !self.prepared.streams_weights();
        let still = kept && written <= 0.0 && *burst == Burst::default();
        if still && self.events.is_none() {
            self.streamed = false;
            return self.plain(begin, held);
        }
        self.spill(held, burst, written);
        let mut out = StepTimes {
            begin,
            gap: self.gap,
            ..self.spill.times
        };
        let split = self.splits();
        self.in_halves = split;
        if !split {
            self.layer_times(held, &mut out);
        }
        let (fetch, pack) = self.retier(burst, &mut out);
        let share = if burst.sequences > 0.0 {
            // Weights that came ahead stay good.
            self.spill.kv_share * (burst.sequences / f64::from(m)).min(1.0)
        } else {
            0.0
        };
        match (self.prepared.deployment.overlap, &self.events) {
            _ if split => self.run_split(held, (fetch, pack), &mut out),
            (_, Some(_)) => self.run_events(share, (fetch, pack), &mut out),
            (Overlap::Serial, None) => {
                out.retier = fetch + pack;
                self.run_serial(&mut out);
            }
            (Overlap::Layer, None) => {
                let fetched = self.pipeline.fetch(begin, fetch);
                out.retier = fetched.saturating_sub(begin) + pack;
                self.run_overlapped(share, &mut out);
            }
        }
        if self.events.is_some() {
            self.draw(held, burst);
        }
        out
    }

    /// A step that moves nothing: the sum of its kernels. Most steps are such, and the general way gives the same.
    fn plain(&self, begin: Ps, held: &Held) -> StepTimes {
        let (mut compute, mut attention_s) = (self.head, 0.0);
        for (i, class) in self.prepared.classes.iter().enumerate() {
            let tokens = if class.window.is_some() {
                held.windowed[i]
            } else {
                held.tiers[0]
            };
            let bytes = (class.kv_token + class.score_token) * tokens;
            let attention = self.decode_attention(i, held, bytes);
            attention_s += attention * f64::from(class.count);
            compute += Ps::from_secs(self.cost.fixed[i] + attention) * u64::from(class.count);
        }
        let end = begin + self.gap + compute;
        // A write-back of an earlier step may still be on its way down.
        let late = self.pipeline.written().saturating_sub(end);
        StepTimes {
            begin,
            end: end + late,
            compute,
            exposed: late,
            gap: self.gap,
            attention_s,
            ..StepTimes::default()
        }
    }

    /// Takes up the costs of a batch of `m`, as [`Stepper::step`] does where they are others than before.
    pub fn size(&mut self, m: u32) {
        if self.sized != m {
            self.sized = m;
            self.cost = self.prepared.batch(m);
            self.gap = Ps::from_secs(self.cost.gap);
            self.head = Ps::from_secs(self.cost.head);
            self.halves = None;
            if self.prepared.deployment.halves() {
                let prepared = self.prepared;
                self.halves = split::costs(&self.cost, |m| prepared.batch(m));
            }
        }
    }

    /// Makes ready what does not change while T1, T2 and the writes stay as they are.
    fn spill(&mut self, held: &Held, burst: &Burst, written: f64) {
        let key = Key {
            sequences: held.sequences,
            host: [held.tiers[1], held.tiers[2]],
            fetch: held.fetch,
            down: match self.prepared.deployment.write_back {
                WriteBack::Through => (written, 0.0),
                WriteBack::AtDemotion => (burst.demoted, burst.runs),
            },
        };
        if self.spill.key == Some(key) {
            return;
        }
        let (spill, transfers) = Spill::of(self.prepared, key, self.token_bytes);
        self.spill = spill;
        for (layer, transfer) in self.layers.iter_mut().zip(transfers) {
            layer.transfer = transfer;
        }
    }

    /// Seconds of a layer's decode attention that moves `bytes`; none where no sequence decodes.
    fn decode_attention(&self, at: usize, held: &Held, bytes: f64) -> f64 {
        if held.sequences <= 0.0 {
            return 0.0;
        }
        let class = &self.prepared.classes[at];
        if self.cost.prefill > 0.0 {
            return self.prepared.attention_beside(class, held.sequences, bytes);
        }
        self.prepared.attention(class, held.sequences, bytes)
    }

    /// HBM bytes that a layer's attention moves on one GPU.
    fn attended(&self, at: usize, held: &Held) -> f64 {
        let class = &self.prepared.classes[at];
        let token = class.kv_token + class.score_token;
        if class.window.is_some() {
            return token * held.windowed[at];
        }
        let spilled = &self.spill.classes[at];
        token * held.tiers[0] + spilled.staged + spilled.moved + spilled.scored
    }

    /// Fills in each class's compute.
    fn layer_times(&mut self, held: &Held, out: &mut StepTimes) {
        for (i, class) in self.prepared.classes.iter().enumerate() {
            let spilled = &self.spill.classes[i];
            let bytes = self.attended(i, held);
            let attention = self.decode_attention(i, held, bytes);
            let count = f64::from(class.count);
            out.attention_s += attention * count;
            let mut wait = 0.0;
            if let Some(host) = spilled.host {
                wait = (host - attention).max(0.0) + self.merge;
                out.exposed_host += Ps::from_secs(wait * count);
            }
            if let Some(read) = spilled.in_place {
                let floor = self.prepared.attention_floor(class, held.sequences, bytes);
                // One kernel reads both: its floor is paid once, the slower of HBM and link sets the pace.
                wait = (read - (attention - floor)).max(0.0);
                out.exposed_in_place += Ps::from_secs(wait * count);
            }
            self.layers[i].compute = Ps::from_secs(self.cost.fixed[i] + attention + wait);
        }
    }

    /// Link time of what is fetched and time of the packing before this step. Where T1 streams, a promoted token comes
    /// with the stream and is merely kept; where T1 is attended to in place it is left to be fetched, and under `selective`
    /// it counts so too, though it may lie in the fetched set already.
    fn retier(&self, burst: &Burst, out: &mut StepTimes) -> (Ps, Ps) {
        if burst.promoted + burst.compacted <= 0.0 {
            return (Ps::ZERO, Ps::ZERO);
        }
        let d = &self.prepared.deployment;
        let fetched = self.fetched(burst);
        let up = fetched * self.token_bytes;
        let runs = burst.promoted.min(burst.runs);
        let pieces = match d.layout {
            Layout::Layer => 2.0 * self.prepared.order.len() as f64 * runs,
            Layout::Token => runs,
        };
        out.h2d_bytes += up * f64::from(d.gpus);
        let copy = transfer::copy(&d.hardware.link, self.prepared.h2d_rate, up, pieces);
        let packed = burst.compacted + burst.promoted - fetched;
        let pack = self.prepared.hbm_copy(packed * self.token_bytes);
        (Ps::from_secs(copy), Ps::from_secs(pack))
    }

    /// Promoted tokens that have to be fetched.
    fn fetched(&self, burst: &Burst) -> f64 {
        if self.prepared.deployment.t1.brings_up() {
            0.0
        } else {
            burst.promoted
        }
    }

    fn run_serial(&mut self, out: &mut StepTimes) {
        let classes = &self.prepared.classes;
        let head = self.head;
        out.compute = head
            + classes
                .iter()
                .zip(&self.layers)
                .map(|(c, l)| l.compute * u64::from(c.count))
                .sum();
        // What the host sends back in its attention is part of the wait for it, inside compute.
        let up: Ps = classes
            .iter()
            .zip(&self.layers)
            .map(|(c, l)| l.transfer * u64::from(c.count))
            .sum();
        out.h2d_busy += up;
        out.exposed = up + self.spill.down;
        out.end = out.begin + out.gap + out.retier + out.exposed + out.compute;
    }

    /// Whether T1 streams in this step, and the share of the link's lead that is lost before it.
    fn lead(&mut self, drained: f64) -> (bool, f64) {
        let streams = self.layers.iter().any(|l| l.transfer > Ps::ZERO);
        let first = streams && !self.streamed;
        self.streamed = streams;
        // What `selective` fetches is known only once the step before is over.
        let unknown = !self.prepared.deployment.t1.exact();
        (streams, if first || unknown { 1.0 } else { drained })
    }

    fn run_overlapped(&mut self, drained: f64, out: &mut StepTimes) {
        let (streams, lost) = self.lead(drained);
        self.pipeline.drain(lost, out.begin + out.retier);
        let start = out.begin + out.gap + out.retier;
        let passed = if streams {
            self.pipeline
                .pass_runs(start, &self.prepared.runs, &self.layers)
        } else {
            Pipeline::pass_still(
                start,
                self.prepared.classes.iter().map(|c| c.count),
                &self.layers,
            )
        };
        let head = self.head;
        let end = passed.end + head;
        // The write-back of the step before must be down by now.
        let late = self.pipeline.written().saturating_sub(end);
        out.compute = passed.compute + head;
        out.h2d_busy += passed.link;
        out.exposed = passed.waited + late;
        out.end = end + late;
        self.pipeline.share(self.spill.duplex);
        self.pipeline.write_back(out.end, self.spill.down);
    }

    /// Costs of the batch as last used, for the breakdown.
    pub fn cost(&self) -> &BatchCost {
        match &self.halves {
            Some((_, both)) if self.in_halves => both,
            _ => &self.cost,
        }
    }
}
