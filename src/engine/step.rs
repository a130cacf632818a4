//! One decode step of the running batch: its service times by T1 mode, then the pipeline of its layers.
//!
//! `stream` and `staged` overlap transfers with compute (see `pipeline`); a re-tier drains the share of the link's lead
//! that belongs to the sequences re-tiered, whose T1 is not known before. `serial` adds everything up, as the published
//! prototype ran. `host-attention` has no transfer but waits in every layer for the slower of GPU and host. Ignored:
//! overlap inside a kernel; write-back is priced by its total against H2D (duplex), not layer by layer, and a step of
//! new KV is buffered on the GPU, not two. Rival: one formula for the step, which cannot carry the lead.

use super::pipeline::{LayerTimes, Pipeline};
use crate::deploy::{Layout, Overlap, T1Mode, WriteBack};
use crate::memory::Held;
use crate::service::{BatchCost, Class, Prepared, Traffic, transfer};
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
    /// GPU waiting for the host's attention.
    pub exposed_host: Ps,
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
    gap: Ps,
    head: Ps,
    layers: Vec<LayerTimes>,
    pipeline: Pipeline,
    down_free: Ps,
    token_bytes: f64,
    merge: f64,
}

impl<'a> Stepper<'a> {
    /// A machine at rest.
    pub fn new(prepared: &'a Prepared) -> Self {
        let depth = prepared
            .deployment
            .depth
            .clamp(1, u32::try_from(prepared.order.len()).unwrap_or(u32::MAX));
        let tiered = prepared.classes.iter().filter(|c| c.window.is_none());
        Self {
            prepared,
            cost: prepared.batch(1),
            gap: Ps::ZERO,
            head: Ps::ZERO,
            layers: vec![LayerTimes::default(); prepared.classes.len()],
            pipeline: Pipeline::new(depth),
            down_free: Ps::ZERO,
            token_bytes: tiered.map(|c| c.kv_token * f64::from(c.count)).sum(),
            merge: prepared.deployment.hardware.gpu.kernels.linear_fixed.get(),
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
        let mut out = StepTimes {
            begin,
            gap: self.gap,
            ..StepTimes::default()
        };
        let down = self.write_back(burst, written, &mut out);
        self.layer_times(held, &mut out);
        self.slow_by_duplex(down, &mut out);
        out.retier = self.retier(burst, &mut out);
        let share = if burst.sequences > 0.0 {
            (burst.sequences / f64::from(m)).min(1.0)
        } else {
            0.0
        };
        match self.prepared.deployment.overlap {
            Overlap::Serial => self.run_serial(down, &mut out),
            Overlap::Layer => self.run_overlapped(share, down, &mut out),
        }
        out
    }

    /// Takes up the costs of a batch of `m`.
    fn size(&mut self, m: u32) {
        if self.cost.m != m || self.gap == Ps::ZERO {
            self.cost = self.prepared.batch(m);
            self.gap = Ps::from_secs(self.cost.gap);
            self.head = Ps::from_secs(self.cost.head);
        }
    }

    /// Seconds the write-back of this step keeps the downward link busy.
    fn write_back(&self, burst: &Burst, written: f64, out: &mut StepTimes) -> f64 {
        if written + burst.demoted <= 0.0 {
            return 0.0;
        }
        let d = &self.prepared.deployment;
        let layers = self.prepared.order.len() as f64;
        let page = f64::from(d.runtime.page_tokens);
        let (tokens, pieces) = match (d.write_back, d.layout) {
            // A page of new tokens goes down at once: one piece of K and one of V a layer, or one for all layers.
            (WriteBack::Through, Layout::Layer) => (written, 2.0 * layers * written / page),
            (WriteBack::Through, Layout::Token) => (written, written / page),
            (WriteBack::AtDemotion, Layout::Layer) => (burst.demoted, 2.0 * layers * burst.runs),
            (WriteBack::AtDemotion, Layout::Token) => (burst.demoted, burst.runs),
        };
        let bytes = tokens * self.token_bytes;
        out.d2h_bytes += bytes * f64::from(d.gpus);
        transfer::copy(&d.hardware.link, self.prepared.d2h_rate, bytes, pieces)
    }

    /// Fills in each class's times and the bytes of the step.
    fn layer_times(&mut self, held: &Held, out: &mut StepTimes) {
        let spilled = held.tiers[1] + held.tiers[2] > 0.0;
        for (i, class) in self.prepared.classes.iter().enumerate() {
            let traffic = if spilled {
                traffic(self.prepared, class, held, i)
            } else {
                resident(class, held, i)
            };
            let attention = self.prepared.attention(traffic.hbm);
            out.attention_s += attention * f64::from(class.count);
            let mut times = LayerTimes {
                compute: Ps::from_secs(self.cost.fixed[i] + attention),
                transfer: Ps::ZERO,
            };
            if spilled {
                times =
                    self.spilled_times(class, held, traffic, attention, self.cost.fixed[i], out);
            }
            self.layers[i] = times;
        }
    }

    /// Times of a layer whose tokens lie partly on the host.
    fn spilled_times(
        &self,
        class: &Class,
        held: &Held,
        traffic: Traffic,
        attention: f64,
        fixed: f64,
        out: &mut StepTimes,
    ) -> LayerTimes {
        let d = &self.prepared.deployment;
        let (count, gpus) = (f64::from(class.count), f64::from(d.gpus));
        let mut wait = 0.0;
        if traffic.host > 0.0 {
            let (m, tokens) = (held.sequences, held.tiers[1] + held.tiers[2]);
            let host = self.prepared.host_attention(class, m, traffic.host, tokens);
            wait = (host - attention).max(0.0) + self.merge;
            out.exposed_host += Ps::from_secs(wait * count);
            out.h2d_busy += Ps::from_secs(count * m * class.output_bytes / self.prepared.h2d_rate);
            out.h2d_bytes += count * gpus * m * class.output_bytes;
            out.d2h_bytes += count * gpus * m * class.query_bytes;
        }
        let pieces = pieces(self.prepared, held);
        let x = transfer::copy(
            &d.hardware.link,
            self.prepared.h2d_rate,
            traffic.link,
            pieces,
        );
        out.h2d_bytes += traffic.link * count * gpus;
        out.t1_bytes += (traffic.link + traffic.host) * count * gpus;
        LayerTimes {
            compute: Ps::from_secs(fixed + attention + wait),
            transfer: Ps::from_secs(x),
        }
    }

    /// Stretches the transfers by what the write-back takes from the link.
    fn slow_by_duplex(&mut self, down: f64, out: &mut StepTimes) {
        if out.t1_bytes <= 0.0 {
            return;
        }
        let classes = &self.prepared.classes;
        let up: Ps = classes
            .iter()
            .zip(&self.layers)
            .map(|(c, l)| l.transfer * u64::from(c.count))
            .sum();
        if down > 0.0 && up > Ps::ZERO {
            let factor = 1.0
                + transfer::duplex_delay(&self.prepared.deployment.hardware.link, up.secs(), down)
                    / up.secs();
            for l in &mut self.layers {
                l.transfer = Ps::from_secs(l.transfer.secs() * factor);
            }
        }
        out.h2d_busy += classes
            .iter()
            .zip(&self.layers)
            .map(|(c, l)| l.transfer * u64::from(c.count))
            .sum();
    }

    /// Time of the moves and the packing before this step. Where T1 streams, a promoted token comes with the stream and is
    /// merely kept; only attention on the host leaves it to be fetched.
    fn retier(&self, burst: &Burst, out: &mut StepTimes) -> Ps {
        if burst.promoted + burst.compacted <= 0.0 {
            return Ps::ZERO;
        }
        let d = &self.prepared.deployment;
        let fetched = if d.t1 == T1Mode::HostAttention {
            burst.promoted
        } else {
            0.0
        };
        let up = fetched * self.token_bytes;
        let runs = burst.promoted.min(burst.runs);
        let pieces = match d.layout {
            Layout::Layer => 2.0 * self.prepared.order.len() as f64 * runs,
            Layout::Token => runs,
        };
        out.h2d_bytes += up * f64::from(d.gpus);
        let copy = transfer::copy(&d.hardware.link, self.prepared.h2d_rate, up, pieces);
        let packed = burst.compacted + burst.promoted - fetched;
        Ps::from_secs(copy + self.prepared.hbm_copy(packed * self.token_bytes))
    }

    fn run_serial(&mut self, down: f64, out: &mut StepTimes) {
        let classes = &self.prepared.classes;
        let head = self.head;
        out.compute = head
            + classes
                .iter()
                .zip(&self.layers)
                .map(|(c, l)| l.compute * u64::from(c.count))
                .sum();
        out.exposed = out.h2d_busy + Ps::from_secs(down);
        out.end = out.begin + out.gap + out.retier + out.exposed + out.compute;
    }

    fn run_overlapped(&mut self, drained: f64, down: f64, out: &mut StepTimes) {
        self.pipeline.drain(drained, out.begin + out.retier);
        let start = out.begin + out.gap + out.retier;
        let passed = if out.h2d_busy > Ps::ZERO {
            self.pipeline
                .pass(start, &self.prepared.order, &self.layers)
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
        let late = self.down_free.saturating_sub(end);
        out.compute = passed.compute + head;
        out.exposed = passed.waited + late;
        out.end = end + late;
        self.down_free = self.down_free.max(out.end) + Ps::from_secs(down);
    }

    /// Costs of the batch as last used, for the breakdown.
    pub fn cost(&self) -> &BatchCost {
        &self.cost
    }
}

/// Contiguous pieces of one layer's T1 copy.
fn pieces(prepared: &Prepared, held: &Held) -> f64 {
    match prepared.deployment.layout {
        Layout::Layer => 2.0 * held.sequences,
        Layout::Token => 2.0 * (held.tiers[1] + held.tiers[2]),
    }
}

/// What a step moves for one class while every token is in HBM.
fn resident(class: &Class, held: &Held, index: usize) -> Traffic {
    let tokens = if class.window.is_some() {
        held.windowed[index]
    } else {
        held.tiers[0]
    };
    Traffic {
        hbm: class.kv_token * tokens,
        ..Traffic::default()
    }
}

/// What a step moves for one class, by T1 mode (DESIGN 5.1). Streamed T1 is written into HBM and read again; streamed
/// T2 is also dequantised (read, and written at full size).
fn traffic(prepared: &Prepared, class: &Class, held: &Held, index: usize) -> Traffic {
    let [t0, t1, t2] = held.tiers;
    if class.window.is_some() {
        return Traffic {
            hbm: class.kv_token * held.windowed[index],
            ..Traffic::default()
        };
    }
    let (full, half) = (class.kv_token, class.t2_token);
    let host = full * t1 + half * t2;
    match prepared.deployment.t1 {
        T1Mode::HostAttention => Traffic {
            hbm: full * t0,
            link: 0.0,
            host,
        },
        T1Mode::Stream => streamed(class, t0, t1, t2, 1.0),
        T1Mode::Staged(buffer) => {
            let d = &prepared.deployment;
            let layers = prepared
                .classes
                .iter()
                .filter(|c| c.window.is_none())
                .map(|c| f64::from(c.count))
                .sum::<f64>();
            let room = buffer.map_or(f64::INFINITY, |b| b.as_f64() / f64::from(d.gpus) / layers);
            streamed(
                class,
                t0,
                t1,
                t2,
                if host > 0.0 {
                    (1.0 - room / host).max(0.0)
                } else {
                    0.0
                },
            )
        }
    }
}

/// Traffic when `share` of T1 and T2 streams and the rest lies staged in HBM.
fn streamed(class: &Class, t0: f64, t1: f64, t2: f64, share: f64) -> Traffic {
    let (full, half) = (class.kv_token, class.t2_token);
    let resident = full * t0 + (1.0 - share) * (full * t1 + (half + 2.0 * full) * t2);
    let moved = share * (2.0 * full * t1 + 2.0 * (half + full) * t2);
    Traffic {
        hbm: resident + moved,
        link: share * (full * t1 + half * t2),
        host: 0.0,
    }
}
