//! Weights that lie in host memory: what crosses the link in a step for them, and what it costs besides.
//!
//! A share of the matrices of every layer lies in host memory and streams into buffers of the next `depth` layers, as T1 does
//! under `stream`; embeddings, head and norms stay in HBM. A layer's transfer carries its weights and its T1 together: X bytes
//! cost the link the same, whatever they are of. In HBM a streamed byte is written once more (its reading is the product's
//! own). A prefill chunk streams all of the share once, beside the chunk's products; the slower of the two rules.
//!
//! Hand-computed: 80 layers of 856 MB (70B, fp8), a share of 0.5, one GPU at 55 GB/s: 80 x 428 MB / 55 GB/s = 622 ms a step
//! whatever the batch is, against 36 ms with the weights in HBM.
//!
//! Ignored: that experts which no token chose need not come (all of the share crosses); host memory's bandwidth beyond the
//! link's share of it. Rivals: whole layers in host memory, whose transfers bunch and leave the link idle between;
//! vLLM's `--cpu-offload-gb`, whose kernels read weights in place and nothing ahead (overlap `serial` is nearer); llama.cpp's
//! `-ngl`, which computes those layers on the CPU. Units: bytes and seconds of one GPU, totals over all GPUs.

use super::{Class, Prepared};
use crate::deploy::{HostWeights, Overlap};
use crate::service::transfer;

impl Prepared {
    /// Fills in what each class has in host memory.
    pub(super) fn place_weights(&mut self) {
        let d = &self.deployment;
        let Some(host) = d.host_weights else {
            return;
        };
        let layers = d.model.weights_bytes(&d.weights).layers as f64;
        let matrices = |c: &Class| -> f64 {
            let all = c.layer.matrices(d.model.hidden);
            let bytes = all
                .iter()
                .map(|m| f64::from(m.copies) * d.weights.matrix_bytes(m));
            bytes.sum()
        };
        let all: f64 = self
            .classes
            .iter()
            .map(|c| f64::from(c.count) * matrices(c))
            .sum();
        let share = match host {
            HostWeights::Share(share) => share,
            HostWeights::Size(size) => (size.as_f64() / layers).min(1.0),
            HostWeights::Fit => 0.0,
        };
        let scale = share * layers / all.max(1.0) / f64::from(d.gpus);
        let each: Vec<f64> = self.classes.iter().map(|c| scale * matrices(c)).collect();
        for (class, bytes) in self.classes.iter_mut().zip(each) {
            class.host_weights = bytes;
        }
    }

    /// Bytes of the experts of all layers, which replicas may share; all GPUs of one replica that has them all.
    pub fn shared_experts(&self) -> f64 {
        let d = &self.deployment;
        let experts = |c: &Class| -> f64 {
            let all = c.layer.matrices(d.model.hidden);
            let routed = all.iter().filter(|m| m.copies > 1);
            let bytes = routed.map(|m| f64::from(m.copies) * d.weights.matrix_bytes(m));
            f64::from(c.count) * bytes.sum::<f64>()
        };
        self.classes.iter().map(experts).sum()
    }

    /// Whether weights cross the link in every step.
    pub fn streams_weights(&self) -> bool {
        self.classes.iter().any(|c| c.host_weights > 0.0)
    }

    /// Bytes of weights in host memory, all GPUs.
    pub fn host_weights(&self) -> f64 {
        let each = self.classes.iter();
        let layers: f64 = each.map(|c| f64::from(c.count) * c.host_weights).sum();
        layers * f64::from(self.deployment.gpus)
    }

    /// Bytes of HBM that streamed weights pass through: `depth` layers of the largest, all GPUs.
    pub fn weight_buffers(&self) -> f64 {
        let largest = self
            .classes
            .iter()
            .map(|c| c.host_weights)
            .fold(0.0, f64::max);
        let layers = f64::from(self.deployment.depth).min(self.order.len() as f64);
        layers * largest * f64::from(self.deployment.gpus)
    }

    /// Seconds in which a layer's streamed weights are written to HBM.
    pub(super) fn weight_write(&self, class: &Class) -> f64 {
        if class.host_weights > 0.0 {
            self.hbm_copy(class.host_weights) / 2.0
        } else {
            0.0
        }
    }

    /// Seconds of `chunks` passes over the layers that take `seconds` with all weights in HBM.
    pub(super) fn beside_weights(&self, chunks: f64, seconds: f64) -> f64 {
        let d = &self.deployment;
        let layer = |c: &Class| {
            f64::from(c.count)
                * transfer::copy(&d.hardware.link, self.h2d_rate, c.host_weights, 1.0)
        };
        let link = chunks * self.classes.iter().map(layer).sum::<f64>();
        match d.overlap {
            Overlap::Layer => seconds.max(link),
            Overlap::Serial => seconds + link,
        }
    }
}
