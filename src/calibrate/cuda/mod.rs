//! The GPU, measured through the driver: copies, pieces, kernels of the tier and prefetch path, and the tier loop whole.
//!
//! Only the driver API is used, through cudarc, with raw memory and own events: the safe slices of cudarc carry one event
//! for a whole allocation, which makes copies in both directions wait for each other. Kernels are `kernels/*.cu` as
//! committed PTX, compiled by the driver when they are loaded. Everything that is timed is queued behind a gate
//! (`rig.rs`), so that how fast a host submits is not in the time, except where it is what is asked. What is modelled: one
//! GPU and its link to one host. What is ignored: other GPUs on the same switch, graphs, and how much slower a serving
//! process submits. Rival: NVIDIA's nvbandwidth, which times copies as well but neither pieces, attention nor the loop; its
//! reports are read by [`super::import`].
//!
//! Nothing here may panic: `guard.rs` asks for every function of the driver before the first is called, and every message
//! names a way out. Unsafe code is calls of the driver and memory of our own; ranges are checked before each copy.
#![allow(unsafe_code, clippy::pedantic)]

mod arena;
mod attend;
mod attention;
mod copies;
mod fault;
mod gpu;
mod guard;
mod kernels;
mod nvml;
mod passes;
mod pieces;
mod pinned;
mod points;
mod probe;
mod rig;
mod seen;
pub mod tier_loop;

pub use gpu::Gpu;
pub use nvml::Watch;
pub use probe::CudaProbe;
