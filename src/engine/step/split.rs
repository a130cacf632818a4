//! Host attention with the batch in two halves: one half's attention on the host runs while the other half computes.
//!
//! Each half goes through its layers alone, in turn with the other on one GPU and on one host, first come first served:
//! ```text
//! G = max(G, R[half]) + g[half]        R[half] = H = max(H, G) + h
//! ```
//! G and H are when GPU and host are free, R when a half may go on, g a half's layer on the GPU (linear layers, attention
//! over T0, merge), h its attention on the host with the vectors there and back. Per layer that comes to the slower of both
//! halves on either side instead of one after the other. The price: linear layers run once a half, so weights are read
//! twice a step, and every kernel's floor is paid twice. Halves are equal in tokens; of an odd batch one has a sequence
//! more. The wait of the GPU counts as waiting for the host. Rival: three parts or more, which read the weights as often.

use super::Stepper;
use crate::engine::StepTimes;
use crate::memory::Held;
use crate::service::BatchCost;
use crate::units::Ps;

/// One class's layer: of each half on the GPU, and of either on the host.
#[derive(Clone, Copy, Debug, Default)]
struct Halves {
    gpu: [Ps; 2],
    host: Ps,
}

/// Costs of the two halves of a batch of `m`, and of both together with one head.
pub(super) fn costs(
    whole: &BatchCost,
    of: impl Fn(u32) -> BatchCost,
) -> Option<([BatchCost; 2], BatchCost)> {
    if whole.m < 2 {
        return None;
    }
    let halves = [of(whole.m.div_ceil(2)), of(whole.m / 2)];
    let mut both = whole.clone();
    for (i, total) in both.totals.iter_mut().enumerate() {
        let heads = if i == 0 {
            halves[0].head + halves[1].head - whole.head
        } else {
            0.0
        };
        *total = halves[0].totals[i] + halves[1].totals[i] - heads;
    }
    Some((halves, both))
}

/// Runs the layers `order`; returns when both halves are done and how long the GPU computed.
fn pass(start: Ps, order: &[u8], layers: &[Halves]) -> (Ps, Ps) {
    let (mut gpu, mut host, mut ready) = (start, start, [start; 2]);
    let mut busy = Ps::ZERO;
    for class in order {
        let layer = layers[usize::from(*class)];
        for (half, ready) in ready.iter_mut().enumerate() {
            gpu = gpu.max(*ready) + layer.gpu[half];
            busy += layer.gpu[half];
            *ready = gpu;
            if layer.host > Ps::ZERO {
                host = host.max(gpu) + layer.host;
                *ready = host;
            }
        }
    }
    (gpu.max(ready[0]).max(ready[1]), busy)
}

impl Stepper<'_> {
    /// Whether the coming step runs in halves.
    pub(super) fn splits(&self) -> bool {
        self.halves.is_some() && self.spill.classes.iter().any(|c| c.host.is_some())
    }

    /// Runs the step in halves; `fetch` and `pack` come before it.
    pub(super) fn run_split(&mut self, held: &Held, (fetch, pack): (Ps, Ps), out: &mut StepTimes) {
        let fetched = self.pipeline.fetch(out.begin, fetch);
        out.retier = fetched.saturating_sub(out.begin) + pack;
        let start = out.begin + out.gap + out.retier;
        let layers = self.half_layers(held, out);
        let (done, busy) = pass(start, &self.prepared.order, &layers);
        let end = done + self.head;
        let late = self.pipeline.written().saturating_sub(end);
        out.exposed_host = (done - start).saturating_sub(busy);
        out.compute = end - start;
        out.exposed = late;
        out.end = end + late;
        self.streamed = false;
        self.pipeline.write_back(out.end, self.spill.down);
    }

    /// Each class's layer by halves.
    fn half_layers(&self, held: &Held, out: &mut StepTimes) -> Vec<Halves> {
        let Some((costs, _)) = &self.halves else {
            return Vec::new();
        };
        let all = f64::from(costs[0].m + costs[1].m);
        let layer = |i: usize, out: &mut StepTimes| {
            let class = &self.prepared.classes[i];
            let host = self.spill.classes[i].host;
            let merge = host.map_or(0.0, |_| self.merge);
            let gpu = std::array::from_fn(|half| {
                let cost: &BatchCost = &costs[half];
                let bytes = self.attended(i, held) * f64::from(cost.m) / all;
                let sequences = held.sequences * f64::from(cost.m) / all;
                let attention = self.prepared.attention(class, sequences, bytes);
                out.attention_s += attention * f64::from(class.count);
                Ps::from_secs(cost.fixed[i] + attention + merge)
            });
            Halves {
                gpu,
                host: Ps::from_secs(host.unwrap_or(0.0)),
            }
        };
        (0..self.prepared.classes.len())
            .map(|i| layer(i, out))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(gpu: u64, host: u64) -> Vec<Halves> {
        vec![Halves {
            gpu: [Ps(gpu); 2],
            host: Ps(host),
        }]
    }

    #[test]
    fn the_slower_side_sets_the_pace_of_both_halves() {
        let order = [0u8; 10];
        // Host bound: after the first half's GPU part (3) the host never rests: 20 parts of 7.
        assert_eq!(
            pass(Ps(100), &order, &layers(3, 7)),
            (Ps(100 + 3 + 140), Ps(60))
        );
        // GPU bound: 20 parts of 7, then the last half's host part.
        assert_eq!(
            pass(Ps::ZERO, &order, &layers(7, 3)),
            (Ps(140 + 3), Ps(140))
        );
        // No host at all: the sum.
        assert_eq!(pass(Ps::ZERO, &order, &layers(7, 0)), (Ps(140), Ps(140)));
    }

    #[test]
    fn layers_without_a_host_part_leave_it_time_to_catch_up() {
        // By hand, A before B: layer 1 g 2 h 6, layer 2 g 5 alone, layer 3 g 2 h 6.
        // A1 0-2, B1 2-4; host A 2-8, B 8-14. A2 8-13; B2 14-19; A3 needs A2: GPU free at 19: but A2 ended 13, and the
        // GPU takes B2 first (order), so A3 19-21, host 21-27; B3 21-23, host 27-33.
        let two = [
            Halves {
                gpu: [Ps(2); 2],
                host: Ps(6),
            },
            Halves {
                gpu: [Ps(5); 2],
                host: Ps::ZERO,
            },
        ];
        assert_eq!(pass(Ps::ZERO, &[0, 1, 0], &two), (Ps(33), Ps(18)));
    }
}
