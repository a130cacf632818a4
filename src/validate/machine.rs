//! A machine with its software, and the same with each parameter at the ends of its interval.
//!
//! Parameters are taken to be independent, and their effects to add: the interval of a figure is the root of the summed
//! squares of what each parameter alone does to it, upwards and downwards apart. A law of a kernel counts as one parameter
//! for each operation: the spread of the measurements about it, not the intervals of its constants, which the fit makes
//! depend on each other. Rival: sampling all of them at once,
//! which agrees to first order, costs a hundred times as much and needs a seed.

use std::sync::Arc;

use crate::deploy::{Compact, Deployment, Fidelity, Layout, Overlap, ScoreCost, T1Mode, WriteBack};
use crate::hardware::kernels::Off;
use crate::hardware::{CpuParts, Duration, Hardware, Kernels, Quantity, Runtime, Source, Value};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::units::Bytes;

/// Hardware and software.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The hardware.
    pub hardware: Arc<Hardware>,
    /// Its software.
    pub runtime: Arc<Runtime>,
}

/// A model on it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The model.
    pub model: Arc<Model>,
    /// GPUs in tensor parallel.
    pub gpus: u32,
    /// Weight format.
    pub weights: WeightFormat,
    /// KV format.
    pub kv: KvFormat,
    /// Share of GPU memory that the engine may take.
    pub memory_fraction: f64,
}

impl Machine {
    /// The deployment of a setup: everything in HBM.
    pub fn deploy(&self, setup: &Setup) -> Deployment {
        Deployment {
            model: setup.model.clone(),
            hardware: self.hardware.clone(),
            runtime: self.runtime.clone(),
            gpus: setup.gpus,
            weights: setup.weights.clone(),
            kv: setup.kv,
            t1: T1Mode::Stream,
            overlap: Overlap::Layer,
            fidelity: Fidelity::Step,
            depth: 2,
            write_back: WriteBack::Through,
            compact: Compact::Retier,
            layout: Layout::Layer,
            split: 1,
            score_cost: ScoreCost::Fused,
            home: "ddr".into(),
            memory_fraction: setup.memory_fraction,
            host_weights: None,
            vram_reserve: Bytes(0),
        }
        .with_kernels()
    }
}

impl Machine {
    /// The same with other laws of its kernels.
    #[must_use]
    pub fn with_kernels(&self, kernels: Kernels) -> Self {
        let mut machine = self.clone();
        Arc::make_mut(&mut machine.hardware).gpu.kernels = kernels;
        machine
    }
}

/// A figure with its interval, in the unit of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Best estimate.
    pub value: f64,
    /// p5.
    pub low: f64,
    /// p95.
    pub high: f64,
}

/// A machine and its variants.
#[derive(Clone, Debug)]
pub struct Family {
    base: Machine,
    /// One parameter at its low and at its high end, the others as they are.
    variants: Vec<[Machine; 2]>,
}

impl Family {
    /// The variants of `base`.
    pub fn new(base: Machine) -> Self {
        let knobs = KNOBS.iter().chain(super::software::KNOBS);
        let mut variants: Vec<[Machine; 2]> = knobs.filter_map(|knob| ends(&base, *knob)).collect();
        variants.extend(spreads(&base));
        Self { base, variants }
    }

    /// The machine itself.
    pub fn machine(&self) -> &Machine {
        &self.base
    }

    /// What `law` gives for the machine, with its interval; none if that is no positive number.
    pub fn interval(&self, law: &impl Fn(&Machine) -> f64) -> Option<Interval> {
        let value = law(&self.base);
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        let (mut down, mut up) = (0.0, 0.0);
        for pair in &self.variants {
            let off = [0, 1].map(|i| law(&pair[i]) - value);
            let off = off.map(|o| if o.is_finite() { o } else { 0.0 });
            down += off[0].min(off[1]).min(0.0).powi(2);
            up += off[0].max(off[1]).max(0.0).powi(2);
        }
        Some(Interval {
            value,
            low: (value - f64::sqrt(down)).max(0.0),
            high: value + f64::sqrt(up),
        })
    }
}

/// Operations whose laws err apart: attention of decode and of prefill, and each linear operation by name; `row` is one in
/// a table.
const OPERATIONS: [&str; 18] = [
    "attention",
    "prefill",
    "row",
    "qkv",
    "o",
    "gate_up",
    "down",
    "head",
    "q",
    "q_a",
    "q_b",
    "kv_a",
    "kv_b",
    "router",
    "experts_gate_up",
    "experts_down",
    "shared_gate_up",
    "shared_down",
];

/// The machine with each operation's law at either end of its spread. Laws that were measured err apart, operation by
/// operation; those taken from other cards err together, because it is the card that they miss.
fn spreads(base: &Machine) -> Vec<[Machine; 2]> {
    let law = &base.hardware.gpu.kernels.linear.share;
    if law.source == Source::Measured {
        return OPERATIONS.map(|name| at_ends(base, Some(name), all)).into();
    }
    [attentions, linears, prefill]
        .map(|laws| at_ends(base, None, laws))
        .into()
}

fn attentions(k: &mut Kernels, off: Off) {
    k.attentions_mut().for_each(|law| law.off = off);
}

