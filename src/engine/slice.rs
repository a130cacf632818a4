//! What a resource did when, layer by layer: the raw matter of a drawing of the run.
//!
//! Only `layer` fidelity makes slices, and only for steps that an observer draws. A slice is one use of one resource;
//! resources are first in first out, so slices on one track never overlap. A transfer belongs to the step that it serves
//! and may lie before that step's begin; a write-back is told with the step under which it ran, the one after its own.
//! Bytes and tokens are over all GPUs and sequences.

use crate::units::Ps;

/// A resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// The GPU's compute stream.
    Compute,
    /// The link, host to device.
    Up,
    /// The link, device to host.
    Down,
    /// The CPU between steps.
    Gap,
    /// Attention on the host.
    Host,
}

/// What it was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A layer: its compute, its T1's transfer, or its attention on the host.
    Layer(u32),
    /// The output head.
    Head,
    /// Packing of T0 after a re-tier.
    Pack,
    /// Promoted tokens fetched at a re-tier.
    Fetch,
    /// One piece of new or demoted KV written down.
    WriteBack,
    /// Scheduling between steps.
    Gap,
}

/// One use of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Which.
    pub track: Track,
    /// What for.
    pub what: What,
    /// From.
    pub begin: Ps,
    /// To.
    pub end: Ps,
    /// KV bytes read or moved, all GPUs; 0 where it moves none.
    pub bytes: f64,
    /// Tokens they are of.
    pub tokens: f64,
    /// Bytes that cross the link within it: down (queries) and up (outputs) of attention on the host.
    pub crossing: [f64; 2],
}

impl Slice {
    /// A use of `track` without bytes so far.
    pub fn new(track: Track, what: What, begin: Ps, end: Ps) -> Self {
        Self {
            track,
            what,
            begin,
            end,
            bytes: 0.0,
            tokens: 0.0,
            crossing: [0.0; 2],
        }
    }
}
