//! What a prediction does not know exactly: one list of causes, and seeded draws of all of them at once.
//!
//! A **cause** is one thing that may be otherwise. It may move several numbers together: a link's efficiency both directions,
//! a host's CPU both parts of the gap between steps, a law's residual every call of an operation. Causes are independent of
//! each other. Kinds, with where their width comes from:
//! * a number of the machine or the software: the interval (p5-p95) that stands beside its value and source;
//! * the residual of a fitted law: how far the measurements that it was fitted on lie about it, operation by operation, since
//!   one shape's kernel errs the same way in every layer and step; where a card was not measured, one residual for each kind
//!   of law, because it is the card that its class misses, and as wide as cards predicted by the others were found to lie, and
//!   the share that large products reach, which the sizes behind that residual hardly tell;
//! * what a server adds to its kernels: one factor on steps and a further one on prefills, as wide as servers of other cards,
//!   models and software were found to lie about their sums.
//!
//! Every cause is drawn log-normal with its halves apart ([`crate::hardware::value::lies`]): its p5, median and p95 are the interval and the value
//! that are shown. Not drawn: constants of a fitted law (the fit makes them depend on each other; their residual holds what
//! they miss), peaks of the GPU (laws are shares of them), what the user chose, and which recording stands for the attention
//! of a request. Rival: independent noise for each call, which averages out over a hundred layers and promises too much.
//!
//! Draws are a Latin hypercube: of n draws of a cause one lies in each n-th of its law, in an order of the cause's own stream,
//! so that few draws reach both ends of each. A cause's stream depends on the seed, its name and its owner alone: a new one
//! shifts no other, a card's own causes are drawn apart from another card's, the software's are one for all cards.

mod causes;
mod normal;

use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::deploy::Deployment;
use crate::hardware::{Hardware, Runtime};
use crate::stats::{self, Purpose};

pub use causes::Cause;

/// Draws of a first impression: seconds are not worth it, the ends are rough.
pub const FEW: u32 = 20;

/// Draws of a figure to be signed.
pub const FULL: u32 = 1000;

/// How much is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing: best estimates.
    #[default]
    None,
    /// [`FEW`] draws.
    Few,
    /// [`FULL`] draws.
    Full,
}

impl Level {
    /// The word used in flags and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Few => "few",
            Self::Full => "full",
        }
    }

    /// How many draws.
    pub fn draws(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Few => FEW,
            Self::Full => FULL,
        }
    }
}

/// A machine and its software, as one draw has them.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The machine.
    pub hardware: Arc<Hardware>,
    /// Its software.
    pub runtime: Arc<Runtime>,
}

impl Drawn {
    /// The deployment on it.
    pub fn put(&self, deployment: &Deployment) -> Deployment {
        Deployment {
            hardware: Arc::clone(&self.hardware),
            runtime: Arc::clone(&self.runtime),
            ..deployment.clone()
        }
    }
}

/// A machine with its software and everything about them that is not known exactly.
#[derive(Clone, Debug)]
pub struct Unknown {
    base: Drawn,
    causes: Vec<Cause>,
}

impl Unknown {
    /// The causes of a machine and its software.
    pub fn new(hardware: &Arc<Hardware>, runtime: &Arc<Runtime>) -> Self {
        Self {
            causes: causes::of(hardware, runtime),
            base: Drawn {
                hardware: Arc::clone(hardware),
                runtime: Arc::clone(runtime),
            },
        }
    }

    /// The causes, in a fixed order.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Best estimates.
    pub fn base(&self) -> &Drawn {
        &self.base
    }

    /// With every cause so many standard deviations from its best estimate.
    pub fn at(&self, z: impl Fn(usize) -> f64) -> Drawn {
        let (mut hardware, mut runtime) = (
            self.base.hardware.as_ref().clone(),
            self.base.runtime.as_ref().clone(),
        );
        let mut off = Vec::new();
        for (i, cause) in self.causes.iter().enumerate() {
            let z = z(i);
            // What is not moved keeps its very bits.
            if z != 0.0 {
                cause.put(&mut hardware, &mut runtime, z, &mut off);
            }
        }
        causes::put_off(&mut hardware, off);
        Drawn {
            hardware: Arc::new(hardware),
            runtime: Arc::new(runtime),
        }
    }

    /// With one cause alone moved.
    pub fn moved(&self, cause: usize, z: f64) -> Drawn {
        self.at(|i| if i == cause { z } else { 0.0 })
    }

    /// `n` draws of all causes.
    pub fn draws(&self, seed: u64, n: u32) -> Vec<Drawn> {
        let owner = &self.base.hardware.id;
        let columns: Vec<Vec<f64>> = self
            .causes
            .iter()
            .map(|c| column(seed, &c.stream(owner), n))
            .collect();
        (0..n as usize)
            .map(|draw| self.at(|cause| columns[cause][draw]))
            .collect()
    }
}

/// `n` standard deviations of one cause, one from each n-th of a normal law, in an order of its own.
fn column(seed: u64, name: &str, n: u32) -> Vec<f64> {
    let mut rng = stats::named_stream(seed, Purpose::Unknown, name);
    let mut all: Vec<f64> = (0..n)
        .map(|i| normal::quantile((f64::from(i) + rng.random_range(0.0..1.0)) / f64::from(n)))
        .collect();
    all.shuffle(&mut rng);
    all
}

/// The 5th and 95th percentile of what the draws gave; none of none. They hold the best estimate.
pub fn ends(best: f64, drawn: &mut [f64]) -> Option<[f64; 2]> {
    let low = stats::percentile(drawn, 0.05)?;
    let high = stats::percentile(drawn, 0.95)?;
    Some([low.min(best), high.max(best)])
}
