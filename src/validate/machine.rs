//! A machine with its software, and the same as it may be: draws of everything about it that is not known exactly.
//!
//! The causes and their laws are those of `plan` ([`crate::uncertain`]): what is held against measurements here is the interval
//! that is shown there. A figure of a server has what servers add to their parts; a call of a kernel has not. Rival: one
//! parameter at a time at its ends and deviations added in squares, which agrees to first order and needs no seed, but
//! cannot tell causes that move several numbers from causes that move one.

use std::sync::Arc;

use crate::deploy::{Compact, Deployment, Fidelity, Layout, Overlap, ScoreCost, T1Mode, WriteBack};
use crate::hardware::{Hardware, Kernels, Runtime, ServerOff};
use crate::model::{KvFormat, Model, WeightFormat};
use crate::uncertain::{self, Unknown};
use crate::units::Bytes;

/// Draws behind an interval.
const DRAWS: u32 = 100;

/// Their seed.
const SEED: u64 = 0;

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

/// A machine and draws of what is not known of it.
#[derive(Clone, Debug)]
pub struct Family {
    base: Machine,
    /// Kernels, links and software as they may be.
    parts: Vec<Machine>,
    /// The same with what a server adds to its parts.
    servers: Vec<Machine>,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Calls of kernels, copies, CPU work, and their sums.
    Parts,
    /// A whole server.
    Server,
}

impl Family {
    /// Draws about `base`.
    pub fn new(base: Machine) -> Self {
        let unknown = Unknown::new(&base.hardware, &base.runtime);
        let servers: Vec<Machine> = unknown
            .draws(SEED, DRAWS)
            .into_iter()
            .map(|d| Machine {
                hardware: d.hardware,
                runtime: d.runtime,
            })
            .collect();
        let part = |server: &Machine| {
            let mut machine = server.clone();
            Arc::make_mut(&mut machine.runtime).off = ServerOff::default();
            machine
        };
        Self {
            base,
            parts: servers.iter().map(part).collect(),
            servers,
        }
    }

    /// The machine itself.
    pub fn machine(&self) -> &Machine {
        &self.base
    }

    /// What `law` gives for the machine, with its interval; none if that is no positive number. Draws in which the law
    /// has no finite figure (not one request fits) say nothing.
    pub fn interval(&self, law: &impl Fn(&Machine) -> f64, scope: Scope) -> Option<Interval> {
        let value = law(&self.base);
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        let draws = match scope {
            Scope::Parts => &self.parts,
            Scope::Server => &self.servers,
        };
        let mut all: Vec<f64> = draws.iter().map(law).filter(|x| x.is_finite()).collect();
        let [low, high] = uncertain::ends(value, &mut all).unwrap_or([value; 2]);
        Some(Interval { value, low, high })
    }
}
