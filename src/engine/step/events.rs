//! A step of the batch by events: what `step` works out, handed to `layer`, and what it did, with bytes, for drawing.
//!
//! Attention on the host is no event of its own: it is inside its layer's compute, from the end of the projections that
//! make the query on, and its slice is cut out of that. What crosses the link for it (queries down, outputs up) is told
//! with that slice. Bytes are over all GPUs.

use super::super::layer::{LayerEvents, Work};
use super::super::slice::{Slice, Track, What};
use super::{Burst, Stepper};
use crate::deploy::Overlap;
use crate::engine::StepTimes;
use crate::memory::Held;
use crate::service::Class;
use crate::units::Ps;

impl Stepper<'_> {
    /// Events handled inside steps so far.
    pub fn events(&self) -> u64 {
        self.events.as_ref().map_or(0, LayerEvents::handled)
    }

    /// Whether to keep slices of the coming steps; only fidelity `layer` has them.
    pub fn keep_slices(&mut self, drawing: bool) {
        if let Some(events) = &mut self.events {
            events.draw(drawing);
        }
    }

    /// Slices of the last step, if they were kept.
    pub fn slices(&mut self) -> &[Slice] {
        self.events.as_mut().map_or(&[], |e| e.slices_mut())
    }

    /// Runs the step by events.
    pub(super) fn run_events(
        &mut self,
        drained: f64,
        (fetch, pack): (Ps, Ps),
        out: &mut StepTimes,
    ) {
        let (_, lost) = self.lead(drained);
        let serial = self.prepared.deployment.overlap == Overlap::Serial;
        let Some(events) = &mut self.events else {
            return;
        };
        // Where something is fetched nothing streams, so that the lead is exact without waiting for the fetch.
        events.drain(lost, out.begin + fetch + pack);
        let worked = events.step(&Work {
            begin: out.begin,
            fetch,
            pack,
            gap: out.gap,
            order: &self.prepared.order,
            layers: &self.layers,
            head: self.head,
            down: if serial { self.spill.down } else { Ps::ZERO },
        });
        let end = worked.passed.end + self.head;
        let late = worked.written.saturating_sub(end);
        out.retier = worked.retier;
        out.compute = worked.passed.compute + self.head;
        out.h2d_busy += worked.passed.link;
        out.exposed = worked.passed.waited + late;
        out.end = end + late;
        if !serial {
            events.share(self.spill.duplex);
            events.write_back(out.end, self.spill.down, self.prepared.order.len() as u64);
        }
    }

    /// Adds bytes and tokens to the slices of the step, and attention on the host.
    pub(super) fn draw(&mut self, held: &Held, burst: &Burst) {
        let own = self.written_down();
        let serial = self.prepared.deployment.overlap == Overlap::Serial;
        let under_way = if serial {
            own
        } else {
            std::mem::replace(&mut self.under_way, own)
        };
        let Some(mut slices) = self.events.as_mut().map(|e| std::mem::take(e.slices_mut())) else {
            return;
        };
        for at in 0..slices.len() {
            let slice = &mut slices[at];
            let (bytes, tokens) = self.moved(slice, held, burst, under_way);
            (slice.bytes, slice.tokens) = (bytes, tokens);
            let computed = *slice;
            slices.extend(self.host_slice(&computed, held));
        }
        if let Some(events) = &mut self.events {
            *events.slices_mut() = slices;
        }
    }

    /// Bytes and tokens of this step's write-back.
    fn written_down(&self) -> (f64, f64) {
        let tokens = self.spill.key.map_or(0.0, |k| k.down.0);
        let gpus = f64::from(self.prepared.deployment.gpus);
        (tokens * self.token_bytes * gpus, tokens)
    }

    fn class(&self, layer: u32) -> usize {
        usize::from(self.prepared.order[layer as usize])
    }

    /// Bytes and tokens of a slice.
    fn moved(&self, slice: &Slice, held: &Held, burst: &Burst, down: (f64, f64)) -> (f64, f64) {
        let gpus = f64::from(self.prepared.deployment.gpus);
        match (slice.track, slice.what) {
            (Track::Up, What::Layer(n)) => {
                let class = self.class(n);
                let spilled = &self.spill.classes[class];
                let host = held.tiers[1] + held.tiers[2];
                let weights = self.prepared.classes[class].host_weights;
                (
                    (spilled.traffic.link + weights) * gpus,
                    spilled.share * host,
                )
            }
            (Track::Up, _) => {
                let fetched = self.fetched(burst);
                (fetched * self.token_bytes * gpus, fetched)
            }
            (Track::Down, _) => {
                let pieces = self.prepared.order.len() as f64;
                (down.0 / pieces, down.1)
            }
            (Track::Compute, What::Layer(n)) => {
                let at = self.class(n);
                let (bytes, tokens) = self.read(at, held);
                (bytes * gpus, tokens)
            }
            (Track::Compute, What::Pack) => {
                let packed = burst.compacted + burst.promoted - self.fetched(burst);
                (packed * self.token_bytes * gpus, packed)
            }
            _ => (0.0, 0.0),
        }
    }

    /// HBM bytes that a layer's attention moves on one GPU, and the tokens it keeps there.
    fn read(&self, at: usize, held: &Held) -> (f64, f64) {
        let tokens = match self.prepared.classes[at].window {
            Some(_) => held.windowed[at],
            None => held.tiers[0],
        };
        (self.attended(at, held), tokens)
    }

    /// The host's part of a layer, if it has one.
    fn host_slice(&self, layer: &Slice, held: &Held) -> Option<Slice> {
        let (Track::Compute, What::Layer(n)) = (layer.track, layer.what) else {
            return None;
        };
        let at = self.class(n);
        let (class, spilled) = (&self.prepared.classes[at], &self.spill.classes[at]);
        let begin = layer.begin + Ps::from_secs(self.before_attention(class));
        let end = (begin + Ps::from_secs(spilled.host?)).min(layer.end);
        let each = held.sequences * f64::from(self.prepared.deployment.gpus);
        let weights = if self.prepared.scores {
            class.lse_bytes
        } else {
            0.0
        };
        Some(Slice {
            bytes: spilled.traffic.host * f64::from(self.prepared.deployment.gpus),
            tokens: held.tiers[1] + held.tiers[2],
            crossing: [
                each * (class.query_bytes + weights),
                each * class.output_bytes,
            ],
            ..Slice::new(Track::Host, layer.what, begin, end)
        })
    }

    /// Seconds of the projections before a layer's attention.
    fn before_attention(&self, class: &Class) -> f64 {
        let hidden = self.prepared.deployment.model.hidden;
        let matrices = class.layer.matrices(hidden);
        let before = matrices.iter().take_while(|m| m.name != "o").count();
        self.prepared
            .linear(&matrices[..before], f64::from(self.sized))
    }
}