fn linears(k: &mut Kernels, off: Off) {
    k.linears_mut().for_each(|law| law.off = off);
}

fn prefill(k: &mut Kernels, off: Off) {
    k.prefill.off = off;
}

fn all(k: &mut Kernels, off: Off) {
    attentions(k, off);
    linears(k, off);
    prefill(k, off);
}

/// The machine with some laws at either end, for one operation or all.
fn at_ends(
    base: &Machine,
    only: Option<&'static str>,
    laws: fn(&mut Kernels, Off),
) -> [Machine; 2] {
    [0, 1].map(|end| {
        let mut kernels = base.hardware.gpu.kernels.clone();
        let end = Some(end);
        laws(&mut kernels, Off { end, only });
        base.with_kernels(kernels)
    })
}

/// A parameter that can stand at its ends.
pub(super) trait Ends {
    /// Puts it at its low (0) or high (1) end; whether that is another value.
    fn put(&mut self, end: usize) -> bool;
}

impl<Q: Quantity> Ends for Value<Q> {
    fn put(&mut self, end: usize) -> bool {
        let old = self.value;
        self.value = [self.low, self.high][end];
        self.value.to_bits() != old.to_bits()
    }
}

/// Where a parameter is.
pub(super) type Knob = fn(&mut Hardware, &mut Runtime, usize) -> bool;

fn ends(base: &Machine, knob: Knob) -> Option<[Machine; 2]> {
    let mut moved = false;
    let pair = [0, 1].map(|end| {
        let mut machine = base.clone();
        moved |= knob(
            Arc::make_mut(&mut machine.hardware),
            Arc::make_mut(&mut machine.runtime),
            end,
        );
        machine
    });
    moved.then_some(pair)
}

/// Every parameter that a law of `service` or the ledger reads, once each; but for the peaks of the GPU, of which the
/// fitted laws are shares, so that their spread holds what the peaks miss.
const KNOBS: &[Knob] = &[
    |h, _, e| h.gpu.memory.put(e),
    |h, _, e| h.link.h2d.put(e),
    |h, _, e| h.link.d2h.put(e),
    |h, _, e| h.link.duplex.put(e),
    |h, _, e| h.link.call.put(e),
    |h, _, e| h.link.descriptor.put(e),
    |h, _, e| {
        let value = h.link.batched_piece();
        h.link.batched_piece.insert(value).put(e)
    },
    |h, _, e| {
        let value = h.link.remote();
        h.link.remote.insert(value).put(e)
    },
    |h, _, e| {
        let value = h.link.gather_piece();
        h.link.gather_piece.insert(value).put(e)
    },
    |h, _, e| {
        let value = h.link.gather_share();
        h.link.gather_share.insert(value).put(e)
    },
    |h, _, e| {
        let value = h.link.staging();
        h.link.staging.insert(value).put(e)
    },
    |h, _, e| {
        h.interconnect.as_mut().is_some_and(|i| {
            let value = i.launch();
            i.launch.insert(value).put(e)
        })
    },
    |_, r, e| {
        let value = r.sampler();
        r.sampler.insert(value).put(e)
    },
    |_, r, e| cpu(r, e, |c| &mut c.schedule.fixed),
    |_, r, e| cpu(r, e, |c| &mut c.schedule.each),
    |_, r, e| cpu(r, e, |c| &mut c.inputs.fixed),
    |_, r, e| cpu(r, e, |c| &mut c.inputs.each),
    |_, r, e| cpu(r, e, |c| &mut c.sampler.fixed),
    |_, r, e| cpu(r, e, |c| &mut c.sampler.each),
    |_, r, e| cpu(r, e, |c| &mut c.outputs.fixed),
    |_, r, e| cpu(r, e, |c| &mut c.outputs.each),
    |_, r, e| cpu(r, e, |c| &mut c.gather),
    |_, r, e| r.cpu.as_mut().is_some_and(|c| c.workers.put(e)),
    |h, _, e| {
        let value = h.link.in_place_share();
        h.link.in_place.insert(value).put(e)
    },
    |h, _, e| h.host.ddr_read.put(e),
    |h, _, e| {
        h.interconnect
            .as_mut()
            .is_some_and(|i| i.allreduce_fixed.put(e))
    },
    |h, _, e| {
        h.interconnect.as_mut().is_some_and(|i| {
            let eight = i.bandwidth_of_8.as_mut().is_some_and(|v| v.put(e));
            i.bandwidth.put(e) || eight
        })
    },
    |_, r, e| r.step_gap.put(e),
    |_, r, e| r.step_gap_per_sequence.put(e),
    |_, r, e| r.layer_other.put(e),
    |_, r, e| r.kernel_share.put(e),
    |_, r, e| r.reserve.put(e),
    |_, r, e| r.reserve_multi_gpu.put(e),
    |_, r, e| r.batched_tokens.put(e),
    |_, r, e| r.activation_factor.put(e),
];

/// A duration of the CPU parts, where there are any.
fn cpu(runtime: &mut Runtime, end: usize, of: fn(&mut CpuParts) -> &mut Value<Duration>) -> bool {
    runtime.cpu.as_mut().is_some_and(|parts| of(parts).put(end))
}
